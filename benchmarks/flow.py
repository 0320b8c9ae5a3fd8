"""Claim: all flows of a stack with 13¹² paths in a few forward passes, conserved to rounding.

    python benchmarks/flow.py [--tokens 16]

Beside it: what the same numbers cost edge by edge, as one sum over the paths that match "… a b …" each.
"""

from __future__ import annotations

import argparse
import time

import numpy as np
from alone import machine, peak

import pathexp as px


def seconds(work, repeats: int = 3) -> float:
    """The best of several runs."""
    best = float("inf")
    for _ in range(repeats):
        start = time.perf_counter()
        work()
        best = min(best, time.perf_counter() - start)
    return best


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tokens", type=int, default=16)
    tokens = parser.parse_args().tokens
    print(f"flows of one logit, 12 layers × 12 heads, d_model 768, {tokens} tokens; {machine()}")
    model = px.random_model(
        layers=12, heads=12, d_model=768, d_head=64, d_vocab=5000, n_ctx=64, norm="layernorm", seed=0
    )
    text = np.random.default_rng(0).integers(0, 5000, tokens)
    forward = seconds(lambda: model.run(text))
    trace = model.run(text)
    target = trace.logit(trace.top_token())
    terms = px.expand(trace)
    _ = terms.graph.kernels  # made once for every use of a run
    took = seconds(lambda: px.flow(trace, target))
    graph = px.flow(trace, target)
    inner = [node for node in graph if graph.in_degree(node) and graph.out_degree(node)]
    gap = max(
        abs(
            sum(f for *_, f in graph.in_edges(node, data="flow"))
            - sum(f for *_, f in graph.out_edges(node, data="flow"))
        )
        for node in inner
    )
    one = seconds(lambda: terms.where("E .* L3H5 L7H2 .* U").value(target), repeats=1)
    print(f"{terms.count():,} paths, {graph.number_of_edges():,} edges")
    print(f"forward pass          {forward:8.2f} s")
    print(f"all flows             {took:8.2f} s   {took / forward:.1f} forward passes")
    print(
        f"one edge by its query {one:8.2f} s   all edges so: {one * graph.number_of_edges():,.0f} s, {one * graph.number_of_edges() / took:,.0f} ×"
    )
    print(
        f"largest imbalance at a node {gap:.1e}, of the whole {abs(graph.graph['value'] - target.value):.1e}; peak {peak():.0f} MB"
    )
    start = time.perf_counter()
    kept = px.prune(graph, share=0.9)
    print(f"pruned to {kept.number_of_edges():,} edges that keep 90 % in {time.perf_counter() - start:.1f} s")


if __name__ == "__main__":
    main()

"""Claim: all flows of a stack with 13¹² paths in a few forward passes, conserved to rounding.

    python benchmarks/flow.py [--tokens 16] [--tiny]

Beside it: what the same numbers cost edge by edge, as one sum over the paths that match "… a b …" each.
"""

from __future__ import annotations

import time

import numpy as np
from alone import machine, parser, peak

import pathexp as px


def seconds(work, repeats: int = 3) -> float:
    """The best of several runs."""
    best = float("inf")
    for _ in range(repeats):
        start = time.perf_counter()
        work()
        best = min(best, time.perf_counter() - start)
    return best


def main(arguments: list[str] | None = None) -> None:
    made = parser(__doc__)
    made.add_argument("--tokens", type=int, default=16)
    options = made.parse_args(arguments)
    layers, heads, d_model, d_head, vocabulary = (3, 2, 8, 4, 20) if options.tiny else (12, 12, 768, 64, 5000)
    print(
        f"flows of one logit, {layers} layers × {heads} heads, d_model {d_model}, {options.tokens} tokens; {machine()}"
    )
    model = px.random_model(
        layers=layers, heads=heads, d_model=d_model, d_head=d_head, d_vocab=vocabulary,
        n_ctx=max(64, options.tokens), norm="layernorm", seed=0,
    )  # fmt: skip
    text = np.random.default_rng(0).integers(0, vocabulary, options.tokens)
    forward = seconds(lambda: model.run(text))
    trace = model.run(text)
    target = trace.logit(trace.top_token())
    terms = px.expand(trace)
    _ = terms.graph.kernels  # made once for every use of a run
    took = seconds(lambda: px.flow(trace, target))
    whole = px.flow(trace, target)
    graph = whole.to_networkx()
    inner = [node for node in graph if graph.in_degree(node) and graph.out_degree(node)]
    gap = max(
        abs(
            sum(f for *_, f in graph.in_edges(node, data="flow"))
            - sum(f for *_, f in graph.out_edges(node, data="flow"))
        )
        for node in inner
    )
    edge = f"E .* L{layers // 4}H1 L{layers // 2 + 1}H0 .* U"
    one = seconds(lambda: terms.where(edge).value(target), repeats=1)
    print(f"{terms.count():,} paths, {graph.number_of_edges():,} edges")
    print(f"forward pass          {forward:8.2f} s")
    print(f"all flows             {took:8.2f} s   {took / forward:.1f} forward passes")
    print(
        f"one edge by its query {one:8.2f} s   all edges so: {one * graph.number_of_edges():,.0f} s, {one * graph.number_of_edges() / took:,.0f} ×"
    )
    print(
        f"largest imbalance at a node {gap:.1e}, of the whole {abs(whole.value - target.value):.1e}; peak {peak():.0f} MB"
    )
    start = time.perf_counter()
    kept = whole.prune(share=0.9)
    print(f"pruned to {len(kept.edges):,} edges that keep 90 % in {time.perf_counter() - start:.1f} s")


if __name__ == "__main__":
    main()

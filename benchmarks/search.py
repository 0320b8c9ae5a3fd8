"""Claims: totals by order and by query in a few forward passes; the largest of 13¹² paths proven; all values at once.

    python benchmarks/search.py [--tokens 32]

Every time stands beside a forward pass of the same run; totals beside the arithmetic they need (one product per
order and head); values beside a plain loop over the terms.
"""

from __future__ import annotations

import argparse
import time
from itertools import islice

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


def large(tokens: int) -> None:
    model = px.random_model(
        layers=12, heads=12, d_model=768, d_head=64, d_vocab=5000, n_ctx=64, norm="layernorm", seed=0
    )
    text = np.random.default_rng(0).integers(0, 5000, tokens)
    forward = seconds(lambda: model.run(text))
    trace = model.run(text)
    terms = px.expand(trace)
    target = trace.logit(trace.top_token())
    _ = terms.graph.kernels
    print(
        f"12 × 12, d_model 768, {tokens} tokens, {terms.count():,} paths; a forward pass takes {forward:.3f} s"
    )
    orders = seconds(terms.by_order)
    print(f"  totals of 13 orders       {orders:7.3f} s  {orders / forward:5.1f} forward passes")
    part = terms.where("E .* L3H5 .* L7H2 .* U")
    query = seconds(part.logits)
    print(f"  sum of a query            {query:7.3f} s  {query / forward:5.1f} forward passes")
    for run in ("tables and search", "again, tables kept"):
        start = time.perf_counter()
        best = terms.top(10, target)
        took = time.perf_counter() - start
        print(f"  top 10, {run:<18}{took:7.3f} s  proven: {best.exact}, {best.examined:,} examined")


def small() -> None:
    model = px.random_model(layers=4, heads=8, d_model=64, d_head=8, d_vocab=50, n_ctx=32, positions="none")
    trace = model.run(list(range(32)))
    terms, target = px.expand(trace), trace.logit(3)
    count = terms.count()
    took = seconds(lambda: terms.values(target)) / count * 1e6
    loop = seconds(lambda: [term.value(target) for term in islice(terms, 300)], 1) / 300 * 1e6
    print(
        f"values of all {count:,} paths, 4 × 8, 32 tokens: {took:.1f} µs a path; term by term {loop:.0f} µs"
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tokens", type=int, default=32)
    print(machine())
    large(parser.parse_args().tokens)
    small()
    print(f"peak {peak():,.0f} MB")


if __name__ == "__main__":
    main()

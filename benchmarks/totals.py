"""Claim: totals of all orders of a stack with 13¹² paths in at most 1.25 times the arithmetic they need.

    python benchmarks/totals.py [--tokens 32]

The arithmetic is timed as bare matrix products of the same shapes: reading, moving and writing of every order in use, and
the unembedding of all orders.
"""

from __future__ import annotations

import argparse

import numpy as np
from alone import machine, measured

import pathexp as px

LAYERS, HEADS, D_MODEL, D_HEAD, VOCAB = 12, 12, 768, 64, 5000


def products(n: int) -> None:
    """The matrix products that totals by order cannot do without."""
    ones, weight = np.ones, np.ones((D_MODEL, HEADS * D_HEAD))
    for order in range(1, LAYERS + 1):
        values = ones((order * n, D_MODEL)) @ weight
        _ = ones((HEADS, n, n)) @ ones((HEADS, n, order * D_HEAD))
        _ = values @ weight.T
    _ = ones(((LAYERS + 1) * n, D_MODEL)) @ ones((D_MODEL, VOCAB))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tokens", type=int, default=32)
    n = parser.parse_args().tokens
    print(f"totals, {LAYERS} × {HEADS}, d_model {D_MODEL}, {n} tokens, vocabulary {VOCAB:,}; {machine()}")
    model = px.random_model(
        layers=LAYERS, heads=HEADS, d_model=D_MODEL, d_head=D_HEAD, d_vocab=VOCAB, n_ctx=64, norm="layernorm", seed=0
    )  # fmt: skip
    text = np.random.default_rng(0).integers(0, VOCAB, n)
    trace, forward = measured(lambda: model.run(text), 5)
    _ = trace.graph.kernels
    _, limit = measured(lambda: products(n), 5)
    orders, ours = measured(lambda: px.expand(trace).by_order(), 5)
    query = "E .* L3H5 .* L7H2 .* U"
    _, part = measured(lambda: px.expand(trace, query).logits(), 5)
    whole = forward["seconds"]
    for what, seconds in (
        ("forward pass", whole), ("bare products of the totals", limit["seconds"]),
        (f"totals of {len(orders)} orders", ours["seconds"]), (f"sum of {query}", part["seconds"]),
    ):  # fmt: skip
        print(f"{what:34}{seconds:8.3f} s  {seconds / whole:5.2f} forward passes")
    print(f"totals / bare products: {ours['seconds'] / limit['seconds']:.2f}")
    print(f"largest difference of their sum from the logits: {np.abs(sum(orders) - trace.logits).max():.1e}")


if __name__ == "__main__":
    main()

"""Claim: totals of all orders of a stack with 13¹² paths in at most 1.25 times the arithmetic they need.

    python benchmarks/totals.py [--tokens 32] [--tiny]

The arithmetic is timed as bare matrix products of the same shapes: reading, moving and writing of every order in use, and
the unembedding of all orders.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from alone import machine, measured, parser

import pathexp as px


class Size(NamedTuple):
    """Of a model."""

    layers: int = 12
    heads: int = 12
    d_model: int = 768
    d_head: int = 64
    vocabulary: int = 5000


def products(size: Size, n: int) -> None:
    """The matrix products that totals by order cannot do without."""
    layers, heads, d_model, d_head, vocabulary = size
    ones, weight = np.ones, np.ones((d_model, heads * d_head))
    for order in range(1, layers + 1):
        values = ones((order * n, d_model)) @ weight
        _ = ones((heads, n, n)) @ ones((heads, n, order * d_head))
        _ = values @ weight.T
    _ = ones(((layers + 1) * n, d_model)) @ ones((d_model, vocabulary))


def main(arguments: list[str] | None = None) -> None:
    made = parser(__doc__)
    made.add_argument("--tokens", type=int, default=32)
    options = made.parse_args(arguments)
    size, n = Size(3, 2, 8, 4, 20) if options.tiny else Size(), options.tokens
    print(f"totals, {n} tokens, {size}; {machine()}")
    model = px.random_model(
        layers=size.layers, heads=size.heads, d_model=size.d_model, d_head=size.d_head,
        d_vocab=size.vocabulary, n_ctx=max(64, n), norm="layernorm", seed=0,
    )  # fmt: skip
    text = np.random.default_rng(0).integers(0, size.vocabulary, n)
    trace, forward = measured(lambda: model.run(text), 5)
    _ = px.freeze(trace).kernels
    _, limit = measured(lambda: products(size, n), 5)
    orders, ours = measured(lambda: px.expand(trace).by_order(), 5)
    query = f"E .* L{size.layers // 4}H1 .* L{size.layers // 2 + 1}H0 .* U"
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

"""Claim: listing paths costs at most 5 microseconds a path, whatever is listed of them.

    python benchmarks/listing.py

Beside it: the same paths by plain recursion over tuples (no terms, no order, no query), and a forward pass of a
model of this size on 32 tokens.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

from alone import machine

import pathexp as px

LAYERS, HEADS = 4, 8


def microseconds(work, count: int, repeats: int = 7) -> float:
    """The best of several runs, a path."""
    best = float("inf")
    for _ in range(repeats):
        start = time.perf_counter()
        work()
        best = min(best, time.perf_counter() - start)
    return best / count * 1e6


def naive(layer: int) -> Iterator[tuple[str, ...]]:
    """All words from a layer on, by recursion."""
    if layer == LAYERS:
        yield ("U",)
        return
    for tail in naive(layer + 1):
        yield tail
        for head in range(HEADS):
            yield (f"L{layer}H{head}", *tail)


def exhaust(items) -> None:
    """Go through all items."""
    for _ in items:
        pass


def main() -> None:
    print(f"listing all paths of {LAYERS} layers × {HEADS} heads; {machine()}")
    graph = px.ResidualGraph.attention_only(layers=LAYERS, heads=HEADS)
    count = px.expand(graph).count()
    half = px.query("E .* L2H3 .* U")
    some = px.expand(graph, half).count()
    model = px.random_model(layers=LAYERS, heads=HEADS, d_model=64, d_head=8, d_vocab=50, n_ctx=32)
    rows = [
        ("paths as terms", microseconds(lambda: exhaust(px.expand(graph)), count), count),
        ("paths as words", microseconds(lambda: exhaust(px.expand(graph).paths()), count), count),
        ("paths of a query, as terms", microseconds(lambda: exhaust(px.expand(graph, half)), some), some),
        (
            "terms with their formulas",
            microseconds(lambda: [t.formula for t in px.expand(graph)], count, 2),
            count,
        ),
        ("plain recursion over tuples", microseconds(lambda: exhaust(naive(0)), count), count),
    ]
    print(f"{'what':<28}{'paths':>8}{'µs a path':>12}")
    for name, cost, paths in rows:
        print(f"{name:<28}{paths:>8,}{cost:>12.2f}")
    forward = microseconds(lambda: model.run(list(range(32))), 1)
    print(
        f"a forward pass of this size on 32 tokens: {forward:,.0f} µs; all terms: {rows[0][1] * count:,.0f} µs"
    )


if __name__ == "__main__":
    main()

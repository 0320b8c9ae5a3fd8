"""Claim: listing paths costs at most 5 microseconds a path, whatever is listed of them.

    python benchmarks/listing.py [--seconds 30] [--tiny]

Beside it: the same paths by plain recursion over tuples (no terms, no order, no query), a forward pass of a model of this
size on 32 tokens, and sympy's expand of the product of (1 + all heads) over layers, at sizes that it can do in some seconds.
"""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable, Iterator

import sympy as sp
from alone import machine, parser
from sympy.core.cache import clear_cache

import pathexp as px

SYMPY_SIZES = (2, 8), (2, 12), (3, 12), (4, 8), (4, 12), (5, 12), (6, 12), (12, 12)


def microseconds(work: Callable[[], object], count: int, repeats: int = 7) -> float:
    """The best of several runs, a path."""
    best = float("inf")
    for _ in range(repeats):
        start = time.perf_counter()
        work()
        best = min(best, time.perf_counter() - start)
    return best / count * 1e6


def naive(layers: int, heads: int, layer: int = 0) -> Iterator[tuple[str, ...]]:
    """All words from a layer on, by recursion."""
    if layer == layers:
        yield ("U",)
        return
    for tail in naive(layers, heads, layer + 1):
        yield tail
        for head in range(heads):
            yield (f"L{layer}H{head}", *tail)


def exhaust(items: Iterator[object]) -> None:
    """Go through all items."""
    deque(items, maxlen=0)


def listings(layers: int, heads: int) -> None:
    """What is listed of all paths of one size."""
    graph = px.ResidualGraph.attention_only(layers=layers, heads=heads)
    count = px.expand(graph).count()
    half = px.query(f"E .* L{layers // 2}H{heads // 2} .* U")
    some = px.expand(graph, half).count()
    rows: list[tuple[str, Callable[[], object], int]] = [
        ("paths as terms", lambda: exhaust(iter(px.expand(graph))), count),
        ("paths as words", lambda: exhaust(px.expand(graph).paths()), count),
        ("paths of a query, as terms", lambda: exhaust(iter(px.expand(graph, half))), some),
        ("terms with their formulas", lambda: [term.formula for term in px.expand(graph)], count),
        ("plain recursion over tuples", lambda: exhaust(naive(layers, heads)), count),
    ]
    print(f"{'what':<28}{'paths':>8}{'µs a path':>12}")
    for name, work, paths in rows:
        print(f"{name:<28}{paths:>8,}{microseconds(work, paths):>12.2f}")


def sum_of_heads(layers: int, heads: int) -> sp.Expr:
    """The product over layers of 1 + all heads, unexpanded; products of heads do not commute."""
    names = [[f"L{layer}H{head}" for head in range(heads)] for layer in reversed(range(layers))]
    return sp.Mul(*(1 + sum(sp.Symbol(name, commutative=False) for name in row) for row in names))


def sympy_seconds(layers: int, heads: int) -> float:
    """One expansion by sympy, nothing remembered from before."""
    clear_cache()
    product = sum_of_heads(layers, heads)
    start = time.perf_counter()
    terms = sp.expand(product).args
    took = time.perf_counter() - start
    assert len(terms) == (heads + 1) ** layers
    return took


def beside_sympy(budget: float) -> None:
    """Both at growing sizes, until the next is expected to take sympy longer than the budget, from its last."""
    print(f"{'size':<10}{'paths':>24}{'sympy':>12}{'pathexp':>12}{'ratio':>9}{'counted in':>14}")
    each = 1e-4
    for layers, heads in SYMPY_SIZES:
        graph = px.ResidualGraph.attention_only(layers=layers, heads=heads)
        count = (heads + 1) ** layers
        counting = f"{microseconds(lambda graph=graph: px.expand(graph).count(), 1):,.0f} µs"
        size = f"{layers} × {heads}"
        if each * count > budget:
            print(f"{size:<10}{count:>24,}{'(' + duration(each * count) + ')':>12}{'':>21}{counting:>14}")
            continue
        theirs = min(sympy_seconds(layers, heads) for _ in range(3 if each * count < 3 else 1))
        each = theirs / count
        ours = microseconds(lambda graph=graph: exhaust(iter(px.expand(graph))), 1, 3) / 1e6
        print(
            f"{size:<10}{count:>24,}{duration(theirs):>12}{duration(ours):>12}{theirs / ours:>7,.0f} ×{counting:>14}"
        )
    print(
        "(in brackets: what as many paths would take sympy at its last cost a path, if they fitted in memory)"
    )


def duration(seconds: float) -> str:
    """Seconds in units that people use."""
    for unit, name in ((3.15e7, "years"), (3600, "h"), (1, "s"), (1e-3, "ms")):
        if seconds >= unit:
            return f"{seconds / unit:,.{max(0, 2 - int(math.log10(seconds / unit)))}f} {name}"
    return f"{seconds * 1e6:,.0f} µs"


def main(arguments: list[str] | None = None) -> None:
    made = parser(__doc__)
    made.add_argument(
        "--seconds", type=float, default=30.0, help="the longest that sympy may take for one size"
    )
    options = made.parse_args(arguments)
    layers, heads = (2, 3) if options.tiny else (4, 8)
    print(f"listing all paths of {layers} layers × {heads} heads; {machine()}")
    listings(layers, heads)
    model = px.random_model(layers=layers, heads=heads, d_model=64, d_head=8, d_vocab=50, n_ctx=32)
    forward = microseconds(lambda: model.run(list(range(32))), 1)
    print(f"a forward pass of this size on 32 tokens: {forward:,.0f} µs")
    beside_sympy(0.02 if options.tiny else options.seconds)


if __name__ == "__main__":
    main()

"""Claim: what is not a list of paths does not follow their number; how every cost grows with the size of a model.

    python benchmarks/growth.py [--rounds 8] [--picture FILE.svg] [--tiny]

One axis at a time from 4 layers × 8 heads, d_model 256, d_head 32, 32 tokens, vocabulary 1,000, random weights, frozen norm.
The exponent is fitted to the larger half of a series, where fixed costs matter less; with layers, listing and single values
grow by a factor a layer, as the number of paths does.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np
from alone import machine, parser

import pathexp as px
from pathexp.answer import Figure, Report

MOST_PATHS = 600_000
"""Beyond so many, paths are not listed or evaluated here."""

PATIENCE = 5.0
"""Seconds after which a search for the largest paths is given up, and not tried at the next size."""


@dataclass(frozen=True)
class Size:
    """Where a cost is measured."""

    layers: int = 4
    heads: int = 8
    length: int = 32
    vocabulary: int = 1000
    d_model: int = 256
    d_head: int = 32


AXES: Mapping[str, Sequence[int]] = {
    "layers": (2, 3, 4, 5, 6, 8, 12, 16, 24),
    "heads": (1, 2, 4, 8, 16, 24, 32),
    "length": (8, 16, 32, 64, 128, 256),
    "vocabulary": (250, 1000, 4000, 16000, 64000),
}
TINY: Mapping[str, Sequence[int]] = {
    "layers": (2, 3), "heads": (1, 2), "length": (2, 3), "vocabulary": (9, 12)
}  # fmt: skip


class Case:
    """A run of one size, and the work that is measured on it; whatever a user waits for once is made before."""

    def __init__(self, size: Size) -> None:
        self.model = px.random_model(
            layers=size.layers, heads=size.heads, d_model=size.d_model, d_head=size.d_head,
            d_vocab=size.vocabulary, n_ctx=size.length, norm="layernorm", positions="none", seed=0,
        )  # fmt: skip
        self.tokens = np.random.default_rng(0).integers(0, size.vocabulary, size.length)

    @cached_property
    def trace(self) -> px.Trace:
        trace = self.model.run(self.tokens)
        _ = px.freeze(trace).kernels
        return trace

    @cached_property
    def target(self) -> px.Target:
        return self.trace.logit(self.trace.top_token())

    @cached_property
    def few(self) -> bool:
        return px.expand(self.trace).count() <= MOST_PATHS

    def forward(self) -> None:
        self.model.run(self.tokens)

    def count(self) -> None:
        px.expand(self.trace).count()

    def listing(self) -> None:
        deque(px.expand(self.trace), maxlen=0)

    def values(self) -> None:
        px.expand(self.trace).values(self.target)

    def totals(self) -> None:
        px.expand(self.trace).by_order()

    def query(self) -> None:
        px.expand(self.trace, "E .* L0H0 .* U").logits()

    def flows(self) -> None:
        px.flow(self.trace, self.target)

    def composition(self) -> None:
        px.composition(self.model)

    def top(self) -> bool:
        """Whether the largest ten were proven; on a graph of its own, which holds no tables yet."""
        return px.expand(px.freeze(self.trace)).top(10, self.target, seconds=PATIENCE).exact


Work = Callable[[Case], object]
COSTS: Mapping[str, Work] = {
    "forward pass": Case.forward,
    "counting": Case.count,
    "listing all paths": Case.listing,
    "values of all paths": Case.values,
    "top 10, proven": Case.top,
    "totals by order": Case.totals,
    "sum of one query": Case.query,
    "all flows": Case.flows,
    "composition scores": Case.composition,
}
BY_PATH = ("listing all paths", "values of all paths")
Series = list[tuple[int, float]]


# Measuring -----------------------------------------------------------------------------------------------


def best(work: Work, case: Case, least: float = 0.05, most: int = 20) -> float | None:
    """The best of several runs, in seconds, as many as fit into `least`; None where it says False."""
    seconds: list[float] = []
    while len(seconds) < most and sum(seconds) < least:
        start = time.perf_counter()
        if work(case) is False:
            return None
        seconds.append(time.perf_counter() - start)
    return min(seconds)


Found = dict[str, dict[int, float]]
"""Seconds by cost and size."""


def measure(axis: str, sizes: Sequence[int], base: Size, found: Found) -> None:
    """Go along one axis and keep what was faster than before; a cost that cannot be had at some size ends there."""
    wanted = dict(COSTS)
    for size in sizes:
        case = Case(replace(base, **{axis: size}))
        for name, work in list(wanted.items()):
            seconds = best(work, case) if case.few or name not in BY_PATH else None
            if seconds is None:
                del wanted[name]
            else:
                found[name][size] = min(seconds, found[name].get(size, seconds))


def growth(name: str, axis: str, points: Series) -> str:
    """The exponent over the larger half of a series, or the factor a layer where paths are counted by the layer."""
    half = points[-max(2, (len(points) + 1) // 2) :]
    if len(half) < 2:
        return "—"
    sizes, seconds = (np.array(column, dtype=float) for column in zip(*half, strict=True))
    if axis == "layers" and name in BY_PATH:
        return f"×{np.exp(np.polyfit(sizes, np.log(seconds), 1)[0]):.1f} each"
    return f"{np.polyfit(np.log(sizes), np.log(seconds), 1)[0]:.2f}"


def table(axis: str, sizes: Sequence[int], series: Mapping[str, Series]) -> str:
    """Milliseconds by size, and how they grow."""
    rows = [f"{axis:<20}" + "".join(f"{size:>10,}" for size in sizes) + f"{'grows':>12}"]
    for name, points in series.items():
        found = dict(points)
        cells = "".join(f"{found[size] * 1e3:>10.3g}" if size in found else f"{'':>10}" for size in sizes)
        rows.append(f"{name:<20}{cells}{growth(name, axis, points):>12}")
    return "\n".join(rows)


def drawn(axis: str, series: Mapping[str, Series]) -> Report:
    """Costs over sizes, both logarithmic, as an answer that can be saved as a picture."""
    sizes = sorted({size for points in series.values() for size, _ in points})
    lines = {name: [dict(points).get(size) for size in sizes] for name, points in series.items()}
    data = {"x": sizes, "series": lines, "x_title": axis, "log": True}
    return Report(
        f"how costs grow with {axis}", (Figure("lines", axis, data, f"seconds, by {axis}", "seconds"),)
    )


def main(arguments: list[str] | None = None) -> None:
    made = parser(__doc__)
    made.add_argument("--picture", type=Path, metavar="FILE.svg", help="one picture an axis")
    made.add_argument("--rounds", type=int, default=8, help="how often all is measured; the best counts")
    options = made.parse_args(arguments)
    axes, base = (TINY, Size(2, 2, 3, 9, 8, 2)) if options.tiny else (AXES, Size())
    print(f"milliseconds along one axis at a time from {base}; {machine()}")
    found: dict[str, Found] = {axis: {name: {} for name in COSTS} for axis in axes}
    for _ in range(1 if options.tiny else options.rounds):
        for axis, sizes in axes.items():
            measure(axis, sizes, base, found[axis])
    series = {axis: {name: sorted(costs[name].items()) for name in COSTS} for axis, costs in found.items()}
    for axis, sizes in axes.items():
        print(f"\n{table(axis, sizes, series[axis])}")
    if options.picture:
        for axis in axes:
            name = f"{options.picture.stem}-{axis}{options.picture.suffix}"
            drawn(axis, series[axis]).save(str(options.picture.with_name(name)))


if __name__ == "__main__":
    main()

"""Claim: what is not a list of paths does not follow their number; how every cost grows with the size of a model.

    python benchmarks/growth.py [--rounds 8] [--picture FILE.svg] [--tiny]

One axis at a time from 4 layers × 8 heads, d_model 256, d_head 32, 32 tokens, vocabulary 1,000, random weights, frozen norm.
The exponent is fitted to the larger half of a series, where fixed costs matter less; with layers, listing and single values
grow by a factor a layer, as the number of paths does.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np
from alone import machine, parser

import pathexp as px
from pathexp.report.svg import element, label, picture

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
COLORS = dict(
    zip(
        COSTS,
        ("#000000", "#999999", "#e69f00", "#d55e00", "#cc79a7", "#0072b2", "#56b4e9", "#009e73", "#7a5195"),
        strict=True,
    )
)

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


# Drawing -------------------------------------------------------------------------------------------------

WIDTH, HEIGHT, GAP = 330.0, 250.0, 58.0


@dataclass(frozen=True)
class Panel:
    """One axis: costs over sizes, both logarithmic."""

    axis: str
    series: Mapping[str, Series]
    left: float
    top: float

    @cached_property
    def sizes(self) -> list[int]:
        return sorted({size for points in self.series.values() for size, _ in points})

    @cached_property
    def decades(self) -> range:
        """Powers of ten, in seconds, around all costs."""
        seconds = [value for points in self.series.values() for _, value in points]
        return range(int(np.floor(np.log10(min(seconds)))), int(np.ceil(np.log10(max(seconds)))) + 1)

    def across(self, size: float) -> float:
        low, high = np.log(self.sizes[0]), np.log(self.sizes[-1])
        return self.left + WIDTH * float((np.log(size) - low) / (high - low))

    def up(self, seconds: float) -> float:
        low, high = self.decades[0], self.decades[-1]
        return self.top + HEIGHT * (1 - float((np.log10(seconds) - low) / (high - low)))

    def svg(self) -> Iterator[str]:
        yield label(self.axis, self.left, self.top - 8, font_weight="bold", font_size=13)
        yield element(
            "rect", x=self.left, y=self.top, width=WIDTH, height=HEIGHT, fill="none", stroke="#cccccc"
        )
        for power in self.decades:
            y = self.up(10.0**power)
            yield element("line", x1=self.left, y1=y, x2=self.left + WIDTH, y2=y, stroke="#eeeeee")
            yield label(said(power), self.left - 6, y + 4, text_anchor="end", fill="#555555")
        for size in self.sizes:
            yield label(
                f"{size:,}", self.across(size), self.top + HEIGHT + 15, text_anchor="middle", fill="#555555"
            )
        for name, points in self.series.items():
            yield from self._line(name, points)

    def _line(self, name: str, points: Series) -> Iterator[str]:
        places = [(self.across(size), self.up(seconds)) for size, seconds in points]
        along = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
        yield element("polyline", points=along, fill="none", stroke=COLORS[name], stroke_width=1.6)
        for (x, y), (size, seconds) in zip(places, points, strict=True):
            tip = element("title", f"{name}, {self.axis} {size:,}: {seconds * 1e3:.3g} ms")
            yield element("circle", tip, cx=x, cy=y, r=2.6, fill=COLORS[name])


def said(power: int) -> str:
    """A power of ten of a second, in units that people use."""
    unit, step = ("s", 0) if power >= 0 else ("ms", 3) if power >= -3 else ("µs", 6)
    return f"{10 ** (power + step)} {unit}"


def draw(found: Mapping[str, Mapping[str, Series]]) -> str:
    """All axes as panels, two a row, with one legend."""
    body, columns = [], 2
    for place, (axis, series) in enumerate(found.items()):
        row, column = divmod(place, columns)
        body += Panel(axis, series, GAP + column * (WIDTH + GAP), 40 + row * (HEIGHT + GAP)).svg()
    bottom = 40 + -(-len(found) // columns) * (HEIGHT + GAP)
    for place, name in enumerate(COSTS):
        x, y = GAP + place % 4 * 182, bottom + place // 4 * 18
        body.append(element("line", x1=x, y1=y, x2=x + 18, y2=y, stroke=COLORS[name], stroke_width=3))
        body.append(label(name, x + 24, y + 4))
    return picture(body, columns * (WIDTH + GAP) + 40, bottom + 52, "how costs grow with the size of a model")


def main(arguments: list[str] | None = None) -> None:
    made = parser(__doc__)
    made.add_argument("--picture", type=Path, metavar="FILE.svg")
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
        options.picture.write_text(draw(series), encoding="utf-8")


if __name__ == "__main__":
    main()

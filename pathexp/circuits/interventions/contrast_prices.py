"""What cutting paths of a contrast does live, beside their exact share: patched from either run into the other."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np

from ...answer import Answer, Facts, Figure, Note, Part, Table, columns
from ...errors import PathexpError
from ...expansion import expand
from ...expansion.header import run_facts
from ...expansion.targets import on_stream
from ...graph import Array, Component, Contrast, Query, Source, Walk, asked_for_port, contrast, freeze, pull
from ...model import Target, Trace
from ...model.points import LOGITS
from ..attribution.sweeps import Written, forward, over_skips, pulled
from .contrast_cuts import ContrastCut, contrast_cut, labels_of
from .cuts import Cut
from .kept_paths import INPUTS, Reading
from .live_paths import LivePaths

NO_GRADIENT = float("nan")


@dataclass(frozen=True)
class Price:
    """One cut: what its paths add to the difference exactly, by gradients, and live in both directions."""

    name: str
    query: str
    exact: float
    gradient: float
    into_other: float
    into_this: float

    @property
    def live(self) -> float:
        """The mean of both directions."""
        return (self.into_other + self.into_this) / 2

    @property
    def price(self) -> float:
        """How far the exact share is from the live effect."""
        return self.exact - self.live


@dataclass(frozen=True, eq=False, repr=False)
class ContrastPrices(Answer):
    """What paths of a contrast add to a difference, beside attribution patching and path patching of the same paths.

    `rows` are one `Price` a cut: `exact`, the sum over its paths; `gradient`, the difference of what is written to the
    stream (for a port: of what it reads) times the gradient behind it, the mean of both runs (nan where the cut is no node and no edge); `into_other`, how far the other
    run moves with these paths patched from this one; `into_this`, what this run loses with them from the other; `live`,
    the mean of both, and `price`, exact − live.
    """

    live: ClassVar[frozenset[str]] = frozenset({"graph"})

    graph: Contrast
    target: Target
    rows: tuple[Price, ...]

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, row: int) -> Price:
        """Return one cut by its number."""
        if not isinstance(row, int) or isinstance(row, bool) or not -len(self) <= row < len(self):
            raise PathexpError(f"no cut {row!r:.40}; there are {len(self)}, counted from 0")
        return self.rows[row]

    def headline(self) -> str:
        """Return what differs, and what is cut."""
        place, value = self.target.position, self.target.value
        return f"{self.target.label} at position {place}: {value:+.4f}; paths patched from one run into the other"

    def parts(self) -> Iterator[Part]:
        """Yield one row a cut, what the columns mean, and bars."""
        yield run_facts(self.graph.runs[0], self.target)
        yield Facts({"difference": self.target.value})
        numbers = ("exact", "gradient", "into_other", "into_this", "live", "price")
        rows = [
            (row.name, row.query, *(getattr(row, name) for name in numbers))
            for row in sorted(self.rows, key=lambda row: -abs(row.exact))
        ]
        titles = {"price": "exact − live"}
        yield Table(
            (columns.text("name"), columns.path("query"),
             *(columns.number(name, titles.get(name, ""), "logits") for name in numbers)),
            rows, name="prices", key=("name",), value="exact",
        )  # fmt: skip
        yield Note(
            "exact: the sum over these paths of the contrast; gradient: attribution patching, the mean of both runs' gradients\n"
            "into other, into this: path patching, norms, patterns and gates recomputed; live: the mean of both"
        )
        yield Figure(
            "bars", "prices",
            {"rows": [row[0] for row in rows], "values": [[row[2], row[6]] for row in rows],
             "series": ["exact", "live"]},
            f"{self.target.label}: {self.target.value:+.4f}", "logits",
        )  # fmt: skip


def contrast_prices(
    graph: Contrast,
    target: Target,
    *,
    cut: str | Query | Cut | None = None,
    node: str | None = None,
    edge: Sequence[str] | None = None,
) -> ContrastPrices:
    """Return what cutting paths of a contrast does live, in both directions, beside their exact share.

    The paths are a query, all through a node, or all along an edge, with ports or without (`intervene` says how); with
    none of the three each head and MLP is cut in turn. Nanda 2023, "Attribution Patching"; Goldowsky-Dill et al. 2023,
    "Localizing Model Behavior with Path Patching". Cost: four backward passes once, and for each cut a forward pass per
    set of endings that its query tells apart, in both runs.

    Raises PathexpError for runs of two models or edited ones, QueryError for names that are not there.
    """
    if target.at != LOGITS:
        raise PathexpError(
            f"interventions are read at the logits; got the target {target.label!r} at {target.at}"
        )
    on_stream(target, graph)  # refuses a target of other runs
    change = graph.difference(target)
    found = Cutting(graph, change)
    given = {
        name: value for name, value in {"cut": cut, "node": node, "edge": edge}.items() if value is not None
    }
    if len(given) > 1:
        raise PathexpError(f"give one of cut, node, edge; got {' and '.join(given)}")
    if given:
        name = (
            " → ".join(map(str, edge))
            if edge is not None and not isinstance(edge, str)
            else str(*given.values())
        )
        cuts = {name: contrast_cut(graph, cut, node, edge)}
    else:
        every = dict.fromkeys(component.label.partition(".")[0] for component in graph.components())
        cuts = {label: contrast_cut(graph, None, label, None) for label in every or ("E",)}
    return ContrastPrices(graph, change, tuple(found.price(name, each) for name, each in cuts.items()))


@dataclass(frozen=True, eq=False)
class Slope:
    """A run against itself, its derivative: a target pulled back by depth, through all paths and straight over skips."""

    graph: Contrast
    fields: Mapping[int, Array]
    straight: Mapping[int, Array]

    def read_by(self, label: str) -> Array:
        """The field pulled back through one component, to the stream that it reads."""
        component = self.graph.by_label[label]
        assert isinstance(component, Component), label
        return pull(component.operator, self.fields[self.graph.places[label] + 1])


def slope_at(run: Trace, target: Target, mlp_ports: bool) -> Slope:
    """Return the derivative of a target at one run."""
    graph, toward = contrast(run, run, mlp_ports=mlp_ports), run.direction(target.direction, target.position)
    return Slope(graph, dict(enumerate(pulled(graph, toward))), dict(enumerate(over_skips(graph, toward))))


@dataclass(frozen=True, eq=False)
class Cutting:
    """A contrast and a target, with the sweeps that all cuts share."""

    graph: Contrast
    target: Target

    def __post_init__(self) -> None:
        here, there = self.graph.runs
        if here.model is not there.model:
            raise PathexpError(
                "live, paths are patched from one run into the other, which takes two runs of one model; this contrast "
                "is of two models. px.attribution(graph, target, by='source') divides it by the weights that differ."
            )

    def price(self, name: str, cut: ContrastCut) -> Price:
        """Measure one cut by every method."""
        here, there = self.graph.runs
        return Price(
            name, str(cut.paths), expand(self.graph, cut.paths).value(self.target),
            NO_GRADIENT if cut.ends is None else self.gradient(*cut.ends),
            self.moved(there, here, cut), -self.moved(here, there, cut),
        )  # fmt: skip

    def moved(self, run: Trace, donor: Trace, cut: ContrastCut) -> float:
        """How far the target moves in a run whose cut paths carry the other run, everything behind recomputed."""
        walk, reading = Walk(freeze(run), ~cut.live.query), Reading(INPUTS, cut.live.ports)
        patched = LivePaths(run, walk, donor, reading).logits()
        return float((patched - run.logits)[self.target.position] @ self.target.direction)

    def gradient(self, writer: str, reader: str) -> float:
        """Attribution patching: what differs at a node, or along an edge, times the gradient behind, mean of both runs."""
        return float(np.mean([self._slope(slope, writer, reader) for slope in self.slopes]))

    def _slope(self, slope: Slope, writer: str, reader: str) -> float:
        if reader == "U":
            return sum(self._given(label, slope.straight) for label in labels_of(self.graph, writer))
        if reader:
            return sum(self._along(slope, writer, label) for label in labels_of(self.graph, reader))
        if asked_for_port(writer):
            return sum(self._read(slope, label) for label in labels_of(self.graph, writer))
        return sum(self._given(label, slope.fields) for label in labels_of(self.graph, writer))

    def _along(self, slope: Slope, writer: str, reader: str) -> float:
        """What is written, carried over the skips between, met with what a reader makes of the field behind it."""
        place = self.graph.places[reader]
        behind = {place: slope.read_by(reader)}
        for b in range(place - 1, -1, -1):
            behind[b] = slope.graph.kernels[b].transposed.through_skip(behind[b + 1][None])[0]
        return sum(self._given(label, behind) for label in labels_of(self.graph, writer))

    def _read(self, slope: Slope, label: str) -> float:
        """What a port makes of the difference that it reads."""
        return float(np.sum(slope.read_by(label) * self.written.streams[self.graph.places[label]]))

    def _given(self, label: str, fields: Mapping[int, Array]) -> float:
        """What a node writes, met with the field where it is written; 0 where nothing behind reads it."""
        node = self.graph.by_label[label]
        depth = node.depth if isinstance(node, Source) else self.graph.places[label] + 1
        if depth is None or depth not in fields:
            return 0.0
        value = node.value() if isinstance(node, Source) else self.written.outputs[label]
        return float(np.sum(fields[depth] * value))

    @cached_property
    def written(self) -> Written:
        """What every node writes."""
        return forward(self.graph)

    @cached_property
    def slopes(self) -> tuple[Slope, ...]:
        """The derivative at each run."""
        return tuple(slope_at(run, self.target, self.graph.mlp_ports) for run in self.graph.runs)

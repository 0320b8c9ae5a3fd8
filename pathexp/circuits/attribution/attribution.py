"""Direct attribution of a target: one call, any unit, constants and remainder included, the column exact.

What a unit adds to a logit is read off the frozen run: patterns, norm scales and gates as they were. Per head and
source token a contribution is the pattern's weight there times what the head makes of that token's stream.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Literal, get_args

import numpy as np

from ...answer import Answer, Check, Facts, Figure, Note, Part, Table, columns
from ...arguments import expect, one_of, whole
from ...errors import PathexpError
from ...expansion import expand
from ...expansion.header import run_facts
from ...expansion.targets import on_stream
from ...expansion.tolerance import ROUNDING, target_tolerance
from ...expansion.values import straight_values
from ...graph import Array, Component, Contrast, Source, contrast_to, freeze, pull, start_value
from ...model import Target, Trace
from ...model.points import FINAL, LOGITS
from ...model.trace import check_trace
from . import shares
from .beside import beside as methods_beside
from .beside import check_methods
from .decompose import Decomposition, decompose
from .neurons_toward import neurons_toward
from .sweeps import pulled

Unit = Literal[
    "component", "head", "layer", "neuron", "path", "token", "port", "source", "weight", "weight_layer", "weight_head", "module"
]  # fmt: skip
UNITS = get_args(Unit)
RUN_UNITS = ("component", "head", "layer", "neuron", "path", "token")
"""The units of one run; the others divide the difference of two."""
CONSTANTS, REMAINDER = "constants", "remainder"


@dataclass(frozen=True, eq=False, repr=False)
class Attribution(Answer):
    """What units add to a target: `names` and `values`, which add up to `target.value`.

    Rows that are no unit: "embedding" and "MLPs" by head, "constants" (biases, never forgotten), and "remainder" (what
    the paths that are not listed add, an exact sum of its own).

    >>> import pathexp as px
    >>> trace = px.load("attn-2l").run("To be, or not to be")
    >>> found = px.attribution(trace, trace.logit(" the"), by="layer")
    >>> found.names, found.ok
    (('embed', 'L0.attn', 'L1.attn', 'constants'), True)
    """

    live: ClassVar[frozenset[str]] = frozenset({"trace", "graph"})

    trace: Trace
    target: Target
    unit: Unit
    names: tuple[str, ...]
    values: Array
    graph: Contrast | None = None
    """Of a contrast: the graph whose paths end at the target."""
    beside: Mapping[str, Array] = field(default_factory=dict)
    """Of a contrast: what other methods say of the same rows, by method; nan where nothing was measured."""

    def __getitem__(self, name: str) -> float:
        """Return what one unit adds. Raises PathexpError if there is no such row."""
        if name not in self.names:
            raise PathexpError(f"no row {name!r}; rows are {', '.join(self.names)}")
        return float(self.values[self.names.index(name)])

    def ranked(self) -> list[tuple[str, float]]:
        """Return the rows, the largest in absolute value first."""
        order = np.argsort(-np.abs(self.values), kind="stable")
        return [(self.names[row], float(self.values[row])) for row in order]

    def headline(self) -> str:
        """Return what is attributed to which units."""
        return f"{self.target.label} at position {self.target.position}, by {self.unit}"

    def parts(self) -> Iterator[Part]:
        """Yield the rows, the check that they add up, and bars."""
        ranked = self.ranked()
        places = [self.names.index(name) for name, _ in ranked]
        others = [values[places] for values in self.beside.values()]
        yield run_facts(self.trace, self.target)
        yield Facts({"unit": self.unit})
        yield Table(
            (columns.text("name", self.unit), columns.number("adds", "contribution", "logits"),
             *(columns.number(name.replace(" ", "_"), unit="logits") for name in self.beside)),
            [(*row, *numbers) for row, *numbers in zip(ranked, *others, strict=True)],
            name="contributions", key=("name",), value="adds", additive=not self.beside,
            absent="unknown" if self.unit == "path" else "zero",
            rest=[("all", float(self.values.sum()), *(None for _ in self.beside))],
        )  # fmt: skip
        if self.beside:
            yield Note(BESIDE)
        yield self.check()
        yield Figure(
            "bars", "contributions", {"rows": [name for name, _ in ranked], "values": [[v] for _, v in ranked]},
            f"{self.target.label} = {self.target.value:+.4f}, by {self.unit}", "logits",
        )  # fmt: skip

    def check(self) -> Check:
        """Return whether the column adds up to the target."""
        return Check(
            f"the column adds up to {self.target.value:+.4f}", abs(float(self.values.sum()) - self.target.value),
            target_tolerance(self.graph or freeze(self.trace), self.target, self.values), ROUNDING,
        )  # fmt: skip


BESIDE = (
    "gradient, path patching: the same edge, from the writer straight to the sink, by attribution patching and live; "
    "live: the writer patched whole,\nall behind it recomputed, beside the exact sum over all paths through it; means of both runs"
)


def attribution(
    what: Trace | Contrast,
    target: Target,
    *,
    by: Unit = "head",
    k: int = 10,
    beside: str | Sequence[str] = (),
) -> Attribution:
    """Attribute a logit, a difference of logits, or any direction to units that add up to it exactly.

    Parameters
    ----------
    what: a run, or the contrast of two: then what the target differs by is attributed.
    by: "component" (every entry of the stream: embeddings, heads, MLPs, biases); "head" (every head; embeddings,
        MLPs and constants as three more rows); "layer" (embedding and each branch of each layer); "neuron" (the `k`
        largest neurons of MLPs, what the others add as one row, then heads, experts, embedding and constants); "path" (the `k`
        largest paths); "token" (what came in at each source position, by all paths, labels `position:token`; of a contrast, at
        each position whose tokens differ); "port" (of a contrast: by paths through values alone, through keys, through
        queries, through both); "source" (of a contrast: by what sets out, tokens and, of two models, every weight);
        of two models the weights that differ by kind "weight", by "weight_layer", "weight_head" (or group of keys and
        values), and "module", a kind of a layer, all heads together: an adapter's unit.

    beside: of a contrast by head or component, other methods for the `k` largest rows: "gradient" (attribution patching)
        and "path patching" of the same edges, "live" (the writer patched whole, beside the exact sum through it). The
        first costs four backward passes, the others about four forward passes a row.

    Raises PathexpError for another unit, TargetError for a target of another run. The logit effect of a head in Elhage
    et al. 2021, "Function of Induction Heads"; the field calls it direct logit attribution. It counts what reaches the
    logits straight, not what later components take back of it (Janiak et al. 2024). Costs O(d_model) per entry and
    position, for tokens one backward pass, for paths a search.

    >>> import pathexp as px
    >>> trace = px.load("attn-2l").run("To be, or not to be")
    >>> px.attribution(trace, trace.logit_difference(" the", " a")).ok
    True
    """
    expect("attribution", by=(by, one_of(*UNITS)), k=(k, whole(1)))
    methods = check_methods(beside, by)
    if isinstance(what, Contrast):
        return _of_contrast(what, target, by, k, methods)
    trace = what
    check_trace(trace, "attribution")
    if by not in _ROWS or methods:
        asked = f"beside={methods!r} compares" if methods else f"by='{by}' divides"
        raise PathexpError(f"{asked} the difference of two runs: expected px.contrast(run, other), got a run")
    rows = dict(_ROWS[by](trace, target, k))
    return Attribution(trace, target, by, tuple(rows), np.array(list(rows.values()), dtype=np.float64))


def _of_contrast(graph: Contrast, target: Target, by: Unit, k: int, methods: tuple[str, ...]) -> Attribution:
    """The same for what a target differs by in two runs; its value is that difference, from the runs themselves."""
    change = graph.difference(target)  # the rows take the target itself, which is checked to be of these runs
    ending = graph if target.at in (LOGITS, FINAL) else contrast_to(graph, target.at)
    sides = by == "port" and target.at.endswith(".score")
    rows = dict(shares.by_side(graph, target, k) if sides else shares.ROWS[by](ending, target, k))
    values = np.array(list(rows.values()), dtype=np.float64)
    if methods and target.at != LOGITS:
        raise PathexpError(
            f"beside={methods!r} patches runs toward logits; {change.label!r} reads {target.at}"
        )
    others = methods_beside(graph, change, rows, methods, k) if methods else {}
    return Attribution(graph.runs[0], change, by, tuple(rows), values, ending, others)


Rows = Iterator[tuple[str, float]]


def _components(trace: Trace, target: Target, k: int = 0) -> Rows:
    """Every entry of the stream as it stands at its end, then constants that only the sink reads."""
    parts, field = decompose(trace), on_stream(target, freeze(trace))[target.position]
    for label in parts.labels:
        yield label, float(parts[label][target.position] @ field)
    for value, (label, _) in straight_values(expand(trace).walk, target):
        yield label, value


def _heads(trace: Trace, target: Target, k: int) -> Rows:
    heads, sums = {}, {"embedding": 0.0, "MLPs": 0.0, CONSTANTS: 0.0}
    for label, value in _components(trace, target):
        node = freeze(trace).by_label[label]
        if isinstance(node, Component) and node.head is not None:
            heads[label] = value
        elif isinstance(node, Component):
            sums["MLPs"] += value
        else:
            sums[_kind(node)] += value
    yield from heads.items()
    yield from ((name, value) for name, value in sums.items() if name != "MLPs" or trace.config.has_mlps)


def _kind(node: object) -> str:
    return "embedding" if isinstance(node, Source) and node.kind in ("embedding", "positions") else CONSTANTS


def _neurons(trace: Trace, target: Target, k: int) -> Rows:
    """The `k` largest neurons of all MLPs, then everything else as sums."""
    if not trace.config.has_mlps:
        raise PathexpError("by='neuron' divides MLPs, and this model has none: by='head' divides its heads")
    found = neurons_toward(trace, target)
    listed = sorted(found.largest(k), key=lambda row: -abs(row[1]))
    yield from listed
    yield "other neurons", found.total - sum(value for _, value in listed)
    sums = {"heads": 0.0, "experts": 0.0, "embedding": 0.0, CONSTANTS: 0.0}
    for label, value in _components(trace, target):
        node = freeze(trace).by_label[label]
        if not isinstance(node, Component):
            sums[_kind(node)] += value
        elif node.kind != "mlp":
            sums["heads" if node.head is not None else "experts"] += value
    yield from ((name, value) for name, value in sums.items() if name != "experts" or trace.config.experts)


def _layers(trace: Trace, target: Target, k: int) -> Rows:
    parts, field = decompose(trace), on_stream(target, freeze(trace))[target.position]
    for branch, stream in parts.branches(parts.points[-1]).items():
        yield branch, float(stream[target.position] @ field)
    yield CONSTANTS, sum(value for value, _ in straight_values(expand(trace).walk, target))


def _paths(trace: Trace, target: Target, k: int) -> Rows:
    ranking = expand(trace).top(k, target)
    for term, value in zip(ranking.terms, ranking.values, strict=True):
        yield str(term.path), float(value)
    yield REMAINDER, float(ranking.remainder)


def _tokens(trace: Trace, target: Target, k: int) -> Rows:
    """What the embeddings at every position add by all paths: the target pulled back to where they enter."""
    field = pulled_back(trace, target)[0]
    entered = sum(
        (s.value() for s in freeze(trace).sources if _kind(s) == "embedding" and s.depth == 0),
        np.zeros_like(field),
    )
    values = np.sum(field * entered, axis=-1)
    for position, value in enumerate(values):
        yield f"{position}:{trace.token_strings[position]}", float(value)
    yield CONSTANTS, expand(trace).value(target) - float(values.sum())


_ROWS = {
    "component": _components, "head": _heads, "layer": _layers, "neuron": _neurons, "path": _paths, "token": _tokens
}  # fmt: skip


def pulled_back(trace: Trace, target: Target) -> tuple[Array, ...]:
    """The target as a covector field at every depth, (n, d_model) each: its exact derivative in the frozen run.

    Entry b is at the input of block b, the last one on the final stream. One backward pass.
    """
    return tuple(pulled(freeze(trace), target))


@dataclass(frozen=True, eq=False)
class HeadTokens:
    """What each head adds straight to a target, by the position it took it from: `values` (heads, n), and constants.

    Row h of `values`, with `constants` h, adds up to what head h adds: `attribution(trace, target, by="head")`.
    """

    labels: tuple[str, ...]
    values: Array
    constants: Array


def head_tokens(trace: Trace, target: Target, labels: Sequence[str] | None = None) -> HeadTokens:
    """Split what every head, or each of some, adds straight to a target over the positions it attends to.

    Entry (h, j): the pattern's weight from the target's position to j, times the norm's scale at j, times
    direction · W_U W_OV of the stream at j. Constants inside a head (value biases) are a column of their own. In
    nats; Elhage et al. 2021, "Attention Heads as Information Movement". Raises PathexpError for a target of another
    run.

    >>> import pathexp as px
    >>> trace = px.load("attn-2l").run("To be, or not to be")
    >>> found = head_tokens(trace, trace.logit(" the"))
    >>> found.values.shape == (16, len(trace))
    True
    """
    check_trace(trace, "head_tokens")
    heads = [
        c for c in freeze(trace).components() if c.head is not None and (labels is None or c.label in labels)
    ]
    parts = [_by_position(trace, target, head) for head in heads]
    rows = np.array([row for row, _ in parts]).reshape(len(heads), len(trace))
    return HeadTokens(
        tuple(head.label for head in heads), rows, np.array([constant for _, constant in parts])
    )


def _by_position(trace: Trace, target: Target, head: Component) -> tuple[Array, float]:
    """The target over the skips to a head's output: through the head, met with the stream it read; met with constants inside."""
    graph = freeze(trace)
    place, field = graph.places[head.label], on_stream(target, graph)
    for block in reversed(graph.blocks[place + 1 :]):
        field = pull(block.skip, field)
    met: Array = np.sum(pull(head.operator, field) * stream_before(trace, place), axis=-1)
    inside = [start_value(s.start, s.into[head.label]) for s in graph.sources if head.label in s.into]
    return met, float(sum(np.vdot(field, constant) for constant in inside))


def stream_before(trace: Trace, place: int) -> Array:
    """The stream that a block of the run's graph reads, (n, d_model)."""
    points = Decomposition(trace, freeze(trace)).points
    return trace.residuals[points[place]]

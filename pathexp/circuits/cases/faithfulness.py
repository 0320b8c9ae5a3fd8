"""How faithful circuits are: what a model does with only their edges, from all edges to none, over many cases."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TypeAlias

import numpy as np

from ...answer import Answer, Check, Facts, Figure, Note, Part, Table, columns
from ...arguments import SHARE, TRUTH, expect, instance, one_of, sequence_of, shown
from ...errors import PathexpError
from ...expansion.header import counted
from ...expansion.tolerance import ROUNDING
from ...graph import Query, freeze, query
from ...model import Model
from ...model.model import check_model
from ..interventions.kept_paths import INPUTS, Reading
from .average import EXECUTOR
from .case import Case
from .checked_cases import Cases, checked_cases
from .circuit_values import (
    VALUE,
    CircuitValue,
    EdgeCircuits,
    QueryCircuit,
    query_circuit,
    rank_edges,
    zero_of,
)
from .edge_run import VALUES, EdgeList, Kept
from .edge_scores import EdgeScores, read_eap
from .journal import Journal, asked_of
from .kept_runs import KeptRuns
from .moments import Moments
from .steps import Step
from .workers import Workers
from .zero_point import ZEROS

EDGES = (1.0, 0.5, 0.2, 0.1, 0.05, 0.02, 0.01, 0.005, 0.002, 0.001, 0.0)
"""The shares of edges that the Mechanistic Interpretability Benchmark measures, and none."""

Circuit: TypeAlias = "str | Query | Path | EdgeScores | Iterable[tuple[str, str]]"
"""A query over paths; a file of edges (.json); scored edges; or pairs of writer and reader."""


@dataclass(frozen=True)
class Point:
    """One circuit: its share of all edges, how many that are, and the target with only these, over all cases."""

    share: float | None
    kept: int
    moments: Moments
    faithfulness: float | None


@dataclass(frozen=True, eq=False, repr=False)
class Faithfulness(Answer):
    """The target with circuits of many sizes, as a share of what the model makes of it.

    Faithfulness of a circuit C is (m(C) − m(∅)) / (m(N) − m(∅)), m being the mean of the target over the cases, N the
    model and ∅ no edges at all. `cpr` and `cmd` are the benchmark's areas: under the curve, and between it and 1.
    """

    model: str
    cases: int
    how: str
    zero: str
    circuit: str
    points: tuple[Point, ...]
    whole: Moments
    nothing: Moments
    error: float
    tolerance: float
    scores: EdgeScores | None = None

    @property
    def cpr(self) -> float | None:
        """The area under the curve over the share of edges, by trapezoids, from the smallest share above 0."""
        return self._area(lambda faithfulness: faithfulness)

    @property
    def cmd(self) -> float | None:
        """The area between the curve and 1; 0 is best."""
        return self._area(lambda faithfulness: abs(1.0 - faithfulness))

    def _area(self, height: Callable[[float], float]) -> float | None:
        curve = sorted(
            (p.share, p.faithfulness) for p in self.points if p.share and p.faithfulness is not None
        )
        if len(curve) < 2:
            return None
        return sum((b - a) * (height(x) + height(y)) / 2 for (a, x), (b, y) in pairwise(curve))

    def headline(self) -> str:
        """Return whose circuits they are, and what stands in place of what is cut."""
        return f"faithfulness over {counted(self.cases, 'case')}: circuits {self.circuit}, {self.how}, cut to {self.zero}"

    def parts(self) -> Iterator[Part]:
        """Yield one row a circuit, the areas, what model and nothing give, the strongest edges, and the curve."""
        yield Facts(
            {"model": self.model, "cases": self.cases, "how": self.how, "zero": self.zero, "circuit": self.circuit,
             "whole": self.whole.mean, "nothing": self.nothing.mean, "cpr": self.cpr, "cmd": self.cmd}
        )  # fmt: skip
        by = "paths" if self.scores is None else "edges"
        yield Table(
            (columns.share(by, digits=4), columns.count("kept", f"{by} kept"), columns.number("mean", "target", "logits"),
             columns.number("error", "± error", "logits", signed=False), columns.share("faithfulness", signed=True)),
            [(p.share, p.kept, p.moments.mean, p.moments.error, p.faithfulness) for p in self.points],
            "circuits", key=("kept",), value="faithfulness", shown=None,
        )  # fmt: skip
        yield Note(self._said())
        if self.scores is not None:
            yield self._edges(self.scores)
        yield Check(
            "all edges give the model's own target", self.error, self.tolerance, ROUNDING, name="whole"
        )
        curve = sorted((p.share, p.faithfulness) for p in self.points if p.share is not None)
        if len(curve) > 1:
            yield Figure(
                "lines", "faithfulness",
                {"x": [share for share, _ in curve], "series": {"faithfulness": [value for _, value in curve]},
                 "x_title": "share of edges"}, self.headline(),
            )  # fmt: skip

    def _said(self) -> str:
        areas = "" if self.cpr is None else f"; CPR {self.cpr:.4f}, CMD {self.cmd:.4f}"
        return f"the model gives {self.whole.mean:+.4f}, no edges at all {self.nothing.mean:+.4f}{areas}"

    @staticmethod
    def _edges(scores: EdgeScores) -> Table:
        head = (
            columns.text("writer"),
            columns.text("reader"),
            columns.text("port"),
            columns.number("score", unit="logits"),
        )
        rows = [row for row, _ in zip(scores.ranked(), range(_ROWS), strict=False)]
        title = f"the {len(rows):,} strongest of {scores.amount:,} edges"
        return Table(head, rows, "edges", title, key=("writer", "reader", "port"), value="score")


_ROWS = 1_000


def faithfulness(
    model: Model, cases: Cases, *, edges: Sequence[float] = EDGES, circuit: Circuit | None = None, cut: bool = False,
    how: str = "frozen", zero: str = "zero", inputs: str = INPUTS, ranking: str = "flow",
    executor: Executor | None = None, folder: str | Path | None = None, progress: bool = False,
    resume: str | Path | None = None,
) -> Faithfulness:  # fmt: skip
    """Measure how much of what a model does a circuit does alone, over many cases.

    Parameters
    ----------
    edges: the shares of the ranked edges that are kept, from 1 to 0; the number is rounded down, as the benchmark does.
    circuit: instead of ranked edges: paths, as a query; pairs of writer and reader; or a .json file of EAP-IG or of the
        benchmark, whose scores rank edges, or, where it says which are in the circuit, with edges=() that one.
    cut: remove the circuit, and keep what it leaves.
    how: "frozen" (patterns, norms and gates as in each run: exact and linear) or "live" (computed anew).
    zero: what edges that are cut carry: "zero"; "mean", the mean over the cases of what their writer writes, by role or
        position; "corrupted", what it wrote in the run of the corrupted prompt.
    inputs: what reads along kept edges: any of "q", "k", "v" of heads and "m" of MLPs; the rest reads the run.
    ranking: "flow": what cutting an edge alone takes from the target, frozen and exact, the mean over cases. "live": the
        same live, at a pass an edge and case.
    executor, folder, progress, resume: see `average`; what is kept are ranks and values of circuits, so that edges added later cost only themselves.

    Edges go from embedding, positions, heads and MLPs to heads, MLPs and the sink, all positions together; biases stay
    in every circuit. Faithfulness and its areas, CPR and CMD: Mueller et al. 2025, "MIB: A Mechanistic Interpretability
    Benchmark"; its areas begin at the smallest share above 0.
    Raises PathexpError that names the case for what cannot be run, and for a circuit that is none.

    >>> import pathexp as px
    >>> model = px.load("attn-2l")
    >>> case = px.Case("Macbeth shall sleep no more. Macbeth shall", " sleep")
    >>> curve = px.faithfulness(model, [case], edges=(1.0, 0.2, 0.0))
    >>> [round(row["faithfulness"], 2) for row in curve.records()]
    [1.0, 0.82, 0.0]
    """
    check_model(model, "faithfulness")
    expect(
        "faithfulness", edges=(edges, sequence_of(SHARE, "shares from 0 to 1")), cut=(cut, TRUTH),
        how=(how, one_of("frozen", "live")), zero=(zero, one_of(*ZEROS)), ranking=(ranking, one_of("flow", "live")),
        executor=(executor, EXECUTOR), folder=(folder, instance((str, Path), "a path").or_none), progress=(progress, TRUTH),
        resume=(resume, instance((str, Path), "a path").or_none),
    )  # fmt: skip
    Reading(inputs)  # refuses what is no input
    ready = checked_cases(cases, model, corrupted=zero == "corrupted")
    live = how == "live"
    options = {"how": how, "zero": zero, "inputs": inputs, "ranking": ranking}
    journal = None if resume is None else Journal(resume, asked_of(faithfulness, options, model, ready))
    with Workers(executor, folder, progress) as workers:
        if isinstance(circuit, str | Query) and not str(circuit).endswith(".json"):
            asked = query(circuit)
            work, kept, every = query_circuit(asked, cut, live, zero, inputs, model, ready, workers)
            words = _words(str(asked), ranking, cut)
            return _measured(work, model, ready, workers, journal, [(kept / every, kept)], None, words)
        stands, runs = zero_of(zero, model, ready, workers), KeptRuns()
        scores = (
            rank_edges(model, ready, workers, stands, live and ranking == "live", inputs, runs, journal)
            if circuit is None
            else _scores(circuit, EdgeList.of(freeze(runs.of(model, ready[0]))))
        )
        chosen = _sizes(scores, edges)
        circuits = EdgeCircuits(tuple(kept for _, _, kept in chosen), bool(cut), live, stands, inputs, runs)
        sizes = [(share, amount) for share, amount, _ in chosen]
        return _measured(
            circuits, model, ready, workers, journal, sizes, scores, _words(circuit, ranking, cut)
        )


def _words(circuit: object, ranking: str, cut: bool) -> str:
    what = f"of edges ranked by {ranking}" if circuit is None else f"of {shown(circuit)}"
    return f"{what}, removed" if cut else what


def _sizes(scores: EdgeScores, shares: Sequence[float]) -> list[tuple[float, int, Kept]]:
    """Share, number of edges, and the edges, of every circuit."""
    if not len(shares):
        if scores.chosen is None or not scores.chosen.any():
            raise PathexpError(
                "no edges are marked as the circuit's: give shares of edges to keep, edges=(1.0, 0.1, …)"
            )
        amount = int((scores.chosen & scores.measured).sum())
        return [(amount / scores.amount, amount, scores.filled(scores.chosen))]
    amounts = [int(share * scores.amount) for share in shares]
    return [(float(s), amount, scores.strongest(amount)) for s, amount in zip(shares, amounts, strict=True)]


def _scores(circuit: object, edges: EdgeList) -> EdgeScores:
    """The scores of edges that are given, or 1 for those of a circuit."""
    if isinstance(circuit, EdgeScores):
        if circuit.edges != edges:
            raise PathexpError("these scores are of the edges of another model")
        return circuit
    if isinstance(circuit, str | Path):
        return read_eap(circuit, edges)
    pairs = list(circuit) if isinstance(circuit, Iterable) else []
    if not pairs or not all(isinstance(pair, tuple | list) and len(pair) == 2 for pair in pairs):
        raise PathexpError(
            f"expected a query, a file of edges or pairs of writer and reader, got {shown(circuit)}"
        )
    scores, chosen = np.where(edges.all(), 0.0, np.nan), np.zeros(edges.all().shape, dtype=bool)
    scores[:VALUES] = np.nan
    for writer, reader in pairs:
        place = edges.place(writer, reader)
        scores[(VALUES, *place)], chosen[(VALUES, *place)] = 1.0, True
    return EdgeScores(edges, scores, chosen)


def _measured(
    work: EdgeCircuits | QueryCircuit, model: Model, cases: tuple[Case, ...], workers: Workers, journal: Journal | None,
    sizes: Sequence[tuple[float | None, int]], scores: EdgeScores | None, words: str,
) -> Faithfulness:  # fmt: skip
    sums, whole, nothing = [Moments() for _ in sizes], Moments(), Moments()
    worst = CircuitValue((), 0.0, 0.0, 0.0, 1.0)
    kept = None if journal is None else Step(journal, VALUE, work.step)
    for found in workers.over(work, model, cases, kept, together=True):
        for moments, value in zip(sums, found.values, strict=True):
            moments.add(value)
        whole.add(found.whole)
        nothing.add(found.nothing)
        worst = max(worst, found, key=lambda each: each.error / max(each.tolerance, 1e-300))
    noise = worst.tolerance
    points = tuple(
        Point(share, amount, moments, _share(moments, whole, nothing, noise))
        for (share, amount), moments in zip(sizes, sums, strict=True)
    )
    return Faithfulness(
        repr(model), len(cases), "live" if work.live else "frozen", work.zero.name, words, points, whole, nothing,
        worst.error, worst.tolerance, scores,
    )  # fmt: skip


def _share(some: Moments, whole: Moments, nothing: Moments, noise: float) -> float | None:
    """What part of the way from nothing to the whole a circuit goes; undefined where both are the same to rounding."""
    m, all_edges, none = some.mean, whole.mean, nothing.mean
    assert m is not None and all_edges is not None and none is not None, "there is at least one case"
    way = all_edges - none
    return (m - none) / way if abs(way) > noise else None

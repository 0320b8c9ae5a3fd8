"""What one case makes of circuits: the target with only their edges, or only their paths."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...expansion import expand
from ...expansion.tolerance import target_tolerance
from ...graph import Array, Query, check_paths, everything, freeze
from ...model import Model, Target, Trace
from ..interventions.cuts import Cut
from ..interventions.intervene import Intervention
from ..interventions.means import Means, RunMeans
from .case import Case
from .edge_run import PORTS, VALUES, EdgeList, EdgeRun, Kept, written
from .edge_scores import EdgeScores
from .journal import Journal
from .kept_runs import KeptRuns
from .measured import corrupted_tokens
from .steps import ARRAY, Form, Step
from .workers import Workers
from .zero_point import MeansOfCases, means_of_cases, means_of_cuts


@dataclass(frozen=True)
class CircuitValue:
    """The target with each circuit, with all edges and with none; how far all edges are from the run, and may be."""

    values: tuple[float, ...]
    whole: float
    nothing: float
    error: float
    tolerance: float


def _value(plain: Any) -> CircuitValue:
    values, *others = plain
    whole, nothing, error, tolerance = map(float, others)
    return CircuitValue(tuple(map(float, values)), whole, nothing, error, tolerance)


VALUE: Form[CircuitValue] = Form(
    lambda found: [found.values, found.whole, found.nothing, found.error, found.tolerance], _value
)


@dataclass(frozen=True)
class Zero:
    """What stands in place of what is cut: nothing, the corrupted run, or means over the cases, made once."""

    name: str
    written: MeansOfCases | None = None

    def other(self, model: Model, case: Case) -> Mapping[str, Array]:
        """Return what every writer writes instead, (n, d); nothing where that is zero."""
        if self.name == "corrupted":
            return written(model.run(corrupted_tokens(case)))
        if self.written is None:
            return {}
        means = self.written.of(model, case)
        return {label: means.of(label) for label in means.by_slot}


def zero_of(name: str, model: Model, cases: tuple[Case, ...], workers: Workers) -> Zero:
    """Return a zero point by name; the mean is taken over the cases here."""
    if name != "mean":
        return Zero(name)
    return Zero(name, means_of_cases(written, model, cases, workers))


@dataclass(frozen=True)
class EdgeCircuits:
    """Circuits as kept edges, (3, writers, readers) each; with `removed` what is left without them."""

    kept: tuple[Kept, ...]
    removed: bool
    live: bool
    zero: Zero
    inputs: str
    runs: KeptRuns

    @property
    def step(self) -> str:
        """Its name in a journal: which edges are kept."""
        kept = hashlib.sha256(b"".join(each.tobytes() for each in self.kept)).hexdigest()
        return f"{'without' if self.removed else 'edges'}-{kept[:16]}-"

    def __call__(self, model: Model, case: Case) -> CircuitValue:
        trace = self.runs.of(model, case)
        target, run = case.target(trace), EdgeRun(trace, self.zero.other(model, case), self.live, self.inputs)
        every = run.edges.all()
        wanted = [every & (~kept if self.removed else kept) for kept in self.kept]
        circuits = {kept.tobytes(): kept for kept in (every, np.zeros_like(every), *wanted)}
        known = dict(zip(circuits, run.values(list(circuits.values()), target), strict=True))
        whole, nothing = (known[kept.tobytes()] for kept in (every, np.zeros_like(every)))
        return CircuitValue(
            tuple(known[kept.tobytes()] for kept in wanted), whole, nothing,
            abs(whole - target.value), target_tolerance(freeze(trace), target),
        )  # fmt: skip


NOTHING, EVERYTHING = Cut(~everything), Cut(everything)


@dataclass(frozen=True)
class QueryCircuit:
    """A circuit as the paths that are cut to leave it; `means` stands in their place where `zero` is a mean."""

    cut: Cut
    live: bool
    zero: Zero
    inputs: str
    means: MeansOfCases | None = None

    @property
    def step(self) -> str:
        """Its name in a journal: which paths are cut."""
        return f"paths-{hashlib.sha256(str(self.cut.query).encode()).hexdigest()[:16]}-"

    def __call__(self, model: Model, case: Case) -> CircuitValue:
        trace = model.run(case.tokens)
        target = case.target(trace)
        some, nothing, whole = (
            self._value(trace, cut, target, model, case) for cut in (self.cut, EVERYTHING, NOTHING)
        )
        error = abs(whole - target.value)
        return CircuitValue((some,), whole, nothing, error, target_tolerance(freeze(trace), target))

    def _value(self, trace: Trace, cut: Cut, target: Target, model: Model, case: Case) -> float:
        made = Intervention(trace, cut, None, self._instead(model, case), self.inputs)
        logits = made.live if self.live else made.frozen
        return float(logits[target.position] @ target.direction)

    def _instead(self, model: Model, case: Case) -> Means | None:
        if self.zero.name == "corrupted":
            return RunMeans((model.run(corrupted_tokens(case)),))
        return None if self.means is None else self.means.of(model, case)


def query_circuit(
    asked: Query, removed: bool, live: bool, zero: str, inputs: str, model: Model, cases: tuple[Case, ...], workers: Workers
) -> tuple[QueryCircuit, int, int]:  # fmt: skip
    """Return a circuit of paths, how many are kept, and how many there are. Raises QueryError for one without paths."""
    terms = expand(model.run(cases[0].tokens))
    check_paths(asked, terms.walk.graph.alphabet)
    found, every = terms.where(asked).count(), terms.count()
    cut = Cut(asked if removed else everything & ~asked)
    means = (
        means_of_cuts((cut, EVERYTHING, NOTHING), inputs, model, cases, workers) if zero == "mean" else None
    )
    return QueryCircuit(cut, live, Zero(zero), inputs, means), every - found if removed else found, every


@dataclass(frozen=True)
class RankEdges:
    """What cutting each edge alone takes from the target of a case, (3, writers, readers); NaN where nothing is cut."""

    zero: Zero
    live: bool
    inputs: str
    runs: KeptRuns

    def __call__(self, model: Model, case: Case) -> Array:
        trace = self.runs.of(model, case)
        target, run = case.target(trace), EdgeRun(trace, self.zero.other(model, case), self.live, self.inputs)
        found = np.full((len(PORTS), *run.edges.there.shape), np.nan)
        if not self.live:
            found[VALUES] = np.where(run.edges.there, run.flows(target), np.nan)
            return found
        every = run.edges.all()
        whole = run.value(every, target)
        for row, column in np.argwhere(run.edges.there):
            kept = every.copy()
            kept[:, row, column] = False
            found[VALUES, row, column] = whole - run.value(kept, target)
        return found


def rank_edges(
    model: Model, cases: tuple[Case, ...], workers: Workers, zero: Zero, live: bool, inputs: str,
    runs: KeptRuns, journal: Journal | None = None,
) -> EdgeScores:  # fmt: skip
    """Return the mean over cases of what cutting each edge alone takes from the target."""
    total: Any = 0.0
    kept = None if journal is None else Step(journal, ARRAY, "ranks-")
    for found in workers.over(RankEdges(zero, live, inputs, runs), model, cases, kept, together=True):
        total = total + found
    edges = EdgeList.of(freeze(runs.of(model, cases[0])))
    return EdgeScores(edges, total / len(cases))

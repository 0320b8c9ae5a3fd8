"""The zero point of cuts over many cases: what stands in place of what is cut, made once from the cases."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ...arguments import expect, one_of
from ...errors import PathexpError
from ...graph import Array, freeze
from ...model import Model, Trace
from ...model.parts import embedding_parts
from ..interventions.cuts import Cut, checked_cuts
from ..interventions.intervene import intervene
from ..interventions.kept_paths import INPUTS, read_by
from ..interventions.means import CaseMeans, cut_name, given, removed
from .case import TARGET, Case
from .measured import CorruptedRun, FromCase
from .workers import Workers

ZEROS = ("zero", "mean", "corrupted")
ANYWHERE = "*"
BySlot = Mapping[str, Mapping[str, Array]]
Parts = Callable[[Trace], Mapping[str, Array]]


def zero_options(
    question: object, options: Mapping[str, Any], model: Model, cases: Sequence[Case], workers: Workers
) -> dict[str, Any]:
    """Return the options of a question with its zero point made from the cases.

    Raises PathexpError for a zero point that the question does not take.
    """
    zero = options.get("zero")
    if question is not intervene or zero in (None, "zero"):
        return dict(options)
    expect("average", zero=(zero, one_of(*ZEROS)))
    if zero == "corrupted":
        return {**options, "zero": CorruptedRun()}
    if "means" in options:
        raise PathexpError("zero='mean' is the mean over the cases here; leave out means")
    given = {name: options.get(name) for name in ("cut", "node", "edge")}
    cuts = tuple(checked_cuts(model.run(cases[0].tokens), **given).values())
    return {**options, "means": means_of_cuts(cuts, options.get("inputs", INPUTS), model, cases, workers)}


@dataclass(frozen=True)
class MeansOfCases(FromCase):
    """The mean over cases, aligned with each by slot."""

    by_slot: BySlot
    equal: bool
    cases: int

    def of(self, model: Model, case: Case) -> CaseMeans:
        """Return the mean at the positions of a case."""
        return CaseMeans(slots_of(case, self.equal), self.by_slot, self.cases)


def slots_of(case: Case, equal: bool) -> tuple[str, ...]:
    """Return with what each position of a case is averaged: its role, else its number, or all others.

    `equal`: whether all cases have one length. The position at which the answer is read has the role "target".

    >>> slots_of(Case([5, 6, 7], 1, roles={"S": 0}), equal=False), slots_of(Case([5, 6], 1), equal=True)
    (('S', '*', 'target'), ('0', 'target'))
    """
    n = len(case.tokens)
    found = [str(place) if equal else ANYWHERE for place in range(n)]
    for role, place in {TARGET: -1, **case.roles}.items():
        found[place] = role
    return tuple(found)


@dataclass(frozen=True)
class InterventionParts:
    """What interventions need the mean of: what enters, what components write, and what each cut takes away."""

    cuts: tuple[Cut, ...]
    inputs: str

    def __call__(self, trace: Trace) -> Mapping[str, Array]:
        found = given_by_all(trace)
        for cut in self.cuts:
            found[cut_name(cut, self.inputs)] = removed(trace, cut, self.inputs)
        return found


def means_of_cuts(
    cuts: tuple[Cut, ...], inputs: str, model: Model, cases: Sequence[Case], workers: Workers
) -> MeansOfCases:
    """Return what stands in place of cuts: the means over the cases."""
    return means_of_cases(InterventionParts(cuts, inputs), model, cases, workers)


def means_of_cases(parts: Parts, model: Model, cases: Sequence[Case], workers: Workers) -> MeansOfCases:
    """Return the means over cases of parts of their runs, to be aligned with each of them."""
    return MeansOfCases(mean_over(parts, model, cases, workers), equal_lengths(cases), len(cases))


def equal_lengths(cases: Sequence[Case]) -> bool:
    """Whether all prompts have one length."""
    return len({len(case.tokens) for case in cases}) == 1


def given_by_all(trace: Trace) -> dict[str, Array]:
    """Return what enters a run and what its components write before any norm behind them, (n, d) each, by label."""
    found = dict(embedding_parts(trace.model, trace.tokens))
    for component in freeze(trace).components():
        found[component.label] = given(component, trace, INPUTS, read_by(trace, component))
    return found


@dataclass(frozen=True)
class _SumBySlot:
    parts: Parts
    equal: bool

    def __call__(self, model: Model, case: Case) -> tuple[BySlot, Mapping[str, int]]:
        found = self.parts(model.run(case.tokens))
        slots = slots_of(case, self.equal)
        where = {slot: [at for at, each in enumerate(slots) if each == slot] for slot in dict.fromkeys(slots)}
        sums = {
            name: {slot: array[at].sum(axis=0) for slot, at in where.items()} for name, array in found.items()
        }
        return sums, {slot: len(at) for slot, at in where.items()}


def mean_over(parts: Parts, model: Model, cases: Sequence[Case], workers: Workers) -> BySlot:
    """Return the means over cases of arrays (n, …) of their runs, by name and slot; summed in the cases' order."""
    equal = equal_lengths(cases)
    sums: dict[str, dict[str, Array]] = {}
    counts: dict[str, int] = {}
    for found, amounts in workers.over(_SumBySlot(parts, equal), model, cases, together=True):
        for name, by_slot in found.items():
            kept = sums.setdefault(name, {})
            for slot, array in by_slot.items():
                kept[slot] = kept[slot] + array if slot in kept else array
        for slot, amount in amounts.items():
            counts[slot] = counts.get(slot, 0) + amount
    return {name: {slot: array / counts[slot] for slot, array in kept.items()} for name, kept in sums.items()}

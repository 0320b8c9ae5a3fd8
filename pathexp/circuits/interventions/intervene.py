"""Interventions on paths: cut, replaced by a mean, or patched from another run; frozen and live, and how far apart.

Frozen, an intervention is exact and linear: patterns, norm scales and gates stay as they were. Live, they are
recomputed. The difference is the price of freezing, measured: for an edge into a head's values it is nothing (without
norms and MLPs after it), for one into its keys it is everything, because frozen patterns cannot see it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import ClassVar, TypeAlias, overload

import numpy as np

from ...answer import Answer, Facts, Figure, Note, Part, Table, columns
from ...arguments import Kind, expect, instance, one_of, whole
from ...errors import PathexpError
from ...expansion import expand
from ...expansion.header import counted, run_facts
from ...expansion.targets import on_stream
from ...graph import Array, Contrast, Query, Walk, everything, freeze, push
from ...graph.along_positions import stays
from ...graph.operators import act_at
from ...graph.through_each import through_each
from ...model import Target, Trace
from ...model.softmax import log_softmax
from ...model.trace import check_trace
from ..corpus.corpus import Corpus
from .contrast_prices import ContrastPrices, contrast_prices
from .cuts import Cut, checked_cuts
from .frozen_paths import FrozenPaths
from .kept_paths import INPUTS, KeptPaths, Reading
from .largest_effects import frozen_effects, largest
from .live_paths import LivePaths
from .live_without import live_without
from .mean_kl import divergence
from .means import Means, RunMeans

_HOW = Kind("LivePaths or FrozenPaths", lambda how: how in (LivePaths, FrozenPaths))
MOST_LIVE = 48
"""How many components are computed live where each is cut in turn, and no number is given."""
MOST_MEANS = 16
"""How many windows of a corpus a mean is taken over."""


@dataclass(frozen=True, eq=False, repr=False)
class Intervention:
    """The logits of a run without some of its paths: `frozen` (n, V) and `live` (n, V).

    `cut` are the paths. With `patch_from` they carry the tokens of that run instead of nothing; with `means` a mean
    stands in place of them. `inputs` are what of the components reads along paths (all of "qkvm", or
    less); components with ports in `cut` have their own.
    """

    trace: Trace
    cut: Cut
    patch_from: Trace | None = None
    means: Means | None = None
    inputs: str = INPUTS

    def __repr__(self) -> str:
        what = "patched" if self.patch_from else "replaced by a mean" if self.means else "cut"
        return f"<Intervention: {counted(self.paths, 'path')} {what}, inputs {self.inputs!r}>"

    @cached_property
    def paths(self) -> int:
        """How many paths are cut."""
        return expand(self.trace, self.cut.query).count()

    @cached_property
    def frozen(self) -> Array:
        """The logits with everything frozen as in the run, (n, V): exact sums of paths, none listed."""
        if self._whole:
            stream, straight = self._left
            return push(freeze(self.trace).sink.operator, stream) + straight
        kept = self.kept(FrozenPaths).logits()
        return kept if self.means is None else kept + self.means.removed(self.cut, self.inputs)

    @property
    def _whole(self) -> bool:
        """Whether paths are cut whole, and nothing stands in their place."""
        return (
            self.patch_from is None and self.means is None and (self.inputs, self.cut.ports) == (INPUTS, {})
        )

    @cached_property
    def _left(self) -> tuple[Array, Array]:
        """All paths without those that are cut, frozen: on the final stream (n, d), and straight to the logits (n, V)."""
        graph = freeze(self.trace)
        (whole, straight), (cut, beside) = (Walk(graph, each).total for each in (everything, self.cut.query))
        return (whole - cut)[0], straight - beside

    @cached_property
    def live(self) -> Array:
        """The logits with patterns, norms and gates recomputed along the paths, (n, V)."""
        return self.kept(LivePaths).logits()

    def at(self, position: int) -> tuple[Array, Array]:
        """Return the logits of one position, frozen and live, (V,) each; those of others are not made."""
        operator = freeze(self.trace).sink.operator
        if "frozen" not in vars(self) and self._whole and stays(operator):
            stream, straight = self._left
            here = np.array([position])
            frozen = act_at(operator, here, stream[here])[0] + straight[position]
        else:
            frozen = self.frozen[position]
        if "live" in vars(self):
            return frozen, self.live[position]
        return frozen, self.kept(LivePaths).logits([position])[0]

    def kept(self, how: type[KeptPaths]) -> KeptPaths:
        """Return the paths that are not cut, live or frozen: `how` is LivePaths or FrozenPaths."""
        expect("kept", how=(how, _HOW))
        reading, means = Reading(self.inputs, self.cut.ports), self.means if how is LivePaths else None
        walk = Walk(freeze(self.trace), ~self.cut.query)
        return how(self.trace, walk, self.patch_from, reading, means)

    def effect(self, target: Target) -> tuple[float, float]:
        """Return what the intervention changes of a target, in its units: (frozen, live).

        Raises PathexpError for a target that is not a direction of logits, or of another run.
        """
        _check_target(target, self.trace)
        frozen, live = self.at(target.position)
        return self._change(frozen, target), self._change(live, target)

    @staticmethod
    def _change(logits: Array, target: Target) -> float:
        """How far the logits at a target's position, (V,), move it."""
        return float(logits @ target.direction) - target.value

    def price(self, target: Target) -> float:
        """Return how far the frozen effect is from the live one: what freezing costs here, in the target's units."""
        frozen, live = self.effect(target)
        return frozen - live


Effects: TypeAlias = tuple[float, float | None, float | None]


@dataclass(frozen=True, eq=False, repr=False)
class Interventions(Answer):
    """What interventions change of a target, frozen and live; a sequence of `Intervention`.

    `cuts` are what was cut, by name; `paths`, `frozen`, `live` and `live_kl` hold one number each; `zero` names what
    stands in place of the paths.
    """

    live: ClassVar[frozenset[str]] = frozenset({"trace", "made"})

    trace: Trace
    target: Target
    made: tuple[Intervention, ...]
    names: tuple[str, ...]
    paths: tuple[int, ...]
    effects: tuple[Effects, ...]
    """Per cut: the change of the target frozen, and live; and the divergence of the live distributions. None: not computed."""
    zero: str
    inputs: str

    def __len__(self) -> int:
        return len(self.made)

    def __getitem__(self, row: int) -> Intervention:
        """Return one intervention. Raises PathexpError if there is none of that number."""
        if not isinstance(row, int) or isinstance(row, bool) or not -len(self) <= row < len(self):
            raise PathexpError(f"no intervention {row!r:.40}; there are {len(self)}, counted from 0")
        return self.made[row]

    def __iter__(self) -> Iterator[Intervention]:
        return iter(self.made)

    def headline(self) -> str:
        """Return what is done to the paths, and to which target."""
        place = self.target.position
        return f"{self.target.label} at position {place}: {self.target.value:+.4f}; paths {self.zero}"

    def parts(self) -> Iterator[Part]:
        """Yield one row a cut, what the columns mean, and bars."""
        yield run_facts(self.trace, self.target)
        yield Facts({"zero": self.zero, "inputs": self.inputs})
        rows = [
            (name, str(made.cut), paths, frozen, live, None if live is None else frozen - live, kl)
            for name, made, paths, (frozen, live, kl) in zip(
                self.names, self.made, self.paths, self.effects, strict=True
            )
        ]
        rows.sort(key=lambda row: (row[4] is None, -abs(row[3] if row[4] is None else row[4])))
        unit = "logits"
        yield Table(
            (columns.text("name"), columns.path("query"), columns.count("paths"), columns.number("frozen", unit=unit),
             columns.number("live", unit=unit), columns.number("price", "frozen − live", unit),
             columns.number("live_kl", "live KL", "nats", signed=False)),
            rows, name="interventions", key=("name",), value="live",
        )  # fmt: skip
        yield Note(
            "change of the target. frozen: patterns, norms and gates as in the run, exact and linear; live: recomputed\n"
            "live KL: divergence of all next-token distributions from the run's, the mean over positions"
        )
        if left := sum(row[4] is None for row in rows):
            yield Note(
                f"live: {len(rows) - left} of {len(rows)} components, those that change the target most frozen, or to first order "
                f"in what they write\n(attribution patching); of the other {left} it is not known: live={len(rows)} computes all"
            )
        shown = [row for row in rows if row[4] is not None] or rows
        yield Figure(
            "bars", "interventions",
            {"rows": [row[0] for row in shown], "values": [[row[3], row[4]] for row in shown],
             "series": ["frozen", "live"]},
            f"{self.target.label}: change with paths {self.zero}", unit,
        )  # fmt: skip


@overload
def intervene(
    trace: Trace,
    target: Target,
    *,
    cut: str | Query | Cut | None = None,
    node: str | None = None,
    edge: tuple[str, str] | None = None,
    patch_from: Trace | str | Sequence[int] | None = None,
    zero: str | Trace = "zero",
    means: str | Path | Iterable[Trace] | Means | None = None,
    inputs: str = INPUTS,
    live: int | None = None,
) -> Interventions: ...
@overload
def intervene(
    trace: Contrast,
    target: Target,
    *,
    cut: str | Query | None = None,
    node: str | None = None,
    edge: tuple[str, str] | None = None,
) -> ContrastPrices: ...
def intervene(
    trace: Trace | Contrast, target: Target, *, cut: str | Query | Cut | None = None, node: str | None = None,
    edge: tuple[str, str] | None = None, patch_from: Trace | str | Sequence[int] | None = None,
    zero: str | Trace = "zero", means: str | Path | Iterable[Trace] | Means | None = None, inputs: str = INPUTS,
    live: int | None = None,
) -> Interventions | ContrastPrices:  # fmt: skip
    """Cut paths of a run, replace them by a mean, or patch them from another run: frozen and live, any architecture.

    Wang et al. 2022, "Interpretability in the Wild" (path patching, mean ablation); Goldowsky-Dill et al. 2023,
    "Localizing Model Behavior with Path Patching". Effects on a target are in its units.

    Parameters
    ----------
    trace: a run; or the contrast of two, `px.contrast(run, other)`: then the cut paths are patched from either run into
        the other, beside their exact share and attribution patching, a `ContrastPrices`. Its queries, nodes, and both
        ends of its edges may have ports: "E L0H2.V L1.K U".
    cut: the paths, as a query: one path "E L0H1 L1H0 U", or what `paths_through` and `paths_along` return.
    node, edge: instead of a cut, a component (all paths through it), or a writer and a reader (all along that edge; a
        reader may be a port such as "L1H0.K"). With none of the three, each component in turn.
    patch_from: a run of the same model and length, or its text, whose tokens the paths carry instead.
    zero: what stands in place of the paths: "zero"; "mean", the mean over `means`; or a run, what they were there.
        Frozen, the sum of the paths is replaced by its mean. Live, what is wholly cut gives its mean output, and
        what is partly cut reads the mean in place of what is cut.
    means: runs of the same model and length, or the path of a text file, of which 16 windows are run.
    inputs: what reads along the paths: any of "q", "k", "v" of heads and "m" of MLPs; the rest reads what it read in
        the run. Frozen, "q" and "k" make no difference: patterns are as they were.
    live: where each component in turn is set to zero, of how many the live effect is computed: those of largest effect
        frozen, or to first order in what they write (attribution patching, which knows patterns and norms). By default
        all, if there are no more than 48, else 48. What is not computed is None.

    Frozen and live cost a forward pass per set of endings that the query tells apart. Raises QueryError for a
    bad query, PathexpError for unknown inputs, another run of another model or length, or a run made by `rerun`.

    >>> import pathexp as px
    >>> trace = px.random_model(layers=2, heads=2).run([1, 2, 3])
    >>> found = px.intervene(trace, trace.logit(5), edge=("L0H0", "L1H1"), inputs="v")
    >>> found[0].paths, abs(found[0].price(trace.logit(5))) < 1e-12
    (2, True)
    """
    if isinstance(trace, Contrast):
        expect("intervene", target=(target, instance(Target, "a target such as trace.logit(token)")))
        if (patch_from, zero, means, inputs, live) != (None, "zero", None, INPUTS, None):
            raise PathexpError(
                "paths of a contrast are patched from one of its runs into the other: give cut, node or edge alone"
            )
        return contrast_prices(trace, target, cut=cut, node=node, edge=edge)
    check_trace(trace, "intervene")
    expect("intervene", live=(live, whole(0).or_none))
    _check_target(target, trace)
    other = _run(trace, patch_from)
    runs = _means(trace, zero, means)
    if other is not None and runs is not None:
        raise PathexpError("give patch_from, or zero with means, not both")
    cuts = checked_cuts(trace, cut, node, edge)
    made = [Intervention(trace, each, other, runs, inputs) for each in cuts.values()]
    for each in made:
        each.kept(LivePaths)  # refuses now what could not be done later
    every = [cut, node, edge, other, runs] == [None] * 5 and inputs == INPUTS
    if live is not None and not every:
        raise PathexpError(
            "live counts components that are set to zero in turn: leave it out, or all other options"
        )
    frozen = frozen_effects(trace, target) if every else {}
    most = MOST_LIVE if live is None else live
    some = largest(trace, target, frozen, most) if len(frozen) > most else frozenset(cuts)
    found = _measured(made, target, tuple(cuts), frozen, some)
    done = "patched from another run" if other else _named(zero, runs)
    return Interventions(
        trace, target, tuple(made), tuple(cuts), tuple(paths for paths, _ in found),
        tuple(effects for _, effects in found), done, inputs,
    )  # fmt: skip


Numbers = tuple[int, Effects]


def _measured(
    made: Sequence[Intervention],
    target: Target,
    names: Sequence[str],
    frozen: Mapping[str, float],
    live: Collection[str],
) -> list[Numbers]:
    """The numbers of every intervention; where each component is cut, `frozen` effects are known, and some are wanted `live`."""
    if frozen:
        return _of_each(made[0].trace, target, names, frozen, live)
    return [_numbers(one, target) for one in made]


def _of_each(
    trace: Trace, target: Target, names: Sequence[str], frozen: Mapping[str, float], live: Collection[str]
) -> list[Numbers]:
    """The numbers of cutting each component whole: all are counted at once, and those wanted live run side by side."""
    paths = through_each(Walk(freeze(trace), everything))
    effects: dict[str, Effects] = {name: (frozen[name], None, None) for name in names}
    for name, logits in live_without(trace, [name for name in names if name in live]):
        effects[name] = (frozen[name], *_live(trace, target, logits))
    return [(paths[name], effects[name]) for name in names]


def _numbers(one: Intervention, target: Target) -> Numbers:
    """Paths, effects and divergence; of a copy, so that logits are let go."""
    one = replace(one)
    change = one._change(one.frozen[target.position], target)
    return one.paths, (change, *_live(one.trace, target, one.live))


def _live(trace: Trace, target: Target, logits: Array) -> tuple[float, float]:
    """How live logits (n, V) move the target, and how far their distributions are from the run's."""
    change = Intervention._change(logits[target.position], target)
    return change, divergence(trace.log_probs, log_softmax(logits))


def _named(zero: object, means: Means | None) -> str:
    """What is done to the paths, in words."""
    if means is None:
        return "set to zero"
    return f"replaced by {means.said() if zero == 'mean' else 'what they were in another run'}"


def _run(trace: Trace, given: Trace | str | Sequence[int] | None) -> Trace | None:
    return given if given is None or isinstance(given, Trace) else trace.model.run(given)


def _means(trace: Trace, zero: object, means: str | Path | Iterable[Trace] | Means | None) -> Means | None:
    """What stands in place of what is cut; nothing where that is zero."""
    if isinstance(zero, Trace):
        return RunMeans((zero,))
    expect("intervene", zero=(zero, one_of("zero", "mean")))
    if zero == "zero":
        return None
    if isinstance(means, Means):
        return means
    if isinstance(means, str | Path):
        corpus = Corpus(means, length=len(trace), windows=MOST_MEANS).spread(trace.model)
        means = [trace.model.run(window) for window in corpus.cut(trace.model)]
    runs = tuple(means) if isinstance(means, Iterable) else ()
    if not runs or not all(isinstance(run, Trace) for run in runs):
        raise PathexpError(
            f"zero='mean' needs runs of the same length as means, or a text file with windows of {len(trace)} tokens"
        )
    return RunMeans(runs)


def _check_target(target: object, trace: Trace) -> None:
    """Refuse what is no target of the run's logits."""
    expect("intervene", target=(target, instance(Target, "a target such as trace.logit(token)")))
    assert isinstance(target, Target)
    if target.space != "logits":
        raise PathexpError(f"interventions are read at the logits; got a target in space {target.space!r}")
    on_stream(target, freeze(trace))  # refuses a target of another run

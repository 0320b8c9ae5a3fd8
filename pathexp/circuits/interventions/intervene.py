"""Interventions on paths: cut, replaced by a mean, or patched from another run; frozen and live, and how far apart.

Frozen, an intervention is exact and linear: patterns, norm scales and gates stay as they were. Live, they are
recomputed. The difference is the price of freezing, measured: for an edge into a head's values it is nothing (without
norms and MLPs after it), for one into its keys it is everything, because frozen patterns cannot see it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import ClassVar

import numpy as np

from ...answer import Answer, Facts, Figure, Note, Part, Table, columns
from ...arguments import LOGITS, Kind, expect, instance, one_of
from ...errors import PathexpError, QueryError
from ...expansion import expand
from ...expansion.header import counted, run_facts
from ...expansion.targets import on_stream
from ...graph import Array, Query, Walk, check_paths, freeze, query
from ...model import Target, Trace
from ...model.softmax import log_softmax
from ...model.trace import check_trace
from ..corpus.corpus import Corpus
from .frozen_paths import FrozenPaths
from .kept_paths import INPUTS, KeptPaths, Reading
from .live_paths import LivePaths

_PORT = re.compile(r"(?P<label>[A-Za-z_]\w*)\.(?P<port>[A-Za-z]\w*)")
_PORTS = {"Q": "q", "K": "k", "V": "v"}
_HOW = Kind("LivePaths or FrozenPaths", lambda how: how in (LivePaths, FrozenPaths))
MOST_MEANS = 16
"""How many windows of a corpus a mean is taken over."""


@dataclass(frozen=True)
class Cut:
    """Paths, and for components by label the inputs that alone read without them: "q", "k", "v".

    >>> print(paths_along("L0H1", "L1H0.K"))
    S? .* L0H1 L1H0 .* U, by k of L1H0
    """

    query: Query
    ports: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))

    def __str__(self) -> str:
        by = ", ".join(f"{inputs} of {label}" for label, inputs in self.ports.items())
        return f"{self.query}, by {by}" if by else str(self.query)

    def __reduce__(self) -> tuple[object, ...]:
        return _cut_again, (self.query, dict(self.ports))


def _cut_again(query: Query, ports: dict[str, str]) -> Cut:
    return Cut(query, MappingProxyType(ports))


@dataclass(frozen=True, eq=False, repr=False)
class Intervention:
    """The logits of a run without some of its paths: `frozen` (n, V) and `live` (n, V).

    `cut` are the paths. With `patch_from` they carry the tokens of that run instead of nothing; with `means` the mean
    over these runs stands in place of them. `inputs` are what of the components reads along paths (all of "qkvm", or
    less); components with ports in `cut` have their own.
    """

    trace: Trace
    cut: Cut
    patch_from: Trace | None = None
    means: tuple[Trace, ...] = ()
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
        kept = self.kept(FrozenPaths).logits()
        if not self.means:
            return kept
        found: Array = kept + np.mean([self._removed(run) for run in self.means], axis=0)
        return found

    def _removed(self, run: Trace) -> Array:
        """What cutting the same paths, frozen, takes from the logits of another run."""
        there = Intervention(run, self.cut, inputs=self.inputs)
        removed: Array = run.logits - there.kept(FrozenPaths).logits()
        return removed

    @cached_property
    def live(self) -> Array:
        """The logits with patterns, norms and gates recomputed along the paths, (n, V)."""
        return self.kept(LivePaths).logits()

    def kept(self, how: type[KeptPaths]) -> KeptPaths:
        """Return the paths that are not cut, live or frozen: `how` is LivePaths or FrozenPaths."""
        expect("kept", how=(how, _HOW))
        reading, means = Reading(self.inputs, self.cut.ports), self.means if how is LivePaths else ()
        walk = Walk(freeze(self.trace), ~self.cut.query)
        return how(self.trace, walk, self.patch_from, reading, means)

    def effect(self, target: Target) -> tuple[float, float]:
        """Return what the intervention changes of a target, in its units: (frozen, live).

        Raises PathexpError for a target that is not a direction of logits, or of another run.
        """
        _check_target(target, self.trace)
        frozen, live = (float(x[target.position] @ target.direction) for x in (self.frozen, self.live))
        return frozen - target.value, live - target.value

    def price(self, target: Target) -> float:
        """Return how far the frozen effect is from the live one: what freezing costs here, in the target's units."""
        frozen, live = self.effect(target)
        return frozen - live


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
    effects: tuple[tuple[float, float, float], ...]
    """Per cut: the change of the target frozen, and live; and the divergence of the live distributions."""
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
            (name, str(made.cut), paths, frozen, live, frozen - live, kl)
            for name, made, paths, (frozen, live, kl) in zip(
                self.names, self.made, self.paths, self.effects, strict=True
            )
        ]
        unit = "logits"
        yield Table(
            (columns.text("name"), columns.path("query"), columns.count("paths"), columns.number("frozen", unit=unit),
             columns.number("live", unit=unit), columns.number("price", "frozen − live", unit),
             columns.number("live_kl", "live KL", "nats", signed=False)),
            sorted(rows, key=lambda row: -abs(row[4])), name="interventions", key=("name",), value="live",
        )  # fmt: skip
        yield Note(
            "change of the target. frozen: patterns, norms and gates as in the run, exact and linear; live: recomputed\n"
            "live KL: divergence of all next-token distributions from the run's, the mean over positions"
        )
        yield Figure(
            "bars", "interventions",
            {"rows": [row[0] for row in rows], "values": [[row[3], row[4]] for row in rows],
             "series": ["frozen", "live"]},
            f"{self.target.label}: change with paths {self.zero}", unit,
        )  # fmt: skip


def intervene(
    trace: Trace, target: Target, *, cut: str | Query | Cut | None = None, node: str | None = None,
    edge: tuple[str, str] | None = None, patch_from: Trace | str | Sequence[int] | None = None,
    zero: str | Trace = "zero", means: str | Path | Iterable[Trace] | None = None, inputs: str = INPUTS,
) -> Interventions:  # fmt: skip
    """Cut paths of a run, replace them by a mean, or patch them from another run: frozen and live, any architecture.

    Wang et al. 2022, "Interpretability in the Wild" (path patching, mean ablation); Goldowsky-Dill et al. 2023,
    "Localizing Model Behavior with Path Patching". Effects on a target are in its units.

    Parameters
    ----------
    cut: the paths, as a query: one path "E L0H1 L1H0 U", or what `paths_through` and `paths_along` return.
    node, edge: instead of a cut, a component (all paths through it), or a writer and a reader (all along that edge; a
        reader may be a port such as "L1H0.K"). With none of the three, each component in turn.
    patch_from: a run of the same model and length, or its text, whose tokens the paths carry instead.
    zero: what stands in place of the paths: "zero"; "mean", the mean over `means`; or a run, what they were there.
        Frozen, the sum of the paths is replaced by its mean. Live, what is wholly cut gives its mean output, and
        what is partly cut reads the mean in place of what is cut.
    means: runs of the same model and length, or the path of a text file, whose first windows are run.
    inputs: what reads along the paths: any of "q", "k", "v" of heads and "m" of MLPs; the rest reads what it read in
        the run. Frozen, "q" and "k" make no difference: patterns are as they were.

    Frozen and live cost a forward pass per set of endings that the query tells apart. Raises QueryError for a
    bad query, PathexpError for unknown inputs, another run of another model or length, or a run made by `rerun`.

    >>> import pathexp as px
    >>> trace = px.random_model(layers=2, heads=2).run([1, 2, 3])
    >>> found = px.intervene(trace, trace.logit(5), edge=("L0H0", "L1H1"), inputs="v")
    >>> found[0].paths, abs(found[0].price(trace.logit(5))) < 1e-12
    (2, True)
    """
    check_trace(trace, "intervene")
    _check_target(target, trace)
    other = _run(trace, patch_from)
    runs = _means(trace, zero, means)
    if other is not None and runs:
        raise PathexpError("give patch_from, or zero with means, not both")
    cuts = {name: _checked(each, trace) for name, each in _cuts(trace, cut, node, edge).items()}
    made = [Intervention(trace, each, other, runs, inputs) for each in cuts.values()]
    for each in made:
        each.kept(LivePaths)  # refuses now what could not be done later
    found = [_numbers(Intervention(trace, each.cut, other, runs, inputs), target) for each in made]
    done = "patched from another run" if other else _named(zero, runs)
    return Interventions(
        trace, target, tuple(made), tuple(cuts), tuple(paths for paths, _ in found),
        tuple(effects for _, effects in found), done, inputs,
    )  # fmt: skip


def _numbers(one: Intervention, target: Target) -> tuple[int, tuple[float, float, float]]:
    return one.paths, (*one.effect(target), mean_kl(one.trace.logits, one.live))


def _named(zero: object, runs: tuple[Trace, ...]) -> str:
    """What is done to the paths, in words."""
    if not runs:
        return "set to zero"
    if zero != "mean":
        return "replaced by what they were in another run"
    return f"replaced by their mean over {counted(len(runs), 'run')}"


def _run(trace: Trace, given: Trace | str | Sequence[int] | None) -> Trace | None:
    return given if given is None or isinstance(given, Trace) else trace.model.run(given)


def _means(trace: Trace, zero: object, means: str | Path | Iterable[Trace] | None) -> tuple[Trace, ...]:
    """The runs whose mean stands in place of what is cut; none where that is zero."""
    if isinstance(zero, Trace):
        return (zero,)
    expect("intervene", zero=(zero, one_of("zero", "mean")))
    if zero == "zero":
        return ()
    if isinstance(means, str | Path):
        corpus = Corpus(means, length=len(trace), windows=MOST_MEANS)
        means = [trace.model.run(window) for window in corpus.cut(trace.model)]
    runs = tuple(means) if isinstance(means, Iterable) else ()
    if not runs or not all(isinstance(run, Trace) for run in runs):
        raise PathexpError(
            f"zero='mean' needs runs of the same length as means, or a text file with windows of {len(trace)} tokens"
        )
    return runs


def _cuts(trace: Trace, cut: object, node: str | None, edge: tuple[str, str] | None) -> Mapping[str, object]:
    """What is cut, by name; by default the paths through each component."""
    given = {
        name: value for name, value in {"cut": cut, "node": node, "edge": edge}.items() if value is not None
    }
    if len(given) > 1:
        raise PathexpError(f"give one of cut, node, edge; got {' and '.join(given)}")
    if node is not None:
        return {str(node): paths_through(node)}
    if edge is not None:
        if isinstance(edge, str) or not isinstance(edge, Sequence) or len(edge) != 2:
            raise PathexpError(f"expected an edge as a writer and a reader, got {edge!r:.60}")
        return {" → ".join(map(str, edge)): paths_along(*edge)}
    if cut is not None:
        return {str(cut): cut}
    return {c: paths_through(c) for c in freeze(trace).alphabet.components} or {"E": paths_through("E")}


def _checked(cut: object, trace: Trace) -> Cut:
    """A cut whose paths and ports there are."""
    found = cut if isinstance(cut, Cut) else Cut(_query(cut))
    check_paths(found.query, freeze(trace).alphabet)
    for label in found.ports:
        _check_head(label, trace)
    return found


def _check_target(target: object, trace: Trace) -> None:
    """Refuse what is no target of the run's logits."""
    expect("intervene", target=(target, instance(Target, "a target such as trace.logit(token)")))
    assert isinstance(target, Target)
    if target.space != "logits":
        raise PathexpError(f"interventions are read at the logits; got a target in space {target.space!r}")
    on_stream(target, freeze(trace))  # refuses a target of another run


def paths_through(label: str) -> Query:
    """Return the paths through a component, or from a source.

    >>> str(paths_through("L0H1"))
    'S? .* L0H1 .* U'
    """
    _refuse_ports(label, "paths_through")
    return query(f"S? .* {label} .* U")


def paths_along(writer: str, reader: str) -> Query | Cut:
    """Return the paths along an edge: from what writer adds straight into reader, a component or the unembedding `U`.

    A reader may be one port of a head: "L1H0.Q", "L1H0.K" or "L1H0.V" is the edge into its queries, keys or values
    alone. Raises PathexpError for another port, or a port of the writer.

    >>> str(paths_along("L0H1", "L1H0"))
    'S? .* L0H1 L1H0 .* U'
    >>> paths_along("L0H1", "L1H0.V").ports
    mappingproxy({'L1H0': 'v'})
    """
    _refuse_ports(writer, "paths_along", "the reader may have one, such as paths_along('L0H1', 'L1H0.K')")
    found = _PORT.fullmatch(reader.strip()) if isinstance(reader, str) else None
    if found is None:
        _refuse_ports(reader, "paths_along")
        return query(f"S? .* {writer} U" if reader == "U" else f"S? .* {writer} {reader} .* U")
    if found["port"] not in _PORTS:
        raise PathexpError(f"a reader's ports are Q, K and V of a head, found {reader!r}")
    ports = MappingProxyType({found["label"]: _PORTS[found["port"]]})
    return Cut(query(f"S? .* {writer} {found['label']} .* U"), ports)


def edge(words: str) -> tuple[str, ...]:
    """Return the ends of an edge that are written as one text.

    >>> edge("L0H2 L1H0.K")
    ('L0H2', 'L1H0.K')
    """
    return tuple(words.split())


def _query(cut: object) -> Query:
    """A cut as a query; a port in one is refused by name, where it would be read as "any component, then K"."""
    if not isinstance(cut, str | Query):
        raise PathexpError(
            f"a cut is a query, such as 'E L0H1 U', or paths_through(label), paths_along(writer, reader); got {cut!r:.80}"
        )
    found = _PORT.search(cut) if isinstance(cut, str) else None
    if found is not None and found["port"] in _PORTS:
        raise QueryError(
            f"{found[0]!r} in {cut!r} would mean {found['label']}, any component, then {found['port']}: queries have no "
            f"ports; write paths_along(writer, {found[0]!r}), or give inputs={_PORTS[found['port']]!r}"
        )
    return query(cut)


def _refuse_ports(label: object, call: str, advice: str = "ports are of a reader: see paths_along") -> None:
    if not isinstance(label, str):
        raise PathexpError(f"{call}() takes the label of a node, such as 'L0H1', not {label!r:.80}")
    if _PORT.search(label):
        raise PathexpError(f"{call}(): {label!r} is no node but a port of one; {advice}")


def _check_head(label: str, trace: Trace) -> None:
    if label not in freeze(trace).alphabet.classes["H"]:
        raise PathexpError(f"only heads have ports Q, K and V; {label!r} is not a head of this model")


def mean_kl(a: Array, b: Array) -> float:
    """Return the mean over positions of the divergence KL(a ‖ b) of the distributions of two arrays of logits, in nats.

    `a`, `b`: (positions, tokens). Kullback & Leibler 1951. Raises PathexpError where they are no such arrays.

    >>> round(mean_kl(np.log([[0.5, 0.5]]), np.log([[0.25, 0.75]])), 6)
    0.143841
    """
    expect("mean_kl", a=(a, LOGITS), b=(b, LOGITS))
    if np.shape(a) != np.shape(b):
        raise PathexpError(f"mean_kl() compares logits of one shape, found {np.shape(a)} and {np.shape(b)}")
    first, second = (log_softmax(x) for x in (a, b))
    return float((np.exp(first) * (first - second)).sum(axis=-1).mean())

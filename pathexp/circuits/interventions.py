"""Interventions on paths: taken away, or made to carry another text; frozen and live, and how far apart.

Frozen, an intervention is exact and linear: patterns, norm scales and gates stay as they were. Live, they are computed
anew. The difference is the price of freezing, measured: for an edge into a head's values it is nothing (without norms
and MLPs behind it), for one into its keys it is everything, because frozen patterns cannot see it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType

import numpy as np

from ..arguments import LOGITS, Kind, expect
from ..errors import PathexpError, QueryError
from ..expansion import expand
from ..expansion.targets import on_stream
from ..graph import Array, Query, Walk, check_paths, freeze, query
from ..model import Target, Trace
from ..model.softmax import log_softmax
from ..model.trace import check_trace
from .copies import SIDES, KeptPaths, Reading
from .held import HeldPaths
from .live import LivePaths

_PORT = re.compile(r"(?P<label>[A-Za-z_]\w*)\.(?P<port>[A-Za-z]\w*)")
_PORTS = {"Q": "q", "K": "k", "V": "v"}
_HOW = Kind("LivePaths or HeldPaths", lambda how: how in (LivePaths, HeldPaths))


@dataclass(frozen=True)
class Cut:
    """Paths, and for components by label the sides that alone read without them: "q", "k", "v".

    >>> print(along("L0H1", "L1H0.K"))
    S? .* L0H1 L1H0 .* U, by k of L1H0
    """

    query: Query
    ports: Mapping[str, str]

    def __str__(self) -> str:
        return f"{self.query}, by {', '.join(f'{sides} of {label}' for label, sides in self.ports.items())}"


@dataclass(frozen=True, eq=False, repr=False)
class Intervention:
    """The logits of a run without some of its paths: `frozen` (n, V) and `live` (n, V), in nats.

    `cut` are the paths; with `other` they carry the tokens of that run instead of nothing. `sides` are what of
    the components reads along paths (all of "qkvm", or less), `ports` the sides of components that have their own.
    """

    trace: Trace
    cut: Query
    other: Trace | None = None
    sides: str = SIDES
    ports: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))

    def __repr__(self) -> str:
        what = "cut" if self.other is None else "patched"
        return f"<Intervention: {self.paths:,} paths {what}, sides {self.sides!r}>"

    @cached_property
    def paths(self) -> int:
        """How many paths are cut."""
        return expand(self.trace, self.cut).count()

    @cached_property
    def frozen(self) -> Array:
        """The logits with everything frozen as in the run, (n, V): exact sums of paths, none listed."""
        return self.kept(HeldPaths).logits()

    @cached_property
    def live(self) -> Array:
        """The logits with patterns, norms and gates computed anew along the paths, (n, V)."""
        return self.kept(LivePaths).logits()

    def kept(self, how: type[KeptPaths]) -> KeptPaths:
        """The paths that are not cut, live or frozen: `how` is LivePaths or HeldPaths."""
        expect("kept", how=(how, _HOW))
        reading = Reading(self.sides, self.ports)
        return how(self.trace, Walk(freeze(self.trace), ~self.cut), self.other, reading)

    def effect(self, target: Target) -> tuple[float, float]:
        """What the intervention changes of a target, in its units: (frozen, live).

        Raises PathexpError for a target that is not a direction of logits, or of another run.
        """
        if not isinstance(target, Target):
            raise PathexpError(
                f"effect() takes a target such as trace.logit(token), not {type(target).__name__}"
            )
        if target.space != "logits":
            raise PathexpError(
                f"interventions are read at the logits; found a target in space {target.space!r}"
            )
        on_stream(target, freeze(self.trace))  # refuses a target of another run
        frozen, live = (float(x[target.position] @ target.direction) for x in (self.frozen, self.live))
        return frozen - target.value, live - target.value

    def price(self, target: Target) -> float:
        """How far the frozen effect is from the live one: what freezing costs here, in the target's units."""
        frozen, live = self.effect(target)
        return frozen - live


def intervene(
    trace: Trace, cut: str | Query | Cut, *, other: Trace | None = None, sides: str = SIDES
) -> Intervention:
    """Take paths away from a run, or let them carry another text: frozen and live side by side, in any architecture.

    Wang et al. 2022, "Interpretability in the Wild" (path patching); effects on a target are in nats.

    Parameters
    ----------
    cut: the paths, as a query: one path "E L0H1 L1H0 U", or what `through` and `along` say for nodes and edges.
    other: a run of the same model and length, whose tokens the paths carry instead (path patching).
    sides: what reads along the paths: any of "q", "k", "v" of heads and "m" of MLPs; the rest reads what it read in
        the run. Frozen, "q" and "k" make no difference: patterns are as they were.

    Frozen and live cost a forward pass per set of endings that the query tells apart. Raises QueryError for a
    bad query, PathexpError for unknown sides, another run of another model or length, or a run made by `rerun`.

    >>> import pathexp as px
    >>> trace = px.random_model(layers=2, heads=2).run([1, 2, 3])
    >>> cut = intervene(trace, along("L0H0", "L1H1"), sides="v")
    >>> cut.paths, abs(cut.price(trace.logit(5))) < 1e-12
    (2, True)
    >>> abs(intervene(trace, along("L0H0", "L1H1.K")).effect(trace.logit(5))[0]) < 1e-12
    True
    """
    check_trace(trace, "intervene")
    ports: Mapping[str, str] = MappingProxyType({})
    if isinstance(cut, Cut):
        ports, cut = cut.ports, cut.query
    chosen = _query(cut)
    check_paths(chosen, freeze(trace).alphabet)
    for label in ports:
        _check_head(label, trace)
    found = Intervention(trace, chosen, other, sides, ports)
    found.kept(LivePaths)  # refuses now what could not be done later
    return found


def through(label: str) -> Query:
    """The paths through a component, or from a source.

    >>> str(through("L0H1"))
    'S? .* L0H1 .* U'
    """
    _refuse_ports(label, "through")
    return query(f"S? .* {label} .* U")


def along(writer: str, reader: str) -> Query | Cut:
    """The paths along an edge: from what writer adds straight into reader, a component or the unembedding `U`.

    A reader may be one port of a head: "L1H0.Q", "L1H0.K" or "L1H0.V" is the edge into its queries, keys or values
    alone. Raises PathexpError for another port, or a port of the writer.

    >>> str(along("L0H1", "L1H0"))
    'S? .* L0H1 L1H0 .* U'
    >>> along("L0H1", "L1H0.V").ports
    mappingproxy({'L1H0': 'v'})
    """
    _refuse_ports(writer, "along", "the reader may have one, such as along('L0H1', 'L1H0.K')")
    found = _PORT.fullmatch(reader.strip()) if isinstance(reader, str) else None
    if found is None:
        _refuse_ports(reader, "along")
        return query(f"S? .* {writer} U" if reader == "U" else f"S? .* {writer} {reader} .* U")
    if found["port"] not in _PORTS:
        raise PathexpError(f"a reader's ports are Q, K and V of a head, found {reader!r}")
    ports = MappingProxyType({found["label"]: _PORTS[found["port"]]})
    return Cut(query(f"S? .* {writer} {found['label']} .* U"), ports)


def _query(cut: str | Query) -> Query:
    """A cut as a query; a port in one is refused by name, where it would be read as "any component, then K"."""
    if not isinstance(cut, str | Query):
        raise PathexpError(
            f"a cut is a query, such as 'E L0H1 U', or through(label), along(writer, reader); found {cut!r:.80}"
        )
    found = _PORT.search(cut) if isinstance(cut, str) else None
    if found is not None and found["port"] in _PORTS:
        raise QueryError(
            f"{found[0]!r} in {cut!r} would mean {found['label']}, any component, then {found['port']}: queries have no "
            f"ports; write along(writer, {found[0]!r}), or give sides={_PORTS[found['port']]!r}"
        )
    return query(cut)


def _refuse_ports(label: object, call: str, advice: str = "ports are of a reader: see along") -> None:
    if not isinstance(label, str):
        raise PathexpError(f"{call}() takes the label of a node, such as 'L0H1', not {label!r:.80}")
    if _PORT.search(label):
        raise PathexpError(f"{call}(): {label!r} is no node but a port of one; {advice}")


def _check_head(label: str, trace: Trace) -> None:
    if label not in freeze(trace).alphabet.classes["H"]:
        raise PathexpError(f"only heads have ports Q, K and V; {label!r} is no head of this model")


def distance(a: Array, b: Array) -> float:
    """The mean over positions of the divergence KL(a ‖ b) of the distributions of two arrays of logits, in nats.

    `a`, `b`: (positions, tokens). Kullback & Leibler 1951. Raises PathexpError where they are no such arrays.

    >>> round(distance(np.log([[0.5, 0.5]]), np.log([[0.25, 0.75]])), 6)
    0.143841
    """
    expect("distance", a=(a, LOGITS), b=(b, LOGITS))
    if np.shape(a) != np.shape(b):
        raise PathexpError(f"distance() compares logits of one shape, found {np.shape(a)} and {np.shape(b)}")
    first, second = (log_softmax(x) for x in (a, b))
    return float((np.exp(first) * (first - second)).sum(axis=-1).mean())

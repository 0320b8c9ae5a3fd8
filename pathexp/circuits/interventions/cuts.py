"""What is cut: paths as a query, through a component or along an edge, and by which inputs they are read."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

from ...errors import PathexpError, QueryError
from ...graph import Query, check_paths, freeze, query
from ...model import Trace

_PORT = re.compile(r"(?P<label>[A-Za-z_]\w*)\.(?P<port>[A-Za-z]\w*)")
_PORTS = {"Q": "q", "K": "k", "V": "v"}


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


def checked_cuts(trace: Trace, cut: object, node: str | None, edge: tuple[str, str] | None) -> dict[str, Cut]:
    """Return what is cut of a run, by name; with nothing given the paths through each component.

    Raises PathexpError where more than one is given, or what is given is not there.
    """
    cuts = _cuts(trace, cut, node, edge)
    if cut is None and node is None and edge is None:  # labels of the graph itself, of which there are many
        return {name: Cut(_query(each)) for name, each in cuts.items()}
    return {name: _checked(each, trace) for name, each in cuts.items()}


def _cuts(trace: Trace, cut: object, node: str | None, edge: tuple[str, str] | None) -> Mapping[str, object]:
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

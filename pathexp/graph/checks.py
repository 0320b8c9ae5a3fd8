"""Whether sizes, labels and sources make a residual graph."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Set

from ..errors import GraphError
from .language import SUFFIXES
from .nodes import One, Source, Start
from .operators import Dim, Operator, Parallel, Step

_LABEL = re.compile(rf"[A-Za-z_][A-Za-z0-9_]*(?:\.(?:{'|'.join(SUFFIXES)}))?")
_CLASS = re.compile(r"S|H|M|L\d+")


def check_sizes(positions: Dim, d_model: Dim, d_out: Dim) -> None:
    """Raise GraphError if there is nothing to write to or to read."""
    if 0 in (positions, d_model, d_out):
        raise GraphError(
            f"a graph needs at least one position, dimension and output; found {positions} positions, "
            f"d_model {d_model}, d_out {d_out}"
        )


def check_labels(labels: list[str]) -> None:
    """Raise GraphError for labels that occur twice, and for those that are none in path queries."""
    if twice := sorted(label for label, times in Counter(labels).items() if times > 1):
        raise GraphError(f"labels must be unique, but these occur more than once: {', '.join(twice)}")
    if odd := [label for label in labels if not _LABEL.fullmatch(label) or _CLASS.fullmatch(label)]:
        raise GraphError(
            f"{odd[0]!r} cannot be a label: labels are letters, digits and _, and S, H, M, L0, L1, … "
            "mean classes of nodes in path queries"
        )


def check_source(source: Source, blocks: int, labels: Set[str]) -> None:
    """Raise GraphError if a source enters nowhere, in two ways, or feeds what is not there."""
    if source.depth is not None and not 0 <= source.depth <= blocks:
        raise GraphError(
            f"source {source.label} enters at depth {source.depth}, but this graph has depths 0 to {blocks}"
        )
    if source.into and source.depth is not None:
        raise GraphError(
            f"source {source.label} both enters the stream at depth {source.depth} and feeds "
            f"{', '.join(source.into)} directly, so that two paths would have one name; make it two sources"
        )
    if unknown := sorted(set(source.into) - labels):
        raise GraphError(f"source {source.label} feeds {', '.join(unknown)}, which this graph does not have")


def check_symbols(label: str, added: Iterable[str], taken: Set[str]) -> None:
    """Raise GraphError if a formula would write what was added with a symbol that means something else already."""
    if both := sorted(set(added) & taken):
        raise GraphError(
            f"{label!r} cannot be a label here: formulas would call it {both[0]}, which is the symbol of another map or "
            "source of this graph; choose another label"
        )


def symbols(operators: Iterable[Operator], starts: Iterable[Start] = ()) -> frozenset[str]:
    """Return the names under which operators and starts stand in formulas."""
    found = {name for operator in operators for name in _names(operator)}
    return frozenset(found | {start.name for start in starts if not isinstance(start, One)})


def _names(operator: Operator) -> Iterator[str]:
    for part in operator:
        match part:
            case Step():
                yield from (factor.name for factor in part.position + part.feature)
            case Parallel(terms=terms):
                yield part.name
                yield from (name for term in terms for name in _names(term))
            case _:
                yield part.name

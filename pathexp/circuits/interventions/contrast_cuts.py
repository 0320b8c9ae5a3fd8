"""Paths of a contrast as a cut of live runs: the same words without ports, and by which inputs heads read along them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from types import MappingProxyType

from ...errors import PathexpError
from ...graph import Contrast, Query, asked_for_port, check_paths, query
from ...labels import read_label
from .cuts import Cut

_NAME = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z]\w*)?")
_SIDES = {"V": "v", "K": "k", "Q": "q"}


@dataclass(frozen=True)
class ContrastCut:
    """Paths of a contrast, and the same paths live; `ends` are a writer and a reader, or a node and "", if they are such."""

    paths: Query
    live: Cut
    ends: tuple[str, str] | None = None


def contrast_cut(
    graph: Contrast, cut: str | Query | Cut | None, node: str | None, edge: Sequence[str] | None
) -> ContrastCut:
    """Return one cut of a contrast, from a query of its paths, a node or an edge, each with ports or without.

    Raises PathexpError where not one of the three is given, QueryError for names that are not there.
    """
    if sum(given is not None for given in (cut, node, edge)) != 1:
        raise PathexpError("give one of cut, node, edge")
    if edge is not None and (isinstance(edge, str) or len(edge) != 2):
        raise PathexpError(f"expected an edge as a writer and a reader, got {edge!r:.60}")
    if node is not None:
        return _made(graph, f"S? .* {node} .* U", (node, ""))
    if edge is not None:
        writer, reader = edge
        return _made(
            graph, f"S? .* {writer} U" if reader == "U" else f"S? .* {writer} {reader} .* U", (writer, reader)
        )
    if not isinstance(cut, str | Query):
        raise PathexpError(
            f"a cut of a contrast is a query of its paths, such as 'E L0H2.V L1.K U', not {cut!r:.80}"
        )
    return _made(graph, cut, None)


def _made(graph: Contrast, words: str | Query, ends: tuple[str, str] | None) -> ContrastCut:
    paths = query(words)
    check_paths(paths, graph.alphabet)
    return ContrastCut(paths, live_cut(graph, paths), ends)


def live_cut(graph: Contrast, paths: Query) -> Cut:
    """Return a query of a contrast's paths as one of a run's, with the inputs by which heads read along it.

    Raises PathexpError where a head would read by different inputs at different places, or an MLP by a port.
    """
    text = str(paths)
    names = [name for name in dict.fromkeys(_NAME.findall(text)) if graph.alphabet.meaning(name)]
    ported = [name for name in names if asked_for_port(name)]
    _check_row(graph, text, ported)
    sides: dict[str, set[str]] = {}
    for name in names:
        for label in labels_of(graph, name):
            head, _, port = label.partition(".")
            if name in ported:
                sides.setdefault(head, set()).add(name.rpartition(".")[2])
            elif port:
                sides.setdefault(head, set()).add("VKQ")
    for head, found in sides.items():
        if len(found) > 1 or not found <= {"VKQ", *_SIDES}:
            raise PathexpError(
                f"{text!r} reads {head} by {', '.join(sorted(found))}; live, a head is cut by one of its inputs V, K, Q "
                "or by all, an MLP or an expert whole"
            )
    ports = {head: _SIDES[port] for head, (port,) in sides.items() if port in _SIDES}
    return Cut(
        query(_NAME.sub(lambda found: _without_port(graph, found[0], ported), text)), MappingProxyType(ports)
    )


def _check_row(graph: Contrast, text: str, ported: list[str]) -> None:
    """Refuse ports where a path might pass the same head in another way: each must be one place of every path."""
    layers = {name: {_layer(label) for label in graph.alphabet.meaning(name)} for name in ported}
    mixed = "|" in text and len(set().union(*layers.values())) > 1
    repeated = re.search(r"\.(?:[VKQ])[*?+]|\)[*?+]", text)
    if ported and (set(text) & set("&~") or mixed or repeated):
        raise PathexpError(
            f"{text!r}: with ports a live cut takes places in a row, such as 'S .* L0H2.V L1.K .* U' or an edge; no &, ~, "
            "alternatives in several layers or repetitions"
        )
    for name, found in layers.items():
        if len(found) > 1:
            raise PathexpError(
                f"{name} in {text!r} stands for heads of {len(found)} layers, and other places of a path may pass them by "
                "other inputs; live, give the heads of one layer, such as L1.K"
            )


def _layer(label: str) -> int | None:
    return read_label(label).layer


def labels_of(graph: Contrast, name: str) -> list[str]:
    """Return the labels that a name stands for, in the order of the graph."""
    found = graph.alphabet.meaning(name)
    return [label for label in graph.alphabet.labels if label in found]


def _without_port(graph: Contrast, name: str, ported: list[str]) -> str:
    """A name of a contrast as one of a run: the heads that it stands for."""
    if name not in ported:
        return name
    heads = dict.fromkeys(label.partition(".")[0] for label in labels_of(graph, name))
    return next(iter(heads)) if len(heads) == 1 else f"({' | '.join(heads)})"

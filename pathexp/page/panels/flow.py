"""The flow as ribbons: the strongest edges, and at every node one ribbon for the edges that were pruned."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...circuits.attribution.flow import Flow
from ...circuits.attribution.flow_edges import FlowEdge, FlowNode, Totals
from ..subject import Subject
from ..view import number, words
from . import shown

MOST = 150
"""How many edges are drawn at most."""


def flow(subject: Subject, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the strongest edges up to `percent` of all |flow|; what a node loses to pruned edges is told for each."""
    query = words(given, "query")
    found = subject.flow(query)
    percent = number(given, "percent", 80, 1, 100)
    kept = _strongest(found, percent / 100)
    ends = {end for edge in kept for end in edge.ends[:2]}
    nodes = [node for node in found.nodes if node.name in ends]
    whole, left = found.totals.size, Totals(tuple(kept))
    return {
        "value": found.value, "said": shown.logits(found.value), "percent": percent,
        "edges": [{"source": e.writer, "target": e.reader, "kind": e.kind, "flow": e.flow, "said": shown.logits(e.flow)}
                  for e in kept],
        "nodes": [_node(node, found.totals, left) for node in nodes],
        "kept": len(kept), "all": len(found.edges),
        "share": shown.share(sum(abs(edge.flow) for edge in kept) / whole if whole else None),
        "capped": len(kept) == MOST,
        "check": str(found.check()),
    }  # fmt: skip


def _strongest(found: Flow, share: float) -> list[FlowEdge]:
    """The edges of largest |flow| that make up a share of all, the strongest first."""
    whole, taken = found.totals.size, 0.0
    kept: list[FlowEdge] = []
    for edge in found.edges[:MOST]:
        if taken >= share * whole * (1 - 1e-12):
            break
        kept.append(edge)
        taken += abs(edge.flow)
    return kept


def _node(node: FlowNode, whole: Totals, kept: Totals) -> dict[str, Any]:
    """A node with what enters and leaves it by edges that were pruned; None where nothing can."""
    return {
        "label": node.name, "column": node.block + 1, "value": node.flow, "said": shown.logits(node.flow),
        "lost_in": _lost(node.name, (whole.numbers[0], whole.into), (kept.numbers[0], kept.into)),
        "lost_out": _lost(node.name, (whole.numbers[1], whole.out), (kept.numbers[1], kept.out)),
    }  # fmt: skip


Side = tuple[Mapping[str, int], Mapping[str, float]]
"""By node, how many edges there are on one side of it, and what flows along them."""


def _lost(name: str, whole: Side, kept: Side) -> float | None:
    every, left = whole[0].get(name, 0), kept[0].get(name, 0)
    if not every:
        return None
    return whole[1][name] - kept[1].get(name, 0.0) if left < every else 0.0

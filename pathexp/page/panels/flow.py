"""The flow as ribbons: the strongest edges, and at every node one ribbon for the edges that were pruned."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ...circuits.attribution.flow import Flow
from ...circuits.attribution.flow_edges import FlowEdge, FlowNode
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
    whole = sum(abs(edge.flow) for edge in found.edges)
    return {
        "value": found.value, "said": shown.logits(found.value), "percent": percent,
        "edges": [{"source": e.writer, "target": e.reader, "kind": e.kind, "flow": e.flow, "said": shown.logits(e.flow)}
                  for e in kept],
        "nodes": [_node(node, found, kept) for node in nodes],
        "kept": len(kept), "all": len(found.edges),
        "share": shown.share(sum(abs(edge.flow) for edge in kept) / whole if whole else None),
        "capped": len(kept) == MOST,
        "check": str(found.check()),
    }  # fmt: skip


def _strongest(found: Flow, share: float) -> list[FlowEdge]:
    """The edges of largest |flow| that make up a share of all, the strongest first."""
    ordered = sorted(found.edges, key=lambda edge: -abs(edge.flow))
    whole, taken = sum(abs(edge.flow) for edge in ordered), 0.0
    kept: list[FlowEdge] = []
    for edge in ordered[:MOST]:
        if taken >= share * whole * (1 - 1e-12):
            break
        kept.append(edge)
        taken += abs(edge.flow)
    return kept


def _node(node: FlowNode, whole: Flow, kept: Sequence[FlowEdge]) -> dict[str, Any]:
    """A node with what enters and leaves it by edges that were pruned; None where nothing can."""
    return {
        "label": node.name, "column": node.block + 1, "value": node.flow, "said": shown.logits(node.flow),
        "lost_in": _lost([e for e in whole.edges if e.reader == node.name], [e for e in kept if e.reader == node.name]),
        "lost_out": _lost([e for e in whole.edges if e.writer == node.name], [e for e in kept if e.writer == node.name]),
    }  # fmt: skip


def _lost(every: Sequence[FlowEdge], kept: Sequence[FlowEdge]) -> float | None:
    if not every:
        return None
    return sum(e.flow for e in every) - sum(e.flow for e in kept) if len(kept) < len(every) else 0.0

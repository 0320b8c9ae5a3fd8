"""A flow as a person reads it: nodes, the strongest edges, what pruning keeps and leaves, and that nothing is lost."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import networkx as nx

from ..circuits import flow, prune
from ..expansion import Expansion
from ..model import Target
from .text import count_of, table


@dataclass(frozen=True, eq=False)
class FlowReport:
    """Everything that `pathexp flow` shows, as values."""

    whole: nx.MultiDiGraph
    kept: nx.MultiDiGraph
    target: Target
    expected: float
    """What the paths must add to the target, computed another way."""
    top: int

    @property
    def imbalance(self) -> float:
        """The largest difference between inflow and outflow, or between the whole and what is expected."""
        nodes = [node for node in self.whole if self.whole.in_degree(node) and self.whole.out_degree(node)]
        gaps = [abs(_total(self.whole.in_edges, node) - _total(self.whole.out_edges, node)) for node in nodes]
        starts = [node for node in self.whole if not self.whole.in_degree(node)]
        sources = sum(_total(self.whole.out_edges, node) for node in starts)
        ends = abs(sources - self.expected), abs(self.whole.graph["value"] - self.expected)
        return float(max([*gaps, *ends]))

    @property
    def tolerance(self) -> float:
        """1e-9 of all that flows, signs ignored."""
        return float(1e-9 * sum(abs(amount) for *_, amount in self.whole.edges(data="flow")) + 1e-12)

    @property
    def ok(self) -> bool:
        """Whether the flow is conserved and adds up to the target."""
        return self.imbalance <= self.tolerance

    def text(self) -> str:
        """Return the report for a terminal."""
        return "\n\n".join(
            "\n".join(part) for part in (_asked(self), _nodes(self), _edges(self), _verdict(self))
        )

    def data(self) -> dict[str, Any]:
        """Return the report as plain data for JSON."""
        kept = self.kept.graph
        return {
            "target": {
                "label": self.target.label,
                "position": self.target.position,
                "value": self.target.value,
            },
            "query": str(self.whole.graph["walk"].query),
            "value": self.whole.graph["value"],
            "nodes": [{"node": node, **attributes} for node, attributes in self.whole.nodes(data=True)],
            "edges": [
                {
                    "writer": writer,
                    "reader": reader,
                    "kind": key,
                    "flow": amount,
                    "kept": self.kept.has_edge(writer, reader, key),
                }
                for writer, reader, key, amount in _strongest(self.whole)
            ],
            "share": kept["share"],
            "kept": kept["kept"],
            "remainder": kept["remainder"],
            "imbalance": self.imbalance,
            "tolerance": self.tolerance,
            "ok": self.ok,
        }


def report_flow(
    terms: Expansion, target: Target, share: float, top: int, per_position: bool = False
) -> FlowReport:
    """Trace a flow, prune it, and compute what it must add up to."""
    whole = flow(terms, target, per_position=per_position)
    return FlowReport(whole, prune(whole, share), target, terms.value(target), top)


def _total(edges: Any, node: str) -> float:
    return float(sum(amount for *_, amount in edges(node, data="flow")))


def _strongest(graph: nx.MultiDiGraph) -> list[tuple[str, str, str, float]]:
    return sorted(graph.edges(keys=True, data="flow"), key=lambda edge: (-abs(edge[3]), edge[:3]))


def _asked(report: FlowReport) -> Iterator[str]:
    whole = report.whole
    yield f"the flow of {report.target.label} at position {report.target.position}: {whole.graph['value']:+.4f}"
    yield f"{count_of(len(whole), 'node')}, {count_of(whole.number_of_edges(), 'edge')}; each flow is the sum of all paths that take the edge"


def _nodes(report: FlowReport) -> Iterator[str]:
    ordered = sorted(report.whole.nodes(data=True), key=lambda item: -abs(item[1]["flow"]))
    shown = [(node, attributes) for node, attributes in ordered if attributes["kind"] != "unembedding"]
    rows = [
        [node, attributes["kind"], f"{attributes['flow']:+.4f}"] for node, attributes in shown[: report.top]
    ]
    if len(shown) > report.top:
        rows.append([f"{len(shown) - report.top:,} other nodes", "", ""])
    yield table(["node", "kind", "passes through"], rows, "<<>")


def _edges(report: FlowReport) -> Iterator[str]:
    edges = _strongest(report.whole)
    rows = [
        [
            f"{writer} → {reader}",
            kind,
            f"{amount:+.4f}",
            "kept" if report.kept.has_edge(writer, reader, kind) else "",
        ]
        for writer, reader, kind, amount in edges[: report.top]
    ]
    if len(edges) > report.top:
        rows.append([f"{len(edges) - report.top:,} other edges", "", "", ""])
    yield table(["edge", "kind", "flow", "pruned"], rows, "<<><")


def _verdict(report: FlowReport) -> Iterator[str]:
    kept = report.kept.graph
    yield (
        f"pruned to {count_of(report.kept.number_of_edges(), 'edge')} of {report.whole.number_of_edges():,}: their paths "
        f"add {kept['kept']:+.4f}, all others {kept['remainder']:+.4f} (asked for a share of {kept['share']:g})"
    )
    sign = "≤" if report.ok else ">"
    said = (
        "inflow equals outflow at every node and the sources add up to the target"
        if report.ok
        else "the flow is NOT conserved"
    )
    yield f"{said}: error {report.imbalance:.2e} {sign} tolerance {report.tolerance:.2e}"

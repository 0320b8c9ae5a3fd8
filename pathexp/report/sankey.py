"""A flow as a Sankey diagram: sources on the left, blocks in order, the sink on the right, bands as wide as |flow|."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import networkx as nx

from ..errors import SizeError
from .svg import element, label, number, picture, safe

MAX_EDGES = 3000
"""How many bands a diagram may have."""

_HEIGHT, _COLUMN, _BAR, _GAP, _LEFT, _TOP = 460.0, 150.0, 12.0, 10.0, 20.0, 44.0
_POSITIVE, _NEGATIVE = "#b2182b", "#2166ac"


def sankey(flow: nx.MultiDiGraph, title: str = "") -> str:
    """Return a flow as SVG: red bands add to the target, blue ones take away, tooltips say how much.

    Raises SizeError above 3,000 edges; prune the flow first.

    >>> import pathexp as px
    >>> trace = px.random_model(layers=1, heads=2, seed=1).run([1, 2, 3])
    >>> svg = sankey(px.flow(trace, trace.logit(4)))
    >>> svg.count("<path"), "L0H1 → U" in svg
    (8, True)
    """
    if flow.number_of_edges() > MAX_EDGES:
        raise SizeError(
            f"a diagram of {flow.number_of_edges():,} edges is beyond the limit of {MAX_EDGES:,}; "
            "draw px.prune(flow, share=0.9) instead"
        )
    return _Sankey(flow, title).svg()


@dataclass(frozen=True, eq=False)
class _Sankey:
    flow: nx.MultiDiGraph
    title: str

    @cached_property
    def columns(self) -> dict[int, list[str]]:
        """The nodes of each block, sources at -1; within a block in order of the graph."""
        found: dict[int, list[str]] = {}
        for node, block in self.flow.nodes(data="block"):
            found.setdefault(block, []).append(node)
        return dict(sorted(found.items()))

    @cached_property
    def sizes(self) -> dict[str, float]:
        """How much moves through each node in either direction, signs ignored."""
        return {
            node: max(
                sum(abs(f) for *_, f in self.flow.in_edges(node, data="flow")),
                sum(abs(f) for *_, f in self.flow.out_edges(node, data="flow")),
            )
            for node in self.flow
        }

    @cached_property
    def scale(self) -> float:
        """Pixels per unit."""
        highest = max((sum(self.sizes[n] for n in nodes) for nodes in self.columns.values()), default=0.0)
        return _HEIGHT / highest if highest else 0.0

    @cached_property
    def places(self) -> dict[str, tuple[float, float]]:
        """Left edge and top of every bar."""
        found = {}
        for column, nodes in enumerate(self.columns.values()):
            y = _TOP
            for node in nodes:
                found[node] = (_LEFT + column * _COLUMN, y)
                y += max(1.0, self.scale * self.sizes[node]) + _GAP
        return found

    def svg(self) -> str:
        bottoms = [y + self.scale * self.sizes[node] for node, (_, y) in self.places.items()]
        width = _LEFT + _COLUMN * len(self.columns) + 20
        body = [label(self.title, 12, 20, font_weight="bold")] if self.title else []
        body += [*self._bands(), *self._bars()]
        return picture(
            body,
            max(width, 12 + 6.6 * len(self.title)),
            max(bottoms, default=_TOP) + 24,
            self.title or "flow",
        )

    def _bands(self) -> Iterator[str]:
        used_out, used_in = dict.fromkeys(self.flow, 0.0), dict.fromkeys(self.flow, 0.0)
        order = {node: index for index, node in enumerate(self.places)}
        edges = list(self.flow.edges(keys=True, data="flow"))
        starts = {}
        for writer, reader, key, amount in sorted(edges, key=lambda e: (order[e[0]], order[e[1]])):
            starts[writer, reader, key] = used_out[writer]
            used_out[writer] += abs(amount)
        for writer, reader, key, amount in sorted(edges, key=lambda e: (order[e[1]], order[e[0]])):
            yield self._band(writer, reader, starts[writer, reader, key], used_in[reader], amount)
            used_in[reader] += abs(amount)

    def _band(self, writer: str, reader: str, start: float, end: float, amount: float) -> str:
        (x0, top0), (x1, top1) = self.places[writer], self.places[reader]
        width = max(0.4, self.scale * abs(amount))
        y0, y1 = top0 + self.scale * start, top1 + self.scale * end
        a, b, c, d = (number(v) for v in (x0 + _BAR, y0, x1, y1))
        middle, lower0, lower1 = number((x0 + _BAR + x1) / 2), number(y0 + width), number(y1 + width)
        outline = f"M{a} {b}C{middle} {b} {middle} {d} {c} {d}V{lower1}C{middle} {lower1} {middle} {lower0} {a} {lower0}Z"
        said = element("title", safe(f"{writer} → {reader}: {amount:+.4g}"))
        return element(
            "path", said, d=outline, fill=_POSITIVE if amount >= 0 else _NEGATIVE, fill_opacity="0.45"
        )

    def _bars(self) -> Iterator[str]:
        for node, (x, y) in self.places.items():
            height = max(1.0, self.scale * self.sizes[node])
            through = self.flow.nodes[node]["flow"]
            said = element("title", safe(f"{node}: {through:+.4g}"))
            yield element("rect", said, x=x, y=y, width=_BAR, height=height, fill="#333333")
            yield label(f"{node} {through:+.3g}", x + _BAR + 3, y + min(height, 9) / 2 + 4)

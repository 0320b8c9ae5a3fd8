"""A picture of where information moves: positions across, depth upward, a line as thick as what flows along it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..circuits.information import Information, information
from ..expansion import expand
from ..expansion.values import straight_values
from ..model import Target, Trace
from .svg import element, label, number, picture, safe, signed_color
from .text import table, visible

_WIDE, _HIGH, _LEFT, _TOP = 64.0, 110.0, 70.0, 50.0
_THICK = 14.0
SHOWN = 0.005
"""Lines of less than this share of the thickest are left out of the picture (and counted in its last line)."""


@dataclass(frozen=True, eq=False)
class InformationReport:
    """What `pathexp information` shows: the largest moves between positions, and what each block adds up to."""

    trace: Trace
    moves: Information
    top: int

    @classmethod
    def of(cls, trace: Trace, target: Target, top: int) -> InformationReport:
        """Follow a target."""
        return cls(trace, information(trace, target), top)

    @property
    def error(self) -> float:
        """How far what arrives on the final stream, with constants of the unembedding, is from the target."""
        return abs(self._arrived() + self._straight() - self.moves.target.value)

    @property
    def tolerance(self) -> float:
        """1e-11 of the sum of what moves."""
        sizes = sum(float(np.abs(edges).sum()) for edges in self.moves.edges)
        return 1e-11 * max(sizes, abs(self.moves.target.value))

    @property
    def ok(self) -> bool:
        """Whether what arrives adds up to the target."""
        return self.error <= self.tolerance

    def _arrived(self) -> float:
        return float(self.moves.arriving[-1].sum())

    def _straight(self) -> float:
        """What constants add that only the unembedding reads."""
        return sum(value for value, _ in straight_values(expand(self.trace).walk, self.moves.target))

    def largest(self) -> list[tuple[int, int, int, float]]:
        """The largest moves between different positions: (block, from, to, value)."""
        found = [
            (block, int(origin), int(to), float(edges[to, origin]))
            for block, edges in enumerate(self.moves.edges)
            for to, origin in np.argwhere(edges != 0)
            if to != origin
        ]
        return sorted(found, key=lambda move: -abs(move[3]))

    def text(self) -> str:
        """Return the report for a terminal."""
        target, largest = self.moves.target, self.largest()
        rows = [
            [str(b), self._named(i), self._named(j), f"{value:+.4f}"]
            for b, i, j, value in largest[: self.top]
        ]
        if rest := largest[self.top :]:
            rows.append(["", f"{len(rest)} other moves", "", f"{sum(value for *_, value in rest):+.4f}"])
        verdict = "adds" if self.ok else "DOES NOT ADD"
        blocks = [
            [str(b), _signed(np.trace(edges)), _signed(edges.sum() - np.trace(edges)), _signed(constants.sum()),
             f"{arriving.sum():+.4f}"]
            for b, (edges, constants, arriving) in enumerate(
                zip(self.moves.edges, self.moves.constants, self.moves.arriving[1:], strict=True))
        ]  # fmt: skip
        return "\n\n".join(
            [
                f"{target.label} at position {target.position}: {target.value:+.4f}",
                table(["block", "from", "to", "carries"], rows, "<<<>"),
                table(["block", "stays in place", "moves", "constants", "arrives"], blocks, "<>>>>"),
                f"what arrives {verdict} up to the target: error {self.error:.2e} ≤ tolerance {self.tolerance:.2e}",
            ]
        )

    def _named(self, position: int) -> str:
        return f"{position} {visible(self.trace.token_strings[position])}"

    def data(self) -> dict[str, Any]:
        """Return the report as plain data for JSON; `edges` by block, (to, from)."""
        target = self.moves.target
        return {
            "target": {"label": target.label, "position": target.position, "value": target.value},
            "edges": [edges.tolist() for edges in self.moves.edges],
            "constants": [each.tolist() for each in self.moves.constants],
            "arriving": [each.tolist() for each in self.moves.arriving],
            "error": self.error, "tolerance": self.tolerance, "ok": self.ok,
        }  # fmt: skip


def _signed(amount: float) -> str:
    """An amount with its sign; what rounds to nothing is +0.0000."""
    return f"{round(float(amount), 4) + 0.0:+.4f}"


def information_svg(trace: Trace, target: Target) -> str:
    """Return an SVG of a target's flow between positions: red adds, blue takes away.

    >>> import pathexp as px
    >>> trace = px.random_model().run([1, 2, 3])
    >>> information_svg(trace, trace.logit(1)).startswith("<svg")
    True
    """
    moves = information(trace, target)
    largest = max((float(np.abs(edges).max()) for edges in moves.edges), default=0.0)
    lines = list(_lines(moves, largest))
    hidden = sum(edges.size - int((edges == 0).sum()) for edges in moves.edges) - len(lines)
    n, depths = len(trace), len(moves.arriving)
    width = _LEFT + _WIDE * n + 20
    height = _TOP + _HIGH * (depths - 1) + 70
    title = f"{target.label} at position {target.position}: {target.value:+.3f}"
    body = [
        label(title, 12, 20, font_weight="bold"),
        *lines,
        *_places(trace, moves),
        label(
            f"line: up to {largest:.3g}; {hidden} thinner than {SHOWN:.1%} of it not drawn", 12, height - 10
        ),
    ]
    return picture(body, max(width, 420), height, title)


def _lines(moves: Information, largest: float) -> Iterator[str]:
    for place, edges in enumerate(moves.edges):
        for to, origin in np.argwhere(np.abs(edges) > SHOWN * largest):
            value = float(edges[to, origin])
            yield element(
                "line",
                element("title", safe(f"block {place}, {origin} → {to}: {value:+.4g}")),
                x1=_x(int(origin)),
                y1=_y(moves, place),
                x2=_x(int(to)),
                y2=_y(moves, place + 1),
                stroke=signed_color(np.sign(value) * 1.0, 1.25),
                stroke_width=max(0.4, _THICK * abs(value) / largest),
                stroke_opacity="0.75",
            )


def _places(trace: Trace, moves: Information) -> Iterator[str]:
    for place in range(len(moves.arriving)):
        name = "embed" if place == 0 else f"block {place - 1}"
        yield label(name, 10, _y(moves, place) + 4, fill="#555555")
        for position in range(len(trace)):
            yield f'<circle cx="{number(_x(position))}" cy="{number(_y(moves, place))}" r="3" fill="#333333"/>'
    for position, token in enumerate(trace.token_strings):
        yield label(token, _x(position), _y(moves, 0) + 20, text_anchor="middle")


def _x(position: int) -> float:
    return _LEFT + _WIDE * (position + 0.5)


def _y(moves: Information, place: int) -> float:
    return _TOP + _HIGH * (len(moves.arriving) - 1 - place)

"""A picture of where information moves: positions across, depth upward, a line as thick as what flows along it."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ..circuits.information import Information, information
from ..model import Target, Trace
from .svg import element, label, number, picture, safe, signed_color

_WIDE, _HIGH, _LEFT, _TOP = 64.0, 110.0, 70.0, 50.0
_THICK = 14.0
SHOWN = 0.005
"""Lines of less than this share of the thickest are left out of the picture (and counted in its last line)."""


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

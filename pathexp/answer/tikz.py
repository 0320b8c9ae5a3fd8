"""Pictures of trees, flows and paths as TikZ, for papers: text is text, and LaTeX sets it in the paper's font."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ..errors import AnswerError
from .boxes import STEPS, boxes, ribbons
from .cells import cell
from .columns import number
from .latex import word
from .parts import Figure

COLUMN = 8.4
"""The width of one column of a paper, in cm."""

PREAMBLE = "% needs \\usepackage{tikz}\n"
_COLORS = "\\definecolor{pathexpup}{HTML}{D55E00}\\definecolor{pathexpdown}{HTML}{0072B2}\n"
"""Vermillion and blue of Okabe and Ito, as in every other picture."""

_ROW = 0.55
_LETTER = 0.13
"""How high a row of boxes is, and how wide a letter, in cm."""


def tikz(figure: Figure, width: float = COLUMN) -> str:
    """Return a figure as a tikzpicture, `width` cm wide.

    Raises AnswerError for a kind of figure that has no TikZ, or a width that is not above 0.

    >>> from pathexp.answer import Figure
    >>> node = {"id": 0, "parent": None, "label": "U", "query": "S .* U", "value": 1.5, "count": 3, "depth": 0}
    >>> print(tikz(Figure("flame", "tree", {"nodes": [node]})).splitlines()[-2])
    \\draw[fill=pathexpup!55] (0.00,-0.55) rectangle (8.40,-0.00); \\node[right, inner sep=1.5pt, font=\\scriptsize] at (0.00,-0.28) {U +1.5000};
    """
    if figure.kind not in KINDS:
        raise AnswerError(
            f"no TikZ of a figure of kind {figure.kind!r}; there is of {', '.join(KINDS)}: save it as .pdf"
        )
    if not width > 0:
        raise AnswerError(f"expected a width above 0 cm, got {width!r}")
    body = "\n".join(KINDS[figure.kind](figure.data, width))
    return f"{PREAMBLE}{_COLORS}\\begin{{tikzpicture}}\n{body}\n\\end{{tikzpicture}}\n"


def _flame(data: Mapping[str, Any], width: float) -> list[str]:
    return [_box(row) for row in boxes(data["nodes"], width) if row["x2"] - row["x"] > 0.01]


def _box(row: Mapping[str, Any]) -> str:
    left, right, top = row["x"], row["x2"], -_ROW * row["y"]
    fill = "fill=black!12" if row["rest"] else f"fill={_color(row['value'])}!55"
    drawn = f"\\draw[{fill}] ({left:.2f},{top - _ROW:.2f}) rectangle ({right:.2f},{top:.2f});"
    said = "" if row["rest"] else _fitting(row["label"], row["value"], right - left)
    return drawn + (f" {_words(said, left, top - _ROW / 2)}" if said else "")


def _fitting(label: str, value: float, room: float) -> str:
    """The label with its value, the label alone, or nothing, as there is room."""
    full = f"{label} {_said(value)}"
    return next((words for words in (full, label) if len(words) * _LETTER + 0.15 < room), "")


def _flow(data: Mapping[str, Any], width: float) -> list[str]:
    """Ribbons as filled bands, then nodes as bars with their labels beside them."""
    points, rows = ribbons(data["nodes"], data["edges"])
    if not rows:
        return []
    wide, high = max(row["x2"] for row in rows), max(row["y2"] for row in rows) or 1.0
    across, down = (width - 1.2) / wide, 0.6 * width / high
    bands = [points[at : at + STEPS + 1] for at in range(0, len(points), STEPS + 1)]
    return [_band(band, across, down) for band in bands] + [_bar(row, across, down) for row in rows]


def _band(points: Sequence[Mapping[str, Any]], across: float, down: float) -> str:
    low = [f"({point['x'] * across:.2f},{-point['low'] * down:.2f})" for point in points]
    high = [f"({point['x'] * across:.2f},{-point['high'] * down:.2f})" for point in reversed(points)]
    edge = "dashed" if points[0]["flow"] < 0 else "solid"
    color = _color(points[0]["flow"])
    return f"\\draw[{color}, {edge}, very thin, fill={color}, fill opacity=0.4] {' -- '.join([*low, *high])} -- cycle;"


def _bar(row: Mapping[str, Any], across: float, down: float) -> str:
    left, right, top, foot = row["x"] * across, row["x2"] * across, -row["y"] * down, -row["y2"] * down
    drawn = f"\\fill[black!15] ({left:.2f},{foot:.2f}) rectangle ({right:.2f},{top:.2f});"
    return f"{drawn} {_words(row['label'], left, (top + foot) / 2)}"


def _words(said: str, x: float, y: float) -> str:
    return f"\\node[right, inner sep=1.5pt, font=\\scriptsize] at ({x:.2f},{y:.2f}) {{{word(said)}}};"


def _said(value: float) -> str:
    return cell(float(value), number("value"))


def _color(value: float) -> str:
    return "pathexpdown" if value < 0 else "pathexpup"


KINDS: Mapping[str, Callable[[Mapping[str, Any], float], list[str]]] = {"flame": _flame, "flow": _flow}

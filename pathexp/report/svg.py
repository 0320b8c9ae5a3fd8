"""Pictures as plain SVG text, with no dependencies: escaped elements, colors, and heat maps of matrices."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from xml.sax.saxutils import escape, quoteattr

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..errors import SizeError, SpaceError

MAX_CELLS = 250_000
"""How many cells a heat map may have; beyond, a picture of that many rectangles is of no use."""

Color = tuple[int, int, int]
_WHITE: Color = (255, 255, 255)
_BELOW: Color = (33, 102, 172)
_ABOVE: Color = (178, 24, 43)
_UNDEFINED = "#d9d9d9"
_SIZE = re.compile(r'<svg [^>]*viewBox="0 0 ([\d.]+) ([\d.]+)"')


def safe(text: str) -> str:
    """Return text that can stand in an SVG: control and direction characters written out, markup escaped.

    >>> print(safe('<b> & "λ→"'), safe("\\n\\x1b"))
    &lt;b&gt; &amp; "λ→" \\n\\x1b
    """
    return escape("".join(map(_shown, text)))


def _shown(character: str) -> str:
    """A character that a picture can hold: whatever is invisible or active is written out."""
    if unicodedata.category(character)[0] == "C":
        return character.encode("unicode_escape").decode("ascii")
    return character


def element(name: str, inside: str = "", **attributes: str | float) -> str:
    """Return one element; `_` in an attribute's name stands for `-`, and a trailing `_` is dropped.

    >>> element("text", safe("a<b"), x=1.5, text_anchor="end", class_="label")
    '<text x="1.5" text-anchor="end" class="label">a&lt;b</text>'
    """
    written = "".join(
        f" {key.rstrip('_').replace('_', '-')}={quoteattr(number(value) if not isinstance(value, str) else value)}"
        for key, value in attributes.items()
    )
    return f"<{name}{written}>{inside}</{name}>" if inside else f"<{name}{written}/>"


def number(value: float) -> str:
    """Return a coordinate with at most two decimals, without trailing zeros."""
    return f"{value:.2f}".rstrip("0").rstrip(".")


def label(text: str, x: float, y: float, **attributes: str | float) -> str:
    """Return a text element at a place."""
    return element("text", safe(text), x=x, y=y, **attributes)


def picture(body: Iterable[str], width: float, height: float, title: str) -> str:
    """Return a whole SVG document; `title` is what a screen reader says and a pointer shows."""
    inside = "\n".join([element("title", safe(title)), *body])
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" role="img" viewBox="0 0 {number(width)} {number(height)}" '
        f'width="{number(width)}" height="{number(height)}" font-family="sans-serif" font-size="11">\n'
        f"{element('rect', width=width, height=height, fill='#ffffff')}\n{inside}\n</svg>\n"
    )


def grid(rows: Sequence[Sequence[str]], title: str) -> str:
    """Return one SVG of several that `picture` made, side by side in rows.

    >>> one = heat_map([[1.0]], ["a"], ["b"])
    >>> both = grid([[one, one]], "twice")
    >>> both.count("<svg"), _size(both)[0] == 2 * _size(one)[0], _size(both)[1] == _size(one)[1]
    (3, True, True)
    """
    body, width, height = [], 0.0, 0.0
    for row in rows:
        x, tallest = 0.0, 0.0
        for drawing in row:
            wide, tall = _size(drawing)
            body.append(f'<g transform="translate({number(x)} {number(height)})">\n{drawing}</g>')
            x, tallest = x + wide, max(tallest, tall)
        width, height = max(width, x), height + tallest
    return picture(body, width, height, title)


def _size(drawing: str) -> tuple[float, float]:
    """The width and height of an SVG that `picture` made."""
    found = _SIZE.match(drawing)
    if found is None:
        raise SpaceError(f"a grid takes pictures of `picture`, found {drawing[:40]!r}")
    return float(found[1]), float(found[2])


def signed_color(value: float, largest: float) -> str:
    """Return white at 0, red toward +largest, blue toward -largest, gray where undefined.

    >>> signed_color(0.0, 2.0), signed_color(2.0, 2.0), signed_color(-2.0, 2.0), signed_color(float("nan"), 2.0)
    ('#ffffff', '#b2182b', '#2166ac', '#d9d9d9')
    """
    if not np.isfinite(value):
        return _UNDEFINED
    part = min(1.0, abs(value) / largest) if largest else 0.0
    end = _ABOVE if value >= 0 else _BELOW
    return "#" + "".join(f"{round(a + (b - a) * part):02x}" for a, b in zip(_WHITE, end, strict=True))


def heat_map(
    values: ArrayLike,
    rows: Sequence[str],
    columns: Sequence[str],
    *,
    title: str = "",
    row_name: str = "",
    column_name: str = "",
) -> str:
    """Return an SVG of a matrix (rows, columns): red above zero, blue below, gray where undefined (NaN).

    Every cell carries its row, column and value as a tooltip. Raises SpaceError where labels and shape do not
    fit and SizeError above 250,000 cells.

    >>> svg = heat_map([[1.0, -2.0], [0.5, float("nan")]], ["a", "b"], ["x", "<y>"], title="signs")
    >>> svg.count("<rect"), "&lt;y&gt;" in svg, "b · &lt;y&gt;: undefined" in svg
    (5, True, True)
    """
    array = np.asarray(values, dtype=np.float64)
    if array.shape != (len(rows), len(columns)):
        raise SpaceError(
            f"a heat map of shape {array.shape} was given {len(rows)} row and {len(columns)} column labels"
        )
    if array.size > MAX_CELLS:
        raise SizeError(
            f"a heat map of {array.shape[0]:,} × {array.shape[1]:,} cells is beyond the limit of {MAX_CELLS:,}; "
            "draw a part of it"
        )
    return _HeatMap(array, tuple(rows), tuple(columns), title, row_name, column_name).svg()


@dataclass(frozen=True)
class _HeatMap:
    values: NDArray[np.float64]
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    title: str
    row_name: str
    column_name: str

    @property
    def side(self) -> float:
        """The side of a cell."""
        return float(np.clip(640 / max(1, *self.values.shape), 3, 22))

    @property
    def left(self) -> float:
        return 12 + 6.6 * max((len(name) for name in self.rows), default=0) + (16 if self.row_name else 0)

    @property
    def top(self) -> float:
        named = 16.0 * (bool(self.title) + bool(self.column_name))
        return 12 + named + 6.6 * max((len(name) for name in self.columns), default=0)

    @property
    def largest(self) -> float:
        finite = np.abs(self.values[np.isfinite(self.values)])
        return float(finite.max(initial=0.0))

    def svg(self) -> str:
        width = self.left + self.side * len(self.columns) + 90
        height = max(self.top + self.side * len(self.rows) + 12, self.top + 110)
        body = [*self._names(), *self._cells(), *self._legend(width)]
        return picture(body, max(width, 20 + 6.6 * len(self.title)), height, self.title or "heat map")

    def _names(self) -> Iterator[str]:
        if self.title:
            yield label(self.title, 12, 18, font_weight="bold")
        if self.column_name:
            yield label(self.column_name, self.left, 34 if self.title else 18, fill="#555555")
        if self.row_name:
            x, y = 14.0, self.top + self.side * len(self.rows) / 2
            turn = f"rotate(-90 {number(x)} {number(y)})"
            yield label(self.row_name, x, y, transform=turn, text_anchor="middle", fill="#555555")
        size = min(11.0, self.side)
        for i, name in enumerate(self.rows if self.side >= 7 else ()):
            y = self.top + self.side * (i + 0.5) + size / 3
            yield label(name, self.left - 4, y, text_anchor="end", font_size=size)
        for j, name in enumerate(self.columns if self.side >= 7 else ()):
            x, y = self.left + self.side * (j + 0.5) + size / 3, self.top - 4
            yield label(name, x, y, transform=f"rotate(-90 {number(x)} {number(y)})", font_size=size)

    def _cells(self) -> Iterator[str]:
        for i, row in enumerate(self.rows):
            for j, column in enumerate(self.columns):
                value = float(self.values[i, j])
                said = (
                    f"{row} · {column}: {value:.4g}" if np.isfinite(value) else f"{row} · {column}: undefined"
                )
                yield element(
                    "rect",
                    element("title", safe(said)),
                    x=self.left + self.side * j,
                    y=self.top + self.side * i,
                    width=self.side,
                    height=self.side,
                    fill=signed_color(value, self.largest),
                )

    def _legend(self, width: float) -> Iterator[str]:
        x, y, steps = width - 76, self.top, (1.0, 0.5, 0.0, -0.5, -1.0)
        finite = self.values[np.isfinite(self.values)]
        shown = steps if (finite < 0).any() else steps[:3]
        if not self.largest:
            return
        for i, step in enumerate(shown):
            fill = signed_color(step * self.largest, self.largest)
            yield f'<path d="M{number(x)} {number(y + 18 * i)}h12v18h-12z" fill="{fill}" stroke="#999999"/>'
            yield label(f"{step * self.largest:+.3g}", x + 17, y + 18 * i + 13)

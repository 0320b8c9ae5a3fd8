"""Bars on both sides of zero, one group a row, one bar a series: a table that can be seen."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..errors import SizeError, SpaceError
from .svg import element, label, number, picture, safe

MAX_ROWS = 2_000
"""How many rows a picture of bars may have."""

_WIDE, _BAR, _GAP = 380.0, 11.0, 5.0
_COLORS = (("#b2182b", "#2166ac"), ("#e08a94", "#8ab4dd"), ("#777777", "#bbbbbb"))
"""Above and below zero, by series."""


def bars(
    rows: Sequence[str],
    values: ArrayLike,
    series: Sequence[str] = (),
    *,
    title: str = "",
    signed: bool = True,
) -> str:
    """Return an SVG of horizontal bars: `values` (rows,) or (rows, series), red above zero, blue below.

    Amounts stand beside the bars with their sign, or without where none is meant (`signed=False`).

    Raises SpaceError where labels and shape do not fit, or for a value that is not finite, SizeError above 2,000 rows.

    >>> svg = bars(["a", "b"], [[1.0, 0.5], [-2.0, 0.0]], ["frozen", "live"], title="effects")
    >>> svg.count("<rect"), "b, frozen: -2" in svg
    (5, True)
    """
    array = np.asarray(values, dtype=np.float64)
    array = array[:, None] if array.ndim == 1 else array
    names = tuple(series) or ("",)
    if array.shape != (len(rows), len(names)) or not np.isfinite(array).all():
        raise SpaceError(
            f"bars of {len(rows)} rows and {len(names)} series are as many finite numbers; found shape {array.shape}"
        )
    if len(rows) > MAX_ROWS:
        raise SizeError(
            f"a picture of {len(rows):,} rows is beyond the limit of {MAX_ROWS:,}; draw the largest"
        )
    return _Bars(array, tuple(rows), names, title, "+" if signed else "").svg()


@dataclass(frozen=True)
class _Bars:
    values: NDArray[np.float64]
    rows: tuple[str, ...]
    series: tuple[str, ...]
    title: str
    sign: str

    @property
    def left(self) -> float:
        return 16 + 6.6 * max((len(row) for row in self.rows), default=0)

    @property
    def top(self) -> float:
        return 34.0 + 18 * (len(self.series) > 1)

    @property
    def high(self) -> float:
        """The height of a row."""
        return _BAR * len(self.series) + _GAP

    def x(self, value: float) -> float:
        low, high = min(0.0, self.values.min(initial=0.0)), max(0.0, self.values.max(initial=0.0))
        return self.left + _WIDE * float((value - low) / ((high - low) or 1.0))

    def svg(self) -> str:
        height = self.top + self.high * len(self.rows) + 12
        body = [*self._heads(), *self._bars(), *self._axis(height)]
        amounts = max((len(self._amounts(row)) for row in range(len(self.rows))), default=0)
        width = max(self.left + _WIDE + max(80, 10 + 5.4 * amounts), 24 + 6.6 * len(self.title))
        return picture(body, width, height, self.title or "bars")

    def _heads(self) -> Iterator[str]:
        if self.title:
            yield label(self.title, 12, 20, font_weight="bold")
        for k, name in enumerate(self.series if len(self.series) > 1 else ()):
            x = self.left + 110 * k
            for side in (0, 1):
                fill = _COLORS[k % len(_COLORS)][side]
                yield f'<path d="M{number(x + 9 * side)} 30h9v9h-9z" fill="{fill}"/>'
            yield label(name, x + 24, 38)

    def _bars(self) -> Iterator[str]:
        for row, name in enumerate(self.rows):
            y = self.top + self.high * row
            yield label(name, self.left - 6, y + self.high / 2 + 2, text_anchor="end")
            for k, value in enumerate(self.values[row]):
                yield self._bar(name, k, float(value), y + _BAR * k)
            yield self._amount(row, y)

    def _bar(self, name: str, k: int, value: float, y: float) -> str:
        said = (
            f"{name}, {self.series[k]}: {value:{self.sign}.4g}"
            if self.series[k]
            else f"{name}: {value:{self.sign}.4g}"
        )
        left, right = sorted((self.x(0.0), self.x(value)))
        fill = _COLORS[k % len(_COLORS)][int(value < 0)]
        return element(
            "rect", element("title", safe(said)), x=left, y=y, width=max(right - left, 0.3), height=_BAR - 1, fill=fill
        )  # fmt: skip

    def _amount(self, row: int, y: float) -> str:
        """The number beside the longest bar of a row."""
        values = self.values[row]
        return label(
            self._amounts(row),
            self.x(max(0.0, float(values.max(initial=0.0)))) + 4,
            y + self.high / 2 + 2,
            font_size=9,
        )

    def _amounts(self, row: int) -> str:
        """A row's numbers: three decimals, none where all of the picture are whole."""
        digits = 0 if np.array_equal(self.values, np.round(self.values)) else 3
        return " ".join(f"{round(value, 3) + 0.0:{self.sign}.{digits}f}" for value in self.values[row])

    def _axis(self, height: float) -> Iterator[str]:
        zero = self.x(0.0)
        yield element("line", x1=zero, y1=self.top - 3, x2=zero, y2=height - 8, stroke="#333333")

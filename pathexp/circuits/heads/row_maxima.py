"""In which rows of a product one chosen entry is the largest, found without the whole of most rows.

A row has lost as soon as one entry is above the chosen one. Columns are taken in growing blocks, and each block is
multiplied only for the rows that have not lost in those before, so that the cost follows the rows that win.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ...graph import Array

FIRST, WIDEST = 256, 8192
"""How many columns the first block has, which most rows do not survive, and how many the widest."""
ENTRIES = 2**22
"""How many entries are formed at a time."""


def maximum_at(
    left: Array, right: Array, columns: NDArray[np.int64], *, ties: bool, most: float | None = None
) -> NDArray[np.bool_]:
    """Return for each row i of left · right whether its entry at `columns[i]` is the largest of the row.

    `left` (m, r), `right` (r, V). `ties`: whether an entry that another equals counts as the largest. Entries are equal
    where rounding cannot tell them apart: 2 γ(r) ‖left_i‖₁ max|right| (Higham 2002, section 3.1); `most` is that maximum where
    it is known. A row with an entry that is
    no number has none. O(m r · 256 + wins · r V) where most rows lose at once, O(m r V) where none does.

    >>> left, right = np.array([[5.0, 1, 5], [9, 2, 0], [0, 0, 1]]), np.eye(3)
    >>> maximum_at(left, right, np.arange(3), ties=True).tolist()
    [True, False, True]
    >>> maximum_at(left, right, np.arange(3), ties=False).tolist()
    [False, False, True]
    """
    own = np.einsum("ir,ri->i", left, right[:, columns])
    margin = _rounding(left, len(right), largest_entry(right) if most is None else most)
    alive = np.arange(len(left))
    start, width = 0, FIRST
    while start < right.shape[1] and len(alive):
        block = right[:, start : start + width]
        step = max(1, ENTRIES // block.shape[1])
        rows = (alive[at : at + step] for at in range(0, len(alive), step))
        alive = np.concatenate(
            [
                some[_leads(left[some] @ block, columns[some] - start, own[some], margin[some], ties)]
                for some in rows
            ]
        )
        start, width = start + width, min(2 * width, WIDEST)
    found = np.zeros(len(left), dtype=np.bool_)
    found[alive] = True
    return found


def largest_entry(array: Array) -> float:
    """Return the largest absolute value of an array, without a copy of it; zero where there is none."""
    return float(max(array.max(initial=0.0), -array.min(initial=0.0)))


def _rounding(left: Array, inner: int, most: float) -> Array:
    """By how much two entries of a row may differ that are equal: each is off by γ(r) Σ|l||r|, or by the least numbers."""
    numbers = np.finfo(np.float64)
    unit = inner * numbers.eps / 2
    with np.errstate(over="ignore"):
        sizes = np.abs(left).sum(axis=1) * most
    return np.asarray(2 * (unit / (1 - unit) * sizes + inner * numbers.smallest_subnormal))


def _leads(entries: Array, at: NDArray[np.int64], own: Array, margin: Array, ties: bool) -> NDArray[np.bool_]:
    """Which rows have no entry above their own, or none that reaches it; their own one, where it is here, left out."""
    here = np.flatnonzero((at >= 0) & (at < entries.shape[1]))
    entries[here, at[here]] = -np.inf
    others = entries.max(axis=1)
    return np.asarray(others <= own + margin if ties else own > others + margin)

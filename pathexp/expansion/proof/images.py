"""What an operator makes of sets {L z : ‖z‖ ≤ 1}, one at each position: columns, and how far they may be off.

Columns that are more than their numbers are replaced by as many as there are numbers: R with R Rᵀ ⪰ V Vᵀ, so that all V z are
among the R w. What a head makes of a set has as many columns as its values have numbers.

A sum over positions Σ_j y_j, each y_j of columns B_j, is among what the columns B_j / √p_j make side by side, for any p_j above 0
that add up to at most one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import reduce
from typing import NamedTuple

import numpy as np

from ...algebra import Chain, LinearMap
from ...graph import Array, Factor, Operator, Step, is_local, word_map
from .evaluation import UP, applied, gamma, long, lost


class Image(NamedTuple):
    """Columns (n, d, r) and bounds `off` (n, d) on the lengths of what their rows are off by."""

    columns: Array
    off: Array


def images(operator: Operator, sets: Array) -> Iterator[Image]:
    """Yield what an operator makes of sets L (n, d, d); where a sum may be weighed in several ways, one for each.

    The search weighs the parts of a sum by what they are where positions are mixed.
    """
    if is_local(operator):
        yield _local(operator, sets)
    elif len(operator) == 1 and isinstance(operator[0], Step):
        yield _moved(operator[0], sets)
    else:
        yield from _mixed(operator, sets)


def _local(operator: Operator, sets: Array) -> Image:
    columns = applied(operator, np.ascontiguousarray(sets.transpose(2, 0, 1)))
    return Image(columns.transpose(1, 2, 0), lost(operator, long(sets)))


def _mixed(operator: Operator, sets: Array) -> Iterator[Image]:
    """Every position alone, weighed by what it is anywhere on the way."""
    alone = np.eye(len(sets))[:, :, None, None]
    apart = [np.ascontiguousarray((sets * here).transpose(2, 0, 1)) for here in alone]
    parts = _pushed(operator, apart)
    off = np.sum([lost(operator, long(sets) * here[..., 0]) for here in alone], axis=0) * UP
    for at in range(len(operator)):
        weights = _weights(_sizes(_pushed(operator[at:], apart)), _sizes(parts))
        columns = np.einsum("nj,jrnd->ndjr", weights, parts).reshape(*parts.shape[2:], -1)
        yield Image(columns, off + gamma(2) * long(columns))


def _pushed(operator: Operator, parts: Sequence[Array]) -> Array:
    return np.stack([applied(operator, part) for part in parts])


def _sizes(parts: Array) -> Array:
    """How large parts (j, r, n, d) are at each position, (n, j)."""
    return np.asarray(np.sqrt(np.einsum("jrnd,jrnd->nj", parts, parts)))


def _weights(sizes: Array, parts: Array) -> Array:
    """1 / √p, p in proportion to the sizes (n, j) of what is added up: infinite for a part that is something without a size."""
    total = sizes.sum(axis=1, keepdims=True) * UP
    none = np.where(parts != 0, np.inf, 0.0)
    return np.asarray(np.sqrt(np.divide(total, sizes, out=none, where=sizes > 0)))


def _moved(step: Step, sets: Array) -> Image:
    """One step that mixes positions: at its narrowest point they are weighed by what they are behind it, and summed."""
    maps = [map for factor in step.feature for map in factors_of(factor.numbers())]
    after, rows = _to_waist(maps, sets.transpose(0, 2, 1))
    rest, position = tuple(Factor("", *map.shape, map) for map in after), word_map(step.position)
    amounts = np.eye(len(sets)) if position is None else position.dense()
    written = _applied(after, rows)
    sizes = np.abs(amounts) * np.sqrt(np.einsum("jrd,jrd->j", written, written))
    parts = amounts * _weights(sizes, np.abs(amounts) * written.any(axis=(1, 2)))
    summed = compressed(np.einsum("nj,jrf->njrf", parts, rows).reshape(len(parts), -1, rows.shape[-1]))
    off = (
        lost((step,), long(sets))
        + lost((Step(step.position, rest),), long(rows.transpose(0, 2, 1)))
        + lost((Step((), rest),), long(summed.transpose(0, 2, 1)))
    )
    return Image(_applied(after, summed).transpose(0, 2, 1), off * UP)


def factors_of(map: LinearMap) -> Sequence[LinearMap]:
    """Return the factors of a product, the leftmost applied last; any other map alone."""
    return map.factors if isinstance(map, Chain) else (map,)


def _to_waist(maps: Sequence[LinearMap], rows: Array) -> tuple[Sequence[LinearMap], Array]:
    """The maps behind the narrowest point of a product, and what the others make of rows (..., r, d): no more than their numbers."""
    widths = [map.shape[0] for map in maps]
    waist = widths.index(min(widths)) if widths and min(widths) < rows.shape[-1] else len(maps)
    return maps[:waist], compressed(_applied(maps[waist:], rows))


def _applied(maps: Sequence[LinearMap], rows: Array) -> Array:
    return reduce(lambda made, map: np.asarray(map.apply(made)), reversed(maps), rows)


def compressed(rows: Array) -> Array:
    """Return as many rows as there are numbers (..., f, f) that make all that rows (..., r, f) make with ‖z‖ ≤ 1; fewer as they are.

    The Cholesky factor R of Vᵀ V + s I has R Rᵀ ⪰ Vᵀ V: both products are off by at most γ of the squares of all numbers
    (Higham 2002, theorem 10.3), and s is more than that.
    """
    count, size = rows.shape[-2:]
    if count <= size:
        return rows
    powers = np.frexp(np.abs(rows).max(axis=(-2, -1), keepdims=True))[1]
    unit = np.ldexp(rows, -powers)
    square = np.einsum("...rf,...rf->...", unit, unit)[..., None, None]
    shift = gamma(count + size + 64) * square + (square == 0)
    try:
        lower = np.linalg.cholesky(np.swapaxes(unit, -1, -2) @ unit + shift * np.eye(size))
    except np.linalg.LinAlgError:
        return np.full((*rows.shape[:-2], size, size), np.nan)
    return np.asarray(np.ldexp(np.swapaxes(lower, -1, -2) * (square > 0), powers))

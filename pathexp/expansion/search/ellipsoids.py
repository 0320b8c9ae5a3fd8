"""Ellipsoids that hold every vector of a set: images, sums and unions, batched over positions.

An ellipsoid is {y : yᵀ P⁻¹ y ≤ 1} with P positive definite, so that |⟨r, y⟩| ≤ √(rᵀ P r) for all of its points.
All arrays have leading batch axes.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...graph import Action, Array, Gate, Operator, Parallel, is_local, word_map
from ...workers import each, for_each
from .rounding import gamma
from .unions import PAD, PANEL, kind, union

SLIVER = 1e-8
"""The share of a set's mean square that is added in every direction, so that P has an inverse."""


def mean_square(shape: Array) -> Array:
    """The mean eigenvalue of ellipsoids (..., d, d)."""
    return np.asarray(np.trace(shape, axis1=-2, axis2=-1) / shape.shape[-1])


def thickened(shape: Array, floor: Array | float = 0.0) -> Array:
    """Ellipsoids with a sliver of the identity added, at least `floor` thick."""
    thick = shape.copy()
    np.einsum("...ii->...i", thick)[...] += _sliver(shape, floor)[..., None]
    return thick


def _sliver(shape: Array, floor: Array | float) -> Array:
    """What is added in every direction to ellipsoids that are at least `floor` thick."""
    least = max(SLIVER, 4 * shape.shape[-1] * gamma(shape.shape[-1]))
    return np.asarray(least * np.maximum(mean_square(shape), floor) + np.finfo(np.float64).tiny * 1e50)


def padded(shape: Array, off: Array | float, terms: int) -> Array:
    """Ellipsoids that hold B Bᵀ for a B that is off by at most `off` (...) in norm from the one that made the shapes.

    (B + Δ)(B + Δ)ᵀ ⪯ (1 + t) B Bᵀ + (1 + 1/t) ‖Δ‖² for any t; here t is `PAD`. The rounding of sums of so many terms,
    γ of the trace, is added as well.
    """
    wide = shape * PADDED
    np.einsum("...ii->...i", wide)[...] += _room(shape, off, terms)[..., None]
    return wide


PADDED = 1 + 4 * PAD
"""By what padded ellipsoids are multiplied."""


def _room(shape: Array, off: Array | float, terms: int) -> Array:
    """What is added in every direction to padded ellipsoids."""
    return np.asarray(2 / PAD * np.square(off) + 2 * gamma(terms) * np.trace(shape, axis1=-2, axis2=-1))


def factor(shape: Array) -> Array:
    """B with B Bᵀ ⪰ P, a sliver thicker: more than a Cholesky factorization loses, γ of the trace (Higham 2002, §10.1)."""
    return np.asarray(np.linalg.cholesky(thickened(shape)))


def factors(shape: Array) -> Array:
    """The same for large ellipsoids (n, d, d), position by position."""
    found = np.empty_like(shape)

    def work(at: int) -> None:
        found[at] = factor(shape[at])

    for_each(work, len(shape))
    return found


def summed(shapes: Array, amounts: Array, metric: Array) -> Array:
    """Minkowski sums: for each query i an ellipsoid that holds Σ_j amounts[i, j] y_j for all y_j in shapes[j].

    shapes (..., n, r, r), amounts (..., n, n), metric (..., r, r) by which sizes are measured. The weights
    p_j of the sum are in proportion to each summand's size, which makes the trace smallest.
    """
    sizes = np.sqrt(np.maximum(np.einsum("...jab,...ab->...j", shapes, metric), 0.0))
    sizes = np.maximum(sizes, np.finfo(np.float64).tiny ** 0.25)
    total = np.einsum("...ij,...j->...i", np.abs(amounts), sizes)
    shares = np.abs(amounts) * total[..., None] / sizes[..., None, :]
    n, r = shapes.shape[-3], shapes.shape[-1]
    flat = shares @ shapes.reshape(*shapes.shape[:-3], n, r * r)
    return padded(flat.reshape(*flat.shape[:-1], r, r), 0.0, n + 16)


def with_points(shape: Array, points: Array) -> Array:
    """Ellipsoids (..., r, r) grown to hold the points (E, ..., r) as well."""
    if not len(points):
        return shape
    floor = np.max(np.sum(points * points, axis=-1), axis=0) / shape.shape[-1]
    shape = thickened(shape, floor)
    inverse: Array = np.linalg.inv(shape).astype(np.float64, copy=False)
    order = np.argsort(-np.sum(points.reshape(len(points), -1) ** 2, axis=1), kind="stable")
    for point in points[order]:
        size = np.sum((inverse @ point[..., None])[..., 0] * point, axis=-1)
        out = np.nonzero(size > 1)
        if len(out[0]):
            shape[out], inverse[out] = _with_point(shape[out], inverse[out], point[out])
    return shape * _excess(shape, points)[..., None, None]


def _with_point(shape: Array, inverse: Array, point: Array) -> tuple[Array, Array]:
    """Ellipsoids (M, r, r), their inverses, and one point outside of each, (M, r): the same, grown to hold it."""
    image = (inverse @ point[..., None])[..., 0]
    size = np.sum(image * point, axis=-1)
    grow = 1 - 1 / size
    shrink = grow / (1 + grow * size)
    shape = shape + (grow[:, None] * point)[:, :, None] * point[:, None, :]
    return shape, inverse - (shrink[:, None] * image)[:, :, None] * image[:, None, :]


def _excess(shape: Array, points: Array) -> Array:
    """By how much ellipsoids must grow to hold the points in spite of rounding, at least 1.

    With P x = p − e for what is computed, pᵀ P⁻¹ p ≤ xᵀ p + ‖x‖ ‖e‖ + ‖e‖² / σ, σ the sliver that P is thick at least.
    """
    ends = np.moveaxis(points, 0, -1)
    images = np.linalg.solve(shape, ends)
    long, far = (np.sqrt(np.sum(part * part, axis=-2)) for part in (images, ends))
    around = np.sqrt(np.sum(shape * shape, axis=(-2, -1)))[..., None]
    rest = np.sqrt(np.sum((ends - shape @ images) ** 2, axis=-2))
    rest = rest + gamma(2 * shape.shape[-1]) * (around * long + far)
    thin = (SLIVER / 2 * mean_square(shape) / (1 + len(points)))[..., None]
    sizes = (
        np.sum(images * ends, axis=-2) + long * rest + gamma(shape.shape[-1]) * long * far + rest**2 / thin
    )
    return np.asarray(np.maximum(sizes.max(axis=-1), 1.0) * (1 + 1e-9))


def united(
    shape: Array, parts: Sequence[Array], known: Array | None = None, off: Sequence[Array] = ()
) -> Array:
    """Ellipsoids (n, d, d) grown to hold B Bᵀ as well for every B (n, d, r) of `parts`, each off by `off` (n,) at most.

    For one B with λ, v the eigenpairs of Bᵀ P⁻¹ B the union is P + Σ_{λ>1} (1 − 1/λ) (B v)(B v)ᵀ. All parts go in
    one after the other in coordinates in which the set so far is a ball (the square-root form: where P is thin
    its inverse is large, and differences of Gram matrices would lose the small ones). P is factored once, or not at
    all if its factor is known. Single points come last. Positions are done one by one: one fits the cache.

    What rounding spoils is measured on the way (residuals of the solve, how far axes are from orthonormal), and
    the result grows by as much (`unions`).
    """
    if not parts:
        return shape
    blurred = [np.zeros(len(shape))] * len(parts) if not len(off) else list(off)
    squares = _squares(parts)
    order = sorted(range(len(parts)), key=lambda at: (kind(parts[at]), -float(squares[at].sum())))
    parts, blur = [parts[at] for at in order], np.stack([blurred[at] for at in order])
    floor = squares.max(axis=0) / shape.shape[-1]
    if np.any(floor > mean_square(shape)):
        known = None
    share, room = loosened(blur, np.maximum(mean_square(shape), floor))
    grown = np.empty_like(shape)

    def work(at: int) -> None:
        least = 0.0 if known is not None else float(floor[at])
        triangle = np.asarray(np.linalg.cholesky(thickened(shape[at], least)) if known is None else known[at])
        added = union(triangle, [part[at] * share[place, at] for place, part in enumerate(parts)])
        ball, terms = grown[at], len(shape[at]) + added.columns.shape[1]
        diagonal = np.einsum("ii->i", ball)
        np.matmul(added.columns, added.columns.T, out=ball)
        ball += shape[at]
        diagonal += _sliver(shape[at], least)
        wide = _room(ball, 2 * added.off, terms)
        ball *= added.growth * PADDED
        diagonal += added.growth * wide + room[at]

    for_each(work, len(shape))
    return grown


def _squares(parts: Sequence[Array]) -> Array:
    """Squares of the Frobenius norms of parts (n, d, r): (P, n)."""
    found = np.empty((len(parts), len(parts[0])))

    def work(at: int) -> None:
        np.einsum("ndr,ndr->n", parts[at], parts[at], out=found[at])

    each(work, len(parts), 16 * sum(part.size for part in parts))  # read once, from memory
    return found


FAINT = 1e-7
"""A share of a set's mean size at which nothing grows by more than by its sliver."""


def loosened(off: Array, square: Array) -> tuple[Array, Array]:
    """By what to multiply parts (P, n) that are `off` by at most, and what to add in every direction (n,) to hold them.

    (B + Δ)(B + Δ)ᵀ ⪯ (1 + t) B Bᵀ + (1 + 1/t) ‖Δ‖² for any t; thirty times as much is added, so that who makes the parts
    anew with errors a few times as large (`proof`) finds them inside as well. What is off by a thousandth of a set's mean size √`square` (n,) would
    fill all of its thin directions if t were as small as `PAD`, so t is ten times that share. Up to `FAINT` of that size
    every part is taken to be off by as much as any; and where a set is smaller than what it is off by, t does not matter.
    """
    off = np.maximum(off, np.minimum(off.max(axis=0), FAINT * np.sqrt(square)))
    size = np.sqrt(square) + np.finfo(np.float64).tiny
    share = np.where(off < size, np.clip(10 * off / size, PAD, 2.0**-4), PAD)
    room = 32 * np.max((1 + 1 / share) * np.square(off), axis=0)
    return np.sqrt(1 + share) * (1 + 1e-12), room * (1 + 1e-12)


def times_triangle(rows: Array, triangle: Array) -> Array:
    """R L for rows R (m, d) and a lower triangle L (d, d), without most of its zeros."""
    found = np.empty((len(rows), len(triangle)))
    for at in range(0, len(triangle), PANEL):
        columns = slice(at, at + PANEL)
        found[:, columns] = rows[:, at:] @ triangle[at:, columns]
    return found


def carried(operator: Operator, parts: Array) -> Array:
    """The image of ellipsoids under an operator: factors B (n, d, r) with P = B Bᵀ to factors (n, f, r)."""
    for part in reversed(operator):
        if isinstance(part, Action | Parallel):
            parts = part.image(parts) if isinstance(part, Action) else _together(part, parts)
            continue
        if isinstance(part, Gate):
            parts = part.numbers()[:, :, None] * parts
            continue
        feature, position = word_map(part.feature), word_map(part.position)
        if feature is not None:
            parts = feature.apply(parts.transpose(0, 2, 1)).transpose(0, 2, 1)
        if position is not None:
            parts = _mixed(position.dense(), parts)
    return parts


def _together(part: Parallel, parts: Array) -> Array:
    """Images under operators side by side: added where every position keeps to itself, else as a sum of sets."""
    images = [carried(term, parts) for term in part.terms]
    if all(map(is_local, part.terms)):
        return np.asarray(np.sum(images, axis=0))
    return np.asarray(np.concatenate(images, axis=-1) * np.sqrt(len(images)))


def _mixed(amounts: Array, parts: Array) -> Array:
    """Factors (n, f, r) moved between positions: scaled if each stays where it is, else summed."""
    if not np.any(amounts - np.diag(np.diag(amounts))) and amounts.shape[0] == amounts.shape[1]:
        return np.diag(amounts)[:, None, None] * parts
    shapes = parts @ parts.transpose(0, 2, 1)
    return factor(summed(shapes, amounts, np.eye(shapes.shape[-1])))

"""Inclusions in ellipsoids: what is certified is true in exact arithmetic, and what is well inside is certified."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from pathexp.expansion.proof.evaluation import Sure
from pathexp.expansion.proof.inclusion import Enclosure

Matrix = list[list[Fraction]]


def exactly(array) -> Matrix:
    return [[Fraction(float(x)) for x in row] for row in np.atleast_2d(array)]


def solved(axes: Matrix, columns: Matrix) -> Matrix | None:
    """L⁻¹ B by elimination in rationals; None for what has no inverse."""
    d = len(axes)
    rows = [axes[i] + columns[i] for i in range(d)]
    for at in range(d):
        pivot = next((i for i in range(at, d) if rows[i][at]), None)
        if pivot is None:
            return None
        rows[at], rows[pivot] = rows[pivot], rows[at]
        for i in range(d):
            if i != at and rows[i][at]:
                share = rows[i][at] / rows[at][at]
                rows[i] = [a - share * b for a, b in zip(rows[i], rows[at], strict=True)]
    return [[value / rows[i][i] for value in rows[i][d:]] for i in range(d)]


def is_semidefinite(matrix: Matrix) -> bool:
    """Whether a symmetric matrix has no eigenvalue below zero: elimination leaves no pivot below zero."""
    rest = [row[:] for row in matrix]
    while rest:
        pivot = rest[0][0]
        if pivot < 0 or (pivot == 0 and any(rest[0])):
            return False
        if pivot:
            rest = [[a - row[0] * b / pivot for a, b in zip(row, rest[0], strict=True)] for row in rest]
        rest = [row[1:] for row in rest[1:]]
    return True


def is_inside(axes, columns) -> bool:
    """Whether all B z with ‖z‖ ≤ 1 are among the L z, exactly."""
    y = solved(exactly(axes), exactly(columns))
    if y is None:
        return False
    r = len(y[0])
    gram = [[sum(row[i] * row[j] for row in y) for j in range(r)] for i in range(r)]
    return is_semidefinite([[(i == j) - gram[i][j] for j in range(r)] for i in range(r)])


def axes_of(kind, rng, d):
    """L of some kind: full, thin in some directions, of coordinates of many sizes, cancelling, tiny, huge."""
    full = rng.standard_normal((d, d))
    turned = np.linalg.qr(full)[0]
    match kind:
        case "triangle":
            return np.tril(full) + np.eye(d)
        case "thin":
            return turned * 2.0 ** -rng.integers(0, 30, d)
        case "scaled":
            return full * 2.0 ** rng.integers(-40, 40, d)[:, None]
        case "cancelling":
            return np.tril(full) + 2.0**26 * np.outer(rng.standard_normal(d), rng.standard_normal(d))
        case "denormal":
            return turned * 2.0**-1050
        case "tiny":
            return full * 2.0**-520
        case "huge":
            return full * 2.0**500
        case "largest":
            return np.tril(full) * 2.0**1020
        case "flat":
            return np.outer(full[0], full[-1]) + 0.0 * full
    return full


KINDS = ("full", "triangle", "thin", "scaled", "cancelling", "denormal", "tiny", "huge", "largest", "flat")


def held_point(axes, x, off=None, far=None) -> bool:
    value = np.asarray(x)[None, None]
    off = np.zeros_like(value) if off is None else np.asarray(off)[None, None]
    with np.errstate(all="ignore"):
        return bool(
            Enclosure(axes[None]).holds_points(Sure(value, off, None if far is None else np.array([[far]])))[
                0
            ]
        )


def held_columns(axes, columns, off=None) -> bool:
    off = np.zeros(len(axes)) if off is None else off
    with np.errstate(all="ignore"):
        return Enclosure(axes[None]).holds_columns(columns[None], off[None])


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("kind", KINDS)
def test_no_point_outside_is_held(kind, seed):
    """On both sides of a set's surface, as near to it as numbers allow, by exact rationals."""
    rng = np.random.default_rng(seed)
    d = int(rng.integers(1, 6))
    axes = axes_of(kind, rng, d)
    for power in (1, 6, 12, 20, 28, 36, 45, 52):
        z = rng.standard_normal(d)
        for sign in (-1, 1):
            with np.errstate(all="ignore"):
                x = axes @ (z / np.linalg.norm(z) * (1 + sign * 2.0**-power))
            held = held_point(axes, x)
            if not np.isfinite(x).all():
                assert not held
                continue
            assert not held or is_inside(axes, x[:, None])
            assert held_columns(axes, x[:, None]) <= is_inside(axes, x[:, None])


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("kind", KINDS)
def test_no_columns_that_reach_outside_are_held(kind, seed):
    rng = np.random.default_rng(100 + seed)
    d, r = int(rng.integers(1, 5)), int(rng.integers(1, 5))
    axes = axes_of(kind, rng, d)
    y = rng.standard_normal((d, r))
    y /= np.linalg.norm(y, 2)
    for power in (1, 6, 12, 20, 28, 36, 45, 52):
        for sign in (-1, 1):
            with np.errstate(all="ignore"):
                columns = axes @ (y * (1 + sign * 2.0**-power))
            if np.isfinite(columns).all():
                assert held_columns(axes, columns) <= is_inside(axes, columns)


@pytest.mark.parametrize("seed", range(40))
def test_whatever_a_point_is_off_by_is_held_with_it(seed):
    """Every corner of the box of errors, and the longest error along each axis of the set."""
    rng = np.random.default_rng(seed)
    d = int(rng.integers(1, 5))
    axes = axes_of(rng.choice(["full", "triangle", "thin", "scaled"]), rng, d)
    z = rng.standard_normal(d)
    x = axes @ (z / np.linalg.norm(z) * (1 - 2.0 ** -int(rng.integers(1, 30))))
    off = np.abs(rng.standard_normal(d)) * 2.0 ** -int(rng.integers(0, 50)) * np.abs(axes).max(axis=1)
    if held_point(axes, x, off):
        for corner in np.stack(np.meshgrid(*[[-1.0, 1.0]] * d), axis=-1).reshape(-1, d):
            moved = [[Fraction(a) + Fraction(b)] for a, b in zip(x, corner * off, strict=True)]
            assert is_semidefinite_inside(axes, moved)
    far = float(np.linalg.norm(off))
    if held_point(axes, x, np.full(d, np.inf), far):
        for direction in np.linalg.svd(axes)[0].T:
            for sign in (-0.999999, 0.999999):
                moved = [[Fraction(a) + Fraction(b)] for a, b in zip(x, sign * far * direction, strict=True)]
                assert is_semidefinite_inside(axes, moved)


def is_semidefinite_inside(axes, point: Matrix) -> bool:
    z = solved(exactly(axes), point)
    return z is not None and sum(row[0] ** 2 for row in z) <= 1


@pytest.mark.parametrize("size", [1e-290, 1e-100, 1.0, 1e100, 1e290])
@pytest.mark.parametrize("d", [1, 5, 60])
def test_what_is_well_inside_is_held_whatever_the_size(size, d):
    rng = np.random.default_rng(d)
    axes = np.diag(10.0 ** rng.integers(-4, 4, d)) @ np.linalg.qr(rng.standard_normal((d, d)))[0] * size
    assert held_columns(axes, 0.999 * axes) and not held_columns(axes, 1.001 * axes)
    assert not held_columns(axes, axes), "what is equal is not proven to be inside"
    z = np.linalg.qr(rng.standard_normal((d, d)))[0][0]
    assert held_point(axes, axes @ z * 0.999) and not held_point(axes, axes @ z * 1.001)
    assert held_point(axes, axes @ z * 0.9, off=1e-9 * np.abs(axes).max(axis=1))
    assert not held_point(axes, axes @ z * 0.9, off=np.full(d, 1e6 * size))


def test_errors_of_most_of_what_a_thin_set_has_room_for_are_held():
    """A ridge takes what it needs of the thin directions, and next to nothing of the others."""
    thin = np.diag([1.0, 1.0, 1e-3])
    x = np.array([1 - 1e-4, 0.0, 0.0])
    for error, held in ((1e-9, True), (1e-7, True), (1e-6, True), (5e-6, True), (1e-3, False), (1e-2, False)):
        assert held_point(thin, x, far=error, off=np.full(3, error)) == held, error
        assert held_columns(thin, x[:, None], np.array([0.0, 0.0, error])) == held, error
    edge = np.array([0.0, 0.0, 0.999e-3])
    assert held_point(thin, edge) and not held_point(thin, edge, far=1e-5, off=np.full(3, 1e-5))


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_what_is_not_finite_is_neither_held_nor_holds(bad):
    axes, inside = np.eye(3), np.array([0.1, 0.2, 0.3])
    broken = inside.copy()
    broken[1] = bad
    assert held_point(axes, inside) and not held_point(axes, broken)
    assert not held_point(axes, inside, off=np.array([0.0, bad, 0.0]), far=bad)
    assert not held_columns(axes, broken[:, None]) and not held_columns(
        axes, inside[:, None], np.abs(broken) * np.inf
    )
    holed = np.eye(3)
    holed[2, 0] = bad
    assert not held_point(holed, 0 * inside) and not held_columns(holed, 0 * inside[:, None])


def test_sets_without_room_in_some_direction_hold_nothing():
    for axes in (np.zeros((3, 3)), np.diag([1.0, 1.0, 0.0]), np.full((3, 3), 5e-324)):
        assert not held_point(axes, np.zeros(3)) and not held_columns(axes, np.zeros((3, 1)))


def test_a_point_is_held_only_if_it_is_at_every_position():
    axes = np.stack([np.eye(2), 0.1 * np.eye(2)])
    points = np.zeros((3, 2, 2))
    points[1, 0], points[2, 1] = 0.5, 0.5
    found = Enclosure(axes).holds_points(Sure.exactly(points))
    assert found.tolist() == [True, True, False]
    columns = points.transpose(1, 2, 0)
    assert Enclosure(axes).holds_columns(columns[:, :, :2], np.zeros((2, 2)))
    assert not Enclosure(axes).holds_columns(columns, np.zeros((2, 2)))


def test_points_of_very_different_errors_are_judged_each_by_its_own():
    axes = np.diag([1.0, 1e-3])
    value = np.array([[1 - 1e-6, 0.0], [0.0, 0.0], [0.0, 0.9999e-3]])
    off = np.array([[1e-13] * 2, [3e-4] * 2, [0.0] * 2])
    assert Enclosure(axes[None]).holds_points(Sure(value[:, None], off[:, None])).all()

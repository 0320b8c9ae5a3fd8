"""What operators make of sets, and how much longer they make vectors: no point and no vector is left out."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

import pathexp as px
from pathexp.algebra import Dense, Diagonal, Space, compose
from pathexp.expansion.proof.evaluation import Sure, pushed, stacked
from pathexp.expansion.proof.images import compressed, images
from pathexp.expansion.proof.inclusion import Enclosure
from pathexp.expansion.proof.stretch import stretch
from pathexp.graph import Factor, Gate, Step, push
from tests.zoo import ZOO

RNG = np.random.default_rng(0)
N, D = 3, 6


def factor(name, array):
    rows, columns = array.shape
    return Factor(name, rows, columns, Dense(array, Space("to", rows), Space("from", columns)))


def narrow(width, size=1.0):
    """A map of D numbers through fewer."""
    between, outer = Space("v", width), Space("d", D)
    write = Dense(size * RNG.standard_normal((D, width)), outer, between)
    return Factor("W", D, D, compose(write, Dense(RNG.standard_normal((width, D)), between, outer)))


def scales(count):
    return Factor("S", count, count, Diagonal(RNG.uniform(0.5, 2.0, count), Space("from", count)))


OPERATORS = {
    "head": (Step((factor("A", np.tril(RNG.uniform(0, 1, (N, N)))), scales(N)), (narrow(2),)),),
    "wide head": (
        Step((factor("A", RNG.standard_normal((N, N))),), (factor("W", RNG.standard_normal((D, D))),)),
    ),
    "mixing alone": (Step((factor("A", RNG.standard_normal((N, N))),), ()),),
    "to fewer numbers": (Step((factor("A", np.ones((N, N))),), (factor("W", RNG.standard_normal((2, D))),)),),
    "nothing of one position": (Step((factor("A", np.diag([1.0, 0.0], -1) + np.eye(N)),), (narrow(3),)),),
    "mlp": (
        Step((), (factor("out", RNG.standard_normal((D, 9))),)),
        Gate("g", N, 9, RNG.standard_normal((N, 9))),
        Step((scales(N),), (factor("in", RNG.standard_normal((9, D))),)),
    ),
    "two that mix": (
        Step((factor("A", RNG.standard_normal((N, N))),), (narrow(2),)),
        Gate("g", N, D, RNG.standard_normal((N, D))),
        Step((factor("B", RNG.standard_normal((N, N))),), (narrow(4),)),
    ),
}


def drawn_sets(rng):
    return np.tril(rng.standard_normal((N, D, D))) * 2.0 ** rng.integers(-8, 8, (N, D, 1))


@pytest.mark.parametrize("name", OPERATORS)
def test_images_reach_as_far_as_what_an_operator_makes_of_sets(name):
    """Along any direction a set reaches to ‖Lᵀ r‖: what may come from all positions together is nowhere beyond the columns."""
    operator, rng = OPERATORS[name], np.random.default_rng(1)
    sets = drawn_sets(rng)
    every = list(images(operator, sets))
    assert every
    eyes = np.eye(N * D).reshape(N * D, N, D)
    matrix = push(operator, eyes)  # (from, n, d)
    for at in range(N):
        whole = matrix[:, at].reshape(N, D, -1)
        for r in rng.standard_normal((50, whole.shape[-1])):
            reach = sum(np.linalg.norm(sets[j].T @ whole[j] @ r) for j in range(N))
            for image in every:
                found = np.linalg.norm(image.columns[at].T @ r) + image.off[at] @ np.abs(r)
                assert found >= reach * (1 - 1e-12)
    assert all(np.all(image.off < 1e-8 * (1 + np.abs(image.columns).max())) for image in every)


@pytest.mark.parametrize("name", OPERATORS)
def test_images_of_points_of_sets_are_held_wherever_the_images_are(name):
    operator, rng = OPERATORS[name], np.random.default_rng(2)
    sets = drawn_sets(rng)
    z = rng.standard_normal((40, N, D))
    x = np.einsum("nde,mne->mnd", sets, z / np.linalg.norm(z, axis=-1, keepdims=True))
    points = pushed(operator, Sure.exactly(x))
    for image in images(operator, sets):
        width = image.columns.shape[1]
        shapes = image.columns @ image.columns.transpose(0, 2, 1)
        thick = shapes * (1 + 1e-6) + 1e-5 * np.trace(shapes, axis1=1, axis2=2)[:, None, None] * np.eye(width)
        outer = Enclosure(np.linalg.cholesky(thick + 1e-30 * np.eye(width)))
        assert outer.holds_columns(image.columns, image.off) and outer.holds_points(points).all()
        assert not Enclosure(0.9 * outer.axes).holds_columns(image.columns, image.off)


def test_what_writes_nothing_is_in_any_set():
    """It has values all the same: what counts is what is behind them."""
    operator = (Step((factor("A", np.ones((N, N))),), (narrow(2, 0.0),)),)
    (image,) = images(operator, drawn_sets(np.random.default_rng(0)))
    assert not image.columns.any() and image.off.max() < 1e-280
    assert Enclosure(np.broadcast_to(1e-9 * np.eye(D), (N, D, D))).holds_columns(image.columns, image.off)


def test_no_more_columns_than_a_head_has_values():
    for name, width in (
        ("head", 2),
        ("wide head", D),
        ("to fewer numbers", 2),
        ("nothing of one position", 3),
    ):
        (image,) = images(OPERATORS[name], drawn_sets(np.random.default_rng(0)))
        assert image.columns.shape[2] == width, name


def test_a_part_of_a_sum_that_has_no_size_is_not_dropped():
    """Squares that underflow are no proof that nothing is there: in thin sets around it nothing is held."""
    operator = (Step((factor("A", np.array([[1.0, 1e-170], [0.0, 1.0]])),), ()),)
    sets = np.stack([np.eye(2), 1e-5 * np.eye(2)])
    (image,) = images(operator, sets)
    assert np.isinf(image.columns[0]).any() or (image.columns[0] ** 2).sum() >= 2
    with np.errstate(all="ignore"):
        assert not Enclosure(sets).holds_columns(image.columns, image.off)


@pytest.mark.parametrize("power", [-1060, -500, 0, 400, 500])
def test_as_few_rows_as_numbers_make_all_that_more_rows_make(power):
    """Exactly: Rᵀ R − Vᵀ V has no eigenvalue below zero, or below what the least of all numbers is wrong by."""
    from tests.expansion.test_inclusion import is_semidefinite

    rng = np.random.default_rng(0)
    for rank in (1, 2, 3):
        rows = rng.standard_normal((7, rank)) @ rng.standard_normal((rank, 3)) * 2.0**power
        found = compressed(rows)
        assert found.shape == (3, 3)
        exact, made = ([[Fraction(x) for x in row] for row in array.tolist()] for array in (rows, found))
        gap = [
            [sum(r[i] * r[j] for r in made) - sum(r[i] * r[j] for r in exact) for j in range(3)]
            for i in range(3)
        ]
        for at in range(3):
            gap[at][at] += Fraction(1e-300) ** 2
        assert is_semidefinite(gap)
        assert np.linalg.norm(found) <= (1 + 1e-6) * np.linalg.norm(rows)


def test_rows_that_are_few_or_nothing_stay_as_they_are():
    few = np.ones((2, 3))
    assert compressed(few) is few
    assert not compressed(np.zeros((4, 5, 3))).any()
    with np.errstate(all="ignore"):
        for bad in (np.nan, np.inf):
            assert not np.isfinite(compressed(np.full((5, 3), bad))).all(axis=1).any()


@pytest.mark.parametrize("name", OPERATORS)
def test_no_vector_grows_more_than_by_the_stretch(name):
    operator = OPERATORS[name]
    found = stretch(operator, N, D)
    if name == "two that mix":
        assert found is None
        return
    assert found is not None and found.shape == (N, N)
    eyes = np.eye(N * D).reshape(N * D, N, D)
    matrix = push(operator, eyes).reshape(N, D, N, -1)
    exact = np.array([[np.linalg.norm(matrix[j, :, i], 2) for j in range(N)] for i in range(N)])
    assert np.all(found >= exact) and np.all(found <= exact * D**0.125 * 1.01 + 1e-12)


def test_the_stretch_of_nothing_and_of_numbers_beyond_range():
    nothing = (Step((), (factor("W", np.zeros((D, D))),)),)
    assert np.all(stretch(nothing, N, D) < 1e-100)
    with np.errstate(all="ignore"):
        assert np.isinf(np.diag(stretch((Step((), (factor("W", np.full((D, D), 1e200)),)),), N, D))).all()


@pytest.mark.parametrize("name", ["head", "mlp", "wide head"])
def test_errors_carried_by_norms_hold_all_that_inputs_may_be_off_by(name):
    """In rationals: whatever a stream is off by within its bounds, what is computed of it is within those behind."""
    operator, rng = OPERATORS[name], np.random.default_rng(3)
    x, by = rng.standard_normal((5, N, D)), stretch(operator, N, D)
    far = 2.0 ** -rng.integers(5, 45, (5, N)).astype(float)
    sure = Sure(x, np.full_like(x, np.inf), far)
    with np.errstate(all="ignore"):
        found = pushed(operator, sure, by)
    assert np.all(found.off <= found.errors[..., None])
    e = rng.standard_normal((200, 5, N, D))
    e *= (far / np.linalg.norm(e, axis=-1))[..., None]
    moved = push(operator, x + e) - found.value
    assert np.all(np.linalg.norm(moved, axis=-1) <= found.errors * (1 + 1e-9) + 1e-13)
    crude = pushed(operator, Sure(x, np.broadcast_to(far[..., None], x.shape)))
    assert np.all(crude.errors >= pushed(operator, Sure(x, crude.off * 0 + far[..., None], far), by).errors)


def test_norms_carry_errors_further_than_absolute_values_do():
    """Through twelve random maps of either sign absolute values grow as 2ᵏ where vectors hardly do."""
    rng, d = np.random.default_rng(0), 64
    maps = [(Step((), (factor("W", rng.standard_normal((d, d)) / d**0.5),)),) for _ in range(12)]
    crude = fine = stacked([Sure.exactly(rng.standard_normal((1, d)))])
    for operator in maps:
        crude, fine = pushed(operator, crude), pushed(operator, fine, stretch(operator, 1, d))
    assert fine.errors[0, 0] < 1e-4 * crude.errors[0, 0]


def test_known_beginnings_of_a_model_are_made_as_one_by_one():
    """All of them together through an operator are what each alone is, and no worse known."""
    trace = ZOO["3L-layernorm"]().run([1, 2, 3])
    graph = px.freeze(trace)
    n, d, _ = graph.sizes
    rng = np.random.default_rng(0)
    every = Sure.exactly(rng.standard_normal((5, n, d)))
    for component in graph.components():
        together = pushed(component.operator, every, stretch(component.operator, n, d))
        for at in range(5):
            alone = pushed(component.operator, every.at(at))
            assert np.all(np.abs(alone.value - together.value[at]) <= alone.off + together.off[at])
            assert np.all(together.off[at] <= alone.off * (1 + 1e-9))

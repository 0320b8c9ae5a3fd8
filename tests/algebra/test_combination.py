"""How maps combine: what is simplified, what is left factored, and how the result reads."""

import tracemalloc

import numpy as np
import pytest

from pathexp.algebra import (
    Chain,
    Dense,
    Diagonal,
    Identity,
    Kron,
    LinearMap,
    Scaled,
    Space,
    Sum,
    Zero,
    add,
    compose,
    diagonal,
    eigenvalues,
    norm,
    operations,
    rank,
    scale,
    singular_values,
    svd,
    tensor,
    top_entries,
    trace,
    waist,
)

VOCAB, MODEL, HEAD, POSITION = (
    Space("vocab", 1024),
    Space("model", 32),
    Space("head", 16),
    Space("position", 5),
)


def named(name, target, source):
    values = np.random.default_rng(sum(map(ord, name))).normal(size=(target.size, source.size))
    return Dense(values, target, source, name=name)


W_U, W_E = named("W_U", VOCAB, MODEL), named("W_E", MODEL, VOCAB)
W_O, W_V = named("W_O", MODEL, HEAD), named("W_V", HEAD, MODEL)
A, B = named("A", POSITION, POSITION), named("B", POSITION, POSITION)
G = Diagonal(np.arange(1.0, 33.0), MODEL, name="G")


def test_repr_reads_as_the_formula():
    assert repr(W_U @ W_O @ W_V @ W_E) == "W_U · W_O · W_V · W_E : vocab(1024) -> vocab(1024), rank <= 16"
    assert repr(Kron(A, W_O @ W_V)) == (
        "A ⊗ (W_O · W_V) : position(5)*model(32) -> position(5)*model(32), rank <= 80"
    )


@pytest.mark.parametrize(
    ("map", "formula"),
    [
        (Identity(MODEL) + W_O @ W_V, "I + W_O · W_V"),
        (W_U @ (Identity(MODEL) + W_O @ W_V), "W_U · (I + W_O · W_V)"),
        (W_O - 2.5 * W_V.T, "W_O - 2.5 · W_Vᵀ"),
        (-(W_O @ W_V), "-W_O · W_V"),
        (2 * (W_O + W_V.T), "2 · (W_O + W_Vᵀ)"),
        (W_V.T.T, "W_V"),
        ((W_U @ W_E).T, "W_Eᵀ · W_Uᵀ"),
        (Kron(A, W_O) @ Kron(B, W_V), "(A · B) ⊗ (W_O · W_V)"),
        (Kron(A, G) + Kron(B, Identity(MODEL)), "A ⊗ G + B ⊗ I"),
        (Zero(MODEL, HEAD), "0"),
        (Dense(np.ones((1, 1)), Space("a", 1), Space("b", 1)), "Dense"),
        (add(*[W_O] * 20), " + ".join(["W_O"] * 8) + " + … (12 more)"),
    ],
)
def test_formula(map, formula):
    assert map.formula == formula


def test_compose_is_flat_and_multiplies_nothing():
    nested = (W_U @ (W_O @ W_V)) @ (Identity(MODEL) @ W_E)
    assert isinstance(nested, Chain) and nested.factors == (W_U, W_O, W_V, W_E)
    assert compose(W_U) is W_U
    assert compose(Identity(MODEL), Identity(MODEL)) == Identity(MODEL)
    assert compose(Chain([W_U, Chain([W_O, W_V])]), W_E).word == (W_U, W_O, W_V, W_E)


def test_scalars_meet_in_front():
    found = compose(2 * W_U, 3 * W_O, -W_V)
    assert isinstance(found, Scaled) and found.factor == -6 and found.map.word == (W_U, W_O, W_V)
    assert scale(3, scale(2, W_O)).factor == 6
    assert scale(0.5, 2 * W_O) is W_O
    assert scale(0, W_O) == Zero(MODEL, HEAD) == 0 * W_O
    assert compose(W_U, Scaled(2, Identity(MODEL))).map is W_U
    assert compose(Scaled(2, Chain([Scaled(3, W_U), W_O])), W_V).factor == 6


def test_zero_absorbs_and_disappears():
    assert compose(W_U, Zero(MODEL, MODEL), W_E) == Zero(VOCAB, VOCAB)
    assert add(Zero(MODEL, HEAD), W_O, Zero(MODEL, HEAD)) is W_O
    assert add(Zero(MODEL, HEAD), Zero(MODEL, HEAD)) == Zero(MODEL, HEAD)
    assert tensor(Zero(HEAD, MODEL), A) == Zero(HEAD * POSITION, MODEL * POSITION)


def test_diagonals_multiply():
    found = compose(W_V, G, G)
    assert found.word[0] is W_V and len(found.word) == 2
    np.testing.assert_array_equal(found.word[1].values, G.values**2)
    assert found.formula == "W_V · G·G"


def test_add_is_flat():
    found = (W_O + 2 * W_O) + (W_V.T + W_O)
    assert isinstance(found, Sum) and len(found.terms) == 4


def test_mixed_products_merge_in_any_chain():
    found = compose(Kron(A, W_O), Kron(B, Identity(HEAD)), Kron(Identity(POSITION), W_V))
    assert isinstance(found, Kron)
    assert found.left.word == (A, B) and found.right.word == (W_O, W_V)
    np.testing.assert_allclose(
        found.dense(), np.kron(A.array @ B.array, W_O.array @ W_V.array), rtol=1e-12, atol=1e-12
    )
    assert compose(Kron(A, 2 * W_O), Kron(B, 3 * W_V)).factor == 6
    assert compose(Kron(A, W_O), Kron(B, Zero(HEAD, MODEL))) == Zero(POSITION * MODEL, POSITION * MODEL)


def test_tensor_of_identities_is_the_identity():
    assert tensor(Identity(POSITION), Identity(MODEL)) == Identity(POSITION * MODEL)


def test_product_spaces_are_associative():
    assert (POSITION * MODEL) * HEAD == POSITION * (MODEL * HEAD)
    assert POSITION * MODEL != MODEL * POSITION
    assert (POSITION * MODEL).name == "position*model" and (POSITION * MODEL).size == 160


def test_transposition_rules():
    assert (2 * W_U @ W_O).T.factor == 2
    assert [f.formula for f in (W_U @ W_O).T.word] == ["W_Oᵀ", "W_Uᵀ"]
    assert G.T is G and Identity(MODEL) == Identity(MODEL).T
    assert Zero(HEAD, MODEL) == Zero(MODEL, HEAD).T
    assert W_U.T is W_U.T  # kept, so that pulling back costs no second check


def test_arrays_are_values():
    array = np.ones((2, 2))
    held = Dense(array, Space("a", 2), Space("b", 2))
    array[0, 0] = 7
    assert held.array[0, 0] == 1
    with pytest.raises(ValueError, match="read-only"):
        held.array[0, 0] = 7
    with pytest.raises(AttributeError):
        held.name = "other"
    array.flags.writeable = False
    assert np.shares_memory(Dense(array, Space("a", 2), Space("b", 2)).array, array)
    assert np.shares_memory(held.T.array, held.array)


def test_single_precision_is_kept_where_asked():
    low = Dense(np.ones((2, 2)), Space("a", 2), Space("b", 2), dtype=np.float32)
    x = np.ones(2, dtype=np.float32)
    assert low.array.dtype == low.T.array.dtype == low.apply(x).dtype == np.float32
    assert low.apply(np.ones(2)).dtype == np.float64
    assert Diagonal(np.ones(2), Space("a", 2), dtype=np.float32).values.dtype == np.float32


def test_kronecker_products_answer_from_their_parts():
    """The dense form of this map has 8.1 billion entries."""
    left = Dense(np.random.default_rng(0).normal(size=(300, 300)), Space("a", 300), Space("a", 300))
    right = Dense(np.random.default_rng(1).normal(size=(300, 300)), Space("b", 300), Space("b", 300))
    kron = Kron(left, right)
    assert kron.rank_bound == 90_000
    assert kron.norm() == pytest.approx(left.norm() * right.norm())
    assert kron.trace() == pytest.approx(left.trace() * right.trace())
    assert singular_values(kron)[0] == pytest.approx(left.svd().S[0] * right.svd().S[0])
    assert len(kron.eigenvalues().values) == 90_000
    x = np.random.default_rng(2).normal(size=(2, 300, 300))
    found = kron.apply(x.reshape(2, -1)).reshape(2, 300, 300)
    np.testing.assert_allclose(found, left.array @ x @ right.array.T, atol=1e-9)


def test_kronecker_products_reach_themselves_through_parts_that_do_not():
    """u ⊗ (v·w) from (u·v) ⊗ w is an endomorphism, whose trace is no product of traces."""
    u, v, w = Space("u", 2), Space("v", 3), Space("w", 4)
    kron = Kron(named("left", u, u * v), named("right", v * w, w))
    dense = np.kron(kron.left.array, kron.right.array)
    assert kron.target == kron.source
    assert kron.trace() == pytest.approx(np.trace(dense))
    np.testing.assert_allclose(diagonal(kron), np.diag(dense), atol=1e-12)
    values = kron.eigenvalues().values
    assert np.sum(values**2) == pytest.approx(np.trace(dense @ dense))


def test_kronecker_factor_that_shrinks_the_array_acts_first():
    seen = []

    class Seen(LinearMap):
        """A zero map that notes what it was applied to."""

        formula, rank_bound, apply_cost = "seen", 1, 1

        def __init__(self, target, source):
            self.target, self.source = target, source

        def apply(self, x):
            seen.append(x.shape)
            return np.zeros((*x.shape[:-1], self.target.size))

        def transpose(self):
            return Seen(self.source, self.target)

    many, few, one = Space("many", 30), Space("few", 10), Space("one", 1)
    Kron(Seen(many, few), Seen(one, few)).apply(np.ones(100))
    assert seen == [(10, 10), (1, 10)]
    seen.clear()
    Kron(Seen(one, few), Seen(many, few)).apply(np.ones(100))
    assert seen == [(10, 10), (1, 10)]


def test_cost_of_applying_counts_multiply_adds():
    chain = W_O @ W_V
    assert (W_O.apply_cost, G.apply_cost, Identity(MODEL).apply_cost) == (512, 32, 0)
    assert chain.apply_cost == 1024 and (2 * chain).apply_cost == 1024 + 32
    assert (chain + Identity(MODEL)).apply_cost == 1024 + 64
    assert Kron(A, chain).apply_cost == 5 * 1024 + 32 * 25
    assert Zero(MODEL, HEAD).apply_cost == 0


def test_eigenvalues_count_their_zeros():
    found = (W_O @ W_V).eigenvalues()
    assert len(found.values) == 16 and found.size == 32 and found.zeros == 16
    assert Zero(MODEL, MODEL).eigenvalues().zeros == 32
    assert Identity(MODEL).eigenvalues().zeros == 0


@pytest.mark.parametrize("ask", [norm, trace, eigenvalues, svd, singular_values, rank, waist])
def test_nothing_of_vocabulary_squared_is_formed(ask):
    large = Space("vocab", 8_000)
    rng = np.random.default_rng(0)
    left, right = rng.normal(size=(8_000, 32)), rng.normal(size=(32, 8_000))
    chain = Dense(left, large, MODEL) @ W_O @ W_V @ Dense(right, MODEL, large)
    tracemalloc.start()
    try:
        ask(chain + 0.5 * chain)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 8_000 * 8_000 * 8 / 20


def test_a_new_kind_joins_by_registering_its_halves():
    class Reverse(LinearMap):
        """Turns the coordinates of a space around."""

        def __init__(self, space):
            self.target = self.source = space

        def apply(self, x):
            return np.asarray(x)[..., ::-1]

        def transpose(self):
            return self

        formula = "R"
        apply_cost = 0

        @property
        def rank_bound(self):
            return self.source.size

    operations.halves.register(Reverse, lambda map: (map, Identity(map.source)))
    reverse = Reverse(MODEL)
    np.testing.assert_array_equal(reverse.dense(), np.eye(32)[::-1])
    assert reverse.norm() == pytest.approx(np.sqrt(32)) and reverse.trace() == 0
    np.testing.assert_allclose((reverse @ W_O @ W_V).dense(), (W_O @ W_V).dense()[::-1], atol=1e-12)
    assert top_entries(reverse, 1).columns.tolist() == [31]

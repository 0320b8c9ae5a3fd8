"""Copying scores: signs of spectra, and undefined where they are 0/0."""

import pickle
import warnings

import numpy as np
import pytest

import pathexp as px
from pathexp.algebra import Dense, Space, compose
from pathexp.circuits.heads.copying import copying, ov_spectrum, qk_spectrum
from pathexp.circuits.heads.induction_pairs import induction_pairs
from pathexp.circuits.heads.spectrum import NO_EIGENVALUES, row_maximum_on_diagonal, spectrum
from pathexp.circuits.heads.token_grams import token_grams
from pathexp.errors import FreezeError, SpaceError
from pathexp.graph.from_weights import embedding, unembedding
from tests.shared_models import induction_2l_1h
from tests.zoo import FAMILIES


def square(array):
    space = Space("x", len(array))
    return Dense(array, space, space)


def test_a_copying_and_an_erasing_head():
    assert spectrum(square(np.diag([3.0, 2.0, 0.5]))).score == 1.0
    erasing = spectrum(square(-np.eye(3)))
    assert (erasing.score, erasing.positive) == (-1.0, 0.0)
    mixed = spectrum(square(np.diag([3.0, -1.0])))
    assert (mixed.score, mixed.positive) == (0.5, 0.75)


def test_a_nilpotent_table_has_no_score():
    """Case: rank one, u = e1, v = e2: 0/0 is undefined, not ±1 and not NaN by accident."""
    u, v = (
        Dense([[1.0], [0.0]], Space("x", 2), Space("r", 1)),
        Dense([[0.0, 1.0]], Space("r", 1), Space("x", 2)),
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = spectrum(compose(u, v))
    assert found.score is None and found.positive is None and found.reason == NO_EIGENVALUES


def test_a_quarter_turn_scores_exactly_zero():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = spectrum(square(np.array([[0.0, -1.0], [1.0, 0.0]])))
    assert found.score == 0.0 and isinstance(found.score, float)
    np.testing.assert_array_equal(sorted(found.eigenvalues.imag), [-1, 1])


@pytest.mark.parametrize("n", [3, 6, 10])
def test_a_turned_nilpotent_table_has_no_score_either(n):
    """numpy finds eigenvalues of size ε^(1/n) there; their own rounding error is as large."""
    rng = np.random.default_rng(n)
    nilpotent, turn = np.triu(rng.standard_normal((n, n)), 1), np.linalg.qr(rng.standard_normal((n, n)))[0]
    table = turn @ nilpotent @ turn.T
    assert np.abs(np.linalg.eigvals(table)).max() > 1e-9
    assert spectrum(square(table)).reason == NO_EIGENVALUES
    whole = spectrum(square(rng.standard_normal((n, n))))
    assert len(whole.eigenvalues) == n


def test_spectra_are_those_of_the_dense_table():
    model = px.random_model(layers=1, heads=2, d_model=14, d_head=3, d_vocab=11, seed=3)
    table = px.head(model, "L0H1").ov_table
    dense = np.linalg.eigvals(table.dense())
    dense = dense[np.argsort(-np.abs(dense))][:3]
    found = spectrum(table)
    np.testing.assert_allclose(np.abs(found.eigenvalues), np.abs(dense), rtol=1e-8)
    np.testing.assert_allclose(found.score, dense.sum().real / np.abs(dense).sum(), rtol=1e-8)
    assert found.size == 11 and len(found.eigenvalues) == 3


def test_only_a_map_of_a_space_to_itself_has_a_spectrum():
    with pytest.raises(SpaceError, match="spectrum asked of"):
        spectrum(Dense(np.ones((2, 3)), Space("a", 2), Space("b", 3)))


def test_row_maxima():
    table = np.random.default_rng(0).standard_normal((40, 40)) + 2 * np.eye(40)
    assert row_maximum_on_diagonal(square(table)) == np.mean(table.argmax(axis=1) == np.arange(40))


def test_by_hand():
    """The induction model on paper: L1H0's OV table is a multiple of the identity, L0H0's is zero."""
    found = copying(px.induction_model())
    first, second = found
    assert first.ov.reason == NO_EIGENVALUES
    assert (second.ov.score, second.ov.positive, found.on_diagonal("L1H0")) == (1.0, 1.0, 1.0)
    assert len(second.ov.eigenvalues) == 8
    np.testing.assert_allclose(second.ov.eigenvalues, np.log(8) + 12)


def test_trained():
    """Known of the trained pair: the full OV circuit of L1 has its row maximum on the diagonal for 26 of 26."""
    found = copying(induction_2l_1h())
    first, second = found
    assert found.on_diagonal("L1H0") == 1.0 and second.ov.score > 0.99
    assert abs(first.ov.score) < 0.2 and found.on_diagonal("L0H0") < 0.1


def test_rotary_heads_have_no_one_qk_spectrum():
    assert all(each.qk is None for each in copying(FAMILIES["llama"]()))


@pytest.mark.parametrize("name", ["gpt2", "granite", "llama", "olmo2", "microgpt", "bloom"])
def test_spectra_with_the_tokens_summed_out_are_those_of_the_tables(name):
    model = FAMILIES[name]()
    head = px.head(model, "L1H1")
    pairs = [(ov_spectrum(head), spectrum(head.ov_table))]
    if head.form.by_distance:
        pairs.append((qk_spectrum(head, 3), spectrum(head.qk_table_at(3))))
        with pytest.raises(FreezeError, match="under rotary positions"):
            qk_spectrum(head)
    else:
        pairs.append((qk_spectrum(head), spectrum(head.qk_table)))
    for found, expected in pairs:
        np.testing.assert_allclose(found.eigenvalues, expected.eigenvalues, rtol=1e-8)
        assert found.size == expected.size


def test_matching_spectra_are_those_of_the_tables():
    for model in (px.random_model(layers=2, heads=3, kv_heads=1, norm="rmsnorm"), FAMILIES["llama"]()):
        for pair in induction_pairs(model):
            expected = spectrum(pair.table)
            np.testing.assert_allclose(pair.matching.eigenvalues, expected.eigenvalues, rtol=1e-7)


def test_copying_is_a_sequence_and_an_answer():
    found = copying(px.load("attn-2l"))
    assert len(found) == len(list(found)) == 16 and found[0].label == "L0H0"
    scores = [row["ov"] for row in found.records()]
    assert scores == sorted(scores, reverse=True) and "L1H0" in str(found)
    again = pickle.loads(pickle.dumps(found))
    assert str(again) == str(found)
    np.testing.assert_array_equal(again[3].ov.eigenvalues, found[3].ov.eigenvalues)
    assert not again[3].ov.eigenvalues.flags.writeable
    with pytest.raises(px.PathexpError, match="no head 'L7H0'"):
        found.on_diagonal("L7H0")


def test_the_share_on_the_diagonal_is_of_columns_as_heads_shows_it():
    """A column of W_U W_OV W_E holds what attending to one token adds to every logit."""
    model = px.load("attn-2l")
    shown, found = px.heads(model, runs=1).diagonal.shares, copying(model)
    table = px.head(model, "L1H3").ov_table.dense()
    columns, rows = (float((table.argmax(axis=axis) == np.arange(1024)).mean()) for axis in (0, 1))
    assert found.on_diagonal("L1H3") == columns == shown["L1H3"] != rows


@pytest.mark.parametrize("norm", [None, "rmsnorm", "layernorm"])
def test_grams_of_a_tied_model_are_those_of_its_tables(norm):
    """One Gram matrix where two tables are one: entries are sums of 41 products, off by a few roundings of their sizes."""
    model = px.random_model(norm=norm, biases=True, d_vocab=41, tied=True)
    E, U = embedding(model).dense(), unembedding(model).dense()
    assert model.config.tied
    found = token_grams(model)
    for gram, left, right in ((found.matching, E, E.T), (found.copying, E, U)):
        assert (np.abs(gram - left @ right) <= 1e-14 * (np.abs(left) @ np.abs(right)).max()).all()
    assert found.out_size == pytest.approx(np.linalg.norm(U, 2), rel=1e-12)

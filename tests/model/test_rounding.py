"""What rounding explains between two runs is measured: no false alarm where models are ill-conditioned, no fault let through."""

from __future__ import annotations

import threading
from dataclasses import replace

import numpy as np
import pytest
import threadpoolctl

import pathexp as px
from pathexp.circuits.subspaces.rotate_basis import weights_tolerance
from pathexp.model import rounding
from pathexp.model.rewrite.basis import orthogonal
from pathexp.model.rounding import CONFIDENCE, UNIT, run_tolerance
from tests.zoo import FAMILIES, ZOO

MODELS = {**ZOO, **FAMILIES}


def scaled(model, share, name="W_O"):
    """A model with one head, or one row, off by a share."""
    W = np.array(getattr(model.weights, name))
    W[-1, -1] *= 1 + share
    return replace(model, weights=replace(model.weights, **{name: W}))


@pytest.mark.parametrize("share", [1e-6, 1e-9, 1e-11])
def test_a_head_of_a_trained_model_that_is_off_by_little_is_found(share):
    model = px.load("attn-2l")
    found = px.rewrite.compare(model, scaled(model, share))
    assert not found.equal and found.raw < 1e-4 * found.size


@pytest.mark.parametrize("name", MODELS)
def test_the_tolerance_is_rounding_and_no_more(name):
    model = MODELS[name]()
    found = px.rewrite.compare(model, model)
    assert found.equal and found.raw == 0 and 1e-16 < found.tolerance / found.size < 1e-11


@pytest.mark.parametrize("size", [1.0, 1e3, 1e6, 1e9])
def test_a_mean_that_cancels_costs_what_it_costs(size):
    """Centering is valid however large the mean; what is lost grows with it, and so does what is allowed."""
    model = px.random_model(norm="layernorm", biases=True)
    model = replace(model, weights=replace(model.weights, W_E=np.array(model.weights.W_E) + size))
    centered = px.rewrite.center_writing(model)
    found = px.rewrite.compare(model, centered)
    assert found.equal and found.tolerance < 1e-11 * max(size, 10) and not found.reason
    assert not px.rewrite.compare(model, scaled(centered, 1e-12 * max(size, 1e3))).equal


def test_where_rounding_leaves_nothing_it_cannot_be_told():
    model = px.random_model(norm="layernorm", biases=True)
    model = replace(model, weights=replace(model.weights, W_E=np.array(model.weights.W_E) + 1e13))
    found = px.rewrite.compare(model, scaled(model, 1e-3))
    assert found.reason and not found.equal and not found.by_constants and "CANNOT TELL" in str(found)
    with pytest.raises(px.PathexpError, match="CANNOT TELL"):
        px.rewrite.center_writing(model)


@pytest.mark.parametrize("condition", [1e2, 1e5, 1e8, 1e10])
def test_a_basis_inside_a_head_may_be_ill_conditioned(condition):
    model = px.random_model(layers=2)
    h = model.config.d_head
    basis = orthogonal(h, 1) @ np.diag(np.geomspace(1, condition, h)) @ orthogonal(h, 2)
    (check,) = px.rebase(model.run([1, 2, 3, 4, 5]), "L0H1", basis=basis).document.checks
    assert check.outcome == "holds" and check.tolerance < 1e-13 * condition


@pytest.mark.parametrize("kind", ["learned", "sinusoidal"])
def test_tokens_and_positions_that_cancel_are_counted(kind):
    """Turning each by itself rounds it by its own length, not by that of their sum."""
    model = px.random_model(positions=kind, layers=1)
    shift = 1e8 if kind == "learned" else 0.0
    weights = replace(
        model.weights,
        W_E=np.array(model.weights.W_E) + shift,
        W_pos=None if model.weights.W_pos is None else np.array(model.weights.W_pos) - shift,
    )
    model = replace(model, weights=weights)
    assert px.rewrite.compare(model, px.rewrite.rotate(model, 1)).equal
    assert run_tolerance(model.run([1, 2, 3])) > 1e-15 * max(shift, 1)


def test_a_large_output_bias_is_counted():
    model = px.random_model(biases=True)
    b_U = np.full_like(model.weights.b_U, 1e9)
    plain, shifted = (
        run_tolerance(m.run([1, 2])) for m in (model, replace(model, weights=replace(model.weights, b_U=b_U)))
    )
    assert plain < 1e-11 and shifted > 1e-7


def test_neurons_that_cancel_are_counted_by_what_each_writes():
    """Pairs of equal neurons with opposite outputs: the stream's noise leaves them equal, their products are rounded apart."""
    model, rng = px.random_model(layers=1, d_mlp=64, activation="gelu"), np.random.default_rng(0)
    W_in, W_out = np.array(model.weights.W_in), np.array(model.weights.W_out)
    W_in[0, 32:] = W_in[0, :32]
    written = 1e6 * rng.standard_normal((model.config.d_model, 32))
    W_out[0] = np.concatenate([written, -written], axis=1)
    paired = replace(model, weights=replace(model.weights, W_in=W_in, W_out=W_out))
    order = rng.permutation(64)
    weights = replace(paired.weights, W_in=W_in[:, order], W_out=W_out[:, :, order])
    found = px.rewrite.compare(paired, replace(paired, weights=weights))
    assert 0 < found.raw <= found.tolerance and found.equal
    hidden = paired.run([1, 2, 3, 4, 5, 6, 7, 8]).mlp_hidden[0]
    stream = np.sqrt(hidden**2 @ (W_out[0].T) ** 2)  # a deviation of u √K for each number of W_out
    logits = UNIT * np.sqrt(64) * np.sqrt(stream**2 @ (model.weights.W_U.T) ** 2)
    assert found.tolerance > CONFIDENCE * np.sqrt(2) * logits.max()


def test_virtual_weights_are_held_from_both_sides():
    found = px.rotate_basis(px.load("attn-2l"))
    assert weights_tolerance(64) / 1000 < found.weights <= weights_tolerance(64)
    first, _ = replace(found, weights=3e-13).checks()
    assert first.outcome == "fails"


def test_a_basis_in_single_precision_is_refused_and_told_what_to_do():
    model = px.random_model()
    R = orthogonal(model.config.d_model, 0).astype(np.float32)
    with pytest.raises(px.PathexpError, match=r"qr\(R\)"):
        px.rewrite.rotate(model, R)
    q = np.linalg.qr(np.random.default_rng(0).standard_normal((300, 300)))[0]
    assert orthogonal(300, q) is not None


def test_patterns_whose_rows_sum_to_one_but_for_rounding_are_passed():
    pattern = np.random.default_rng(0).dirichlet(np.ones(500), (1, 1, 500))
    assert px.rewrite.unnormalized_rows(pattern) == []
    pattern[0, 0, 3, 4] += 1e-11
    pattern[0, 0, 7, 1] = np.nan
    assert px.rewrite.unnormalized_rows(pattern) == [(0, 0, 3), (0, 0, 7)]


def test_order_that_is_told_by_little_is_told():
    model = px.random_model(positions="none", causal=False)
    assert px.equivariance(model).equivariant
    placed = px.random_model(positions="learned", causal=False)
    faint = replace(placed, weights=replace(placed.weights, W_pos=1e-11 * np.array(placed.weights.W_pos)))
    assert not px.equivariance(faint).equivariant


def test_noises_come_again_in_large_arrays_and_the_tolerance_stays(monkeypatch):
    """With the period of a large array the tolerance is that of noises of their own, within what draws differ by."""
    model = px.random_model(layers=3, d_mlp=90, gated=True, activation="silu", norm="rmsnorm", seed=3)
    plain = run_tolerance(model.run([1, 2, 3]))
    monkeypatch.setattr("pathexp.model.rounding.NOISES", 127)
    again = run_tolerance(replace(model).run([1, 2, 3]))
    assert again != plain and 0.3 < again / plain < 3


def test_models_are_compared_once(monkeypatch):
    model = px.random_model(norm="layernorm", biases=True)
    folded = px.rewrite.fold_norms(model)
    found = px.rewrite.compare(model, folded)
    assert px.rewrite.compare(model, folded) is found
    other = replace(model)
    assert px.rewrite.compare(other, folded) is not found, "another model is another comparison"
    assert px.rewrite.compare(model, folded, [1, 2]).constants.shape == (2,)


def test_disturbed_runs_are_made_side_by_side_and_measure_what_they_measure_one_after_the_other(monkeypatch):
    first, second = (px.random_model(layers=2, d_model=32, d_mlp=64) for _ in range(2))
    with threadpoolctl.threadpool_limits(1, user_api="blas"):
        alone = run_tolerance(first.run([1, 2, 3]))
    met, moved = threading.Barrier(2), rounding._moved

    def together(*given):
        met.wait(timeout=30)  # the first waits until the second is made too
        return moved(*given)

    monkeypatch.setattr(rounding, "_moved", together)
    with threadpoolctl.threadpool_limits(2, user_api="blas"):
        assert run_tolerance(second.run([1, 2, 3])) == alone

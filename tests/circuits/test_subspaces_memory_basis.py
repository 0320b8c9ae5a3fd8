"""Subspaces, bottlenecks, erasure and privileged bases: answers on paper, and what trained models show."""

from dataclasses import replace

import numpy as np
import pytest

import pathexp as px
from pathexp.algebra import Dense, Space
from pathexp.circuits import (
    basis_kurtosis,
    between,
    bottlenecks,
    erasing_neurons,
    interference,
    memory_management,
    overlap,
)

LINE = "Macbeth shall sleep no more. The king shall sleep, and all the world shall sleep with him. "


def plane(*axes, size=4):
    """A map that writes (or, transposed, reads) some coordinates."""
    array = np.eye(size)[:, list(axes)]
    return Dense(array, Space("model", size), Space("inner", len(axes)))


def test_principal_angles_on_paper():
    same, apart = between(plane(0, 1), plane(0, 1).T), between(plane(0, 1), plane(2, 3).T)
    np.testing.assert_allclose(same.cosines, [1, 1])
    np.testing.assert_allclose(apart.cosines, [0, 0], atol=1e-15)
    half = between(plane(0, 1), plane(1, 2).T)
    np.testing.assert_allclose(sorted(half.cosines), [0, 1], atol=1e-15)
    assert same.overlap == pytest.approx(1) and half.overlap == pytest.approx(0.5) == same.chance


def test_random_subspaces_overlap_by_chance():
    found = [
        overlap(px.random_model(layers=2, heads=1, d_model=32, d_head=4, seed=s), "L0H0", "L1H0.V")
        for s in range(40)
    ]
    mean = np.mean([one.overlap for one in found])
    assert abs(mean - found[0].chance) < 4 * found[0].deviation / np.sqrt(40)


def test_the_induction_head_reads_what_the_previous_token_head_writes():
    model = px.load("attn-2l")
    keys, other = overlap(model, "L0H2", "L1H0.K"), overlap(model, "L0H2", "L1H0.V")
    assert keys.z > 20 and keys.overlap > other.overlap
    with pytest.raises(px.PathexpError, match="before"):
        overlap(model, "L1H0", "L0H2.K")


def test_interference_of_directions():
    found = interference(np.vstack([np.eye(3), [[1.0, 1.0, 0.0]]]))
    assert found.worst()[2] == pytest.approx(2**-0.5) and found.least > 0
    assert interference(np.eye(3)).rms == 0
    for wrong in (np.ones(3), np.zeros((2, 3)), np.ones((1, 3))):
        with pytest.raises(px.PathexpError):
            interference(wrong)


def test_the_bottleneck_table_counts_and_measures():
    rows = bottlenecks(px.load("attn-2l"), [LINE * 8], length=32, limit=3)
    assert [(row.point, row.written, row.read) for row in rows] == [
        ("embed", 128, 896),
        ("L0.out", 256, 512),
        ("L1.out", 384, 128),
    ]
    assert all(1 < row.effective_rank < 128 for row in rows) and rows[1].load == 2


def test_a_head_that_erases_is_found_and_confirmed():
    """Layer 1 attends to itself alone and writes back the negative of what layer 0 wrote."""
    model = px.random_model(layers=2, heads=1, d_model=8, d_head=4, positions="none", seed=3, n_ctx=8)
    w = model.weights
    basis = np.linalg.qr(w.W_O[0, 0])[0]  # (8, 4): what L0H0 writes
    W_V, W_O, W_Q, W_K = (np.array(a) for a in (w.W_V, w.W_O, w.W_Q, w.W_K))
    W_V[1, 0], W_O[1, 0] = basis.T, -basis
    W_Q[1, 0] = W_K[1, 0] = 0
    eraser = replace(model, weights=replace(w, W_V=W_V, W_O=W_O, W_Q=W_Q, W_K=W_K))
    best = memory_management(eraser, [[1, 1]] * 3, k=20, length=2)
    row = next(one for one in best if (one.component, one.writer) == ("L1H0", "L0H0"))
    assert row.weights == pytest.approx(1)
    trace = eraser.run([1])
    kept = trace.head_results[1, 0] + trace.head_results[0, 0]
    assert row.measured is not None and row.confirmed
    assert np.abs(kept @ basis + trace.residuals["embed"] @ basis).max() < 1e-12, "the subspace is cleared"


def test_erasing_neurons_on_paper():
    model = px.random_model(layers=1, heads=1, d_model=4, d_head=2, d_mlp=2, activation="relu")
    w_in = np.zeros((1, 2, 4))
    w_in[0, 0, 0] = w_in[0, 1, 1] = 1
    w_out = -np.swapaxes(w_in, 1, 2)
    w_out[0, :, 1] *= -1
    found = erasing_neurons(replace(model, weights=replace(model.weights, W_in=w_in, W_out=w_out)), k=2)
    assert [(one.label, one.cosine) for one in found] == [("L0N0", -1.0), ("L0N1", 1.0)]
    with pytest.raises(px.PathexpError, match="no MLPs"):
        erasing_neurons(px.load("attn-1l"))


def test_neurons_have_a_basis_of_their_own_and_a_random_stream_has_none():
    model = px.random_model(layers=1, heads=2, d_model=32, d_mlp=64, activation="relu", n_ctx=16, d_vocab=40)
    rng = np.random.default_rng(0)
    found = basis_kurtosis(model, [rng.integers(0, 40, 16).tolist() for _ in range(6)])
    assert {one.space for one in found if one.privileged} == {"L0 neurons"}


def test_the_stream_of_the_attention_only_model_is_near_gaussian_in_its_coordinates():
    found = {one.space: one for one in basis_kurtosis(px.load("attn-2l"), [LINE * 12], length=64, limit=3)}
    assert not found["embed"].privileged and not found["L0.out"].privileged

"""Subspaces, interference and bottlenecks: answers on paper, and what trained models show."""

import numpy as np
import pytest

import pathexp as px
from pathexp.algebra import Dense, Space
from pathexp.circuits import (
    between,
    bottlenecks,
    directions_of,
    effective_rank,
    interference,
    overlap,
    overlaps,
)
from tests.shared_models import shared_file

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


def test_overlaps_rank_every_pair_and_agree_with_single_ones():
    model = px.load("attn-2l")
    found = overlaps(model)
    assert len(found) == 16 + 1 + 3 * 16 + 8 * 3 * 8, "writers to U, E to readers, L0 to readers of L1"
    assert (found[0].writer, found[0].reader) == ("L0H2", "L1H0.K")
    assert {pair.reader for pair in found[:4]} == {"L1H0.K", "L1H2.K", "L1H3.K", "L1H5.K"}
    one = overlap(model, found[0].writer, found[0].reader)
    np.testing.assert_allclose(one.cosines, found[0].cosines, atol=1e-12)
    grouped = px.random_model(layers=2, heads=4, kv_heads=2, d_mlp=6, gated=True, norm="rmsnorm", biases=True)
    readers = {pair.reader for pair in overlaps(grouped)}
    assert {"L1H2.K", "L1M.gate", "L1M.in", "U"} <= readers and "L1H1.K" not in readers


def test_directions_of_writers_and_readers():
    model = px.random_model(layers=1, heads=2, d_mlp=5, norm="rmsnorm", biases=True)
    w, c = model.weights, model.config
    np.testing.assert_allclose(directions_of(model, "L0M", "raw"), w.W_out[0].T)
    np.testing.assert_allclose(directions_of(model, "L0M.in", "raw"), w.W_in[0])
    np.testing.assert_allclose(directions_of(model, "U", "raw"), w.W_U)
    np.testing.assert_allclose(directions_of(model, "L0H1.O", "raw"), w.W_O[0, 1].T)
    assert directions_of(model, "P").shape == (c.n_ctx, c.d_model)
    trained = interference(directions_of(px.load("attn-2l"), "E"))
    assert trained.rms > trained.least and trained.pairs(3)[0] == trained.worst()


def test_the_bottleneck_on_paper():
    """Two tokens that differ along one line: the embedding has one effective dimension."""
    model = px.random_model(layers=0, heads=1, d_model=8, d_head=4, positions="none", n_ctx=4)
    rows = bottlenecks(model, [[0, 1, 0, 1]] * 2)
    assert rows[0].effective_rank == pytest.approx(1) and rows.tally.windows == 2


@pytest.mark.parametrize(
    "ask",
    [
        lambda model: overlap(None, "E", "U"),
        lambda model: overlap(model, None, "U"),
        lambda model: overlap(model, "E", 3),
        lambda model: overlap(model, "L9H0", "U"),
        lambda model: overlap(model, "E", "L0H0.X"),
        lambda model: overlap(model, "U", "E"),
        lambda model: overlap(model, "E", "U", norms="other"),
        lambda model: overlaps(None),
        lambda model: directions_of(model, "L0M"),
        lambda model: directions_of(model, ""),
        lambda model: interference([]),
        lambda model: interference(None),
        lambda model: interference([[np.nan, 1.0], [1.0, 1.0]]),
        lambda model: interference(np.ones((9000, 2))),
        lambda model: interference([["a", "b"], ["c", "d"]]),
        lambda model: bottlenecks(None),
        lambda model: bottlenecks(model, []),
        lambda model: bottlenecks(model, 7),
        lambda model: bottlenecks(model, [[1, 2, 3]], length=1),
        lambda model: bottlenecks(model, [[1, 2, 3]], length=2.5),
        lambda model: bottlenecks(model, [[1, 2, 3]], length=2, limit=-1),
        lambda model: bottlenecks(model, [[1, 2, 99999]], length=3),
        lambda model: bottlenecks(model, [[0.5, np.nan]], length=2),
        lambda model: bottlenecks(model, [None], length=2),
        lambda model: bottlenecks(model, [[1, 2]], length=2, start="sums.npz"),
    ],
)
def test_what_cannot_be_asked_is_refused_by_name(ask):
    with pytest.raises(px.PathexpError):
        ask(px.load("attn-1l"))


def test_angles_between_maps_of_different_spaces_are_refused():
    small, large = (Dense(np.eye(n), Space("stream", n), Space("stream", n)) for n in (2, 3))
    with pytest.raises(px.PathexpError, match="no subspaces of one space"):
        between(small, large)


@pytest.mark.parametrize(
    "wrong", [np.ones((2, 3)), np.array([[1.0, 2.0], [0.0, 1.0]]), np.full((2, 2), np.nan)]
)
def test_an_effective_rank_is_that_of_a_covariance(wrong):
    with pytest.raises(px.PathexpError, match="symmetric"):
        effective_rank(wrong)
    assert effective_rank(np.zeros((2, 2))) == 0.0


def test_trained_tokens_interfere_more_than_random_ones_and_by_meaning():
    model = px.load("attn-2l")
    found = interference(directions_of(model, "E"))
    assert found.least < found.chance < found.rms < 1.3 * found.chance
    words = {frozenset(model.token_string(i) for i in pair[:2]) for pair in found.pairs(4)}
    assert words == {
        *map(frozenset, ((" our", " your"), (" mine", " thine"), (" his", " thy"), (" my", "My")))
    }


def test_the_bottleneck_of_a_trained_llama_is_tightest_in_the_middle():
    rows = bottlenecks(px.load(shared_file("stories260K.bin")), [[*range(1, 65)]], length=64)
    assert max(rows, key=lambda row: row.load).point == "L2.out" and rows[6].load == 7
    assert all(1 < row.effective_rank < 64 for row in rows)

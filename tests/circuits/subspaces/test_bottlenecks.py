"""Bottlenecks: counts on paper, effective ranks of runs; the command."""

import json

import numpy as np
import pytest

import pathexp as px
from pathexp.circuits.corpus.corpus import Corpus
from pathexp.circuits.subspaces.bottlenecks import bottlenecks, effective_rank
from pathexp.cli import main
from tests.shared_models import shared_file

LINE = "Macbeth shall sleep no more. The king shall sleep, and all the world shall sleep with him. "


def test_the_bottleneck_table_counts_and_measures():
    rows = bottlenecks(px.load("attn-2l"), Corpus([LINE * 8], 32, 3))
    assert [(row.point, row.written, row.read) for row in rows] == [
        ("embed", 128, 896),
        ("L0.out", 256, 512),
        ("L1.out", 384, 128),
    ]
    assert all(1 < row.effective_rank < 128 for row in rows) and rows[1].load == 2


def test_the_bottleneck_on_paper():
    """Two tokens that differ along one line: the embedding has one effective dimension."""
    model = px.random_model(layers=0, heads=1, d_model=8, d_head=4, positions="none", n_ctx=4)
    rows = bottlenecks(model, [[0, 1, 0, 1]] * 2)
    assert rows[0].effective_rank == pytest.approx(1) and rows.tally.windows == 2


@pytest.mark.parametrize(
    "wrong", [np.ones((2, 3)), np.array([[1.0, 2.0], [0.0, 1.0]]), np.full((2, 2), np.nan)]
)
def test_an_effective_rank_is_that_of_a_covariance(wrong):
    with pytest.raises(px.PathexpError, match="symmetric"):
        effective_rank(wrong)
    assert effective_rank(np.zeros((2, 2))) == 0.0


def test_the_bottleneck_of_a_trained_llama_is_tightest_in_the_middle():
    rows = bottlenecks(px.load(shared_file("stories260K.bin")), Corpus([[*range(1, 65)]], 64))
    assert max(rows, key=lambda row: row.load).point == "L2.out" and rows[6].load == 7
    assert all(1 < row.effective_rank < 64 for row in rows)


def test_the_command_prints_the_same_answer(capsys, tmp_path):
    (tmp_path / "corpus.txt").write_text(LINE * 20)
    asked = [
        "bottlenecks",
        "attn-1l",
        "--corpus",
        str(tmp_path / "corpus.txt"),
        "--length",
        "16",
        "--windows",
        "3",
    ]
    assert main([*asked, "--json"]) == 0
    found = bottlenecks(px.load("attn-1l"), Corpus(tmp_path / "corpus.txt", 16, 3, sample=0))
    data = json.loads(capsys.readouterr().out)
    assert data == json.loads(found.to_json()) and data["windows"] == 3
    assert main(asked) == 0
    printed = capsys.readouterr().out
    assert "effective rank" in printed and "3 windows at random lines (seed 0), 48 tokens" in printed
    assert found.figures()["bottlenecks"].data["series"] == ["written before", "read after", "effective rank"]
    assert main(["bottlenecks", "attn-1l"]) == 0 and "effective" not in capsys.readouterr().out


@pytest.mark.parametrize(
    "ask",
    [
        lambda model: bottlenecks(None),
        lambda model: bottlenecks(model, []),
        lambda model: bottlenecks(model, 7),
        lambda model: bottlenecks(model, Corpus([[1, 2, 3]], 1)),
        lambda model: bottlenecks(model, Corpus([[1, 2, 3]], 2.5)),
        lambda model: bottlenecks(model, Corpus([[1, 2, 3]], 2, -1)),
        lambda model: bottlenecks(model, Corpus([[1, 2, 99999]], 3)),
        lambda model: bottlenecks(model, Corpus([[0.5, np.nan]], 2)),
        lambda model: bottlenecks(model, Corpus([None], 2)),
        lambda model: bottlenecks(model, [[1, 2]], limits="soon"),
    ],
)
def test_what_cannot_be_asked_is_refused_by_name(ask):
    with pytest.raises(px.PathexpError):
        ask(px.load("attn-1l"))


def test_demand_counts_all_neurons():
    """Elhage et al. 2021: halfway through 50 layers with MLPs four times as wide, 100 times as many neurons as dimensions."""
    model = px.random_model(layers=50, heads=1, d_model=8, d_head=1, d_mlp=32, d_vocab=5)
    rows = {row.point: row for row in px.bottlenecks(model)}
    assert rows["L24.out"].demand == 25 * 4 + 25 / 8 and rows["embed"].demand == 0
    assert rows["L24.out"].written == 25 * 9 + 5 + 8 and "demand" in str(px.bottlenecks(model))

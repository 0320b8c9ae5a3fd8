"""Every head of a model: attention types beside copying scores."""

import json

import numpy as np

import pathexp as px
from pathexp.circuits.heads.copying import copying
from pathexp.circuits.heads.repeated_tokens import TYPES
from tests.commands import json_of, printed, saved


def test_the_command_is_the_question(capsys):
    data = json_of(capsys, "heads", "attn-2l", "--runs", "2", "--length", "20")
    found = px.heads(px.load("attn-2l"), runs=2, length=20)
    assert data == json.loads(found.to_json())
    rows = data["tables"]["heads"]["rows"]
    assert len(rows) == 16 and rows[0]["head"] == "L0H2" and rows[0]["type"] == "previous token"
    assert [row["head"] for row in rows[1:6]] == ["L1H0", "L1H3", "L1H2", "L1H5", "L1H7"]
    out = printed(capsys, "heads", "attn-2l", "--runs", "2", "--length", "20", "--top", "3")
    assert "induction: L1H0, L1H2, L1H3, L1H5, L1H7" in out and "… 13 more of 16 rows" in out


def test_rows_are_those_of_types_and_spectra():
    model = px.load("attn-2l")
    found, copies = px.heads(model, runs=2, length=20), {each.label: each for each in copying(model)}
    for row in found.records():
        attention, spectra = found[row["head"]].attention, copies[row["head"]]
        assert [row[name.replace(" ", "_")] for name in TYPES] == [attention[name] for name in TYPES]
        assert (row["ov"], row["ov_positive"], row["qk"]) == (
            spectra.ov.score,
            spectra.ov.positive,
            spectra.qk.score,
        )
        assert row["ov_size"] == 1024 and row["ov_reason"] is None
    figures = found.figures()
    assert len(figures["ov_spectra"].data["series"]["L1H3"]) == 16
    values = [list(head.attention.values()) for head in found.types.heads]
    np.testing.assert_array_equal(figures["attention"].data["values"], values)


def test_what_cannot_be_said_is_left_open(capsys, tmp_path):
    rotary = json_of(capsys, "heads", saved(tmp_path, positions="rotary"), "--runs", "1")
    assert all(row["qk"] is None and row["ov"] for row in rotary["tables"]["heads"]["rows"])
    assert "one QK spectrum per distance" in rotary["notes"][-1]
    post = json_of(capsys, "heads", saved(tmp_path, norm="layernorm", norm_placement="post"), "--runs", "1")
    assert all("ov" not in row for row in post["tables"]["heads"]["rows"])


def test_an_undefined_score_has_a_reason(capsys, tmp_path):
    first, second = json_of(capsys, "heads", saved(tmp_path, px.induction_model()))["tables"]["heads"]["rows"]
    assert first["ov"] is None and first["ov_reason"] == "no nonzero eigenvalues" and second["ov"] == 1.0


def test_a_corpus_is_repeated_instead(tmp_path):
    corpus = tmp_path / "corpus.txt"
    corpus.write_text("abcabdefghiabcabcaabbcc" * 8, encoding="utf-8")
    model = px.load(saved(tmp_path))
    found = px.heads(model, corpus=str(corpus), length=5, runs=3)
    assert found.types.runs == 3 and found.types.length == 5
    assert found.types.first_loss != px.heads(model, length=5, runs=3).types.first_loss


def test_a_model_without_heads():
    found = px.heads(px.load("attn-0l"), runs=1)
    assert found.records() == [] and "(none)" in str(found)

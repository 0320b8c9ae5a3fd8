"""Pairs of a large vocabulary: what is no induction circuit by cheap evidence is not met with every token."""

import pathexp as px
from pathexp.circuits.heads import induction_pairs as pairs_of
from pathexp.circuits.heads.induction import induction


def test_self_matches_are_left_open_where_other_evidence_is_missing(monkeypatch):
    model = px.load("attn-2l")
    whole = induction(model, runs=1, score_runs=0)
    assert "not computed" not in str(whole)
    monkeypatch.setattr(pairs_of, "WHOLE", 10)
    found = induction(model, runs=1, score_runs=0)
    assert found.from_weights == whole.from_weights
    left = 0
    for mine, full in zip(found.records(), whole.records(), strict=True):
        wanted = found.strongest_pair(mine["head"]).strength >= pairs_of.SHARE
        left += not wanted
        assert mine["on_diagonal"] == (full["on_diagonal"] if wanted else None)
        assert {**mine, "on_diagonal": None} == {**full, "on_diagonal": None}
    rows = len(found.records())
    assert 0 < left < rows
    assert f"not computed for {left} of {rows} heads (1,024 tokens)" in str(found)


def test_every_column_is_found_by_its_name_and_headed_by_its_title():
    found = induction(px.load("attn-2l"), runs=1, score_runs=0)
    first = found.records()[0]
    assert {"head", "attention", "previous", "previous_at_keys", "on_diagonal"} <= set(first)
    assert {name.split("_")[0] for name in first} >= {"matching", "copying"}
    printed = str(found)
    assert all(title in printed for title in ("previous-token head", "QK matching score", "OV copying score"))


def test_columns_hold_what_their_names_say():
    model = px.load("attn-2l")
    found = induction(model, runs=1, score_runs=0)
    for row in found.records():
        pair = found.strongest_pair(row["head"])
        assert row["previous_head"] == pair.previous_head and row["previous"] == pair.previous
        assert row["previous_at_keys"] == found.types[pair.previous_head].previous_at_keys

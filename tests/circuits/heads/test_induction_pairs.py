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

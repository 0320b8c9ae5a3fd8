"""Terms of attention scores as symbols, from sizes alone or those of a model."""

import json

import pytest

import pathexp as px
from tests.commands import json_of, printed, refusal, saved
from tests.zoo import FAMILIES, ZOO


@pytest.mark.parametrize(
    ("positions", "terms"), [("none", 4), ("learned", 16), ("qk", 9), ("rotary", 4), ("alibi", 4)]
)
def test_positions(capsys, positions, terms):
    command = ["derive-score", "--layers", "2", "--heads", "1", "--positions", positions, "--distance", "5"]
    found = px.derive_score(layers=2, heads=1, positions=positions, distance=5)
    assert json_of(capsys, *command) == json.loads(found.to_json()) and found.count == terms
    out = printed(capsys, *command)
    assert ("R_5" in out) == (positions == "rotary") and ("slope · |i - j|" in out) == (positions == "alibi")
    assert "aligned" in printed(capsys, *command, "--latex")


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", [name for name, make in (ZOO | FAMILIES).items() if make().config.n_layers])
def test_symbols_of_every_architecture(capsys, tmp_path, name):
    model = (ZOO | FAMILIES)[name]()
    head = f"L{model.config.n_layers - 1}H0"
    path = saved(tmp_path, model)
    data = json_of(capsys, "derive-score", "--model", path, "--head", head, "--max-terms", "9999")
    assert data == json.loads(px.derive_score(head, model=model, max_terms=9999).to_json())
    rows = data["tables"]["terms"]["rows"]
    assert data["count"] == data["listed"] == len(rows) > 0 and data["complete"]
    turned = (
        model.config.positions == "rotary" and model.config.rotary_of(model.config.n_layers - 1) is not None
    )
    assert any("R_1" in row["formula"] for row in rows) == turned
    assert (data["position_bias"] is not None) == (model.config.positions == "alibi")


def test_a_list_that_is_cut_short_says_so(capsys):
    assert px.derive_score("L1H2", heads=3).count == 16
    assert "6 more of 9 terms" in printed(capsys, "derive-score", "--max-terms", "3", "--latex", code=3)
    assert "6 more of 9; --max-terms" in printed(capsys, "derive-score", "--max-terms", "3", code=3)


def test_refused(capsys):
    assert "no head 'L7H0'" in refusal(capsys, "derive-score", "--head", "L7H0")
    with pytest.raises(px.PathexpError, match="layers"):
        px.derive_score(layers=0)

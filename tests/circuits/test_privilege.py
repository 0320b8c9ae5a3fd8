"""Which spaces have a basis of their own, measured by turning them."""

import pytest

import pathexp as px
from pathexp.circuits import basis_privilege
from tests.zoo import FAMILIES, ZOO


def privileged(model):
    return {found.space: found.privileged for found in basis_privilege(model)}


@pytest.mark.parametrize("name", [*ZOO, *FAMILIES])
def test_spaces_with_a_basis_are_those_where_something_acts_by_coordinate(name):
    model = {**ZOO, **FAMILIES}[name]()
    c, w, found = model.config, model.weights, privileged(model)
    on_stream = [key for key in w.arrays() if key[:2] == "g_" and key not in ("g_q", "g_k")]
    assert found["residual stream"] == (c.norm == "layernorm" or bool(on_stream))
    if c.n_layers:
        assert not found["values"]
        assert found["queries and keys"] == (c.qk_norm is not None or c.rotary is not None)
    if c.d_mlp:
        assert found["neurons"]


def test_folding_takes_the_basis_away():
    model = px.random_model(norm="layernorm", biases=True, d_mlp=9)
    folded = px.rewrite.layernorm_to_rmsnorm(px.rewrite.center_writing(px.rewrite.fold_norms(model)))
    assert privileged(model)["residual stream"] and not privileged(folded)["residual stream"]
    lines = [str(found) for found in basis_privilege(model)]
    assert lines[0].startswith("residual stream: a basis of its own, gains")
    assert lines[2].startswith("values: no basis of its own")

"""What is said of a port that a contrast does not keep apart."""

import pytest

import pathexp as px
from pathexp.errors import QueryError


def terms(d_mlp=10, **options):
    activation = {"activation": "gelu"} if d_mlp else {}
    model = px.random_model(layers=2, heads=2, d_mlp=d_mlp, d_vocab=9, seed=1, **activation)
    return px.expand(px.contrast(model.run([1, 2, 3]), model.run([1, 5, 3]), **options))


@pytest.mark.parametrize("name", ["gate", "value", "L1M.gate", "L0.value", "M.gate"])
def test_ports_of_whole_mlps_lead_to_the_option_that_keeps_them_apart(name):
    with pytest.raises(QueryError, match=r"mlp_ports=True"):
        terms().where(f"S .* {name} .* U")
    assert terms(mlp_ports=True).where(f"S .* {name} .* U").count() > 0


@pytest.mark.parametrize("name", ["L0H0.gate", "H.value", "L7M.gate"])
def test_what_is_no_mlp_of_this_graph_has_no_such_advice(name):
    for options in ({}, {"mlp_ports": True}):
        with pytest.raises(QueryError, match="no node") as found:
            terms(**options).where(f"S .* {name} .* U")
        assert "mlp_ports" not in str(found.value)


def test_without_mlps_there_is_nothing_to_keep_apart():
    with pytest.raises(QueryError, match="no node gate"):
        terms(d_mlp=0).where("S .* gate .* U")

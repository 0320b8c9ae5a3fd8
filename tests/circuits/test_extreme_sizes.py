"""Weights times 10 to the ±200: what does not depend on scale does not change, and nothing warns."""

from dataclasses import replace

import numpy as np
import pytest

from pathexp import composition, virtual_weight
from pathexp.algebra import column, diagonal, entry, row
from pathexp.circuits.composition.composition_path import path_composition
from pathexp.circuits.heads.copying import copying
from pathexp.circuits.small.virtual_heads import virtual_heads
from pathexp.errors import SizeError
from pathexp.graph.rescaled import rescaled
from tests.zoo import FAMILIES, ZOO

pytestmark = pytest.mark.filterwarnings("error")

NAMES = [
    ("W_V",),
    ("W_O",),
    ("W_Q", "W_K"),
    ("W_E",),
    ("W_U",),
    ("g_attn",),
    ("W_Q", "W_K", "W_V", "W_O", "W_E", "W_U"),
]


@pytest.fixture(params=["2L-gqa", "3L-layernorm", "llama", "qwen3"])
def model(request):
    return {**ZOO, **FAMILIES}[request.param]()


def times(model, names, factor):
    arrays = {name: getattr(model.weights, name) * factor for name in names}
    return replace(model, weights=replace(model.weights, **arrays))


@pytest.mark.sampled(4)
@pytest.mark.parametrize("factor", [2.0**-660, 2.0**-60, 2.0**60, 2.0**660])
@pytest.mark.parametrize("names", NAMES, ids=" ".join)
def test_scores_do_not_depend_on_the_size_of_weights(model, names, factor):
    scaled = times(model, names, factor)
    before, after = composition(model), composition(scaled)
    for kind in "qkv":
        np.testing.assert_allclose(after.of(kind), before.of(kind), rtol=1e-9)
        np.testing.assert_allclose(after.z[kind], before.z[kind], rtol=1e-6, atol=1e-9)
    assert after.undefined == before.undefined
    np.testing.assert_allclose(after.partners.met.score, before.partners.met.score, rtol=1e-9)
    for path in ("E L0H1 L1H0 U", "L0H0 L1H1.Q"):
        assert path_composition(scaled, path).score == pytest.approx(path_composition(model, path).score)


@pytest.mark.parametrize("factor", [2.0**-660, 2.0**-60, 2.0**60, 2.0**660])
@pytest.mark.parametrize("names", NAMES, ids=" ".join)
def test_spectra_carry_their_size_as_a_power_of_two(model, names, factor):
    for before, after in zip(copying(model), copying(times(model, names, factor)), strict=True):
        assert after.ov.score == pytest.approx(before.ov.score)
        shift = int(np.log2(factor)) * sum(name in names for name in ("W_E", "W_U", "W_V", "W_O", "g_attn"))
        np.testing.assert_allclose(
            after.ov.eigenvalues * 2.0 ** (after.ov.exponent - shift),
            before.ov.eigenvalues,
            rtol=1e-6,
            atol=1e-10,
        )
        if before.qk is not None and after.qk is not None:
            assert after.qk.score == pytest.approx(before.qk.score)
            shift = int(np.log2(factor)) * sum(
                name in names for name in ("W_E", "W_E", "W_Q", "W_K", "g_attn", "g_attn")
            )
            back = after.qk.eigenvalues * 2.0 ** (after.qk.exponent - shift)
            np.testing.assert_allclose(back, before.qk.eigenvalues, rtol=1e-6, atol=1e-10)


@pytest.mark.sampled(12)
@pytest.mark.parametrize("factor", [2.0**-660, 2.0**-60, 2.0**60, 2.0**660])
@pytest.mark.parametrize("names", NAMES, ids=" ".join)
def test_virtual_heads_do_not_depend_on_the_size_of_weights(model, names, factor):
    scaled = times(model, names, factor)
    for before, after in zip(virtual_heads(model), virtual_heads(scaled), strict=True):
        assert after.composition == pytest.approx(before.composition, rel=1e-9)
        assert before.composition == pytest.approx(path_composition(model, before.label).score, rel=1e-9)


def test_ordinary_weights_are_left_alone():
    for make in (*ZOO.values(), *FAMILIES.values()):
        model = make()
        assert rescaled(model) is model


def test_one_extreme_head_beside_ordinary_ones():
    model = ZOO["3L-layernorm"]()
    W_V = np.array(model.weights.W_V)
    W_V[0, 1] *= 1e-200
    one = replace(model, weights=replace(model.weights, W_V=W_V))
    np.testing.assert_allclose(composition(one).v, composition(model).v, rtol=1e-9)


ASKED = {
    "norm": lambda table: table.norm(),
    "singular values": lambda table: table.svd().S,
    "trace": lambda table: table.trace(),
    "eigenvalues": lambda table: table.eigenvalues().values,
    "dense": lambda table: table.dense(),
    "row": lambda table: row(table, 1),
    "column": lambda table: column(table, 1),
    "entry": lambda table: entry(table, 1, 2),
    "diagonal": lambda table: diagonal(table),
}


@pytest.mark.parametrize("ask", ASKED)
@pytest.mark.parametrize("through", ["direct", "L0H1", "L0H0 L1H1", "all"])
def test_virtual_weights_beyond_floating_point_are_refused_and_never_infinite(through, ask):
    model = ZOO["2L-gqa"]()
    for factor in (2.0**660, 2.0**900):
        scaled = times(model, ("W_E", "W_U", "W_V", "W_O"), factor)
        with pytest.raises(SizeError, match="leave the range of floating point"):
            ASKED[ask](virtual_weight(scaled, "E", "U", through=through))
    small = virtual_weight(times(model, ("W_E", "W_U", "W_V", "W_O"), 2.0**-900), "E", "U", through=through)
    assert not np.any(ASKED[ask](small))
    scaled = virtual_weight(times(model, ("W_U",), 2.0**660), "E", "U", through=through)
    found, plain = (
        np.asarray(ASKED[ask](table)) for table in (scaled, virtual_weight(model, "E", "U", through=through))
    )
    np.testing.assert_allclose(found * 2.0**-660, plain, rtol=1e-9, atol=1e-12)

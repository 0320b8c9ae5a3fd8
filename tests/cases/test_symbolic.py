"""Reports from the field on symbolic matrix algebra (part D), each as a small test."""

import json
import subprocess
import sys

import numpy as np
import pytest
import sympy as sp

import pathexp as px
from pathexp.expansion import canonical, equal
from tests.zoo import ZOO

A, B, C, D = (sp.MatrixSymbol(name, 2, 2) for name in "ABCD")


def test_s02_one_dimension_everywhere():
    """A 1 × 1 model: every term evaluates; a 1-D vector for a column symbol is a shape error."""
    trace = px.random_model(layers=2, heads=1, d_model=1, d_head=1, d_vocab=1, n_ctx=3, positions="none").run(
        [0]
    )
    terms = px.expand(trace)
    value = px.evaluate(terms.expr(), terms.arrays())
    np.testing.assert_allclose(value, trace.logits, atol=1e-12)
    with pytest.raises(px.PathexpError, match=r"\(3, 1\).*\(3,\)"):
        px.evaluate(sp.MatrixSymbol("v", 3, 1), {"v": np.ones(3)})


def test_s03_powers_are_opened():
    square = sp.MatAdd(sp.Identity(2), A) * sp.MatAdd(sp.Identity(2), A)
    assert canonical(square) == {(): 1, (A,): 2, (A, A): 1}
    assert canonical(2 * A * A - A**2) == {(A, A): 1}
    assert equal((A.T * A) ** 2, A.T * A * A.T * A)


def test_s05_equality_is_of_multisets_of_words():
    assert equal(A * (B + C), A * B + A * C)
    assert not equal(A * B, B * A)
    assert equal(A + B, B + A) and not equal(A + B, A - B)
    assert equal(sp.KroneckerProduct(A + B, C), sp.KroneckerProduct(A, C) + sp.KroneckerProduct(B, C))
    assert equal(sp.KroneckerProduct(A, B) * sp.KroneckerProduct(C, D), sp.KroneckerProduct(A * C, B * D))
    assert not equal(
        sp.KroneckerProduct(A, B) + sp.KroneckerProduct(C, D), sp.KroneckerProduct(A + C, B + D)
    ), "what sympy's combine_kronecker claims"


def test_s05_two_derivations_of_one_expansion_are_equal():
    """The product of layers, multiplied out, is the sum of the listed terms."""
    terms = px.expand(px.ResidualGraph.attention_only(layers=2, heads=2))
    n, d = sp.symbols("n d_model", integer=True, positive=True)
    kron, symbols = sp.KroneckerProduct, {s.name: s for s in terms.expr().atoms(sp.MatrixSymbol)}

    def layer(index):
        heads = [kron(symbols[f"A_L{index}H{h}"], symbols[f"W_OV_L{index}H{h}"]) for h in range(2)]
        return sp.MatAdd(kron(sp.Identity(n), sp.Identity(d)), *heads)

    ends = [kron(sp.Identity(n), symbols[name]) for name in ("W_U", "W_E")]
    product = sp.MatMul(ends[0], layer(1), layer(0), ends[1])
    assert equal(product, terms.expr())
    assert not equal(product, terms.where("~(E U)").expr())


def test_s06_sums_of_nothing_keep_their_shape():
    terms = px.expand(px.ResidualGraph.attention_only(layers=1, heads=1)).where("E U & E L0H0 U")
    zero, v = (
        terms.expr(),
        sp.Symbol("n", integer=True, positive=True) * sp.Symbol("d_vocab", integer=True, positive=True),
    )
    assert isinstance(zero, sp.ZeroMatrix) and zero.shape == (v, v)
    assert canonical(sp.ZeroMatrix(2, 2)) == {} and equal(A - A + B, B)


def test_s08_order_is_data():
    """200 random words: canonical form and evaluation keep the order of factors."""
    rng = np.random.default_rng(1)
    arrays = {name: rng.integers(-3, 4, (2, 2)).astype(float) for name in "ABCD"}
    symbols = dict(zip("ABCD", (A, B, C, D), strict=True))
    for _ in range(200):
        word = [symbols[name] for name in rng.choice(list("ABCD"), rng.integers(1, 7))]
        assert canonical(sp.MatMul(*word)) == {tuple(word): 1}
        direct = np.eye(2)
        for symbol in word:
            direct = direct @ arrays[symbol.name]
        np.testing.assert_allclose(px.evaluate(sp.MatMul(*word), arrays), direct)


def test_s09_a_symbol_that_does_not_commute_is_no_weight():
    graph = px.ResidualGraph.by_hand(1, 2, np.eye(2)).with_source("x", [1.0, 2.0])
    with pytest.raises(px.PathexpError, match="array of numbers"):
        graph.with_component("c", weight=sp.Symbol("W", commutative=False))


@pytest.mark.parametrize("name", sorted(ZOO))
def test_s11_latex_balances_and_has_no_double_superscript(name):
    for term in px.expand(ZOO[name]().run([0, 1])):
        text = term.latex()
        assert "}^{" not in text.replace("}^{", "", 0) or "}}^{" not in text
        assert text.count(r"\left") == text.count(r"\right") and text.count("{") == text.count("}")


def test_s12_terms_travel_as_json_and_come_back_in_another_process(tmp_path):
    """Paths are text: saved as JSON, read in a fresh process, they give the same terms; no pickle anywhere."""
    file = tmp_path / "model.npz"
    model = px.random_model(layers=2, heads=2, norm="layernorm", biases=True, seed=4)
    model.save(file)
    trace = model.run([1, 2, 3])
    saved = [
        {"path": str(t.path), "formula": t.formula, "sum": float(t.logits().sum())} for t in px.expand(trace)
    ]
    (tmp_path / "terms.json").write_text(json.dumps(saved))
    code = """
import json, sys, pathexp as px
terms = px.expand(px.load(sys.argv[1]).run([1, 2, 3]))
for row in json.load(open(sys.argv[2])):
    term = terms[row["path"]]
    assert term.formula == row["formula"] and float(term.logits().sum()) == row["sum"], row
print("same")
"""
    done = subprocess.run(
        [sys.executable, "-c", code, str(file), str(tmp_path / "terms.json")], capture_output=True, text=True
    )
    assert done.stdout.strip() == "same", done.stderr
    for array in np.load(file, allow_pickle=False).values():
        assert array.dtype != object


def test_s14_one_sum_of_thousands_is_made_at_once():
    """All terms are arguments of one sum: chained additions would nest them, and take minutes."""
    terms = px.expand(px.ResidualGraph.attention_only(layers=3, heads=12))
    assert len(terms.expr().args) == terms.count() == 13**3


def test_s15_queries_match_ordered_words():
    terms = px.expand(px.ResidualGraph.attention_only(layers=3, heads=1))
    assert [str(p) for p in terms.where("E .* L0H0 .* L2H0 .* U").paths()] == [
        "E L0H0 L2H0 U",
        "E L0H0 L1H0 L2H0 U",
    ]
    assert terms.where("E .* L2H0 .* L0H0 .* U").count() == 0

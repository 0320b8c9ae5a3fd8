"""Expansions as a researcher uses them: from sizes alone, by path, by query, as formulas, and what they refuse."""

import math
import re

import numpy as np
import pytest
import sympy as sp

import pathexp as px
from tests.zoo import ZOO


@pytest.fixture
def small():
    return px.expand(px.ResidualGraph.attention_only(layers=2, heads=2))


@pytest.fixture
def trace():
    return ZOO["2L-plain"]().run([1, 4, 2, 7])


# Counting ----------------------------------------------------------------------------------------------


def test_counts_are_exact_at_any_size():
    big = px.expand(px.ResidualGraph.attention_only(layers=50, heads=32))
    assert big.count() == 33**50
    assert big.count_by_order() == tuple(math.comb(50, k) * 32**k for k in range(51))


def test_counts_by_query_at_any_size():
    big = px.expand(px.ResidualGraph.attention_only(layers=12, heads=12))
    assert big.where("E .* L3H5 .* L7H2 .* U").count() == 13**3 * 13**3 * 13**4
    assert big.where("E .? U").count() == 1 + 144
    assert big.where("E .* L3H5 .* U").count() + big.where(~px.query("E .* L3H5 .* U")).count() == 13**12


def test_listing_is_lazy():
    big = px.expand(px.ResidualGraph.attention_only(layers=12, heads=12))
    first = [str(term.path) for term, _ in zip(big, range(200), strict=False)]
    assert first[:3] == ["E U", "E L0H0 U", "E L0H1 U"] and first[145] == "E L0H0 L1H0 U"


def test_listing_inside_a_query_is_pruned():
    big = px.expand(px.ResidualGraph.attention_only(layers=12, heads=12))
    narrow = big.where("E L0H3 .* L11H7 U & ~(E . . . .* U)")
    assert [str(p) for p in narrow.paths()] == ["E L0H3 L11H7 U"]


def test_the_fixed_order_of_iteration(small):
    assert [str(path) for path in small.paths()] == [
        "E U",
        "E L0H0 U", "E L0H1 U", "E L1H0 U", "E L1H1 U",
        "E L0H0 L1H0 U", "E L0H0 L1H1 U", "E L0H1 L1H0 U", "E L0H1 L1H1 U",
    ]  # fmt: skip


# Paths -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "problem"),
    [
        ("E L9H0 U", "no node 'L9H0'"),
        ("E L0H0 L0H1 U", "out of order: L0H1"),
        ("E L1H0 L0H1 U", "out of order: L0H1"),
        ("L0H0 U", "starts at L0H0"),
        ("E L0H0", "ends at L0H0"),
        ("E E U", "passes E"),
        ("E U U", "passes U"),
        ("E", "no path"),
        ("", "no path"),
        ("E .* U", "belongs in where"),
    ],
)
def test_a_path_that_does_not_exist(small, path, problem):
    with pytest.raises(px.PathexpError, match=re.escape(problem)):
        small[path]
    assert path not in small
    assert "E L0H0 U" in small and small["E L0H0 U"] in small and 3 not in small


def test_a_path_outside_the_query(small):
    with pytest.raises(px.PathexpError, match="not among the 4 terms that match"):
        small.where("E L0 L1 U")["E U"]


def test_a_constant_is_read_only_where_it_is_read():
    terms = px.expand(ZOO["2L-gqa"]().run([1, 2, 3]))
    assert terms["b_V_L0H1 L0H1 L1H0 U"].order == 2
    with pytest.raises(px.PathexpError, match="b_V_L0H1 is read only by L0H1, not by U"):
        terms["b_V_L0H1 U"]


@pytest.mark.parametrize("bad", ["E L9H0 U", "E (L0H0 U", "E ** U", ""])
def test_a_bad_query_fails_where_it_is_given(small, bad):
    with pytest.raises(px.PathexpError):
        small.where(bad)


# Formulas ----------------------------------------------------------------------------------------------


def test_golden_latex(small):
    assert small["E U"].latex() == r"\mathrm{Id} \otimes \left(W_{U} W_{E}\right)"
    assert small["E L0H1 L1H0 U"].latex() == (
        r"\left(A^{1.0} A^{0.1}\right) \otimes \left(W_{U} W_{OV}^{1.0} W_{OV}^{0.1} W_{E}\right)"
    )


@pytest.mark.parametrize("name", sorted(ZOO))
def test_latex_has_no_double_superscript(name):
    model = ZOO[name]()
    for term in px.expand(model.run([0, 1])):
        latex = term.latex()
        assert not re.search(r"\}\^\{[^}]*\}\^", latex) and latex.count("{") == latex.count("}")


def test_the_symbols_of_a_norm_and_of_constants():
    terms = px.expand(ZOO["1L-layernorm"]().run([1, 2]))
    assert terms["E L0H1 U"].formula == ("S_final A_L0H1 S_L0_attn ⊗ W_U G_final C W_OV_L0H1 G_L0_attn C W_E")
    assert terms["b_V_L0H1 L0H1 U"].formula == "S_final A_L0H1 ones ⊗ W_U G_final C W_O_L0H1 b_V_L0H1"
    assert terms["b_U U"].formula == "ones ⊗ b_U"


def test_every_symbol_name_is_an_identifier():
    for make in ZOO.values():
        for term in px.expand(make().run([0, 1])):
            for symbol in term.expr.atoms(sp.MatrixSymbol):
                assert str(symbol.name).isidentifier()


def test_sizes_stay_symbols_without_numbers(small):
    n, d, v = sp.symbols("n d_model d_vocab", integer=True, positive=True)
    assert small["E L0H0 U"].expr.shape == (n * v, n * v)
    assert {s.shape for s in small["E L0H0 U"].expr.atoms(sp.MatrixSymbol)} == {
        (n, n),
        (v, d),
        (d, d),
        (d, v),
    }


def test_an_empty_sum_is_a_typed_zero(trace):
    nothing = px.expand(trace).where("E U & E L0H0 U")
    assert nothing.count() == 0 and list(nothing) == []
    assert isinstance(nothing.expr(), sp.ZeroMatrix)
    assert nothing.logits().shape == trace.logits.shape and not nothing.logits().any()
    target = trace.logit(3)
    assert nothing.value(target) == 0 and nothing.values(target).shape == (0,)


def test_a_sum_of_thousands_of_terms_is_made_at_once():
    terms = px.expand(px.ResidualGraph.attention_only(layers=3, heads=12))
    assert len(terms.expr().args) == 13**3


def test_too_many_terms_for_one_formula():
    with pytest.raises(px.PathexpError, match=r"23,298,085,122,481 terms are too many"):
        px.expand(px.ResidualGraph.attention_only(layers=12, heads=12)).expr()


def test_symbols_alone_have_no_numbers(small):
    term = small["E L0H0 U"]
    for ask in (
        term.logits,
        term.stream,
        small.logits,
        small.by_order,
        lambda: term.pattern,
        lambda: term.weight,
    ):
        with pytest.raises(px.PathexpError, match="sizes alone"):
            ask()


def test_evaluate_refuses_what_does_not_fit():
    a = sp.MatrixSymbol("A", 2, 2)
    with pytest.raises(px.PathexpError, match="no array for the symbol A"):
        px.evaluate(a, {})
    with pytest.raises(px.PathexpError, match=r"\(3, 2\)"):
        px.evaluate(a, {"A": np.ones((3, 2))})
    with pytest.raises(px.PathexpError, match=r"\(2,\)"):
        px.evaluate(a, {"A": np.ones(2)})
    np.testing.assert_allclose(
        px.evaluate(2 * a - a.T, {"A": np.array([[1.0, 2], [3, 4]])}), [[1, 1], [4, 4]]
    )


def test_factor_order_is_data_never_simplified():
    """200 random words of integer matrices: the symbolic product is the product (case S-08)."""
    rng = np.random.default_rng(0)
    names = [f"W_{letter}" for letter in "abc"]
    arrays = {name: rng.integers(-3, 4, (2, 2)).astype(float) for name in names}
    symbols = {name: sp.MatrixSymbol(name, 2, 2) for name in names}
    for _ in range(200):
        word = rng.choice(names, rng.integers(2, 7))
        expected = np.linalg.multi_dot([arrays[name] for name in word])
        found = px.evaluate(sp.MatMul(*(symbols[name] for name in word)), arrays)
        np.testing.assert_allclose(found, expected)


# Numbers -----------------------------------------------------------------------------------------------


def test_values_refuse_what_nobody_can_list():
    model = px.random_model(layers=12, heads=12, d_model=8, d_head=2, d_vocab=5, n_ctx=4)
    trace = model.run([1, 2])
    with pytest.raises(px.PathexpError, match=r"46,596,170,244,962"):
        px.expand(trace).values(trace.logit(1))


def test_a_target_of_another_run_is_refused(trace):
    other = ZOO["1L-none"]().run([1, 2, 3, 4, 5, 6])
    with pytest.raises(px.PathexpError, match="position 5"):
        px.expand(trace).value(other.logit(1))


def test_sums_at_any_depth_against_the_complement():
    """12 × 12 paths: a query's sum is the forward pass minus the complement's."""
    model = px.random_model(
        layers=12, heads=12, d_model=16, d_head=3, d_vocab=9, n_ctx=8, norm="rmsnorm", biases=True
    )
    trace = model.run([3, 1, 4, 1, 5])
    part = px.expand(trace).where("E .* L3H5 .* L7H2 .* U")
    np.testing.assert_allclose(part.logits(), trace.logits - part.rest().logits(), atol=1e-12)
    assert part.count() == 13**10 and np.abs(part.logits()).max() > 0


def test_ties_and_large_k(trace):
    terms = px.expand(trace)
    target = trace.logit(2)
    ranking = terms.top(10_000, target)
    assert len(ranking.terms) == terms.count() and ranking.bound == 0
    assert abs(ranking.remainder) < 1e-12
    for k in (0, -1, 2.5, "3"):
        with pytest.raises(px.PathexpError, match="integer"):
            terms.top(k, target)


def test_expand_takes_a_trace_or_a_graph():
    with pytest.raises(px.PathexpError, match="run a model first"):
        px.expand("attn-2l")


@pytest.mark.parametrize("seed", range(200))
def test_random_models_over_every_switch(seed):
    rng = np.random.default_rng(seed)
    kv_heads = int(rng.integers(1, 4))
    norm = [None, "layernorm", "rmsnorm"][rng.integers(3)]
    model = px.random_model(
        layers=int(rng.integers(0, 4)),
        heads=kv_heads * int(rng.integers(1, 3)),
        kv_heads=kv_heads,
        d_model=int(rng.integers(1, 17)),
        d_head=int(rng.integers(1, 6)),
        d_vocab=int(rng.integers(2, 12)),
        n_ctx=33,
        norm=norm,
        final_norm=bool(norm and rng.integers(2)),
        positions=["none", "learned", "qk"][rng.integers(3)],
        biases=bool(rng.integers(2)),
        causal=bool(rng.integers(4)),
        seed=seed,
    )
    trace = model.run(rng.integers(0, model.config.d_vocab, [1, 2, 9, 33][seed % 4]))
    verdict = px.expand(trace).verify()
    assert verdict.ok, f"{model.config}\n{verdict}"


def test_formulas_from_sizes_alone_evaluate_to_the_run():
    """Identities of named size take it from the arrays; the sum of all terms is the run."""
    model = px.random_model(layers=2, heads=2, positions="none")
    trace = model.run([1, 2, 3, 4])
    formula = px.derive(layers=2, heads=2).expansion.expr()
    arrays = px.expand(trace).arrays()
    one_hot = np.eye(model.config.d_vocab)[trace.tokens].reshape(-1)
    np.testing.assert_allclose(
        (px.evaluate(formula, arrays) @ one_hot).reshape(trace.logits.shape), trace.logits, atol=1e-12
    )
    with pytest.raises(px.PathexpError, match=r"size n is 4 by the array of A_L0H0, but 3 by that of A_L0H1"):
        px.evaluate(formula, arrays | {"A_L0H1": np.eye(3)})
    with pytest.raises(px.PathexpError, match="no array gives the size n"):
        px.evaluate(px.derive(layers=0, heads=1).expansion.expr(), arrays)

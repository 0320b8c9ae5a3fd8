"""Attention scores as sums over pairs of paths: exact on every model, and shown to fail when they should."""

from dataclasses import replace

import numpy as np
import pytest

import pathexp as px
from pathexp.errors import FreezeError, GraphError, PathError, TargetError
from pathexp.expansion.scores.derive_score import ScoreFormulas
from tests.zoo import FAMILIES, ZOO

NAMES = sorted(name for name in ZOO if name not in ("bigram", "0L", "0L-final-layernorm"))


@pytest.fixture(params=NAMES)
def model(request):
    return ZOO[request.param]()


def run(model, length=6, seed=0):
    return model.run(np.random.default_rng(seed).integers(0, model.config.d_vocab, length))


def last_head(model):
    return f"L{model.config.n_layers - 1}H{model.config.n_heads - 1}"


def scores_of(trace, head):
    layer, index = (int(part) for part in head[1:].split("H"))
    return trace.scores[layer, index]


@pytest.mark.sampled(3)
def test_every_score_is_the_sum_of_its_terms(model):
    trace = run(model)
    for head in ("L0H0", last_head(model)):
        for query, key in ((0, 0), (5, 2), (5, 5), (3, 0)):
            terms = px.score(trace, head, query=query, key=key)
            verdict = terms.verify()
            assert verdict.ok and verdict.tolerance < 1e-9, str(verdict)
            np.testing.assert_allclose(terms.value(), scores_of(trace, head)[query, key], atol=1e-12)


@pytest.mark.sampled(4)
def test_rows_kinds_and_orders_are_sums_of_terms(model):
    trace, head = run(model, 5), last_head(model)
    terms = px.score(trace, head, query=4, key=1)
    listed = list(terms)
    assert len(listed) == terms.count() == len({str(term) for term in listed})
    np.testing.assert_allclose(terms.row(), scores_of(trace, head)[4], atol=1e-12)
    kinds = terms.by_kind()
    for kind, total in kinds.items():
        np.testing.assert_allclose(total, sum(t.value for t in listed if t.kind == kind), atol=1e-12)
        assert terms.count_by_kind()[kind] == sum(t.kind == kind for t in listed)
    table = terms.by_order()
    for a, b in np.ndindex(table.shape):
        there = [t.value for t in listed if t.orders == (a, b)]
        assert terms.count_by_order()[a][b] == len(there)
        np.testing.assert_allclose(table[a, b], sum(there), atol=1e-12)
    assert [sum(t.orders) for t in listed] == sorted(sum(t.orders) for t in listed)


@pytest.mark.sampled(4)
def test_top_is_the_largest_by_absolute_value(model):
    terms = px.score(run(model, 5), last_head(model), query=4, key=1)
    brute = sorted((abs(term.value) for term in terms), reverse=True)
    for k in (1, 3, terms.count() + 5):
        ranking = terms.top(k)
        np.testing.assert_allclose(np.abs(ranking.values), brute[:k], atol=1e-13)
        np.testing.assert_allclose(ranking.value + ranking.remainder, terms.value(), atol=1e-12)
        least = brute[k] if k < len(brute) else 0.0
        assert least * (1 - 1e-12) <= ranking.bound <= least + 1e-9 * (1 + brute[0]), (
            "no tighter than rounding allows"
        )
        assert ranking.exact and max(ranking.errors, default=0.0) < 1e-9 * (1 + brute[0])


@pytest.mark.sampled(4)
def test_one_side_ranked_against_the_whole_of_the_other(model):
    terms = px.score(run(model, 5), last_head(model), query=4, key=1)
    _check_sides(terms)


def _check_sides(terms):
    listed = [term for term in terms if term.kind != "position bias"]
    for side, ranking in (("key", terms.top_keys(3)), ("query", terms.top_queries(3))):
        sums = {}
        for term in listed:
            path = str(getattr(term, f"{side}_term").path)
            sums[path] = sums.get(path, 0.0) + term.value
        brute = sorted(map(abs, sums.values()), reverse=True)[:3]
        np.testing.assert_allclose(np.abs(ranking.values), brute, atol=1e-11)
        for term, value in zip(ranking.terms, ranking.values, strict=True):
            np.testing.assert_allclose(sums[str(term.path)], value, atol=1e-11)
        np.testing.assert_allclose(ranking.value + ranking.remainder, sum(sums.values()), atol=1e-11)
    with pytest.raises(px.PathexpError, match="paths are ranked over pairs of every kind"):
        terms.where(kind="direct").top_keys(2)


def test_narrowing_splits_the_score(model):
    trace, head = run(model, 5), last_head(model)
    terms = px.score(trace, head, query=4, key=1)
    parts = [terms.where(kind=kind) for kind in terms.count_by_kind()]
    assert sum(part.count() for part in parts) == terms.count()
    np.testing.assert_allclose(sum(part.value() for part in parts), terms.value(), atol=1e-12)
    chosen = terms.where(query="E .* Q", key="E .* K")
    np.testing.assert_allclose(chosen.value(), sum(term.value for term in chosen), atol=1e-12)
    assert all(
        str(t.query_term.path).startswith("E ") and str(t.key_term.path).startswith("E ") for t in chosen
    )
    assert chosen.verify().ok  # together with the rest


def test_symbols_equal_numbers(model):
    """A ⊗ B ⊗ W in matrices and in sympy is the term's score of every pair of positions."""
    trace = run(model, 4)
    terms = px.score(trace, last_head(model), query=3, key=1)
    for term in list(terms)[:40]:
        field = np.array([replace(term, pair=replace(term.pair, query=i)).row for i in range(4)])
        seen = ~np.isnan(field)
        dense = px.evaluate(term.expr, term.arrays())
        np.testing.assert_allclose(dense[seen[3]][:, seen[3]].shape, (4, 4))
        full = term.pair.form.scale * term.query_term.logits() @ term.key_term.logits().T
        np.testing.assert_allclose(dense, full, atol=1e-12, err_msg=str(term))
        (A, B), W = term.patterns, term.weight.dense()
        start = [_starts(t, trace) for t in (term.query_term, term.key_term)]
        np.testing.assert_allclose(A @ start[0] @ W @ start[1].T @ B.T, full, atol=1e-12, err_msg=str(term))


def _starts(term, trace):
    """What a path starts from, (position, size): one-hot tokens, one-hot positions, or the number 1."""
    n = len(trace)
    if term.source.label == "E":
        return np.eye(trace.config.d_vocab)[trace.tokens]
    return np.eye(trace.config.n_ctx)[:n] if term.source.label == "P" else np.ones((1, 1))


def test_terms_by_naive_recursion():
    """Every term of a two-layer model with norms and biases, by dense arrays alone."""
    model = ZOO["2L-layernorm-no-final"]()
    trace, w, c = run(model, 5), model.weights, model.config
    i, j, head = 4, 2, 1
    center = np.eye(c.d_model) - 1 / c.d_model

    def normed(x, layer):
        return trace.norm_scales[f"L{layer}.attn"][:, None] * (x @ center) * w.g_attn[layer]

    ones = np.ones((5, 1))
    paths = {"E": w.W_E[:, trace.tokens].T, "P": w.W_pos[:, :5].T, "b_O_L0": ones * w.b_O[0]}
    for h in range(2):
        moved = lambda x, h=h: trace.patterns[0, h] @ x @ (w.W_O[0, h] @ w.W_V[0, h]).T  # noqa: E731
        paths |= {f"{name} L0H{h}": moved(normed(paths[name], 0)) for name in ("E", "P")}
        paths[f"b_attn_L0 L0H{h}"] = moved(ones * w.b_attn[0])
        paths[f"b_V_L0H{h} L0H{h}"] = ones * (w.W_O[0, h] @ w.b_V[0, h])
    read = {name: normed(x, 1) for name, x in paths.items()} | {"b_attn_L1": ones * w.b_attn[1]}
    queries = {f"{name} Q": x @ w.W_Q[1, head].T for name, x in read.items()}
    keys = {f"{name} K": x @ w.W_K[1, head].T for name, x in read.items()}
    queries[f"b_Q_L1H{head} Q"], keys[f"b_K_L1H{head} K"] = ones * w.b_Q[1, head], ones * w.b_K[1, head]

    terms = px.score(trace, f"L1H{head}", query=i, key=j)
    assert terms.count() == len(queries) * len(keys)
    for term in terms:
        q, k = str(term.query_term.path), str(term.key_term.path)
        np.testing.assert_allclose(term.value, queries[q][i] @ keys[k][j] / np.sqrt(c.d_head), atol=1e-13)


# Published families ------------------------------------------------------------------------------------


@pytest.mark.sampled(12)
@pytest.mark.parametrize("name", sorted(FAMILIES))
def test_scores_of_published_families(name):
    """Rotary (one form per distance), ALiBi, windows, caps, normed queries, post-norms, MLPs on the way."""
    model = FAMILIES[name]()
    trace = run(model, 9)
    for head, query, key in (("L0H1", 8, 6), ("L1H1", 8, 7), ("L1H0", 3, 3)):
        terms = px.score(trace, head, query=query, key=key)
        verdict = terms.verify()
        assert verdict.ok and verdict.tolerance < 1e-9, str(verdict)
        np.testing.assert_allclose(terms.row(), _seen(scores_of(trace, head)[query]), atol=1e-11)
        ranking = terms.top(3)
        np.testing.assert_allclose(ranking.value + ranking.remainder, terms.value(), atol=1e-11)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", ["llama", "yarn", "bloom", "qwen3", "gemma2"])
def test_sides_of_published_families(name):
    _check_sides(px.score(run(FAMILIES[name](), 7), "L1H0", query=6, key=2))


def _seen(row):
    return np.where(np.isneginf(row), np.nan, row)


def test_rotary_terms_have_one_form_per_distance():
    trace = run(FAMILIES["llama"](), 9)
    for query, key in ((8, 6), (5, 3)):
        term = px.score(trace, "L1H0", query=query, key=key)["E Q", "E L0H3 K"]
        assert "W_Q_L1H0ᵀ R_2 W_K_L1H0" in term.formula and r"R_{2}" in term.latex()
        dense = px.evaluate(term.expr, term.arrays())
        np.testing.assert_allclose(dense[query, key], term.value, atol=1e-13)
    near = px.score(trace, "L1H0", query=8, key=7)["E Q", "E L0H3 K"]
    assert "R_1" in near.formula


def test_the_key_bias_has_an_effect_where_keys_are_turned():
    terms = px.score(run(FAMILIES["llama"](), 9), "L1H0", query=8, key=3)
    assert not any(term.no_effect for term in terms.where(key="b_K_L1H0 K"))


def test_slopes_are_a_term_of_their_own():
    model = FAMILIES["bloom"]()
    terms = px.score(run(model, 9), "L0H2", query=8, key=3)
    (slope,) = terms.where(kind="position bias")
    assert str(slope) == "ALiBi" and slope.value == -5 * model.config.alibi_slopes[2]
    np.testing.assert_allclose(slope.row, -np.abs(8 - np.arange(9)) * model.config.alibi_slopes[2])
    without = terms.where(kind=["direct", "Q-composition", "K-composition", "joint"])
    np.testing.assert_allclose(without.value() + slope.value, terms.value(), atol=1e-13)
    assert list(terms)[-1].kind == "position bias" and terms.count() == without.count() + 1


# The verdict can fail -----------------------------------------------------------------------------------


@pytest.mark.sampled(12)
@pytest.mark.parametrize("name", ["W_E", "W_Q", "W_K", "W_V", "b_Q", "b_K", "b_attn", "b_O", "g_attn"])
def test_one_perturbed_weight_fails(name):
    trace = run(ZOO["3L-layernorm"]())
    array = np.array(getattr(trace.model.weights, name))
    layer = 0 if name in ("W_V", "b_O", "W_E") else 2
    place = (0, int(trace.tokens[0])) if name == "W_E" else (layer,) + (0,) * (array.ndim - 1)
    array[place] += 1e-7
    weights = replace(trace.model.weights, **{name: array})
    other = replace(trace, model=replace(trace.model, weights=weights))
    assert px.score(trace, "L2H0", query=5, key=2).verify().ok
    assert not px.score(other, "L2H0", query=5, key=2, graph=px.freeze(other)).verify().ok


def test_a_graph_changed_by_hand_has_no_verdict():
    trace = run(ZOO["2L-plain"]())
    with pytest.raises(px.PathexpError, match="L0H0 was removed"):
        px.score(trace, "L1H0", graph=px.freeze(trace).without("L0H0")).verify()


# What the softmax makes of it ---------------------------------------------------------------------------


def test_the_key_bias_has_no_effect_and_the_query_bias_has():
    """Case: q · b_K is constant over keys, b_Q · k is not."""
    model = ZOO["1L-qk-biases"]()
    trace = run(model)
    terms = px.score(trace, "L0H1", query=5, key=2)
    for term in terms:
        of_key_bias = str(term.key_term.path) == "b_K_L0H1 K"
        assert term.no_effect == of_key_bias, str(term)
        assert (abs(term.advantage) < 1e-12) == of_key_bias
    biases = terms.where(key="b_K_L0H1 K")
    np.testing.assert_allclose(biases.pattern_without(), trace.patterns[0, 1, 5], atol=1e-15)
    moved = terms.where(query="b_Q_L0H1 Q").pattern_without() - trace.patterns[0, 1, 5]
    assert np.abs(moved).max() > 1e-3
    without = replace(model, weights=replace(model.weights, b_K=None))
    np.testing.assert_allclose(run(without).patterns, trace.patterns, atol=1e-15)


def test_patterns_without_terms_are_those_of_the_model_without_them():
    """In one layer the query bias is the same for every run: dropping its terms is dropping the bias."""
    model = ZOO["1L-qk-biases"]()
    terms = px.score(run(model), "L0H2", query=4, key=1).where(query="b_Q_L0H2 Q")
    without = run(replace(model, weights=replace(model.weights, b_Q=None)))
    np.testing.assert_allclose(terms.pattern_without(), without.patterns[0, 2, 4], atol=1e-14)


@pytest.mark.sampled(4)
def test_advantages_add_up_like_values(model):
    terms = px.score(run(model, 5), last_head(model), query=3, key=1)
    np.testing.assert_allclose(sum(term.advantage for term in terms), terms.advantage(), atol=1e-12)
    row = scores_of(terms.trace, last_head(model))[3]
    others = [row[j] for j in range(5) if j != 1 and np.isfinite(row[j])]
    np.testing.assert_allclose(terms.advantage(), row[1] - np.mean(others), atol=1e-12)


# On paper -----------------------------------------------------------------------------------------------


def test_positions_of_queries_and_keys_alone_on_paper():
    """d_model 1, W_Q = 2, W_K = 3, W_E = (1, 10), W_pos = (0.5, 0.25), scale 1: four terms known by hand."""
    config = px.Config(
        n_layers=1, n_heads=1, d_model=1, d_head=1, d_vocab=2, n_ctx=2, positions="qk", attention_scale=1.0
    )
    one = np.ones((1, 1, 1, 1))
    weights = px.Weights(
        W_E=[[1, 10]], W_pos=[[0.5, 0.25]], W_Q=2 * one, W_K=3 * one, W_V=one, W_O=one, W_U=[[1], [1]]
    )
    terms = px.score(px.Model(config, weights).run([1, 0]), "L0H0", query=1, key=0)
    values = {str(term): term.value for term in terms}
    assert values == {"E Q × E K": 60.0, "E Q × P K": 3.0, "P Q × E K": 15.0, "P Q × P K": 0.75}
    assert terms.value() == (1 + 0.25) * 2 * 3 * (10 + 0.5)
    assert terms["P Q", "E K"].formula == "Id ⊗ Id ⊗ W_posᵀ W_QK_L0H0 W_E"
    assert terms["P Q", "E K"].latex() == (
        r"\mathrm{Id} \otimes \mathrm{Id} \otimes \left({W_{pos}}^{\top} W_{QK}^{0.0} W_{E}\right)"
    )


def test_induction_by_hand_is_won_by_the_key_path():
    terms = px.score(px.induction_model().run([5, 2, 7, 3, 5, 2]), "L1H0", query=5, key=2)
    assert terms.top(1).terms[0].kind == "K-composition"
    assert str(terms.top(1).terms[0]) == "E Q × E L0H0 K"
    effects = {effect.kind: effect for effect in terms.effects()}
    assert effects["K-composition"].attention > 0.999 and effects["K-composition"].without == pytest.approx(
        0.2
    )
    assert effects["Q-composition"].without == effects["Q-composition"].attention


# Bad input ----------------------------------------------------------------------------------------------


def test_bad_input_is_refused_by_name():
    trace = run(ZOO["2L-plain"]())
    with pytest.raises(GraphError, match=r"no head 'L1H7' in this graph\. Did you mean L1H"):
        px.score(trace, "L1H7")
    with pytest.raises(TargetError, match="query 1 of L1H0 cannot attend to key 3: it is masked"):
        px.score(trace, "L1H0", query=1, key=3)
    with pytest.raises(TargetError, match="key 6 is not in this run of 6 tokens"):
        px.score(trace, "L1H0", query=5, key=6)
    terms = px.score(trace, "L1H0", query=5, key=2)
    with pytest.raises(px.PathexpError, match="unknown kind of term 'K'; choose from: direct"):
        terms.where(kind="K")
    with pytest.raises(PathError, match="L1H1"):
        terms["E Q", "E L1H1 K"]
    with pytest.raises(px.PathexpError, match="is a direct term; these are only joint"):
        terms.where(kind="joint")["E Q", "E K"]
    with pytest.raises(px.PathexpError, match="integer"):
        terms.top(0)


@pytest.mark.parametrize("name", ["gpt2", "llama", "granite", "parallel-no-norm"])
def test_scores_with_mlps_as_sources(name):
    """With MLP outputs frozen whole every path is a single A ⊗ B ⊗ W, and the sum is the same."""
    trace = run(FAMILIES[name](), 6)
    graph = px.freeze(trace, mlp="source")
    terms = px.score(trace, "L1H1", query=5, key=2, graph=graph)
    assert terms.verify().ok
    assert any(str(term.key_term.path) == "L0M K" for term in terms)
    through_gates = px.score(trace, "L1H1", query=5, key=2)
    np.testing.assert_allclose(terms.value(), through_gates.value(), atol=1e-12)
    for term in terms:
        assert term.weight.shape[0] == term.query_term.weight.shape[1]
    with pytest.raises(FreezeError, match="gates"):
        _ = next(t for t in through_gates if "L0M" in str(t.key_term.path)).weight


# From sizes alone ---------------------------------------------------------------------------------------


def test_formulas_from_sizes_are_those_of_a_run():
    """The same pairs of paths with the same formulas, but for the scale."""
    trace = px.random_model(layers=3, heads=2, positions="none").run([1, 2, 3])
    terms = ScoreFormulas(px.ResidualGraph.attention_only(layers=3, heads=2), "L2H1")
    run_terms = px.score(trace, "L2H1", query=2, key=1)
    assert terms.count() == run_terms.count() == 81
    scale = f"{trace.config.attention_scale:.4g} · "
    assert [str(t) for t in terms] == [str(t) for t in run_terms]
    assert [scale + t.formula for t in terms] == [t.formula for t in run_terms]
    assert [t.kind for t in terms] == [t.kind for t in run_terms]


@pytest.mark.parametrize("name", [*NAMES, *FAMILIES])
def test_formulas_of_every_configuration_are_those_of_a_run(name):
    """Without biases, and with gains that a configuration may have: the terms of a run, symbol by symbol."""
    made = (ZOO | FAMILIES)[name]()
    arrays = {n: a for n, a in made.weights.arrays().items() if not n.startswith("b_")}
    c = made.config
    for norm in c.block_norms:
        arrays.setdefault(f"g_{norm}", np.ones((c.n_layers, c.d_model)))
    if c.embed_norm:
        arrays.setdefault("g_embed", np.ones(c.d_model))
    model = px.Model(c, px.Weights(**arrays))
    trace, head = run(model, 4), last_head(model)
    terms, whole = ScoreFormulas.of(c, head, distance=2), px.score(trace, head, query=3, key=1)
    pairs = [term for term in whole if term.kind != "position bias"]
    assert terms.count() == len(pairs) and (terms.position_bias is None) == (c.positions != "alibi")
    scale = "" if whole.pair.scale == 1 else f"{whole.pair.scale:.4g} · "
    assert [str(t) for t in terms] == [str(t) for t in pairs]
    assert [scale + t.formula for t in terms] == [t.formula for t in pairs]


def test_formulas_of_a_size_nobody_lists():
    terms = ScoreFormulas(px.ResidualGraph.attention_only(layers=12, heads=12), "L11H0")
    assert terms.count() == 13**22
    assert next(iter(terms)).formula == "Id ⊗ Id ⊗ W_Eᵀ W_QK_L11H0 W_E"
    with pytest.raises(GraphError, match="no head 'L12H0'"):
        ScoreFormulas(px.ResidualGraph.attention_only(layers=12, heads=12), "L12H0").count()


def test_numbers_of_numpy_are_numbers_of_terms_and_truth_is_none():
    terms = px.score(px.induction_model().run([5, 2, 7, 3, 5, 2]), "L1H0", query=5, key=2)
    assert len(terms.top(np.int64(2)).terms) == 2
    with pytest.raises(px.PathexpError, match="integer"):
        terms.top(True)


@pytest.mark.parametrize("kind", [5, 1.5, {"direct": 1}, ["direct", 3], (None,)])
def test_kinds_are_texts_or_several_of_them(kind):
    terms = px.score(px.induction_model().run([5, 2, 7, 3]), "L1H0", query=-1, key=1)
    with pytest.raises(px.PathexpError, match="kind"):
        terms.where(kind=kind)

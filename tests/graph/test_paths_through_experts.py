"""Experts as components: labels, what is frozen, exact sums with gates frozen and as sources, and questions of the house."""

import numpy as np
import pytest

import pathexp as px
from pathexp.errors import FreezeError, GraphError, QueryError
from pathexp.graph.ports import Ports
from pathexp.model import Experts
from tests.answer.test_questions import MODELS, QUESTIONS, Asked
from tests.model.test_experts import EVERY, run


def small(layers: int) -> px.Model:
    """Every layer of experts, one of them shared and gated."""
    experts = Experts(count=3, chosen=2, width=5, shared=4, shared_gate=True, normalized=True)
    return px.random_model(
        layers=layers, heads=4, kv_heads=2, d_model=14, d_head=4, positions="rotary", norm="rmsnorm", gated=True,
        activation="silu", biases=True, experts=experts, seed=3,
    )  # fmt: skip


@pytest.mark.parametrize("mode", ["gate", "source"])
@pytest.mark.parametrize("name", EVERY)
def test_paths_add_up(name, mode):
    for n in (1, 2, 9, 33):
        verdict = px.expand(px.freeze(run(name, n), mlp=mode)).verify()
        assert verdict.ok and verdict.tolerance < 1e-9, str(verdict)


@pytest.mark.parametrize("name", [name for name in EVERY if EVERY[name]().config.norm_placement != "post"])
def test_paths_end_at_what_an_expert_adds(name):
    trace = run(name)
    layer = trace.config.experts.layers[0]
    ends = [label for label in trace.experts if label.startswith(f"L{layer}")]
    for at in (*ends, f"L{layer}.mlp_out", f"L{layer}M"):
        assert px.expand(trace, at=at).verify().ok, at
    added = sum(px.expand(trace, at=at).logits() for at in ends)
    post = px.freeze(trace).by_label.get(f"b_mlp_post_L{layer}")
    added = added if post is None else added + post.value()
    np.testing.assert_allclose(added, trace.residuals[f"L{layer}.mlp_out"], atol=1e-11)


def test_an_expert_is_no_point_of_a_post_norm_model():
    with pytest.raises(GraphError, match="no point 'L0E1'"):
        px.expand(run("experts-post-norm"), at="L0E1")


@pytest.mark.parametrize("name", EVERY)
def test_scores_of_routers_are_sums_over_paths(name):
    trace = run(name)
    layer = trace.config.experts.layers[-1]
    terms = px.expand(trace, at=f"L{layer}.router")
    assert terms.verify().ok
    for index in range(2):
        target = trace.router_score(f"L{layer}E{index}", position=5)
        assert target.value == trace.router_scores[layer, 5, index]
        assert terms.value(target) == pytest.approx(target.value, abs=1e-11)
        assert str(px.tree(trace, target, nodes=5)) and abs(terms.values(target).sum() - target.value) < 1e-10
    assert terms.where(f"E .* L{layer}.router").count() > 0
    later = (
        px.expand(trace, at=f"L{layer}.router", start="L0.mid")
        if layer and not trace.config.parallel
        else terms
    )
    assert later.verify().ok


def test_routers_and_experts_that_are_not_there_are_named():
    trace = run("qwen-moe")
    with pytest.raises(px.PathexpError, match=r"no router 'L1.router'.*layers \[0\] have some"):
        px.expand(trace, at="L1.router")
    for expert in ("L0E9", "L0S", "L0H1", "x", 3, "L0E1.Q"):
        with pytest.raises(px.PathexpError, match="no expert"):
            trace.router_score(expert)
    with pytest.raises(px.PathexpError, match=r"no router 'L1\.router'"):
        trace.router_score("L1E0")
    with pytest.raises(px.PathexpError, match="this model has none"):
        px.random_model().run([1]).direction([1.0], at="L0.router")


def test_a_path_through_an_expert_is_zero_where_it_was_not_chosen():
    trace = run("mixtral", 33)
    terms = px.expand(trace)
    for index in range(3):
        outside = np.setdiff1d(np.arange(33), trace.experts[f"L1E{index}"].positions)
        assert len(outside)
        assert not terms.where(f"S .* L1E{index} U").logits()[outside].any()


def test_labels_classes_and_counts():
    trace = small(2).run([1, 2, 3])
    graph = px.freeze(trace)
    experts = ["L0E0", "L0E1", "L0E2", "L0S"]
    assert graph.alphabet.members("L0M") == experts
    assert graph.alphabet.members("L0E") == experts[:3]
    assert set(experts) < graph.alphabet.meaning("M")
    terms = px.expand(trace)
    assert terms.where("E L0M U").count() == 4 and terms.where("E L0E U").count() == 3
    assert (
        px.expand(px.ResidualGraph.from_config(trace.config)).where("E .* U").count()
        == terms.where("E .* U").count()
    )
    sources = px.freeze(trace, mlp="source")
    assert sources.alphabet.meaning("L0M") == frozenset(experts)
    with pytest.raises(QueryError, match="L0E7"):
        terms.where("E L0E7 U")


def test_the_formula_of_an_expert_has_its_router_weight_and_gates():
    trace = small(1).run([1, 2, 3])
    formula = px.expand(trace)["E L0E1 U"].formula
    for name in ("R_L0E1", "W_out_L0E1", "D_L0E1", "W_in_L0E1"):
        assert name in formula
    expr, arrays = px.expand(trace, "S .* L0E1 U").expr(), px.expand(trace, "S .* L0E1 U").arrays()
    np.testing.assert_allclose(
        px.evaluate(expr, arrays).reshape(3, -1), px.expand(trace, "S .* L0E1 U").logits(), atol=1e-9
    )


def test_one_neuron_one_token_on_paper():
    """x = 1; router scores 0 and 2, the second chosen and weighed by its softmax; it makes 3 · relu(1 · 1) of it."""
    model = px.random_model(
        layers=1, heads=1, d_model=1, d_head=1, d_vocab=1, n_ctx=2, positions="none", activation="relu",
        experts=Experts(count=2, chosen=1, width=1),
    )  # fmt: skip
    one = np.ones((1, 1, 1, 1))
    weights = px.Weights(
        W_E=[[1.0]], W_Q=one, W_K=one, W_V=one, W_O=0 * one, W_U=[[1.0]], W_router=[[[0.0], [2.0]]],
        W_in_experts=np.ones((1, 2, 1, 1)), W_out_experts=3 * np.ones((1, 2, 1, 1)),
    )  # fmt: skip
    trace = px.Model(model.config, weights).run([0])
    share = np.exp(2) / (1 + np.exp(2))
    terms = px.expand(trace)
    assert float(terms["E L0E1 U"].logits()[0, 0]) == pytest.approx(3 * share, abs=1e-14)
    assert float(terms["E L0E0 U"].logits()[0, 0]) == 0.0
    assert float(trace.logits[0, 0]) == pytest.approx(1 + 3 * share, abs=1e-14)


def test_ports_are_the_maps_of_single_experts():
    model = small(1)
    ports, w = Ports(model, norms="raw"), model.weights
    np.testing.assert_array_equal(ports.writer("L0E2").dense(), w.W_out_experts[0, 2])
    np.testing.assert_array_equal(ports.reader("L0S.gate").dense(), w.W_gate_shared[0])
    with pytest.raises(GraphError, match=r"layers \[0\] have experts"):
        ports.writer("L0M")


def test_the_ledger_and_refusals_name_experts():
    trace = small(2).run([1, 2])
    text = "\n".join(px.freeze(trace).frozen)
    assert (
        "router weights of experts: 2 layers × 3 experts" in text
        and "gates of experts, the gate branch whole" in text
    )
    assert "outputs of experts" in "\n".join(px.freeze(trace, mlp="source").frozen)
    with pytest.raises(FreezeError, match="neurons of layer 0: it has experts"):
        px.freeze(trace, neurons={0: [1]})


REFUSED = {
    "skip-trigrams": "rotary",
    "skip-trigram-effects": "rotary",
    "virtual-heads": "MLPs between heads",
    "rebase": "rotary",
}
"""Questions that say why they do not answer; those of rotary positions for dense models as well."""


@pytest.fixture(scope="module")
def asked():
    MODELS["experts"] = (lambda: small(2), lambda: small(1), [1, 2, 3, 4, 5, 6, 1, 2, 3, 4])
    try:
        yield Asked("experts")
    finally:
        del MODELS["experts"]


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", QUESTIONS)
def test_every_question_answers_or_says_why_not(name, asked):
    if name in REFUSED:
        with pytest.raises(px.PathexpError, match=REFUSED[name]):
            QUESTIONS[name](asked)
        return
    answer = QUESTIONS[name](asked)
    assert str(answer).strip() and answer.to_json() and answer.to_html()

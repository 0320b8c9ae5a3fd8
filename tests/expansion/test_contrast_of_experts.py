"""Mixtures of experts between two runs: what experts make, what moves their router weights, and choices that jump."""

from dataclasses import replace

import numpy as np
import pytest

import pathexp as px
from pathexp.errors import GraphError, QueryError
from pathexp.graph import places, push
from pathexp.graph.contrast.routing import Routing
from pathexp.graph.contrast.runs import Runs
from pathexp.graph.contrast.secants import ceiling_slope, clip_slope
from pathexp.model import Experts
from pathexp.model.points import values_at
from tests.expansion.test_contrast import EVERY, changes, two_runs
from tests.expansion.test_contrast_of_models import disturbed
from tests.expansion.test_contrast_sources import few, moved

SPARSE = sorted(name for name, make in EVERY.items() if make().config.experts)
ROUTERS = {
    "softmax over all": {},
    "softmax over the chosen": {"normalized": True},
    "sigmoids": {"scoring": "sigmoid", "multiplier": 2.5},
    "sigmoids over their sum": {"scoring": "sigmoid", "normalized": True, "multiplier": 0.7},
    "all are chosen": {"chosen": 5, "normalized": True},
    "one is chosen": {"chosen": 1},
    "one is chosen and has all": {"chosen": 1, "normalized": True},
}


def routed(layers: int = 1, **experts) -> px.Model:
    switches = {"count": 5, "chosen": 3, "width": 4, "shared": 3, "shared_gate": True} | experts
    return px.random_model(
        layers=layers, heads=2, d_model=7, d_vocab=11, norm="rmsnorm", gated=True, activation="silu", biases=True,
        experts=Experts(**switches), seed=4,
    )  # fmt: skip


def sharp(model: px.Model, size: float) -> px.Model:
    weights = replace(model.weights, W_router=size * model.weights.W_router)
    return replace(model, weights=weights)


def experts_of(trace: px.Trace) -> list[str]:
    return [label for label in trace.experts if label.startswith(f"L{trace.config.experts.layers[-1]}")]


@pytest.mark.parametrize("size", [0.0, 1.0, 30.0, 300.0])
@pytest.mark.parametrize("name", ROUTERS)
def test_weights_follow_scores_and_the_rest_is_left_over(name, size):
    """Δg = (slopes) Δr + what is lost to experts that one run alone chose, by the recorded weights of both runs."""
    here, there = two_runs(sharp(routed(**ROUTERS[name]), size), seed=3, length=33, changed=9)
    routing = Routing(Runs(here, there), 0)
    change = here.router_scores[0] - there.router_scores[0]
    found = np.stack([np.sum(routing.from_scores(e) * change, axis=-1) for e in range(5)], axis=-1)
    both = (here.router_weights[0] != 0) & (there.router_weights[0] != 0)
    expected = np.where(both, here.router_weights[0] - there.router_weights[0], 0.0)
    np.testing.assert_allclose(found + routing.left_over, expected, atol=1e-13 * max(1.0, size))
    assert both.any() and not routing.mean[~both].any() and not routing.left_over[~both].any()
    jumped = ((here.router_weights[0] != 0) != (there.router_weights[0] != 0)).any(axis=-1) & both.any(
        axis=-1
    )
    assert bool(routing.left_over.any()) == bool(here.config.experts.normalized and jumped.any())
    assert not size or "all" in name or jumped.any() or here.config.experts.chosen == 1


@pytest.mark.sampled(4)
@pytest.mark.parametrize("split", ["midpoint", "here"])
@pytest.mark.parametrize("name", sorted(set(SPARSE) - {"experts-post-norm"}))
def test_the_ports_of_each_expert_and_its_choice_make_its_difference(name, split):
    here, there = two_runs(EVERY[name](), seed=2, length=33, changed=9)
    graph = px.contrast(here, there, split=split)
    before = [changes(here, there, place.before) for place in places(here.config)]
    behind = "mlp_post" in here.config.block_norms  # its scale differs as well, which is no single expert's
    chosen = {source.label: source.value() for source in graph.sources if source.kind == "choice"}
    found = {}
    for component in graph.components():
        if component.kind == "expert":
            label = component.label.partition(".")[0]
            given = push(component.operator, before[graph.places[component.label]])
            found[label] = found.get(label, chosen.get(f"dchoice_{label}", 0.0)) + given
    for label, values in found.items():
        if not behind:
            np.testing.assert_allclose(values, values_at(here, label) - values_at(there, label), atol=1e-12)
    whole = {}
    for label, values in found.items():
        whole[label[:2]] = whole.get(label[:2], 0.0) + values
    for layer, values in whole.items():
        np.testing.assert_allclose(values, changes(here, there, f"{layer}.mlp_out"), atol=1e-12)


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    "name", ["mixtral", "qwen-moe", "gpt-oss", "experts-in-groups", "experts-between-norms"]
)
def test_exchanged_runs_change_the_sign_of_every_path(name):
    here, there = two_runs(EVERY[name](), seed=2, length=9, changed=4)
    for ports in (False, True):
        ahead, back = (
            px.expand(px.contrast(*pair, mlp_ports=ports), "S .? U")
            for pair in ((here, there), (there, here))
        )
        for term, same in zip(ahead, back, strict=True):
            assert str(term.path) == str(same.path)
            np.testing.assert_array_equal(term.logits(), -same.logits())


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", ["mixtral", "qwen-moe", "experts-in-groups", "experts-between-norms"])
def test_runs_that_choose_alike_have_no_choices_and_near_ones_give_the_derivative(name):
    model = EVERY[name]()

    def near(gap: float) -> px.Trace:
        table = np.array(model.weights.W_E)
        table[:, 1] = table[:, 0] + gap * np.cos(np.arange(len(table)))
        return replace(model, weights=replace(model.weights, W_E=table)).run([1, 3, 4, 2])

    base = near(0.0)
    assert np.array_equal(near(1e-5).router_weights != 0, near(-1e-5).router_weights != 0)
    graph = px.contrast(base, base)
    assert [source.label for source in graph.sources] == ["E"]
    step = np.zeros(graph.sizes[:2])
    step[0] = model.config.embedding_multiplier * np.cos(np.arange(model.config.d_model))
    found = px.expand(graph.without("E").with_source("x", step)).logits()
    expected = (near(1e-5).logits - near(-1e-5).logits) / 2e-5
    np.testing.assert_allclose(found, expected, atol=1e-8 * np.abs(found).max())
    routers = px.expand(graph.without("E").with_source("x", step), "S .* router .* U").logits()
    assert np.abs(routers).max() > 1e-6 * np.abs(found).max()


def test_one_expert_that_has_all_is_an_mlp():
    """Its weight is one in every run: the same paths as a dense model, and nothing through the router."""
    sparse = routed(count=1, chosen=1, normalized=True, shared=0, shared_gate=False)
    w = sparse.weights
    dense = px.Model(
        replace(sparse.config, experts=None, d_mlp=4),
        replace(
            w, **{name: None for name in w.arrays() if "router" in name or "choice" in name or "experts" in name},
            **{name: getattr(w, f"{name}_experts")[:, 0] for name in ("W_in", "W_gate", "W_out", "b_in", "b_gate", "b_out")},
        ),
    )  # fmt: skip
    here, there = two_runs(sparse)
    same = [dense.run(run.tokens) for run in (here, there)]
    terms, known = px.expand(px.contrast(here, there)), px.expand(px.contrast(*same))
    assert not terms.where("E .* router .* U").logits().any()
    for path in ("E L0M U", "E L0H1.K L0M U", "E L0H0.V U"):
        ours = terms[path.replace("L0M", "L0E0.mlp")].logits()
        np.testing.assert_allclose(ours, known[path].logits(), atol=1e-14)


def test_two_experts_one_neuron_on_paper():
    """x = 1 against 2, no norms: experts make x and 5 x, weighed by the sigmoids of 0 and x; the first is always chosen."""
    model = px.random_model(
        layers=1, heads=1, d_model=1, d_head=1, d_vocab=2, n_ctx=2, positions="none", activation="relu",
        experts=Experts(count=2, chosen=2, width=1, scoring="sigmoid"),
    )  # fmt: skip
    one = np.ones((1, 1, 1, 1))
    weights = px.Weights(
        W_E=[[1.0, 2.0]], W_Q=one, W_K=one, W_V=one, W_O=0 * one, W_U=[[1.0], [0.0]], W_router=[[[0.0], [1.0]]],
        W_in_experts=np.ones((1, 2, 1, 1)), W_out_experts=np.array([[[[1.0]], [[5.0]]]]),
    )  # fmt: skip
    model = px.Model(model.config, weights)
    terms = px.expand(px.contrast(model.run([1]), model.run([0])))
    low, high = (1 / (1 + np.exp(-x)) for x in (1.0, 2.0))
    values = {str(term.path): float(term.logits()[0, 0]) for term in terms if "H" not in str(term.path)}
    assert values == pytest.approx(
        {
            "E U": 1.0,
            "E L0E0.mlp U": 0.5,
            "E L0E0.router U": 0.0,
            "E L0E1.mlp U": 5 * (low + high) / 2,
            "E L0E1.router U": 7.5 * (high - low),
        },
        abs=1e-14,
    )


def test_a_choice_that_jumps_on_paper():
    """Scores x − 1.5 of the second expert and 0 of the first: x = 1 takes the first, which makes x, x = 2 the other, 5 x."""
    model = px.random_model(
        layers=1, heads=1, d_model=1, d_head=1, d_vocab=2, n_ctx=2, positions="none", activation="relu", biases=True,
        experts=Experts(count=2, chosen=1, width=1, normalized=True),
    )  # fmt: skip
    one = np.ones((1, 1, 1, 1))
    weights = px.Weights(
        W_E=[[1.0, 2.0]], W_Q=one, W_K=one, W_V=one, W_O=0 * one, W_U=[[1.0], [0.0]], W_router=[[[0.0], [1.0]]],
        b_router=[[0.0, -1.5]], W_in_experts=np.ones((1, 2, 1, 1)), W_out_experts=np.array([[[[1.0]], [[5.0]]]]),
    )  # fmt: skip
    model = px.Model(model.config, weights)
    graph = px.contrast(model.run([1]), model.run([0]))
    terms = px.expand(graph)
    assert [source.label for source in graph.sources] == ["E", "dchoice_L0E0", "dchoice_L0E1"]
    values = {str(term.path): float(term.logits()[0, 0]) for term in terms}
    assert {path: value for path, value in values.items() if value} == pytest.approx(
        {"E U": 1.0, "dchoice_L0E0 U": -1.0, "dchoice_L0E1 U": 10.0}, abs=1e-14
    )
    shares = px.attribution(graph, model.run([1]).logit(0), by="token")
    assert shares.ok and dict(zip(shares.names, shares.values, strict=True)) == pytest.approx(
        {"0: 1/0".replace(" ", ""): 1.0, "choices of experts": 9.0}, abs=1e-13
    )


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", SPARSE)
def test_edits_and_other_models_reach_routers(name):
    here, there = two_runs(EVERY[name]())
    layer = here.config.experts.layers[0]
    edited = px.rerun(there, {f"L{layer}.mlp_in": moved(3), f"L{layer}.mlp_result": moved(4)})
    assert few(px.contrast(here, edited)).ok
    other = disturbed(here.model, 5, 0.05).run(there.tokens)
    for graph in (px.contrast(here, there), px.contrast(here, edited), px.contrast(here, other)):
        terms = px.expand(graph, at=f"L{layer}.router")
        assert terms.verify().ok, str(terms.verify())
        score = here.router_score(f"L{layer}E1")
        change = values_at(here, score.at)[-1, 1] - values_at(graph.other, score.at)[-1, 1]
        assert abs(terms.value(score) - change) < 1e-12
        assert px.attribution(graph, score, by="component").ok


def test_a_weight_of_one_expert_enters_where_it_acts():
    model = routed(layers=2)
    for array, index, found in (
        ("W_router", (1,), {"dW_router_L1": {f"L1E{e}.router" for e in range(5)}}),
        ("W_shared_gate", (0,), {"dW_shared_gate_L0": {"L0S.router"}}),
        ("W_in_experts", (1, 2), {"dW_in_L1E2": {"L1E2.mlp"}}),
        ("W_gate_shared", (0,), {"dW_gate_L0S": {"L0S.mlp"}}),
        ("W_out_experts", (0, 3), {"dW_out_L0E3": set()}),
        ("b_out_shared", (1,), {"db_out_L1S": set()}),
    ):
        changed = np.array(getattr(model.weights, array))
        changed[index] = changed[index] * 1.001
        other = replace(model, weights=replace(model.weights, **{array: changed}))
        text = [1, 2, 3, 4, 5, 6, 7, 8, 9]
        graph = px.contrast(model.run(text), other.run(text))
        weights = {source.label: set(source.into) for source in graph.sources if source.kind == "weight"}
        assert weights == found and px.expand(graph).verify().ok
        rows = px.attribution(graph, model.run(text).logit(1), by="weight_head")
        assert rows.ok


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", ["mixtral", "qwen-moe", "experts-in-groups"])
def test_shares_tell_routers_apart_and_live_cuts_take_whole_experts(name):
    here, there = two_runs(EVERY[name](), changed=3)
    graph, target = px.contrast(here, there), here.logit_difference(3, 5)
    for unit in ("port", "head", "layer", "component", "token", "source", "path"):
        assert px.attribution(graph, target, by=unit).ok, unit
    ports = px.attribution(graph, target, by="port")
    assert ports.names[4:] == ("routers", "routers and keys or queries") or set(ports.names) >= {"routers"}
    label = experts_of(here)[1]
    point, change = f"L{label[1]}.mlp_result", values_at(here, label) - values_at(there, label)
    found = px.intervene(graph, target, node=label)[0]
    again = px.rerun(there, {point: lambda stream: stream + change})
    assert abs(found.into_other - (again.logits - there.logits)[-1] @ target.direction) < 1e-11
    with pytest.raises(px.PathexpError, match="an MLP or an expert whole"):
        px.intervene(graph, target, node=f"{label}.router")


def test_labels_of_experts_in_queries():
    here, there = two_runs(routed(layers=2))
    terms = px.expand(px.contrast(here, there)).where("E .* U")
    counts = {
        "E L0E1 U": 2, "E L0E1.router U": 1, "E L0M U": 12, "E L0E U": 10, "E L0E.router U": 5, "E router U": 12,
        "E L1.mlp U": 6, "E L0S U": 2, "E L0H0.K L0E2.mlp L1E0.router U": 1, "E M U": 24, "E L0 U": 18,
    }  # fmt: skip
    assert {text: terms.where(text).count() for text in counts} == counts
    assert terms["E L0E1.router U"].formula.count("Λ_L0E1_R") == 1
    assert "R̄_L0E1" in terms["E L0E1.mlp U"].formula and r"\bar{R}" in terms["E L0E1.mlp U"].latex()
    parts = px.expand(px.contrast(here, there, mlp_ports=True))
    assert parts.where("E L0E1 U").count() == 3 and parts.where("E L0S.gate U").count() == 1
    with pytest.raises(QueryError, match="MLPs are whole"):
        terms.where("E L0E1.gate U")
    with pytest.raises(QueryError, match="routers are in the difference"):
        px.expand(here).where("E L0E1.router U")
    with pytest.raises(GraphError, match=r"L0\.router"):
        px.expand(terms.graph, at="nowhere")
    with pytest.raises(px.PathexpError, match="no router"):
        px.expand(terms.graph, at="L7.router")


def test_the_ledger_names_routers():
    for scoring, said in (
        ("softmax", "logarithmic means of the weights"),
        ("sigmoid", "slopes of the sigmoids"),
    ):
        here, there = two_runs(routed(scoring=scoring))
        assert any(said in line for line in px.contrast(here, there).frozen)


def test_slopes_of_limits():
    a, b = np.random.default_rng(0).normal(0, 3, (2, 500))
    a[:3], b[:3] = [5.0, 0.2, -5.0], [5.0, 0.2, -5.0]
    for slope, function in (
        (clip_slope, lambda z: np.clip(z, -1.5, 1.5)),
        (ceiling_slope, lambda z: np.minimum(z, 1.5)),
    ):
        np.testing.assert_allclose(slope(1.5, a, b) * (a - b), function(a) - function(b), atol=1e-14)
        np.testing.assert_array_equal(slope(1.5, a, b), slope(1.5, b, a))
    assert clip_slope(1.5, a, b)[:3].tolist() == [0.0, 1.0, 0.0] and ceiling_slope(1.5, a, b)[
        :3
    ].tolist() == [0.0, 1.0, 1.0]

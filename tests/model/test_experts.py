"""Layers of experts: which are chosen, how they are weighed, what they add, and what is refused."""

from dataclasses import replace

import numpy as np
import pytest

import pathexp as px
from pathexp.errors import ConfigError, WeightsError
from pathexp.model import Config, Experts
from pathexp.model.experts import choice
from pathexp.model.parts import mlp_output
from tests.zoo import FAMILIES, MORE_EXPERTS

EVERY = {name: make for name, make in {**FAMILIES, **MORE_EXPERTS}.items() if make().config.experts}
SIZES = {"n_layers": 2, "n_heads": 1, "d_model": 4, "d_head": 2, "d_vocab": 5, "n_ctx": 8}
FOUR = Experts(count=4, chosen=2, width=3)


def run(name: str, n: int = 9) -> px.Trace:
    model = EVERY[name]()
    return model.run(np.random.default_rng(n).integers(0, model.config.d_vocab, n))


@pytest.mark.parametrize("name", EVERY)
@pytest.mark.parametrize("n", [1, 2, 33])
def test_experts_add_up_to_what_their_layer_writes(name: str, n: int) -> None:
    trace = run(name, n)
    experts, w = trace.config.experts, trace.model.weights
    for layer in experts.layers:
        total = np.zeros((n, trace.config.d_model))
        for label in [
            *(f"L{layer}E{index}" for index in range(experts.count)),
            *[f"L{layer}S"] * bool(experts.shared),
        ]:
            expert = trace.experts[label]
            of, place = (
                ("shared", (layer,))
                if label.endswith("S")
                else ("experts", (layer, int(label.split("E")[1])))
            )
            made = expert.hidden @ getattr(w, f"W_out_{of}")[place].T
            if (bias := getattr(w, f"b_out_{of}")) is not None:
                made = made + bias[place]
            total += expert.spread(expert.weights[:, None] * made, n)
        np.testing.assert_allclose(total, trace.residuals[f"L{layer}.mlp_result"], atol=1e-13)


@pytest.mark.parametrize("name", EVERY)
def test_positions_use_the_experts_that_they_chose_and_no_others_are_computed(name: str) -> None:
    trace = run(name, 33)
    experts = trace.config.experts
    for layer in range(trace.config.n_layers):
        weights, scores = trace.router_weights[layer], trace.router_scores[layer]
        if layer not in experts.layers:
            assert not weights.any() and not scores.any()
            continue
        assert ((weights != 0).sum(axis=1) == experts.chosen).all()
        if experts.normalized:
            np.testing.assert_allclose(weights.sum(axis=1), experts.multiplier, atol=1e-13)
        for index in range(experts.count):
            expert = trace.experts[f"L{layer}E{index}"]
            np.testing.assert_array_equal(expert.positions, np.flatnonzero(weights[:, index]))
            assert expert.pre.shape == expert.gates.shape == (len(expert.positions), experts.width)
            np.testing.assert_array_equal(expert.weights, weights[expert.positions, index])


@pytest.mark.parametrize("name", EVERY)
def test_a_layer_without_such_a_part_has_zeros(name: str) -> None:
    trace = run(name)
    for layer in range(trace.config.n_layers):
        assert trace.config.has_dense(layer) != trace.config.is_sparse(layer)
        assert trace.mlp_pre[layer].any() == trace.config.has_dense(layer)


@pytest.mark.parametrize("name", EVERY)
def test_what_an_expert_gives_live_is_what_it_gave(name: str) -> None:
    trace = run(name)
    for layer in trace.config.experts.layers:
        before = f"L{layer}.mid" if not trace.config.parallel else f"L{layer - 1}.out" if layer else "embed"
        labels = [label for label in trace.experts if label.startswith(f"L{layer}")]
        given = sum(mlp_output(trace.model, label, trace.residuals[before]) for label in labels)
        np.testing.assert_allclose(given, trace.residuals[f"L{layer}.mlp_result"], atol=1e-13)


def test_equal_experts_are_chosen_in_order() -> None:
    assert choice(np.array([[0.25, 0.25, 0.25, 0.25]]), None, FOUR).tolist() == [[True, True, False, False]]


def test_a_bias_of_choice_chooses_and_does_not_weigh() -> None:
    shares, bias = np.array([[0.4, 0.3, 0.2, 0.1]]), np.array([0.0, 0.0, 0.0, 1.0])
    assert choice(shares, bias, FOUR).tolist() == [[True, False, False, True]]


def test_groups_are_as_good_as_their_best_or_their_best_two() -> None:
    shares = np.array([[0.5, 0.0, 0.3, 0.25]])
    one = Experts(count=4, chosen=1, width=3, groups=2, chosen_groups=1)
    assert choice(shares, None, one).tolist() == [[True, False, False, False]]
    assert choice(shares, None, replace(one, by_two=True)).tolist() == [[False, False, True, False]]


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"count": 0}, "experts count: expected an integer ≥ 1, got 0"),
        ({"chosen": 5}, "found chosen=5, 1 groups of 4"),
        ({"groups": 3}, "must divide their count: found count=4, groups=3"),
        ({"groups": 2, "chosen_groups": 3}, "found 3 of 2"),
        ({"groups": 4, "by_two": True, "chosen_groups": 2}, "at least two experts a group, found 1"),
        ({"shared_gate": True}, "needs a shared expert; found shared=0"),
        ({"scoring": "max"}, "'softmax'"),
        ({"limit": 0.0}, "experts limit"),
        ({"multiplier": float("nan")}, "experts multiplier"),
        ({"normalized": 1}, "experts normalized"),
    ],
)
def test_experts_refuse_what_does_not_fit(given: dict, text: str) -> None:
    with pytest.raises(ConfigError, match=text.replace("(", r"\(")):
        Experts(**{"count": 4, "chosen": 2, "width": 3} | given)


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"experts": FOUR, "d_mlp": 0, "gated": False}, None),
        (
            {"experts": replace(FOUR, layers=(1,)), "d_mlp": 0},
            r"layers without experts have an MLP: found d_mlp=0",
        ),
        ({"experts": replace(FOUR, layers=(2,)), "d_mlp": 3}, r"below n_layers=2; found \[2\]"),
        ({"experts": replace(FOUR, layers=(1, 0)), "d_mlp": 3}, "in order"),
        ({"experts": replace(FOUR, layers="01"), "d_mlp": 3}, "numbers of layers"),
        ({"experts": {"count": 4}, "d_mlp": 3}, "must be Experts or None"),
        ({"experts": replace(FOUR, limit=1.0)}, "set gated=True"),
    ],
)
def test_a_configuration_refuses_experts_that_do_not_fit(given: dict, text: str | None) -> None:
    if text is None:
        config = Config(**SIZES, **given)
        assert config.experts.layers == (0, 1) and config.has_mlps and config.neurons(0) == 12
        assert Config.from_dict(config.to_dict()) == config
        return
    with pytest.raises(ConfigError, match=text):
        Config(**SIZES, **given)


def test_numbers_where_nothing_reads_them_are_a_problem() -> None:
    model = FAMILIES["qwen-moe"]()
    W_in = np.array(model.weights.W_in)
    W_in[0] = 1.0
    with pytest.raises(
        WeightsError, match=r"W_in\[0\] is not zero, but this array says something in layers \[1\] only"
    ):
        px.Model(model.config, replace(model.weights, W_in=W_in))


def test_missing_arrays_of_experts_are_named() -> None:
    model = FAMILIES["mixtral"]()
    with pytest.raises(WeightsError, match=r"W_router is missing: expected shape \(2, 3, 14\)"):
        px.Model(model.config, replace(model.weights, W_router=None))

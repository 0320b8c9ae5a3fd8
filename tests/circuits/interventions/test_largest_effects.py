"""Live effects of some of many components: the same numbers, and which they are, from gradients that are true."""

import json

import numpy as np
import pytest

import pathexp as px
from pathexp.circuits.interventions.largest_effects import first_order_effects, frozen_effects, largest
from pathexp.errors import PathexpError
from pathexp.model.forward import rerun
from tests.commands import printed
from tests.zoo import FAMILIES

STEP = 1e-5


def slope(trace, target, layer, head):
    """The change of a target per share of a head's output that is removed, by central differences of forward passes."""
    result = trace.head_results[layer, head]
    moved = [
        rerun(trace, {f"L{layer}.attn_result": lambda given, step=step: given - step * result})
        for step in (STEP, -STEP)
    ]
    there, here = (run.logits[target.position] @ target.direction for run in moved)
    return (there - here) / (2 * STEP)


@pytest.mark.parametrize("family", ["gpt2", "neox", "gptj", "llama", "bloom", "qwen3"])
def test_first_order_is_the_slope_of_the_forward_pass(family):
    trace = FAMILIES[family]().run([3, 1, 4, 1])
    target = trace.logit(2)
    found = first_order_effects(trace, target)
    assert found.keys() == frozen_effects(trace, target).keys()
    for layer in range(trace.config.n_layers):
        for head in range(trace.config.n_heads):
            assert found[f"L{layer}H{head}"] == pytest.approx(
                slope(trace, target, layer, head), rel=1e-5, abs=1e-7
            )


def test_some_live_effects_are_those_of_all():
    trace = px.load("attn-2l").run("To be, or not to be")
    target = trace.logit(5)
    every, some = px.intervene(trace, target), px.intervene(trace, target, live=5)
    assert some.names == every.names and some.paths == every.paths
    frozen = {name: effects[0] for name, effects in zip(every.names, every.effects, strict=True)}
    chosen = largest(trace, target, frozen, 5)
    assert len(chosen) == 5
    for name, mine, whole in zip(every.names, some.effects, every.effects, strict=True):
        assert (
            mine == pytest.approx(whole, rel=1e-12, abs=1e-12)
            if name in chosen
            else mine == (whole[0], None, None)
        )
    rows = some.records()
    assert [row["name"] in chosen for row in rows] == [True] * 5 + [False] * (len(rows) - 5)
    assert "live: 5 of 16 components" in str(some) and "live=16 computes all" in str(some)
    assert "attribution patching" not in str(every)


def test_no_live_effect_at_all():
    trace = px.random_model(layers=2, heads=2).run([1, 2, 3])
    found = px.intervene(trace, trace.logit(5), live=0)
    assert all(live is kl is None for _, live, kl in found.effects)
    frozen = [abs(row["frozen"]) for row in found.records()]
    assert frozen == sorted(frozen, reverse=True)
    json.loads(found.to_json())


def test_a_head_that_only_moves_patterns_is_found_to_first_order():
    """L0H2 of attn-2l is the previous-token head: frozen it does next to nothing, live it is the largest."""
    trace = px.load("attn-2l").run("Macbeth shall sleep no more. Macbeth shall")
    target = trace.logit(int(trace.logits[-1].argmax()))
    frozen = frozen_effects(trace, target)
    smallest = sorted(frozen, key=lambda label: abs(frozen[label]))
    assert "L0H2" in smallest[:4]
    assert "L0H2" in largest(trace, target, frozen, 8)


def test_as_a_command(capsys):
    out = printed(capsys, "intervene", "attn-2l", "--live", "3")
    assert "live: 3 of 16 components" in out


@pytest.mark.parametrize("live", [-1, 1.5, True, "all"])
def test_a_number_that_is_none_is_refused(live):
    trace = px.random_model().run([1, 2])
    with pytest.raises(PathexpError, match="live"):
        px.intervene(trace, trace.logit(5), live=live)


def test_it_goes_with_components_in_turn_alone():
    trace = px.random_model(layers=2).run([1, 2])
    for other in ({"node": "L0H0"}, {"patch_from": [3, 4]}, {"inputs": "v"}):
        with pytest.raises(PathexpError, match="live counts components"):
            px.intervene(trace, trace.logit(5), live=1, **other)
    with pytest.raises(PathexpError, match="patched from one of its runs"):
        px.intervene(px.contrast(trace, trace.model.run([3, 4])), trace.logit(5), live=1)


def test_ties_and_zeros():
    """Components that do nothing are ranked in the order of the model; nothing is divided by their effect."""
    trace = px.random_model(layers=2, heads=2).run([1, 2])
    target = trace.direction(np.zeros(trace.config.d_out), -1)
    assert largest(trace, target, frozen_effects(trace, target), 3) == {"L0H0", "L0H1", "L1H0"}

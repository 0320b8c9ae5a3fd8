"""Outputs that are no vocabulary: classes, digits, a reward. They go by their numbers, everywhere."""

from __future__ import annotations

import numpy as np
import pytest

import pathexp as px
from pathexp.circuits.heads.copying import copying
from tests.expansion.test_every_architecture import freezings


def classes(**switches) -> px.Model:
    return px.random_model(layers=2, heads=2, d_vocab=30, d_out=3, biases=True, seed=4, **switches)


@pytest.mark.parametrize(
    "switches",
    [
        {"causal": False},
        {"norm": "layernorm", "d_mlp": 7, "logit_cap": 2.0, "logit_multiplier": 0.5},
        {"norm": "layernorm", "norm_placement": "post", "transform": True, "final_norm": True, "d_mlp": 7},
    ],
)
def test_paths_add_up_to_any_number_of_outputs(switches):
    run = classes(**switches).run([1, 2, 3, 4])
    assert run.logits.shape == (4, 3)
    for graph in freezings(run):
        terms = px.expand(graph)
        assert terms.verify().ok and terms.logits().shape == (4, 3)
        target = run.logit(2, position=1)
        if not graph.before_cap:
            assert terms.value(target) == pytest.approx(run.logits[1, 2], abs=1e-12)
            assert terms.tree(target).ok


def test_the_formula_is_of_the_outputs_size():
    run = classes().run([1, 2])
    terms = px.expand(run)
    found = px.evaluate(terms.expr(), terms.arrays()).reshape(2, 3)
    np.testing.assert_allclose(found, run.logits, atol=1e-12)
    assert "outputs(3)" in repr(terms["E L0H1 U"].weight)


def test_outputs_go_by_their_numbers():
    run = classes().run([1, 2, 3])
    assert repr(run.logit("2")) == repr(run.logit(2)) and "logit of 2" in repr(run.logit(2))
    assert run.logit_difference(0, 2).value == pytest.approx(run.logits[-1, 0] - run.logits[-1, 2])
    assert run.direction([1.0, 0, 0]).value == run.logits[-1, 0]
    assert px.lens(run, run.logit(2)).ok
    for wrong in (3, -1, "the", True, 1.5):
        with pytest.raises(px.PathexpError, match="no output"):
            run.logit(wrong)
    with pytest.raises(px.PathexpError, match="d_out = 3"):
        run.direction(np.ones(30))


@pytest.mark.parametrize(
    "ask",
    [
        lambda model: model.run([1, 2]).loss(),
        lambda model: px.bigrams(model, [[1, 2, 1, 2]]),
        lambda model: copying(model),
        lambda model: px.induction(model),
    ],
)
def test_questions_about_tokens_are_refused(ask):
    with pytest.raises(px.PathexpError, match="outputs"):
        ask(classes())


def test_what_does_not_fit_is_refused():
    with pytest.raises(px.PathexpError, match="d_out must be d_vocab"):
        px.random_model(d_vocab=30, d_out=3, tied=True)
    with pytest.raises(px.PathexpError, match="d_out"):
        px.random_model(d_out=0)


def test_saved_and_loaded(tmp_path):
    model = classes()
    model.save(tmp_path / "classes.npz")
    again = px.load(tmp_path / "classes.npz")
    assert again.config == model.config and again.config.d_out == 3
    np.testing.assert_array_equal(again.run([1, 2]).logits, model.run([1, 2]).logits)


def test_a_file_from_before_has_as_many_outputs_as_tokens():
    values = px.load("attn-1l").config.to_dict()
    del values["d_out"]
    assert px.Config.from_dict(values) == px.load("attn-1l").config


@pytest.mark.parametrize("norm", ["layernorm", "rmsnorm"])
def test_a_model_of_one_output_can_be_rewritten(norm):
    """A reward is a logit that no softmax shifts: its size is its own."""
    model = px.random_model(layers=2, heads=2, d_vocab=30, d_out=1, d_mlp=7, norm=norm, biases=True, seed=4)
    assert px.rewrite.compare(model, px.rewrite.fold_norms(model)).equal

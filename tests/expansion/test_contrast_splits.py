"""Other exact ways to divide the mixed part of products: the sum stays, paths move, laws hold."""

from dataclasses import replace

import numpy as np
import pytest

import pathexp as px
from pathexp.errors import FreezeError
from tests.expansion.test_contrast import EVERY, assert_adds_up_everywhere, two_runs
from tests.expansion.test_contrast_sources import few, moved


@pytest.mark.sampled(6)
@pytest.mark.parametrize("split", ["here", "there"])
@pytest.mark.parametrize("name", EVERY)
def test_paths_add_up_however_products_are_split(name, split):
    here, there = two_runs(EVERY[name]())
    for ports in (False, True):
        graph = px.contrast(here, there, mlp_ports=ports, split=split)
        assert few(graph).ok and graph.frozen[-1].startswith("products")
        assert_adds_up_everywhere(here, there, graph)
    if here.config.n_layers:
        assert px.expand(graph, at="L0H0.score").verify().ok
        assert few(px.contrast(here, px.rerun(there, {"L0.attn_in": moved(3)}), split=split)).ok


@pytest.mark.parametrize("name", ["gpt2", "gemma2", "olmo2", "2L-qk"])
def test_exchanged_runs_exchange_the_splits(name):
    here, there = two_runs(EVERY[name]())
    ahead = px.expand(px.contrast(here, there, split="here"), "E .? U")
    back = px.expand(px.contrast(there, here, split="there"), "E .? U")
    for term, same in zip(ahead, back, strict=True):
        np.testing.assert_array_equal(term.logits(), -same.logits())


def test_a_head_by_hand():
    """One head without norms: patterns of one run where values move, values of the other where patterns change."""
    here, there = two_runs(px.random_model(layers=1, heads=1, d_model=6, d_head=3, positions="none", seed=3))
    w, out = here.model.weights, {}
    pattern, values = (here.patterns[0, 0], there.patterns[0, 0]), (here.values[0, 0], there.values[0, 0])
    out["here"] = pattern[0] @ (values[0] - values[1]), (pattern[0] - pattern[1]) @ values[1]
    out["there"] = pattern[1] @ (values[0] - values[1]), (pattern[0] - pattern[1]) @ values[0]
    for split, (by_values, by_scores) in out.items():
        terms = px.expand(px.contrast(here, there, split=split))
        for found, query in ((by_values, "E V U"), (by_scores, "E (K | Q) U")):
            np.testing.assert_allclose(
                terms.where(query).logits(), found @ w.W_O[0, 0].T @ w.W_U.T, atol=1e-13
            )


def test_splits_differ_and_meet_as_runs_do():
    model = EVERY["llama"]()
    table = np.array(model.weights.W_E)
    table[:, 1] = table[:, 0] + 1e-6 * np.cos(np.arange(len(table)))
    near = replace(model, config=replace(model.config, tied=False), weights=replace(model.weights, W_E=table))
    for one, runs, apart in (
        (model, two_runs(model), 1e-3),
        (near, (near.run([1, 3, 4, 2]), near.run([0, 3, 4, 2])), 0.0),
    ):
        values = [
            px.expand(px.contrast(*runs, split=split)).values(runs[0].logit(3))
            for split in ("here", "there", "midpoint")
        ]
        size = np.abs(values[2]).max()
        worst = max(np.abs(values[0] - values[2]).max(), np.abs(values[1] - values[2]).max()) / size
        assert worst > apart if apart else worst < 1e-4, one


def test_splits_of_two_models_and_unknown_ones_are_refused():
    model = px.random_model(layers=1, heads=2, seed=1)
    other = replace(model, weights=replace(model.weights, W_O=2 * model.weights.W_O))
    with pytest.raises(FreezeError, match="one model"):
        px.contrast(model.run([1, 2]), other.run([1, 2]), split="here")
    with pytest.raises(px.PathexpError, match="split"):
        px.contrast(model.run([1, 2]), model.run([1, 3]), split="half")

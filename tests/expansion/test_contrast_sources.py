"""What else sets two runs apart: keys that one run alone sees, and edits of `rerun`; each a named source, exactly."""

import pickle
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pathexp as px
from tests.expansion.test_contrast import EVERY, assert_adds_up_everywhere, two_runs
from tests.shared_models import shared_file

WITH_LAYERS = [name for name in EVERY if EVERY[name]().config.n_layers]


def masked_otherwise(model: px.Model, **switches) -> px.Model:
    return replace(model, config=replace(model.config, **switches))


def moved(seed: int):
    rng = np.random.default_rng(seed)
    return lambda x: 0.5 * x + rng.standard_normal(x.shape)


def few(graph: px.ResidualGraph) -> px.Verdict:
    return px.expand(graph, f"S .? {graph.sink.label}").verify()


# Masks -------------------------------------------------------------------------------------------------


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", WITH_LAYERS)
@pytest.mark.parametrize("switch", ["windows", "causal"])
def test_keys_that_one_run_alone_sees(name, switch):
    model = EVERY[name]()
    c = model.config
    value = {"windows": None if c.windows else 2, "causal": not c.causal}[switch]
    here, there = two_runs(model)
    there = masked_otherwise(model, **{switch: value}).run(there.tokens.tolist())
    graph = px.contrast(here, there)
    if (np.isfinite(here.scores) == np.isfinite(there.scores)).all():
        pytest.skip("this text is no longer than the window")
    assert few(graph).ok
    heads = [source.label for source in graph.sources if source.kind == "mask"]
    assert heads and all(label.startswith("dmask_L") for label in heads)
    assert not px.expand(graph.without(*heads)).verify(graph.expected).ok
    back = px.contrast(there, here)
    for label in heads:
        np.testing.assert_array_equal(graph.by_label[label].value(), -back.by_label[label].value())


def test_a_window_is_the_only_source_between_runs_of_one_text():
    """One head, one layer, no norm: what the missing keys move is what the two runs differ by, by hand."""
    model = px.random_model(layers=1, heads=1, d_model=6, d_head=3, d_vocab=7, positions="none", seed=4)
    here, there = model.run([1, 2, 3, 4]), masked_otherwise(model, windows=(2,)).run([1, 2, 3, 4])
    graph = px.contrast(here, there)
    terms = px.expand(graph)
    by_hand = (here.patterns[0, 0] - there.patterns[0, 0]) @ here.values[0, 0] @ model.weights.W_O[0, 0].T
    np.testing.assert_allclose(terms["dmask_L0H0 U"].logits(), by_hand @ model.weights.W_U.T, atol=1e-14)
    assert [source.label for source in graph.sources] == ["dmask_L0H0"]
    assert px.attribution(graph, here.logit(3), by="token").names == ("masks",)


@settings(deadline=None, max_examples=25, derandomize=True)
@given(st.integers(0, 10**6), st.sampled_from([1.0, 30.0, 1e3]), st.integers(1, 4))
def test_masks_among_sharp_patterns(seed, scale, window):
    """Weights that underflow, windows that leave one key: trees, flows and streams all add up."""
    model = px.random_model(
        layers=2,
        heads=2,
        d_model=6,
        d_head=3,
        d_vocab=9,
        d_mlp=5,
        norm="rmsnorm",
        attention_scale=scale,
        seed=seed,
    )
    here, there = two_runs(model, seed, length=7, changed=3)
    other = masked_otherwise(model, windows=window).run(there.tokens.tolist())
    graph = px.contrast(here, other)
    assert_adds_up(here, other, graph)


def assert_adds_up(here: px.Trace, other: px.Trace, graph: px.ResidualGraph) -> None:
    """The verdict, and a tree and a flow of one logit."""
    terms, target = px.expand(graph), here.logit(3)
    verdict = terms.verify()
    assert verdict.ok, str(verdict)
    change = here.logits[-1, 3] - other.logits[-1, 3]
    size = np.abs(here.logits).max() + np.abs(other.logits).max()
    assert abs(terms.tree(target, nodes=30).value - change) < 1e-11 * size
    assert abs(px.flow(graph, target).value - change) < 1e-11 * size


def test_without_masks_streams_add_up_behind_every_block():
    here, there = two_runs(EVERY["llama"]())
    assert_adds_up_everywhere(here, there, px.contrast(here, there))


# Edits -------------------------------------------------------------------------------------------------


@pytest.mark.sampled(6)
@pytest.mark.parametrize("name", EVERY)
def test_an_edit_at_every_point_is_a_source(name):
    here, there = two_runs(EVERY[name]())
    for number, point in enumerate(here.residuals):
        graph = px.contrast(here, px.rerun(there, {point: moved(number)}), mlp_ports=bool(number % 2))
        verdict = few(graph)
        assert verdict.ok, f"{point}: {verdict}"
        layer, _, what = point.rpartition(".")
        assert (
            graph.sources[-1].label == f"edit_{what}_{layer}".rstrip("_") and graph.sources[-1].kind == "edit"
        )


@pytest.mark.parametrize("name", ["gpt2", "bert", "gemma2", "olmo2", "bert-masked-token-head", "2L-qk"])
def test_edits_at_all_points_of_both_runs(name):
    here, there = two_runs(EVERY[name]())
    one = px.rerun(here, {point: moved(i) for i, point in enumerate(here.residuals) if i % 3})
    two = px.rerun(there, {point: moved(99 + i) for i, point in enumerate(here.residuals) if i % 2})
    graph = px.contrast(one, two)
    assert few(graph).ok
    ahead, back = px.expand(graph, "S .? U"), px.expand(px.contrast(two, one), "S .? U")
    for term, same in zip(ahead, back, strict=True):
        np.testing.assert_array_equal(term.logits(), -same.logits())


def test_a_run_and_its_rerun_differ_by_the_edit_alone():
    """A head silenced: one text, one source, and it is what the head wrote."""
    here = px.load("attn-2l").run("Macbeth shall sleep no more. Macbeth shall")
    written = here.head_results[0, 2]
    silenced = px.rerun(here, {"L0.attn_out": lambda x: x - written})
    graph = px.contrast(here, silenced)
    assert [source.label for source in graph.sources] == ["edit_attn_out_L0"]
    np.testing.assert_allclose(graph.sources[0].value(), written, atol=1e-12)
    target = here.logit(" sleep")
    assert px.attribution(graph, target, by="source").ok
    whole, terms = target.value - silenced.logit(" sleep").value, px.expand(graph)
    assert whole > 14  # an induction circuit without its previous-token head ...
    assert terms.where("edit_attn_out_L0 L1.K U").value(target) > 0.9 * whole  # ... lacks what keys read


def test_an_edit_that_changes_nothing_is_no_source():
    here = px.random_model(layers=1, heads=2, seed=1).run([1, 2, 3])
    graph = px.contrast(here, px.rerun(here, {"L0.out": lambda x: x}))
    assert [source.label for source in graph.sources] == ["E"] and not px.expand(graph).logits().any()


def test_what_stood_before_an_edit_survives_a_copy():
    here = px.random_model(layers=1, heads=2, seed=1).run([1, 2, 3])
    edited = pickle.loads(pickle.dumps(px.rerun(here, {"L0.out": lambda x: 2 * x})))
    np.testing.assert_array_equal(edited.before_edits["L0.out"], here.residuals["L0.out"])
    assert px.expand(px.contrast(here, edited)).verify().ok


def test_a_lost_record_of_an_edit_is_seen():
    here = px.random_model(layers=1, heads=2, seed=1).run([1, 2, 3])
    edited = replace(px.rerun(here, {"L0.out": lambda x: 2 * x}), before_edits={})
    assert not px.expand(px.contrast(here, edited)).verify().ok


def test_stories_with_an_edit_and_a_window():
    model = px.load(shared_file("stories260K.bin"))
    here = model.run("Once upon a time, there was a little dog. The dog")
    wide = masked_otherwise(model, windows=4).run(here.tokens.tolist())
    edited = px.rerun(wide, {"L2.mid": lambda x: 1.1 * x})
    graph = px.contrast(here, edited)
    verdict = px.expand(graph).verify()
    assert verdict.ok and verdict.tolerance < 1e-8, str(verdict)

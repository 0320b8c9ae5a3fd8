"""A run without each component, the streams behind all of them side by side: as each alone, in every architecture."""

import numpy as np
import pytest

import pathexp as px
from pathexp.circuits.interventions import live_without as module
from pathexp.circuits.interventions.cuts import paths_through
from pathexp.circuits.interventions.live_without import live_without
from pathexp.graph import Walk, everything
from pathexp.graph.through_each import through_each
from tests.zoo import FAMILIES, ZOO

MODELS = {**ZOO, **FAMILIES}


def run_of(name):
    model = MODELS[name]()
    n = min(5, model.config.n_ctx)
    return model.run(np.random.default_rng(1).integers(0, model.config.d_vocab, n))


@pytest.mark.sampled(12)
@pytest.mark.parametrize("name", sorted(MODELS))
def test_every_component_is_left_out_as_by_an_intervention_of_its_own(name, monkeypatch):
    trace = run_of(name)
    labels = [component.label for component in px.freeze(trace).components()]
    monkeypatch.setattr(module, "ROWS", 3 * len(trace))  # three streams at a time
    found = dict(live_without(trace, labels[::-1]))
    assert sorted(found) == sorted(labels)
    for label in labels:
        (alone,) = px.intervene(trace, trace.logit(0), node=label)
        np.testing.assert_allclose(found[label], alone.live, atol=1e-10, rtol=1e-9)


@pytest.mark.sampled(12)
@pytest.mark.parametrize("name", sorted(MODELS))
def test_paths_through_each_component_are_counted_as_those_of_its_query(name):
    graph = px.freeze(run_of(name))
    for label, count in through_each(Walk(graph, everything)).items():
        assert count == px.expand(graph, paths_through(label)).count(), label


@pytest.mark.parametrize("name", sorted(MODELS)[::7])
def test_one_position_of_a_cut_is_that_position_of_all(name):
    trace = run_of(name)
    label = px.freeze(trace).alphabet.components[0] if px.freeze(trace).alphabet.components else "E"
    (cut,) = px.intervene(trace, trace.logit(0), node=label)
    frozen, live = cut.at(1)
    np.testing.assert_allclose(frozen, cut.frozen[1], atol=1e-10, rtol=1e-9)
    np.testing.assert_allclose(live, cut.live[1], atol=1e-10, rtol=1e-9)

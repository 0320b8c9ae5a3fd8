"""What may be frozen how: options that are none are refused by name."""

from __future__ import annotations

import gc
from typing import Any
from weakref import ref

import numpy as np
import pytest

import pathexp as px
from pathexp.errors import FreezeError, PathexpError

TRACE = px.random_model(norm="layernorm", d_mlp=7, biases=True).run([3, 1, 4])


@pytest.mark.parametrize(
    "neurons",
    [{"0": [1]}, {0: "12"}, {0: [1.0]}, {0: [True]}, {True: [1]}, {0: 3}, [1, 2], None],
)
def test_neurons_are_whole_numbers_by_layer(neurons: Any) -> None:
    with pytest.raises(FreezeError, match="neurons must be whole numbers by layer"):
        px.freeze(TRACE, neurons=neurons)


@pytest.mark.parametrize("which", [[2, 5], np.array([2, 5]), {2, 5}, range(2, 6, 3)])
def test_neurons_of_any_kind_of_whole_numbers_become_components(which: Any) -> None:
    graph = px.freeze(TRACE, neurons={np.int64(1): which})
    assert {"L1N2", "L1N5", "L1M"} <= set(graph.by_label)
    assert px.expand(graph).verify().ok


def test_a_model_is_no_run() -> None:
    with pytest.raises(PathexpError, match=r"freeze\(\), trace: expected a trace, got Model\("):
        px.freeze(TRACE.model)  # type: ignore[arg-type]


def test_entries_that_are_not_there() -> None:
    with pytest.raises(PathexpError, match="no entry 'L9H0'; entries are E, P"):
        px.decompose(TRACE).written("L9H0")


def test_freezing_again_gives_the_same_graph_while_the_run_lives():
    trace = px.random_model(layers=2, heads=2, d_mlp=8).run([1, 2, 3])
    graph, sources = px.freeze(trace), px.freeze(trace, mlp="source")
    assert px.freeze(trace) is graph is px.freeze(graph.trace) and px.freeze(trace, mlp="source") is sources
    assert px.freeze(trace, neurons={1: [2]}) is px.freeze(trace, neurons={1: (2,)}) is not graph


def test_a_graph_and_what_is_kept_for_it_hold_no_run_alive():
    trace = px.random_model(layers=2, heads=2, d_mlp=8).run([1, 2, 3])
    graph, ranking = px.freeze(trace), px.expand(trace).top(2, trace.logit(1))
    run, frozen, block = ref(trace), ref(graph), ref(graph.blocks[0])
    del trace
    gc.collect()
    assert run() is None and graph.trace is not None and ranking.exact
    del graph, ranking
    gc.collect()
    assert frozen() is None and block() is None


def test_runs_that_are_let_go_leave_at_once_without_a_collection():
    gc.collect()
    gc.disable()
    try:
        trace = px.random_model(layers=2, heads=2).run([1, 2, 3])
        assert px.expand(trace).verify().ok
        run, frozen = ref(trace), ref(px.freeze(trace))
        del trace
        assert run() is None and frozen() is None
    finally:
        gc.enable()


@pytest.mark.parametrize("layer", [-1, 2, 9])
def test_neurons_of_a_layer_that_is_not_there_are_refused(layer):
    trace = px.random_model(layers=2, heads=2, d_mlp=6).run([1, 2])
    with pytest.raises(px.errors.FreezeError, match=f"neurons of layer {layer}"):
        px.freeze(trace, neurons={layer: [0]})

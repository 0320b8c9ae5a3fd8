"""Copies are as read-only as what they copy, and what a mask hides is never read as numbers."""

import copy
import pickle
from collections.abc import Mapping

import numpy as np
import pytest

import pathexp as px
from pathexp.algebra import Dense, Space
from pathexp.errors import PathexpError

MODEL = px.random_model(layers=2, heads=2, d_mlp=6, norm="layernorm", biases=True, seed=1)
TRACE = MODEL.run([1, 2, 3])

VALUES = {
    "weights": lambda: MODEL.weights,
    "model": lambda: MODEL,
    "trace": lambda: TRACE,
    "target": lambda: TRACE.logit(3),
    "graph": lambda: px.freeze(TRACE),
    "expansion": lambda: px.expand(TRACE),
    "score": lambda: px.score(TRACE, "L1H0", query=-1, key=0),
    "attribution": lambda: px.attribution(TRACE, TRACE.logit(3)),
    "tree": lambda: px.tree(TRACE, TRACE.logit(3), nodes=3),
    "ranking": lambda: px.expand(TRACE).top(3, TRACE.logit(3)),
    "flow": lambda: px.flow(TRACE, TRACE.logit(3)),
    "average": lambda: px.average(px.attribution, MODEL, [px.Case([1, 2], 3)]),
    "faithfulness": lambda: px.faithfulness(MODEL, [px.Case([1, 2], 3)]),
    "contrast": lambda: px.contrast(TRACE, MODEL.run([1, 4, 3])),
}


def arrays(value, seen=None):
    """Every array that can be reached from a value, with the way there."""
    seen = set() if seen is None else seen
    if id(value) in seen or isinstance(value, str | bytes | type):
        return
    seen.add(id(value))
    if isinstance(value, np.ndarray):
        yield "", value
    members = (
        value.items()
        if isinstance(value, Mapping)
        else enumerate(value)
        if isinstance(value, tuple | list | frozenset)
        else getattr(value, "__dict__", {}).items()
    )
    for name, each in list(members):
        for way, array in arrays(each, seen):
            yield f".{name}{way}", array


@pytest.mark.parametrize("name", VALUES)
@pytest.mark.parametrize("copied", [copy.deepcopy, lambda value: pickle.loads(pickle.dumps(value))])
def test_copies_are_read_only(name, copied):
    value = VALUES[name]()
    writable = {way for way, array in arrays(value) if array.flags.writeable}
    found = {way for way, array in arrays(copied(value)) if array.flags.writeable}
    assert found <= writable, f"writable in the copy alone: {sorted(found - writable)[:9]}"


def test_masked_arrays_are_refused():
    hidden = np.ma.masked_array(np.ones((2, 2)), mask=[[0, 1], [0, 0]])
    weights = MODEL.weights.arrays()
    for call in (
        lambda: px.Weights(**{**weights, "W_E": np.ma.masked_array(weights["W_E"])}),
        lambda: MODEL.run(np.ma.masked_array([1, 2, 3], mask=[0, 1, 0])),
        lambda: TRACE.direction(np.ma.masked_array(np.ones(MODEL.config.d_model)), at="L0.out"),
        lambda: Dense(hidden, Space("a", 2), Space("b", 2)),
        lambda: px.Corpus([np.ma.masked_array([1, 2, 3])], length=2).cut(MODEL).__next__(),
        lambda: px.Case(np.ma.masked_array([1, 2, 3], mask=[0, 1, 0]), 1),
    ):
        with pytest.raises(PathexpError, match="masked"):
            call()

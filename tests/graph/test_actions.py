"""Actions of contrasts: what is pulled is the transpose of what is pushed, and their bounds on lengths and noise hold."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import pathexp as px
from pathexp.graph import Action, Dyad
from pathexp.graph.contrast.scoring import Products
from pathexp.graph.contrast.weighing import Weighing
from pathexp.graph.measures import lengths
from pathexp.graph.operators import Operator, Parallel

ENDS = ("logits", "L1H0.score", "L1H1.Q", "L1H1.K")


def actions(operator: Operator) -> Iterator[Action]:
    for part in operator:
        if isinstance(part, Action):
            yield part
        elif isinstance(part, Parallel):
            for term in part.terms:
                yield from actions(term)


def found() -> dict[str, Action]:
    """The actions of contrasts, by end and name: norms' changes, turns, weighing, and scores as ends."""
    model = px.random_model(
        layers=2, heads=2, d_head=6, norm="layernorm", positions="rotary", causal=True, seed=1
    )
    graph = px.contrast(model.run([1, 2, 3, 4]), model.run([5, 2, 3, 6]))
    made = {}
    for at in ENDS:
        ended = px.expand(graph, at=at).graph if at != "logits" else graph
        operators = [component.operator for block in ended.blocks for component in block.components]
        for operator in [*operators, ended.sink.operator]:
            made |= {f"{at} {type(action).__name__} {action.name}": action for action in actions(operator)}
    values = np.random.default_rng(0).standard_normal((4, 7))
    return made | {"by hand Dyad": Dyad("d", values[:, :3], values[:, 2:])}


ACTIONS = found()


def test_all_kinds_are_here() -> None:
    kinds = {type(action).__name__ for action in ACTIONS.values()}
    assert kinds >= {"Dyad", "Turn", "Products", "ByKeys", "ByQueries"}


@pytest.mark.parametrize("name", ACTIONS)
def test_what_is_pulled_is_the_transpose(name: str) -> None:
    action, rng = ACTIONS[name], np.random.default_rng(1)
    x = rng.standard_normal((4, action.columns))
    r = rng.standard_normal((4, action.rows))
    pushed, pulled = action.push(x), action.pull(r)
    assert pushed.shape == r.shape and pulled.shape == x.shape
    np.testing.assert_allclose((pushed * r).sum(), (x * pulled).sum(), rtol=1e-10)


@pytest.mark.parametrize("name", ACTIONS)
def test_no_image_is_longer_than_its_reach(name: str) -> None:
    """Also of the streams whose image at a position is the longest: the first singular vectors."""
    action = ACTIONS[name]
    images = np.stack([action.push(one.reshape(4, -1)) for one in np.eye(4 * action.columns)])
    for position in range(4):
        worst = np.linalg.svd(images[:, position], full_matrices=False)[0][:, 0].reshape(4, -1)
        for sizes in ([1.0, 1.0, 1.0, 1.0], [1.0, 1e-3, 5.0, 0.5]):
            x = worst * np.array(sizes)[:, None]
            assert (lengths(action.push(x)) <= action.reach(lengths(x))).all()


@pytest.mark.parametrize("name", ACTIONS)
@pytest.mark.parametrize("backward", [False, True])
def test_noise_is_no_larger_than_its_spread(name: str, backward: bool) -> None:
    action, rng = ACTIONS[name], np.random.default_rng(3)
    noise = np.array([1.0, 0.2, 3.0, 0.5])
    given = rng.standard_normal((4000, 4, action.rows if backward else action.columns)) * noise[:, None]
    made = action.pull(given) if backward else action.push(given)
    deviations = np.sqrt((made**2).mean(axis=(0, 2)))
    assert (deviations <= 1.1 * action.spread(noise, backward)).all()


def tiny(action: Any) -> Any:
    """The same with numbers so small that their products underflow."""
    if isinstance(action, Weighing):
        parts = (action.slopes, action.queries, action.keys, action.values)
        return Weighing(action.means, *(1e-200 * part for part in parts), action.sink)
    if isinstance(action, Dyad):
        return Dyad(action.name, 1e-200 * action.left, 1e-200 * action.right)
    if isinstance(action, Products):
        return Products(action.name, 1e-200 * action.slopes, 1e-200 * action.others, action.keys)
    return replace(action, weighing=tiny(action.weighing))


@pytest.mark.parametrize("name", [name for name in ACTIONS if " Turn " not in name])
def test_a_reach_that_underflows_is_not_zero(name: str) -> None:
    """0 says that nothing is there: it is where it was, and nowhere else."""
    action = ACTIONS[name]
    reached = tiny(action).reach(np.ones(4))
    assert ((reached > 0) == (action.reach(np.ones(4)) > 0)).all() and (reached <= 1e-200).all()


def test_the_first_positions_of_a_dyad_do_what_it_does_there():
    rng = np.random.default_rng(0)
    dyad, x = (
        Dyad("d", rng.standard_normal((5, 3)), rng.standard_normal((5, 4))),
        rng.standard_normal((2, 5, 4)),
    )
    first = dyad.first(2)
    assert first.name == "d" and first.positions == 2
    np.testing.assert_array_equal(first.push(x[:, :2]), dyad.push(x)[:, :2])

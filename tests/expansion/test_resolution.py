"""What rounding leaves of a ranking: margins, ties, and whether there is a list at all."""

import pytest

import pathexp as px
from pathexp.expansion.resolution import is_resolved, margin, tied_places, ties


@pytest.mark.parametrize(
    ("values", "errors", "bound", "wanted"),
    [
        ([5.0, -2.0], [0.5, 0.25], 1.0, 0.25),
        ([5.0, -2.0], [0.5, 0.25], 2.125, 0.25),
        ([5.0, -2.0], [0.5, 0.25], 3.0, 1.0),
        ([4.0, -2.0], [0.5, 0.25], 0.0, 0.5),
        ([], [], 0.5, 0.5),
        ([3.0], [0.0], 3.0, 0.0),
    ],
)
def test_a_margin_is_what_blurs_the_end(values, errors, bound, wanted):
    """What may exceed the least by how much, and the errors of values that are near it: up to twice as large."""
    assert margin(values, errors, bound) == wanted


def test_values_within_the_margin_of_the_bound_are_tied():
    values = [5.0, -2.5, 2.0]
    assert [ties(values, 0.0, bound) for bound in (0.0, 1.9, 2.0, 2.5, 9.0)] == [0, 0, 1, 2, 3]
    assert [ties(values, 0.5, bound) for bound in (1.4, 1.5, 2.0)] == [0, 1, 2]
    assert tied_places(values, 1) == "place 3" and tied_places(values, 2) == "places 2 to 3"


@pytest.mark.parametrize(
    ("values", "blurred", "sure"),
    [
        ([5.0, 2.0], 2.0, True),
        ([5.0, 2.0], 2.1, False),
        ([4.0, 0.0], 2.0**-18, True),
        ([4.0, 0.0], 2.0**-17, False),
        ([0.0], 1e-300, False),
        ([0.0], 0.0, True),
        ([], 0.0, True),
        ([5.0, float("nan")], 0.0, False),
        ([float("inf"), 2.0], 0.0, False),
    ],
)
def test_a_list_that_rounding_blurs_more_than_its_end_is_none(values, blurred, sure):
    assert is_resolved(values, blurred) == sure


def test_a_target_of_another_run_says_of_how_many_runs_this_graph_is():
    model = px.random_model(layers=1, heads=2, seed=3)
    here, there, other = (model.run(tokens) for tokens in ([1, 2], [2, 2], [3, 4]))
    with pytest.raises(px.errors.TargetError, match="on this graph's run it is"):
        px.expand(here).value(other.logit(1))
    with pytest.raises(px.errors.TargetError, match="on this graph's two runs it is"):
        px.expand(px.contrast(here, there)).value(other.logit(1))

"""Keys as a query meets them, all at once, beside the matrix of each distance."""

from dataclasses import replace

import numpy as np
import pytest

from pathexp.graph.form import ScoreForm, rotation
from pathexp.model.rotary import Rotary, Yarn


@pytest.mark.parametrize("pairing", ["half", "adjacent"])
@pytest.mark.parametrize("scaling", [None, Yarn(factor=4.0, original_n_ctx=32)], ids=["plain", "amplified"])
def test_keys_are_met_by_the_rotation_of_their_distance(pairing, scaling):
    """Two products a number: a few roundings of numbers below four."""
    rotary = replace(Rotary(dims=4, pairing=pairing), scaling=scaling)
    form = ScoreForm(7, 0.5, rotary, length=9)
    keys = np.random.default_rng(0).standard_normal((3, 9, 7))
    found = form.met(keys, 5)
    for position in range(9):
        expected = keys[:, position] @ rotation(rotary, position - 5, 7, 9).T
        assert np.allclose(found[:, position], expected, rtol=0, atol=1e-14)
    assert np.array_equal(found[:, 5], keys[:, 5]) == (scaling is None), "its own place is not turned"

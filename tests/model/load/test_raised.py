"""Matrices of files in double precision, some rows at a time: every number that whole ones have, and the place of one that is not finite."""

from pathlib import Path

import numpy as np
import pytest

from pathexp.errors import WeightsError
from pathexp.model.load.gather import Piece, as_it_is, gather, heads_out, transposed
from pathexp.model.load.raised import AT_ONCE, raised
from pathexp.model.load.safetensors_file import open_safetensors
from tests.model.load.checkpoints import bfloat16, write

WIDTH = 512
ROWS = 3 * AT_ONCE // WIDTH + 5
"""Three pieces, and some rows over."""


def numbers(seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((ROWS, WIDTH))


@pytest.mark.parametrize("kind", [bfloat16, np.float16, np.float32, np.float64])
@pytest.mark.parametrize(("begin", "end"), [(0, ROWS), (7, ROWS - 3), (5, 6), (4, 4)])
def test_rows_are_those_of_the_whole(tmp_path: Path, kind, begin, end) -> None:
    file = open_safetensors(write(tmp_path / "x", {"w": kind(numbers())}))
    made, finite = raised(file, "w", begin, end, (WIDTH,))
    np.testing.assert_array_equal(made, file.read("w")[begin:end].astype(np.float64))
    assert made.dtype == np.float64 and finite


PIECES = {
    "W_in": (as_it_is, (2, ROWS, WIDTH), (1, ROWS - 2, 3)),
    "W_O": (heads_out(2), (2, 2, ROWS, WIDTH // 2), (1, 0, ROWS - 2, 3)),
}


@pytest.mark.parametrize("ours", sorted(PIECES))
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_a_number_that_is_not_finite_is_found_in_the_last_piece(tmp_path: Path, ours, bad) -> None:
    turn, shape, place = PIECES[ours]
    arrays = {f"h.{layer}.w": numbers(layer) for layer in range(2)}
    arrays["h.1.w"][ROWS - 2, 3] = bad
    file = open_safetensors(write(tmp_path / "x", arrays))
    stored = gather(file, [Piece("h.{l}.w", (ROWS, WIDTH), {ours: turn})], 2)[ours]
    assert stored.shape == shape
    np.testing.assert_array_equal(stored[0], turn(arrays["h.0.w"]))
    with pytest.raises(
        WeightsError, match=f"{ours} has 1 numbers that are not finite, the first {bad} at"
    ) as error:
        stored[1]
    assert str(place) in str(error.value)


def test_a_table_says_in_which_row_a_number_is_not_finite(tmp_path: Path) -> None:
    table = numbers()
    table[ROWS - 2, 3] = np.nan
    file = open_safetensors(write(tmp_path / "x", {"e": table}))
    stored = gather(file, [Piece("e", (ROWS, WIDTH), {"W_E": transposed})], 1)["W_E"]
    with pytest.raises(WeightsError, match=rf"at \({ROWS - 2}, 3\)"):
        np.asarray(stored.T[10:])

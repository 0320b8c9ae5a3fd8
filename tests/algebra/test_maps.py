"""What maps cost beside their products: numbers are looked at once, and large products take memory that others let go."""

import numpy as np

from pathexp.algebra import Dense, Diagonal, Space, maps
from pathexp.budget import BUFFERS

HERE, THERE = Space("here", 2), Space("there", 3)


def test_a_transpose_does_not_look_at_the_numbers_again(monkeypatch):
    looked, checked = [], maps.checked
    monkeypatch.setattr(maps, "checked", lambda *given: looked.append(given) or checked(*given))
    for dtype in (np.float64, np.float32):
        made = Dense(np.arange(6.0).reshape(2, 3), HERE, THERE, "W", dtype=dtype)
        turned = made.T
        assert (turned.target, turned.source, turned.formula, turned.array.dtype) == (
            THERE,
            HERE,
            "Wᵀ",
            dtype,
        )
        assert turned.T.formula == "W" and np.shares_memory(turned.array, made.array)
        assert not turned.array.flags.writeable
        np.testing.assert_array_equal(turned.apply(np.ones(2)), [3.0, 5.0, 7.0])
    assert len(looked) == 2


def test_a_large_diagonal_product_takes_memory_that_was_let_go():
    scale = Diagonal(np.array([2.0, -1.0]), HERE)
    x = np.ones((2**18, 2))
    made = scale.apply(x)
    np.testing.assert_array_equal(made[[0, -1]], [[2.0, -1.0]] * 2)
    before = BUFFERS.spare
    del made
    assert BUFFERS.spare == before + x.nbytes
    assert scale.apply(x.astype(np.float32)[:1]).dtype == np.float64
    single = Diagonal(np.array([2.0, -1.0]), HERE, dtype=np.float32)
    assert single.apply(x.astype(np.float32)).dtype == np.float32

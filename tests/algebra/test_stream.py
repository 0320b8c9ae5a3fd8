"""The dense form in blocks: the same numbers as at once, on disk as in memory, and nothing half written."""

import numpy as np
import pytest

from pathexp.algebra import Dense, Space, row_blocks, save_dense, stream
from pathexp.errors import SizeError


def table(rows=23, columns=17, waist=3, size=1.0):
    rng = np.random.default_rng(0)
    inner = Space("waist", waist)
    left = Dense(size * rng.standard_normal((rows, waist)), Space("out", rows), inner)
    return left @ Dense(rng.standard_normal((waist, columns)), inner, Space("in", columns))


@pytest.mark.parametrize("entries", [1, 40, 10_000])
def test_blocks_are_the_dense_form(monkeypatch, entries):
    monkeypatch.setattr(stream, "ROWS_AT_ONCE", entries)
    for map in (table(), table(waist=40)):
        blocks = list(row_blocks(map))
        np.testing.assert_allclose(np.concatenate([block for _, block in blocks]), map.dense(), rtol=1e-12)
        assert [first for first, _ in blocks] == list(np.cumsum([0, *(len(b) for _, b in blocks[:-1])]))
        assert all(len(block) == 1 or block.size <= entries for _, block in blocks)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_a_file_reads_back(tmp_path, monkeypatch, dtype):
    monkeypatch.setattr(stream, "ROWS_AT_ONCE", 40)
    seen = []
    save_dense(table(), tmp_path / "table.npy", dtype, lambda done, rows: seen.append((done, rows)))
    found = np.load(tmp_path / "table.npy", mmap_mode="r", allow_pickle=False)
    assert found.dtype == dtype and found.shape == (23, 17)
    np.testing.assert_allclose(found, table().dense(), rtol=1e-3 if dtype == "float16" else 1e-6)
    assert seen[-1] == (23, 23) and len(seen) == 12
    assert [entry.name for entry in tmp_path.iterdir()] == ["table.npy"]


def test_nothing_half_written_is_left(tmp_path, monkeypatch):
    monkeypatch.setattr(stream, "ROWS_AT_ONCE", 40)
    with pytest.raises(SizeError, match="beyond the largest float16"):
        save_dense(table(size=1e6), tmp_path / "table.npy", "float16")

    def stop(done, rows):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        save_dense(table(), tmp_path / "table.npy", progress=stop)
    assert not list(tmp_path.iterdir())


def test_a_full_disk_is_said_before_a_byte_is_written(tmp_path):
    huge = table(rows=1_000_000, columns=1, waist=1)
    wide = huge @ Dense(np.ones((1, 2_000_000)), Space("in", 1), Space("tokens", 2_000_000))
    with pytest.raises(SizeError, match=r"8,000\.0 GB .* are free"):
        save_dense(wide, tmp_path / "table.npy")


@pytest.mark.parametrize("dtype", ["int8", "complex128", "bool", "S4", "object"])
def test_only_real_floating_numbers_are_saved(tmp_path, dtype):
    with pytest.raises(SizeError, match="float16, float32 or float64, not as"):
        save_dense(table(), tmp_path / "table.npy", dtype)
    assert not list(tmp_path.iterdir())

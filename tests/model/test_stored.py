"""Weights as they are stored: to the bit those in memory, whatever is asked and however little is kept."""

from __future__ import annotations

import copy
import json
import os
import pickle
import warnings
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pathexp as px
from pathexp.budget import memory_budget
from pathexp.circuits.corpus.tally import question_of
from pathexp.errors import LoadError, LoadWarning, WeightsError
from pathexp.model.load.opened_file import OpenedFile
from pathexp.model.mlp import by_rows
from pathexp.model.stored import BLOCK, Stored, StoredLayers, StoredRows
from pathexp.model.weights import Weights
from tests.model.load.checkpoints import GPT2, LLAMA, bfloat16, folder, gpt2_arrays, llama_arrays, shards
from tests.model.load.test_llama2c import arrays as llama2c_arrays
from tests.model.load.test_llama2c import written as llama2c_written

TOKENS = [3, 1, 4, 1, 5, 9, 2, 6, 5]


def _bfloat16(path: Path) -> Path:
    return folder(path, LLAMA, {name: bfloat16(array) for name, array in llama_arrays().items()})


def _gguf(path: Path) -> Path:
    pytest.importorskip("gguf")
    from tests.model.load.test_gguf import fields_of, model_of, tensors_of, written

    model = model_of("llama")
    return written(
        path.with_suffix(".gguf"), "llama", fields_of(model, "llama"), tensors_of(model), packed="Q8_0"
    )


FILES: dict[str, Callable[[Path], Path]] = {
    "float32": lambda path: folder(path, LLAMA, {n: a.astype(np.float32) for n, a in llama_arrays().items()}),
    "bfloat16": _bfloat16,
    "gpt2, fused and transposed": lambda path: folder(path, GPT2, gpt2_arrays()),
    "gguf, packed": _gguf,
    "llama2.c": lambda path: llama2c_written(path.with_suffix(".bin"), llama2c_arrays()),
    "llama2.c, untied": lambda path: llama2c_written(path.with_suffix(".bin"), llama2c_arrays(tied=False)),
}

ASKED: dict[str, Callable[[px.Model], Any]] = {
    "run": lambda model: [model.run(TOKENS).logits.tolist(), model.run(TOKENS).head_results.tolist()],
    "verdict": lambda model: px.expand(model.run(TOKENS)).verify().to_dict(),
    "expand": lambda model: _about(model, partial(px.tree, nodes=20)).to_dict(),
    "flow": lambda model: _about(model, px.flow).to_dict(),
    "lens": lambda model: _about(model, px.lens).to_dict(),
    "attribution": lambda model: _about(model, px.attribution).to_dict(),
    "decompose": lambda model: px.decompose(model.run(TOKENS)).to_dict(),
    "composition": lambda model: px.composition(model).to_dict(),
    "virtual weight": lambda model: px.virtual_weight(model, "L0H0", "L1H1.V").dense().tolist(),
    "overlap": lambda model: px.overlap(model).to_dict(),
    "head": lambda model: px.head(model, "L1H0").to_dict(),
    "contrast": lambda model: (
        px.expand(px.contrast(model.run(TOKENS), model.run(TOKENS[::-1]))).verify().to_dict()
    ),
    "mark": lambda model: question_of("loss", model, 4),
    "rewrite": lambda model: px.rewrite.fold_norms(model).run(TOKENS).logits.tolist(),
}


def _about(model: px.Model, ask: Callable[..., Any]) -> Any:
    trace = model.run(TOKENS)
    return ask(trace, trace.logit(2))


def in_memory(model: px.Model) -> px.Model:
    """The same model with every number in memory."""
    found = {name: np.asarray(array) for name, array in model.weights.arrays().items()}
    return replace(model, weights=Weights(**found))


@pytest.fixture(autouse=True)
def no_warning_for_missing_tokens() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*tokenizer model None.*", LoadWarning)
        yield


@pytest.fixture(params=["all is kept", "nothing is kept"])
def budget(request: pytest.FixtureRequest) -> Iterator[None]:
    before = memory_budget().limit
    memory_budget(before if request.param == "all is kept" else 0)
    yield
    memory_budget(before)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("asked", ASKED)
@pytest.mark.parametrize("kind", FILES)
def test_the_same_to_the_bit_as_in_memory(tmp_path: Path, budget: None, kind: str, asked: str) -> None:
    model = px.load(FILES[kind](tmp_path / "x"))
    assert sum(isinstance(array, Stored) for array in model.weights.arrays().values()) >= 8
    found, expected = (ASKED[asked](each) for each in (model, in_memory(model)))
    assert json.dumps(found, default=str) == json.dumps(expected, default=str)


def test_shards_are_the_same_as_one_file(tmp_path: Path) -> None:
    arrays = {name: array.astype(np.float32) for name, array in llama_arrays().items()}
    one = px.load(folder(tmp_path / "one", LLAMA, arrays))
    shards(folder(tmp_path / "many", LLAMA, arrays), arrays, files=3)
    many = px.load(tmp_path / "many")
    np.testing.assert_array_equal(one.run(TOKENS).logits, many.run(TOKENS).logits)


# Files that change ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["bfloat16", "llama2.c", "gguf, packed"])
@pytest.mark.parametrize("change", ["cut", "grown", "written over"])
def test_a_file_that_changes_is_an_error(tmp_path: Path, kind: str, change: str) -> None:
    place = FILES[kind](tmp_path / "x")
    file = place / "model.safetensors" if place.is_dir() else place
    model = px.load(place)
    content = file.read_bytes()
    file.write_bytes({"cut": content[:-9], "grown": content + b"x", "written over": content[::-1]}[change])
    os.utime(file, ns=(1, 1))
    with pytest.raises(LoadError, match=r"Cannot read .*it has changed since the model was loaded"):
        model.run(TOKENS)


@pytest.mark.skipif(not hasattr(os, "preadv"), reason="this system reads at the file's own place alone")
def test_reading_leaves_the_files_own_place_which_forked_processes_share(tmp_path: Path) -> None:
    (tmp_path / "numbers").write_bytes(np.arange(9, dtype="<u2").tobytes())
    file = OpenedFile(tmp_path / "numbers")
    os.lseek(file.descriptor, 5, os.SEEK_SET)
    assert file.numbers(4, 3, "<u2").tolist() == [2, 3, 4]
    assert os.lseek(file.descriptor, 0, os.SEEK_CUR) == 5


def test_a_file_that_is_deleted_or_replaced_is_still_there(tmp_path: Path) -> None:
    place = FILES["bfloat16"](tmp_path / "x")
    model = px.load(place)
    (place / "model.safetensors").rename(place / "moved")
    FILES["float32"](tmp_path / "y").joinpath("model.safetensors").rename(place / "model.safetensors")
    expected = model.run(TOKENS).logits
    (place / "moved").unlink()
    memory_budget(memory_budget().limit)
    np.testing.assert_array_equal(copy.deepcopy(model).run(TOKENS).logits, expected)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(model)).run(TOKENS).logits, expected)


# What a stored array is -------------------------------------------------------------------------------------------


def layers() -> StoredLayers:
    return StoredLayers("W_in", (3, 2, 4), lambda layer: 100.0 * layer + np.arange(8.0).reshape(2, 4))


@pytest.mark.parametrize("index", [0, -1, (1, 1), (2, slice(None), 3), slice(1, 3), slice(0, 0), slice(None, None, 2),
                                   (slice(None), 0), ([2, 0],), np.array([0, 1]), (Ellipsis, 1), np.int64(2), (),
                                   (1, slice(None), [3, 0]), (1, [0, 1], [3, 0]), (0, None, 1)])  # fmt: skip
def test_layers_are_indexed_as_numpy_does(index: Any) -> None:
    np.testing.assert_array_equal(layers()[index], np.asarray(layers())[index])


@pytest.mark.parametrize("index", [0, -1, slice(2, 5), slice(5, 2), [4, 0, 4], np.array([], dtype=int), (slice(None), 1),
                                   np.array([-1, 1]), slice(None, None, 2), (2, 1), np.arange(6) > 3, np.array([[0, 1], [2, 3]])])  # fmt: skip
def test_rows_and_columns_are_indexed_as_numpy_does(index: Any) -> None:
    whole = np.arange(18.0).reshape(6, 3)
    table = StoredRows("W_U", whole.shape, lambda begin, end: whole[begin:end])
    np.testing.assert_array_equal(table[index], whole[index])
    if not isinstance(index, tuple):
        np.testing.assert_array_equal(table.T[:, index], whole.T[:, index])


@pytest.mark.parametrize("index", [3, -4, (7, 0)])
def test_layers_that_are_not_there(index: Any) -> None:
    with pytest.raises(IndexError, match="W_in has 3 layers; there is no layer"):
        layers()[index]


def test_rows_that_are_not_there() -> None:
    table = StoredRows("W_U", (6, 3), lambda begin, end: np.zeros((end - begin, 3)))
    for index in ([6], [-7], 6):
        with pytest.raises(IndexError):
            table[index]


def test_whatever_else_is_asked_is_asked_of_the_whole() -> None:
    stored, whole = layers(), np.asarray(layers())
    assert stored.mean() == whole.mean()
    np.testing.assert_array_equal(stored + 1, whole + 1)
    np.testing.assert_array_equal(np.ones(2) @ stored, np.ones(2) @ whole)
    np.testing.assert_array_equal(np.abs(-stored), whole)
    assert (stored.ndim, stored.size, stored.nbytes, len(stored)) == (3, 24, 192, 3)
    with pytest.raises(AttributeError, match="StoredLayers has no 'mena'"):
        _ = stored.mena  # type: ignore[attr-defined]
    with pytest.raises(ValueError, match="read-only"):
        stored[0][0, 0] = 1.0


def test_numbers_that_are_not_finite_are_found_when_they_are_raised() -> None:
    def read(begin: int, end: int) -> np.ndarray:
        found = np.zeros((end - begin, 2))
        found[(np.arange(begin, end) == 4), 1] = np.inf
        return found

    table = StoredRows("W_U", (6, 2), read)
    before = memory_budget().limit
    memory_budget(0)
    try:
        assert table[0:4].shape == (4, 2)
        with pytest.raises(
            WeightsError, match=r"W_U has 1 numbers that are not finite, the first inf at \(4, 1\)"
        ):
            table[3:6]
    finally:
        memory_budget(before)
    bad = StoredLayers("W_O", (2, 1), lambda layer: np.array([np.nan if layer else 0.0]))
    with pytest.raises(
        WeightsError, match=r"W_O has 1 numbers that are not finite, the first nan at \(1, 0\)"
    ):
        bad[1]


def test_wide_products_are_the_same_in_blocks() -> None:
    rng = np.random.default_rng(0)
    x, W, bias = (
        rng.standard_normal((3, 5)),
        rng.standard_normal((2 * BLOCK + 7, 5)),
        rng.standard_normal(2 * BLOCK + 7),
    )
    np.testing.assert_allclose(by_rows(x, W, bias), x @ W.T + bias, rtol=0, atol=1e-14)
    stored = StoredRows("W_U", W.shape, lambda begin, end: W[begin:end])
    np.testing.assert_array_equal(by_rows(x, stored, None), by_rows(x, W, None))

"""Files that lie, files that were cut, files that are something else: each is told apart, none is believed."""

from __future__ import annotations

import json
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pathexp.errors import LoadError
from pathexp.model.load.safetensors_file import open_safetensors
from pathexp.model.load.shards import open_folder, open_index
from tests.model.load.checkpoints import bfloat16, entry, file_bytes, shards, write, write_index

VALUES = np.array([[1.0, -2.5, 3.0], [0.0, 65504.0, -0.125]])


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.float16])
def test_what_was_written_is_read(tmp_path: Path, dtype: type) -> None:
    file = open_safetensors(write(tmp_path / "x", {"a": VALUES.astype(dtype), "b": np.ones(0, dtype)}))
    assert file.shapes == {"a": (2, 3), "b": (0,)}
    assert file.read("a").dtype == dtype
    np.testing.assert_array_equal(file.read("a"), VALUES)
    assert file.read("b").size == 0


def test_bfloat16_keeps_every_value(tmp_path: Path) -> None:
    """Signs, the smallest and largest numbers, and zero: 8 bits of exponent, as float32."""
    values = np.array([1.0, -1.0, 2.0**-126, 3.3895313892515355e38, 0.0, 1.0078125])
    read = open_safetensors(write(tmp_path / "x", {"a": bfloat16(values)})).read("a")
    np.testing.assert_array_equal(read, values)


def test_the_package_reads_and_writes_the_same(tmp_path: Path) -> None:
    package = pytest.importorskip("safetensors.numpy")
    package.save_file({"a": VALUES, "mask": np.ones(3, bool)}, tmp_path / "x")
    np.testing.assert_array_equal(open_safetensors(tmp_path / "x").read("a"), VALUES)
    np.testing.assert_array_equal(package.load_file(write(tmp_path / "y", {"a": VALUES}))["a"], VALUES)


WHOLE = file_bytes({"a": entry("F64", [2], 0, 16)}, bytes(16))
BROKEN: dict[str, tuple[bytes, str]] = {
    "a Git-LFS pointer": (
        b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n", "Git-LFS pointer",
    ),
    "seven bytes": (bytes(7), "it has 7 bytes"),
    "cut by one byte": (WHOLE[:-1], r"truncated: expected 16 bytes of data, found 15 \(1 missing\)"),
    "a header of 2^63 bytes": (
        file_bytes(b"{}", length=2**63), "9,223,372,036,854,775,808 bytes, over the limit of 100,000,000",
    ),
    "cut in the header": (WHOLE[:20], r"truncated within the header: expected \d+ bytes up to there, found 20"),
    "a page of HTML": (b"<!DOCTYPE html><html></html>", "its first 8 bytes, b'<!DOCTYP'"),
    "another file": (file_bytes(b"[1, 2]"), "it begins with"),
    "no JSON": (file_bytes(b'{"a": '), "its header is no JSON"),
    "deep JSON": (file_bytes(b'{"a":' + b"[" * 100_000), "its header is no JSON"),
    "no text": (file_bytes(b'{"\xff": 1}'), "its header is no JSON"),
    "a name twice": (file_bytes(b'{"a": 1, "b": 2, "a": 3}'), "names 'a' twice"),
    "no dtype": (file_bytes({"a": {"shape": [1]}}), "must give dtype, shape and data_offsets for 'a'"),
    "a dtype that is no name": (file_bytes({"a": entry(["F32"], [1], 0, 4)}, bytes(4)), r"dtype \['F32'\]"),
    "an unknown dtype": (file_bytes({"a": entry("F128", [1], 0, 16)}, bytes(16)), "dtype 'F128'"),
    "a negative size": (file_bytes({"a": entry("F64", [-1], 0, 8)}, bytes(8)), r"shape \[-1\]"),
    "a size that is true": (file_bytes({"a": entry("F64", [True], 0, 8)}, bytes(8)), r"shape \[True\]"),
    "offsets out of order": (file_bytes({"a": entry("F64", [1], 8, 0)}, bytes(8)), "in order"),
    "keys and values alias": (
        file_bytes({"k": entry("F32", [2], 0, 8), "v": entry("F32", [2], 0, 8)}, bytes(8)), "'k'.*'v'.*overlap",
    ),
    "a million numbers in four bytes": (
        file_bytes({"a": entry("F32", [1000, 1000], 0, 4)}, bytes(4)), "takes 4,000,000 bytes.*give it 4",
    ),
    "a hole": (
        file_bytes({"a": entry("F32", [1], 0, 4), "b": entry("F32", [1], 8, 12)}, bytes(12)),
        "bytes 4 to 8 of the data, before 'b'",
    ),
    "a hole at the start": (file_bytes({"a": entry("F32", [1], 4, 8)}, bytes(8)), "bytes 0 to 4"),
    "something after the end": (WHOLE + b"x", "1 bytes after the last tensor"),
}  # fmt: skip


@pytest.mark.parametrize("case", BROKEN)
def test_broken_files_are_refused_each_in_its_own_words(tmp_path: Path, case: str) -> None:
    content, message = BROKEN[case]
    path = tmp_path / "model.safetensors"
    path.write_bytes(content)
    tracemalloc.start()
    with pytest.raises(LoadError, match=message):
        open_safetensors(path)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 1_000_000


def test_the_messages_differ() -> None:
    messages = [message for _, message in BROKEN.values()]
    assert len(set(messages)) >= len(messages) - 2  # three kinds of no JSON


def test_an_empty_tensor_at_the_end_is_accepted(tmp_path: Path) -> None:
    header = {"a": entry("F32", [1], 0, 4), "b": entry("F32", [0], 4, 4)}
    (tmp_path / "x").write_bytes(file_bytes(header, bytes(4)))
    assert open_safetensors(tmp_path / "x").shapes == {"a": (1,), "b": (0,)}


@given(st.binary(max_size=60), st.integers(0, 2**64 - 1) | st.none())
def test_arbitrary_bytes_never_do_worse_than_an_error(
    tmp_path_factory: Any, raw: bytes, length: int | None
) -> None:
    path = tmp_path_factory.mktemp("any") / "x"
    path.write_bytes(raw if length is None else file_bytes(raw, length=length))
    try:
        file = open_safetensors(path)
    except LoadError:
        return
    assert file.shapes == {}  # such as "{}", a file of no tensors


@given(st.data())
def test_a_changed_header_is_never_believed(tmp_path_factory: Any, data: Any) -> None:
    """Whatever offsets and shape are claimed, what opens covers the data exactly."""
    number = st.integers(0, 24)
    header = {
        name: entry("F32", [data.draw(number)], data.draw(number), data.draw(number)) for name in ("a", "b")
    }
    path = tmp_path_factory.mktemp("any") / "x"
    path.write_bytes(file_bytes(header, bytes(24)))
    try:
        file = open_safetensors(path)
    except LoadError:
        return
    assert sum(4 * shape[0] for shape in file.shapes.values()) == 24


def test_integers_are_no_weights(tmp_path: Path) -> None:
    file = open_safetensors(write(tmp_path / "x", {"W_Q": np.ones((2, 2), np.int32)}))
    with pytest.raises(LoadError, match=r"'W_Q' holds I32.*dequantize"):
        file.read("W_Q")


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(LoadError, match="No such file"):
        open_safetensors(tmp_path / "x")


# Several files ---------------------------------------------------------------------------------------------

ARRAYS = {"a": np.ones(2), "b": np.zeros((2, 2)), "c": np.full(3, 2.0)}


def test_shards_are_one_checkpoint(tmp_path: Path) -> None:
    shards(tmp_path, ARRAYS)
    found = open_folder(tmp_path)
    assert found.shapes == {"a": (2,), "b": (2, 2), "c": (3,)}
    for name, array in ARRAYS.items():
        np.testing.assert_array_equal(found.read(name), array)


def test_a_missing_shard_is_named(tmp_path: Path) -> None:
    where = shards(tmp_path, ARRAYS)
    (tmp_path / where["b"]).unlink()
    with pytest.raises(
        LoadError, match=r"1 of the 2 files that it names are not there: 'model-00002-of-00002"
    ):
        open_folder(tmp_path)
    (tmp_path / where["a"]).unlink()
    with pytest.raises(LoadError, match=r"2 of the 2 files .*'model-00001.*'model-00002"):
        open_folder(tmp_path)


def test_index_and_files_agree_in_both_directions(tmp_path: Path) -> None:
    where = shards(tmp_path, ARRAYS)
    write_index(tmp_path, where | {"d": where["a"]})
    with pytest.raises(LoadError, match=r"not in their files: 'd \(model-00001"):
        open_folder(tmp_path)
    write_index(tmp_path, {name: file for name, file in where.items() if name != "a"})
    with pytest.raises(LoadError, match="does not place there: 'a'"):
        open_folder(tmp_path)


def test_a_tensor_in_two_files_is_refused(tmp_path: Path) -> None:
    where = shards(tmp_path, ARRAYS)
    write(tmp_path / where["b"], {"b": ARRAYS["b"], "a": ARRAYS["a"]})
    with pytest.raises(LoadError, match="does not place there: 'a'"):
        open_folder(tmp_path)


@pytest.mark.parametrize("name", ["../x.safetensors", "/etc/passwd", "a/b", 7, ""])
def test_an_index_stays_in_its_folder(tmp_path: Path, name: Any) -> None:
    write_index(tmp_path, {"a": name})
    with pytest.raises(LoadError, match="not a plain file name"):
        open_folder(tmp_path)


def test_an_index_that_places_a_tensor_twice_is_refused(tmp_path: Path) -> None:
    where = shards(tmp_path, ARRAYS)
    index = tmp_path / "model.safetensors.index.json"
    twice = f'"weight_map": {{"a": "{where["b"]}", '
    index.write_text(index.read_text().replace('"weight_map": {', twice))
    with pytest.raises(LoadError, match="it names 'a' twice"):
        open_folder(tmp_path)


@pytest.mark.parametrize("content", ["[]", "{}", '{"weight_map": {}}', "no JSON", '{"weight_map": [1]}'])
def test_an_index_that_is_none(tmp_path: Path, content: str) -> None:
    path = tmp_path / "model.safetensors.index.json"
    path.write_text(content)
    with pytest.raises(LoadError, match=r"weight_map|no JSON"):
        open_index(path)


def test_two_checkpoints_in_one_folder_are_not_guessed_between(tmp_path: Path) -> None:
    shards(tmp_path, ARRAYS)
    write(tmp_path / "model.safetensors", ARRAYS)
    with pytest.raises(LoadError, match="two checkpoints"):
        open_folder(tmp_path)


def test_a_folder_without_tensors_says_what_is_there(tmp_path: Path) -> None:
    with pytest.raises(LoadError, match=r"no \*\.safetensors at all"):
        open_folder(tmp_path)
    write(tmp_path / "other.safetensors", ARRAYS)
    with pytest.raises(LoadError, match=r"'other\.safetensors': give the path of one"):
        open_folder(tmp_path)
    (tmp_path / "pytorch_model.bin").write_bytes(b"PK")
    with pytest.raises(LoadError, match="pickle, which can run code"):
        open_folder(tmp_path)


def test_the_header_of_json_keeps_names_apart(tmp_path: Path) -> None:
    """Names are any text, such as those with quotes or newlines."""
    name = 'a "b"\nλ'
    assert json.dumps(name) != name
    assert list(open_safetensors(write(tmp_path / "x", {name: np.ones(1)})).shapes) == [name]

"""Our own files: they come back exactly, and a damaged one is told apart from a good one."""

from __future__ import annotations

import json
import tracemalloc
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pathexp.errors import LoadError, WeightsError
from pathexp.model.handmade import random_model, zero_layer_bigram
from pathexp.model.model import Model
from pathexp.model.npz import load_npz, save_npz
from pathexp.model.tokenizer import Tokenizer
from tests.zoo import FAMILIES, MORE_EXPERTS, ZOO

MODEL = random_model(layers=1, heads=2, d_vocab=3, biases=True, norm="layernorm")
LETTERS = Tokenizer(("a", "b", "ab"))


@pytest.mark.parametrize("name", [*ZOO, *FAMILIES, *MORE_EXPERTS])
def test_a_model_comes_back_exactly(name: str, tmp_path: Path) -> None:
    model = {**ZOO, **FAMILIES, **MORE_EXPERTS}[name]()
    model.save(tmp_path / "model.npz")
    again = load_npz(tmp_path / "model.npz")
    assert (again.config, again.name, again.tokenizer) == (model.config, model.name, None)
    _assert_same_arrays(again, model)


def test_half_precision_on_disk_is_double_in_hand(tmp_path: Path) -> None:
    save_npz(MODEL, tmp_path / "half.npz", dtype=np.float16)
    again = load_npz(tmp_path / "half.npz")
    for name, array in MODEL.weights.arrays().items():
        np.testing.assert_array_equal(again.weights.arrays()[name], array.astype(np.float16))
        assert again.weights.arrays()[name].dtype == np.float64
    save_npz(MODEL, tmp_path / "double.npz")
    assert (tmp_path / "half.npz").stat().st_size < 0.5 * (tmp_path / "double.npz").stat().st_size


def test_the_same_model_makes_the_same_bytes(tmp_path: Path) -> None:
    for name in ("a.npz", "b.npz"):
        MODEL.save(tmp_path / name)
    assert (tmp_path / "a.npz").read_bytes() == (tmp_path / "b.npz").read_bytes()


def test_the_tokenizer_comes_along(tmp_path: Path) -> None:
    Model(MODEL.config, MODEL.weights, LETTERS, "letters").save(tmp_path / "m.npz")
    again = load_npz(tmp_path / "m.npz")
    assert again.tokenizer == LETTERS
    assert again.run("aba").token_strings == ("ab", "a")


def test_numbers_too_large_for_the_precision_are_refused(tmp_path: Path) -> None:
    model = zero_layer_bigram([[0.0, 1e6], [1.0, 0.0]])
    with pytest.raises(WeightsError, match=r"W_U holds 1e\+06, too large for float16"):
        save_npz(model, tmp_path / "m.npz", dtype=np.float16)
    assert not (tmp_path / "m.npz").exists()


@pytest.mark.parametrize("name", ["m", "m.bin", "m.npz.txt"])
def test_another_ending_is_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(LoadError, match="give a name that ends in"):
        MODEL.save(tmp_path / name)


@pytest.mark.parametrize("dtype", ["int8", "complex128"])
def test_another_precision_is_refused(dtype: str, tmp_path: Path) -> None:
    with pytest.raises(LoadError, match=f"Cannot save as {dtype}: the precisions known are float64"):
        save_npz(MODEL, tmp_path / "m.npz", dtype=dtype)


def _raw(**changes: Any) -> dict[str, Any]:
    """The members of a good file, some of them changed; None takes one out."""
    header = {"format": "pathexp", "version": 1, "name": "m", "config": MODEL.config.to_dict()}
    raw: dict[str, Any] = {"header": header | {"tokenizer": None}, **MODEL.weights.arrays()} | changes
    raw["header"] = raw["header"] if isinstance(raw["header"], bytes) else json.dumps(raw["header"]).encode()
    raw["header"] = np.frombuffer(raw["header"], dtype=np.uint8)
    return {name: value for name, value in raw.items() if value is not None}


def _header(**changes: Any) -> dict[str, Any]:
    return json.loads(_raw()["header"].tobytes()) | changes  # type: ignore[no-any-return]


DAMAGED: dict[str, tuple[dict[str, Any], str]] = {
    "missing array": (_raw(W_Q=None, W_U=None), "arrays missing: W_Q, W_U"),
    "unknown array": (_raw(W_X=np.eye(2)), "arrays not known: W_X"),
    "wrong shape": (_raw(W_U=np.eye(3)), r"W_U has shape \(3, 3\), expected \(3, 24\)"),
    "not finite": (_raw(W_U=np.full((3, 24), np.nan)), "W_U has 72 numbers that are not finite"),
    "not finite, of no dimensions": (
        _raw(W_U=np.float64("nan")),
        "1 numbers that are not finite, the first nan at",
    ),
    "text for numbers": (_raw(W_U=np.full((3, 24), "x")), "W_U must hold real numbers"),
    "objects": (
        _raw(W_U=np.full((3, 24), None, dtype=object)),
        "array 'W_U': Object arrays cannot be loaded",
    ),
    "later version": (
        _raw(header=_header(version=2)),
        "version 2 of the format; this release reads version 1",
    ),
    "other format": (_raw(header=_header(format="other")), "does not say that its format is 'pathexp'"),
    "header no JSON": (_raw(header=b"{"), "its header is no JSON"),
    "header no text": (_raw(header=b"\xff\xfe"), "its header is no JSON"),
    "header a list": (_raw(header=[1]), "does not say that its format"),
    "config no mapping": (_raw(header=_header(config=3)), "must give 'config' as dict, found 3"),
    "name no text": (_raw(header=_header(name=None)), "must give 'name' as str, found None"),
    "unknown switch": (
        _raw(header=_header(config=MODEL.config.to_dict() | {"warp": 1})),
        "Config has no 'warp'",
    ),
    "size out of range": (
        _raw(header=_header(config=MODEL.config.to_dict() | {"n_heads": -2})),
        "n_heads: expected an integer ≥ 1, got -2",
    ),
    "unknown tokenizer": (_raw(header=_header(tokenizer={"kind": "oracle"})), "'oracle' is not known"),
}


@pytest.mark.parametrize("what", DAMAGED)
def test_a_file_with_wrong_contents_is_refused(what: str, tmp_path: Path) -> None:
    members, message = DAMAGED[what]
    path = tmp_path / "m.npz"
    np.savez(path, **members)
    with pytest.raises(LoadError, match=message) as caught:
        load_npz(path)
    assert str(path) in str(caught.value)


@pytest.mark.parametrize(
    ("members", "message"),
    [
        ({"b_gate": np.zeros(5_000_000)}, "b_gate has no place in this configuration"),
        ({"W_U": np.zeros((3, 24), dtype="V500000")}, "W_U claims 36,000,128 bytes"),
        ({"W_U": np.zeros(5_000_000)}, r"W_U has shape \(5000000,\), expected"),
    ],
)
def test_arrays_without_a_place_are_refused_before_they_are_unpacked(
    members: dict[str, Any], message: str, tmp_path: Path
) -> None:
    path = tmp_path / "m.npz"
    np.savez_compressed(path, **_raw(**members))
    tracemalloc.start()
    with pytest.raises(LoadError, match=message):
        load_npz(path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 10_000_000


def test_the_undamaged_members_make_a_good_file(tmp_path: Path) -> None:
    np.savez(tmp_path / "m.npz", **_raw())
    _assert_same_arrays(load_npz(tmp_path / "m.npz"), MODEL)


def _truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-200])


def _flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 255
    path.write_bytes(bytes(data))


def _twice(path: Path) -> None:
    with zipfile.ZipFile(path) as archive:
        again = archive.read("W_U.npy")
    with zipfile.ZipFile(path, "a") as archive, pytest.warns(UserWarning, match="Duplicate"):
        archive.writestr("W_U.npy", again)


def _no_array(path: Path) -> None:
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("notes.txt", "hello")


def _lying(path: Path) -> None:
    """A member whose header promises more numbers than follow."""
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    short = members["W_U.npy"].replace(b"'shape': (3, 24), ", b"'shape': (9, 24), ")
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in (members | {"W_U.npy": short}).items():
            archive.writestr(name, data)


BROKEN: dict[str, tuple[Callable[[Path], object], str]] = {
    "truncated": (_truncate, "no npz file, or damaged"),
    "a flipped byte": (_flip, "no npz file, or damaged"),
    "empty": (lambda path: path.write_bytes(b""), r"\(0 bytes\): no npz file, or damaged"),
    "no zip": (lambda path: path.write_text("hello"), "no npz file, or damaged"),
    "a pickle": (lambda path: path.write_bytes(b"\x80\x04N."), "no npz file, or damaged"),
    "a member twice": (_twice, "W_U.npy is in it more than once"),
    "a member that is no array": (_no_array, "'notes.txt' is no array"),
    "a lying header": (_lying, "W_U has shape"),
    "a plain npz": (lambda path: np.savez(path, x=np.eye(2)), "it has no 'header'"),
    "gone": (lambda path: path.unlink(), "there is no such file"),
}


@pytest.mark.parametrize("what", BROKEN)
def test_a_broken_file_is_refused(what: str, tmp_path: Path) -> None:
    harm, message = BROKEN[what]
    path = tmp_path / "m.npz"
    MODEL.save(path)
    harm(path)
    with pytest.raises(LoadError, match=message) as caught:
        load_npz(path)
    assert str(path) in str(caught.value)


def test_every_cut_of_a_file_is_refused(tmp_path: Path) -> None:
    MODEL.save(tmp_path / "m.npz")
    whole = (tmp_path / "m.npz").read_bytes()
    for length in range(0, len(whole), len(whole) // 50):
        (tmp_path / "cut.npz").write_bytes(whole[:length])
        with pytest.raises(LoadError):
            load_npz(tmp_path / "cut.npz")


def _assert_same_arrays(one: Model, other: Model) -> None:
    assert one.weights.arrays().keys() == other.weights.arrays().keys()
    for name, array in one.weights.arrays().items():
        np.testing.assert_array_equal(array, other.weights.arrays()[name], err_msg=name)


def test_large_files_are_stored_as_they_are_and_read_to_the_bit(tmp_path, monkeypatch):
    """What is compressed is decided by the bytes of all arrays."""
    model, sizes = random_model(d_mlp=8), {}
    for limit in (0, 2**30):
        monkeypatch.setattr("pathexp.model.archive.COMPRESSED", limit)
        save_npz(model, tmp_path / f"{limit}.npz")
        with zipfile.ZipFile(tmp_path / f"{limit}.npz") as archive:
            sizes[limit] = [(info.compress_size, info.file_size) for info in archive.infolist()]
        again = load_npz(tmp_path / f"{limit}.npz").weights.arrays()
        assert all((again[name] == array).all() for name, array in model.weights.arrays().items())
    assert all(packed == whole for packed, whole in sizes[0])
    assert any(packed < whole for packed, whole in sizes[2**30])

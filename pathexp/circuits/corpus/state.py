"""The file of a tally: an .npz of sums and a header in JSON, written whole or not at all, every field checked."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ...errors import LoadError
from ...graph import Array
from ...model.zipped import UNREADABLE, shown, zipped
from ...replaced_file import replaced_file

VERSION = 2
HEADER, PREFIX = "header", "sum "
NUMBERS = ("windows", "tokens", "mark")


def write_state(path: str | Path, tally: Mapping[str, Any]) -> None:
    """Write the fields of a tally. Raises LoadError where they cannot be written."""
    facts = {name: tally[name] for name in ("question", *NUMBERS)}
    sums = {name: np.asarray(array) for name, array in tally["sums"].items()}
    for name, array in sums.items():
        _check_kind(name, array)
    header = json.dumps(facts | {"version": VERSION, "checksum": checksum(facts, sums)})
    named: dict[str, Any] = {HEADER: np.array(header)} | {
        PREFIX + name: array for name, array in sums.items()
    }
    try:
        with replaced_file(path) as file:
            np.savez(file, **named)  # before numpy 2.1 there is no allow_pickle=
    except OSError as error:
        raise LoadError(f"cannot write {str(path)!r}: {error.strerror or error}") from error


def read_state(path: str | Path) -> dict[str, Any]:
    """Return the fields of a tally from its file. Raises LoadError, naming the file, unless all of it is whole."""
    try:
        header, sums = _unpacked(path)
        return _checked(header, sums)
    except UNREADABLE as error:
        raise LoadError(
            f"cannot read saved sums from {str(path)!r}: {error}. Begin anew, in another file"
        ) from None


def _unpacked(path: str | Path) -> tuple[Any, dict[str, Array]]:
    with zipped(Path(path)) as arrays:
        if HEADER not in arrays.names:
            raise LoadError(f"it has no {HEADER!r}")
        for name in arrays.names:
            packed, whole = arrays.size(name)
            if whole > packed:
                raise LoadError(
                    f"{shown(name)} claims {whole:,} bytes in {packed:,}, and sums are not compressed"
                )
        header = json.loads(str(arrays.array(HEADER)))
        sums = {name.removeprefix(PREFIX): arrays.array(name) for name in arrays.names if name != HEADER}
    return header, sums


def _checked(header: Any, sums: Mapping[str, Array]) -> dict[str, Any]:
    if not isinstance(header, dict) or header.get("version") != VERSION:
        raise LoadError(f"its header must be of version {VERSION}, found {header!r:.80}")
    facts = {name: header.get(name) for name in ("question", *NUMBERS)}
    _check_facts(facts)
    for name, array in sums.items():
        _check_sum(name, array)
    if bool(sums) != bool(facts["windows"]):
        raise LoadError(f"it holds {len(sums)} sums of {facts['windows']} windows")
    if header.get("checksum") != checksum(facts, sums):
        raise LoadError("its numbers do not fit its checksum: it was changed after it was saved")
    return facts | {"sums": sums}


def _check_facts(facts: Mapping[str, Any]) -> None:
    if not isinstance(facts["question"], str):
        raise LoadError(f"its question must be text, found {facts['question']!r:.80}")
    for name in NUMBERS:
        if type(facts[name]) is not int or facts[name] < 0:
            raise LoadError(f"{name} must be an integer ≥ 0, found {facts[name]!r:.80}")
    if facts["tokens"] < facts["windows"]:
        raise LoadError(f"it holds {facts['windows']} windows of {facts['tokens']} tokens in all")


def _check_kind(name: str, array: Array) -> None:
    if array.dtype.kind not in "fiu":
        raise LoadError(f"{name!r} must hold numbers, found {array.dtype}")


def _check_sum(name: str, array: Array) -> None:
    _check_kind(name, array)
    if not np.isfinite(array).all():
        raise LoadError(f"{name!r} holds numbers that are not finite")


def checksum(facts: Mapping[str, Any], sums: Mapping[str, Array]) -> str:
    """Return a digest of everything that a state holds.

    >>> checksum({"windows": 1}, {})[:8] == checksum({"windows": 2}, {})[:8]
    False
    """
    digest = hashlib.sha256(json.dumps(facts, sort_keys=True).encode())
    for name, array in sorted(sums.items()):
        digest.update(f"{name} {array.dtype} {array.shape}".encode())
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()

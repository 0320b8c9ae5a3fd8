"""Our own file format: an npz of arrays, and a header of JSON that says what they are.

The file is untrusted when it is read: no pickle, no code, every array accounted for.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ..errors import LoadError, PathexpError, WeightsError
from ..replaced_file import replaced_file
from ..visible import inert
from .config import Config
from .load.coders import coder_from_dict
from .weights import Array, Expected, Weights, expected
from .zipped import UNREADABLE, Zipped, zipped

FORMAT, VERSION = "pathexp", 1
HEADER = "header"
DTYPES = ("float64", "float32", "float16")
COMPRESSED = 64 * 2**20
"""Arrays of so many bytes at most are compressed. Weights in double precision shrink by 4 %, at 24 MB a second."""


@dataclass(frozen=True)
class Parts:
    """What a file holds."""

    config: Config
    weights: Weights
    tokenizer: Any
    name: str
    history: tuple[str, ...] = ()


def write_archive(parts: Parts, path: str | Path, dtype: npt.DTypeLike = np.float64) -> None:
    """Write parts to a file that ends in .npz, its arrays in the given precision, compressed up to 64 MiB.

    Raises LoadError for another ending or an unknown precision, WeightsError if a number does not fit in it.
    """
    place, kind = _npz_path(path), _precision(dtype)
    arrays = {name: _lowered(name, array, kind) for name, array in parts.weights.arrays().items()}
    header = np.frombuffer(json.dumps(_header(parts)).encode(), dtype=np.uint8)
    held: dict[str, Any] = {HEADER: header, **arrays}
    try:
        with replaced_file(place) as file:
            save = np.savez_compressed if _bytes(arrays) <= COMPRESSED else np.savez
            save(file, **held)
    except OSError as error:
        raise LoadError(f"Cannot write {str(path)!r}: {error.strerror or error}.") from error


def read_archive(path: str | Path) -> Parts:
    """Read parts from a file that ``write_archive`` wrote.

    Raises LoadError, with the place, for a file that is missing, truncated, of another format or version, or
    that holds arrays that are missing, unknown, twice there, or no plain numbers.
    """
    raw = _arrays(Path(path))
    try:
        header = _read_header(raw.pop(HEADER, None))
        config = Config.from_dict(_entry(header, "config", dict))
        coder = header.get("tokenizer")
        tokenizer = None if coder is None else coder_from_dict(_entry(header, "tokenizer", dict))
        weights = _weights(raw, config)
        return Parts(config, weights, tokenizer, _entry(header, "name", str), _history(header))
    except PathexpError as error:
        raise LoadError(f"Cannot load {str(path)!r}: {error}") from error


def _header(parts: Parts) -> dict[str, Any]:
    return {
        "format": FORMAT,
        "version": VERSION,
        "name": parts.name,
        "history": list(parts.history),
        "config": parts.config.to_dict(),
        "tokenizer": None if parts.tokenizer is None else parts.tokenizer.to_dict(),
    }


def _npz_path(path: str | Path) -> Path:
    if Path(path).suffix.lower() != ".npz":
        raise LoadError(
            f"Cannot save to {str(path)!r}: give a name that ends in .npz, by which it is loaded again."
        )
    return Path(path)


def _precision(dtype: npt.DTypeLike) -> np.dtype[Any]:
    kind = np.dtype(dtype)
    if kind.name not in DTYPES:
        raise LoadError(f"Cannot save as {kind.name}: the precisions known are {', '.join(DTYPES)}.")
    return kind


def _lowered(name: str, array: Array, kind: np.dtype[Any]) -> npt.NDArray[Any]:
    if array.size and np.abs(array).max() > np.finfo(kind).max:
        raise WeightsError(
            f"{name} holds {np.abs(array).max():.6g}, too large for {kind.name} "
            f"(at most {np.finfo(kind).max}): save in a higher precision."
        )
    return array.astype(kind, copy=False)


def _bytes(arrays: Mapping[str, npt.NDArray[Any]]) -> int:
    return sum(array.nbytes for array in arrays.values())


def _arrays(path: Path) -> dict[str, npt.NDArray[Any]]:
    if not path.is_file():
        raise LoadError(f"Cannot load {str(path)!r}: there is no such file.")
    try:
        with zipped(path) as archive:
            return _checked(archive)
    except PathexpError as error:
        raise LoadError(f"Cannot load {str(path)!r}: {error}") from error
    except UNREADABLE as error:
        raise LoadError(
            f"Cannot load {str(path)!r} ({path.stat().st_size:,} bytes): no npz file, or damaged: {error}"
        ) from error


def _checked(archive: Zipped) -> dict[str, npt.NDArray[Any]]:
    """The header, then the arrays; first their names and shapes are held against it, before any number is unpacked."""
    if HEADER not in archive.names:
        return {}
    _check_names([name for name in archive.names if name != HEADER])
    if archive.size(HEADER)[1] > _LONGEST_HEADER:
        raise LoadError(f"its header claims {archive.size(HEADER)[1]:,} bytes (at most {_LONGEST_HEADER:,}).")
    found = {HEADER: archive.array(HEADER)}
    places = expected(Config.from_dict(_entry(_read_header(found[HEADER]), "config", dict)))
    names = [name for name in archive.names if name != HEADER]
    if missing := [name for name, place in places.items() if place.required and name not in names]:
        raise LoadError(f"arrays missing: {_listed(missing)}.")
    for name in names:
        _check_claim(name, archive, places)
    return found | {name: archive.array(name) for name in names}


def _check_claim(name: str, archive: Zipped, places: Mapping[str, Expected]) -> None:
    """Raise LoadError for an array that has no place, or would be larger in memory than its place."""
    if name not in places:
        raise LoadError(f"{name} has no place in this configuration.")
    shape, most = places[name].shape, 8 * prod(places[name].shape) + _LONGEST_DESCRIPTION
    if prod(archive.shape(name)) > prod(shape):
        raise LoadError(f"{name} has shape {archive.shape(name)}, expected {shape}.")
    if archive.size(name)[1] > most:
        raise LoadError(
            f"{name} claims {archive.size(name)[1]:,} bytes, more than {shape} real numbers take."
        )


_LONGEST_DESCRIPTION = 1 << 16
"""Bytes at most before the numbers of an array, where its shape and kind are."""


_LONGEST_HEADER = 1 << 28
"""Bytes of a header at most: configuration, vocabulary, history."""


def _read_header(raw: npt.NDArray[Any] | None) -> dict[str, Any]:
    if raw is None:
        raise LoadError(
            f"it has no {HEADER!r}: it is an npz file, but not one that pathexp wrote. Say what its arrays are: "
            "load(..., header=...), or --header FILE."
        )
    try:
        header = json.loads(raw.tobytes().decode())
    except ValueError as error:
        raise LoadError(f"its header is no JSON: {error}") from error
    if not isinstance(header, dict) or header.get("format") != FORMAT:
        raise LoadError(f"its header does not say that its format is {FORMAT!r}.")
    if header.get("version") != VERSION:
        raise LoadError(
            f"it has version {header.get('version')!r} of the format; this release reads version {VERSION}."
        )
    return header


def _entry(header: Mapping[str, Any], name: str, kind: type) -> Any:
    value = header.get(name)
    if not isinstance(value, kind):
        raise LoadError(f"its header must give {name!r} as {kind.__name__}, found {value!r:.80}.")
    return value


def _history(header: Mapping[str, Any]) -> tuple[str, ...]:
    """The rewrites that made the model; none where the file says nothing of them."""
    steps = _entry({"history": []} | dict(header), "history", list)
    if odd := [step for step in steps if not isinstance(step, str)]:
        raise LoadError(f"its header must give 'history' as texts, found {odd[0]!r:.80}.")
    return tuple(steps)


def _check_names(names: Sequence[str]) -> None:
    known = [field.name for field in fields(Weights)]
    if unknown := [name for name in names if name not in known]:
        raise LoadError(f"arrays not known: {_listed(unknown)}.")


def _weights(raw: Mapping[str, npt.NDArray[Any]], config: Config) -> Weights:
    weights = Weights(**raw)
    weights.check(config)
    return weights


def _listed(names: list[str]) -> str:
    more = f" and {len(names) - _LISTED} more" if len(names) > _LISTED else ""
    return (", ".join(inert(name[:60]) for name in names[:_LISTED]) or "none") + more


_LISTED = 20

"""Files of arrays that say nothing of themselves, and the small header that does: configuration, names, tokenizer."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ...errors import LoadError, PathexpError
from ..model import Model
from ..zipped import UNREADABLE, Zipped, zipped
from .coders import coder_from_dict
from .keys import once, read_keys
from .options import Options
from .safetensors_file import open_safetensors
from .state_dict import from_state_dict

HEADER = "header"
ENDINGS = (".npz", ".json", ".safetensors")
"""Files of arrays that may go with a header."""
_ENTRIES = ("config", "names", "ignore", "tokenizer", "under")
_LONGEST = 1 << 24
"""Bytes of a header at most."""


def load_with_header(path: Path, options: Options) -> Model:
    """Read a file of arrays by ``options.header``, or by the array "header" of an .npz: JSON in both cases.

    The header gives "config" (of transformers, TransformerLens, or ours) and, where arrays go by other names, "names",
    "ignore"; perhaps a "tokenizer" as our tokenizers write themselves; of a JSON file, "under": where its arrays are.

    Raises LoadError for headers and files that cannot be read, and as `from_state_dict` does.
    """
    where = repr(str(path))
    try:
        with _tensors(path, options) as (tensors, own):
            header = _header(own if options.header is None else options.header)
            found = from_state_dict(tensors, _told(header, options, where), where)
        coder = header.get("tokenizer")
        return replace(
            found, name=path.stem, tokenizer=found.tokenizer if coder is None else coder_from_dict(coder)
        )
    except PathexpError as error:
        said = str(error)
        raise LoadError(said if said.startswith("Cannot load") else f"Cannot load {where}: {said}") from error
    except UNREADABLE as error:
        raise LoadError(f"Cannot load {where}: {error}") from error


def has_header(path: Path) -> bool:
    """Whether an .npz has a header that is not our own format's; false for what cannot be read."""
    try:
        with zipped(path) as archive:
            return (
                HEADER in archive.names
                and "config" in (found := _read_header(archive))
                and "format" not in found
            )
    except (*UNREADABLE, PathexpError):
        return False


def _told(header: Mapping[str, Any], options: Options, where: str) -> Options:
    """The options with what the header says; both at once is an error."""
    twice = [name for name in ("config", "names") if name in header and getattr(options, name) is not None]
    if twice:
        raise LoadError(f"Cannot load {where}: {twice[0]} is told twice, by its header and by {twice[0]}=.")
    ignore = header.get("ignore", [])
    if not isinstance(ignore, list):
        raise LoadError(f"header: 'ignore' must be a list of names, found {ignore!r:.60}.")
    told = {name: header[name] for name in ("config", "names") if name in header}
    return replace(options, header=None, ignore=(*options.ignore, *ignore), **told)


def _header(given: Any) -> Mapping[str, Any]:
    """The entries of a header that is a mapping, the path of a JSON file, or not there."""
    found = read_keys(Path(given)) if isinstance(given, str | Path) else given
    found = {} if found is None else found
    if not isinstance(found, Mapping):
        raise LoadError(f"header: expected a mapping or the path of a JSON file, found {found!r:.60}.")
    if unknown := [key for key in found if key not in _ENTRIES]:
        raise LoadError(f"header: {unknown[0]!r:.60} is not known; known: {', '.join(_ENTRIES)}.")
    for name in ("config", "names", "tokenizer"):
        if name in found and not isinstance(found[name], Mapping):
            raise LoadError(f"header: {name!r} must be an object, found {found[name]!r:.60}.")
    return found


@contextmanager
def _tensors(path: Path, options: Options) -> Iterator[tuple[Mapping[str, Any], Any]]:
    """The arrays of a file, read when they are asked for, and the header that is in it, if there is one."""
    if path.suffix.lower() == ".npz":
        with zipped(path) as archive:
            own = _read_header(archive) if HEADER in archive.names else None
            yield {name: _Zipped(archive, name) for name in archive.names if name != HEADER}, own
    elif path.suffix.lower() == ".json":
        yield _of_json(path, _header(options.header).get("under", "")), None
    else:
        file = open_safetensors(path)
        yield {name: _Stored(file, name, shape) for name, shape in file.shapes.items()}, None


def _read_header(archive: Zipped) -> Mapping[str, Any]:
    if archive.size(HEADER)[1] > _LONGEST:
        raise LoadError(f"its header claims {archive.size(HEADER)[1]:,} bytes (at most {_LONGEST:,}).")
    raw = archive.array(HEADER)
    text = raw.tobytes().decode() if raw.dtype == np.uint8 else str(raw)
    try:
        found = json.loads(text, object_pairs_hook=once)
    except (ValueError, RecursionError) as error:
        raise LoadError(f"its header is no JSON: {error}") from error
    if not isinstance(found, Mapping):
        raise LoadError(f"its header must be a JSON object, found {type(found).__name__}.")
    return found


@dataclass(frozen=True)
class _Zipped:
    """One array of an .npz: its shape, and its numbers when asked."""

    archive: Zipped
    name: str

    @property
    def shape(self) -> tuple[int, ...]:
        return self.archive.shape(self.name)

    def __array__(self, dtype: npt.DTypeLike | None = None, copy: bool | None = None) -> npt.NDArray[Any]:
        return (
            self.archive.array(self.name).astype(dtype, copy=False)
            if dtype
            else self.archive.array(self.name)
        )


@dataclass(frozen=True)
class _Stored:
    """One tensor of a safetensors file."""

    file: Any
    name: str
    shape: tuple[int, ...]

    def __array__(self, dtype: npt.DTypeLike | None = None, copy: bool | None = None) -> npt.NDArray[Any]:
        found: npt.NDArray[Any] = self.file.read(self.name)
        return found.astype(dtype, copy=False) if dtype else found


def _of_json(path: Path, under: object) -> Mapping[str, npt.NDArray[np.float64]]:
    """Lists of numbers by name; ``under``: the key below which they are, such as "weights"."""
    found: Any = read_keys(path)
    if under:
        found = found.get(under) if isinstance(under, str) else None
    if not isinstance(found, Mapping):
        raise LoadError(f"header: 'under' is {under!r:.60}, where the file has no object of arrays.")
    arrays = {}
    for name, rows in found.items():
        try:
            arrays[name] = np.array(rows, dtype=np.float64)
        except (ValueError, TypeError) as error:
            raise LoadError(
                f"{name!r:.60} is no array of numbers: {error!s:.100}. Say with 'under' where arrays are."
            ) from error
    return arrays

"""Several safetensors files that are one checkpoint, and the index that says which tensor is where."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from ...errors import LoadError
from .checkpoint import Checkpoint, Numbers, Shape, listed
from .keys import once
from .pickles import of_pickles
from .safetensors_file import SafetensorsFile, open_safetensors

SINGLE, INDEX = "model.safetensors", "model.safetensors.index.json"


@dataclass(frozen=True)
class Shards:
    """A checkpoint in several files; ``homes`` is the file of each tensor."""

    index: Path
    homes: Mapping[str, SafetensorsFile]
    stays: bool = True

    @property
    def where(self) -> str:
        """The path of the index, for messages."""
        return repr(str(self.index))

    @cached_property
    def shapes(self) -> Mapping[str, Shape]:
        """The shape of every tensor, by name."""
        return {name: home.entries[name].shape for name, home in self.homes.items()}

    def read(self, name: str) -> Numbers:
        """One tensor, from its file."""
        return self.homes[name].read(name)

    def rows(self, name: str, begin: int, end: int) -> Numbers:
        """Some rows of one tensor, from its file."""
        return self.homes[name].rows(name, begin, end)


_LONGEST_NAME = 200
"""Characters in the name of a file at most; systems refuse to look for longer ones."""


def open_index(path: str | Path) -> Shards:
    """Open a sharded checkpoint by its index; index and files must agree in both directions.

    Raises LoadError for an index that is no index, for files that are named and not there, and for tensors
    that are in one place and not in the other, or in two files.
    """
    index = Path(path)
    where = _weight_map(index)
    names = sorted(set(where.values()))
    absent = [name for name in names if len(name) > _LONGEST_NAME or not (index.parent / name).is_file()]
    if absent:
        raise LoadError(
            f"Cannot load {str(index)!r}: {len(absent)} of the {len(names)} files that it names are not "
            f"there: {listed(absent)}. Fetch them into {str(index.parent)!r}."
        )
    files = {name: open_safetensors(index.parent / name) for name in names}
    _check_agreement(index, where, files)
    return Shards(index, {tensor: files[name] for tensor, name in where.items()})


def open_folder(folder: Path) -> Checkpoint:
    """The checkpoint in a folder: one file, or several with an index.

    Raises LoadError if there is none, or both, or only files that can run code when they are read.
    """
    single, index = folder / SINGLE, folder / INDEX
    if single.is_file() and index.is_file():
        raise LoadError(
            f"Cannot load {str(folder)!r}: it has both {SINGLE} and {INDEX}, two checkpoints. "
            "Give the path of the one that is meant."
        )
    if index.is_file():
        return open_index(index)
    if single.is_file():
        return open_safetensors(single)
    raise LoadError(f"Cannot load {str(folder)!r}: it has no {SINGLE} and no {INDEX}. {_instead(folder)}")


def _instead(folder: Path) -> str:
    pickled = sorted(path.name for kind in ("*.bin", "*.pt", "*.pth") for path in folder.glob(kind))
    if pickled:
        return (
            f"It has {listed(pickled)}, but {of_pickles(pickled[0])}\n"
            "Or let transformers convert the folder: from_pretrained(folder).save_pretrained(other)."
        )
    others = sorted(path.name for path in folder.glob("*.safetensors"))
    found = f"It has {listed(others)}: give the path of one." if others else "It has no *.safetensors at all."
    return f"{found} A set of several files needs its index."


def _weight_map(index: Path) -> Mapping[str, str]:
    try:
        content: Any = json.loads(index.read_text(encoding="utf-8"), object_pairs_hook=once)
    except (OSError, ValueError, RecursionError) as error:
        raise LoadError(f"Cannot load {str(index)!r}: it is no JSON: {error}") from error
    found = content.get("weight_map") if isinstance(content, dict) else None
    if not isinstance(found, dict) or not found:
        raise LoadError(f"Cannot load {str(index)!r}: it has no 'weight_map' of tensor names to files.")
    for name in found.values():
        if not isinstance(name, str) or not name or Path(name).name != name or "\\" in name:
            raise LoadError(
                f"Cannot load {str(index)!r}: it names the file {name!r}, which is not a plain file name in "
                "the index's own folder."
            )
    return found


def _check_agreement(index: Path, where: Mapping[str, str], files: Mapping[str, SafetensorsFile]) -> None:
    absent = [f"{tensor} ({name})" for tensor, name in where.items() if tensor not in files[name].entries]
    if absent:
        raise LoadError(
            f"Cannot load {str(index)!r}: tensors that it names are not in their files: {listed(absent)}."
        )
    for name, file in files.items():
        unnamed = [tensor for tensor in file.entries if where.get(tensor) != name]
        if unnamed:
            raise LoadError(
                f"Cannot load {str(index)!r}: {name} holds tensors that the index does not place there: "
                f"{listed(unnamed)}."
            )

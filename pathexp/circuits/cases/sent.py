"""A model on its way to other processes: once to each worker, by path and digest, or by value."""

from __future__ import annotations

import hashlib
import os
import pickle
import tempfile
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

from ...errors import LoadError
from ...model import Model


@dataclass(eq=False)
class SentModel:
    """A model that is itself in this process, and in others a file that each reads once.

    The file is written when the model is first sent, into `folder` (one that all workers see) or one of this machine.
    """

    model: Model
    folder: Path | None = None
    written: tuple[Path, str] | None = field(default=None, init=False)

    def __reduce__(self) -> tuple[Any, ...]:
        if self.written is None:
            self.written = _write(self.model, self.folder)
        return _arrived, (str(self.written[0]), self.written[1])

    def close(self) -> None:
        """Remove the file, if there is one."""
        if self.written is not None:
            self.written[0].unlink(missing_ok=True)
            self.written = None


@dataclass(frozen=True, eq=False)
class ArrivedModel:
    """A model in the process that it was sent to."""

    model: Model


def _write(model: Model, folder: Path | None) -> tuple[Path, str]:
    handle, name = tempfile.mkstemp(".pathexp-model", dir=folder)
    digest = hashlib.sha256()
    with os.fdopen(handle, "wb") as file:
        pickle.dump(model, _Hashed(file, digest), protocol=pickle.HIGHEST_PROTOCOL)
    return Path(name), digest.hexdigest()


@dataclass
class _Hashed:
    """A file that is hashed while it is written."""

    file: Any
    digest: Any

    def write(self, piece: Any) -> int:
        self.digest.update(piece)
        return int(self.file.write(piece))


@dataclass(frozen=True)
class _Address:
    """Where a model is; the same model anywhere is the same."""

    digest: str
    path: str = field(compare=False)


def _arrived(path: str, digest: str) -> ArrivedModel:
    return _loaded(_Address(digest, path))


@lru_cache(maxsize=1)
def _loaded(address: _Address) -> ArrivedModel:
    """The model of a file, checked before anything in it is read; the last one stays for the next task."""
    path, digest = address.path, address.digest
    try:
        with open(path, "rb") as file:
            found = hashlib.file_digest(file, "sha256").hexdigest()
            if found != digest:
                raise LoadError(
                    f"the model in {path!r} was changed on its way: digest {found:.12}, not {digest:.12}"
                )
            file.seek(0)
            return ArrivedModel(pickle.load(file))
    except OSError as error:
        raise LoadError(
            f"cannot read the model in {path!r}: {error.strerror}. Give a folder that all workers see, folder=…, "
            "or use the executor of a Dask client, which sends it by value"
        ) from None

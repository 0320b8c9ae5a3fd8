"""The trained models that ship with the package, and the door through which every model is loaded."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache
from importlib.resources import as_file, files
from importlib.resources.abc import Traversable
from pathlib import Path

from ..errors import LoadError
from .model import Model
from .npz import load_npz

_READERS: Mapping[str, Callable[[Path], Model]] = {
    ".npz": load_npz,  # a further format is a reader in pathexp/model/load/ and its ending here
}


@dataclass(frozen=True, kw_only=True)
class ModelCard:
    """What is known of a bundled model; losses are in nats a token.

    ``text_loss`` is of held-out text in windows of ``n_ctx`` tokens; ``first_copy_loss`` and
    ``second_copy_loss`` are of random tokens said twice; ``previous_token`` and ``induction`` are the
    greatest mean attention that a head of layer 0 (of layer 1) pays to the token before (to the token
    after the earlier occurrence), None where there is no such layer.
    """

    name: str
    description: str
    n_layers: int
    n_heads: int
    d_model: int
    d_head: int
    d_vocab: int
    n_ctx: int
    parameters: int
    text_loss: float
    first_copy_loss: float
    second_copy_loss: float
    previous_token: float | None
    induction: float | None
    license: str


@cache
def models() -> tuple[ModelCard, ...]:
    """The cards of the bundled models, smallest first.

    >>> [card.name for card in models()]
    ['attn-0l', 'attn-1l', 'attn-2l']
    """
    cards = json.loads(_data("cards.json").read_text(encoding="utf-8"))
    return tuple(ModelCard(**card) for card in cards)


@cache
def load_bundled(name: str) -> Model:
    """A bundled model by name, read once a process.

    Raises LoadError if no bundled model has this name.

    >>> load_bundled("attn-2l").config.n_layers
    2
    """
    if name not in _names():
        raise LoadError(f"No bundled model is called {name!r}.{_hint(name)} {_known()}")
    with as_file(_data(f"{name}.npz")) as path:
        return load_npz(path)


def load(name_or_path: str | Path) -> Model:
    """A model by the name of a bundled one, or else from a file.

    A name wins over a file of the same name; write ``./attn-2l`` or give a Path for the file.
    Files are read by their ending: ``.npz`` (as ``Model.save`` writes them).

    Raises LoadError if it is neither a bundled name nor a file, or a file that cannot be read.

    >>> load("attn-1l").config.n_heads
    8
    """
    if isinstance(name_or_path, str) and name_or_path in _names():
        return load_bundled(name_or_path)
    return _reader(_existing(name_or_path))(Path(name_or_path))


def _existing(name_or_path: str | Path) -> Path:
    path = Path(name_or_path)
    if path.is_file():
        return path
    what = "a directory, not a file" if path.is_dir() else "no bundled model and no file"
    raise LoadError(
        f"Cannot load {str(name_or_path)!r}: it is {what}.{_hint(str(name_or_path))} "
        f"{_known()} Give one of these, or the path of a file ({_endings()})."
    )


def _reader(path: Path) -> Callable[[Path], Model]:
    if path.suffix.lower() in _READERS:
        return _READERS[path.suffix.lower()]
    raise LoadError(
        f"Cannot load {str(path)!r}: files ending in {path.suffix or 'nothing'!r} are not read; "
        f"those that are end in {_endings()}."
    )


def _names() -> tuple[str, ...]:
    return tuple(card.name for card in models())


def _hint(name: str) -> str:
    near = get_close_matches(name.lower(), _names(), n=2)
    return f" Did you mean {' or '.join(map(repr, near))}?" if near else ""


def _known() -> str:
    return f"Bundled models: {', '.join(_names())}."


def _endings() -> str:
    return ", ".join(_READERS)


def _data(name: str) -> Traversable:
    return files("pathexp.model").joinpath("data", name)

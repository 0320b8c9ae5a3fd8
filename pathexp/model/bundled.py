"""The trained models that ship with the package, and the door through which every model is loaded."""

from __future__ import annotations

import json
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache
from importlib.resources import as_file, files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any

from ..errors import LoadError
from .load.formats import load_path
from .load.options import Options
from .load.options import options as read_options
from .load.transformer_lens import from_transformer_lens
from .model import Model
from .npz import load_npz


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


def load(name_or_path: str | Path | Any, **options: Any) -> Model:
    """A model by the name of a bundled one, or else from a file or a directory, or a live one of TransformerLens.

    A name wins over a file of the same name; write ``./attn-2l`` or give a Path for the file. Known are
    ``.npz`` (as ``Model.save`` writes them), directories with config.json and safetensors (as transformers
    saves them), ``.gguf``, and ``.bin`` of llama2.c. Nothing is fetched, and no code in a file is run. An
    object with ``cfg`` and ``state_dict()`` is taken as a model of TransformerLens (`from_transformer_lens`).
    ``options`` answer what a file leaves open: ``tie``, ``vocab_from_checkpoint``, ``strict``, ``ignore``,
    ``embedding_scale``, as pathexp.model.load.options.Options has them.

    Raises LoadError if it is neither a bundled name nor there, or cannot be read.

    >>> load("attn-1l").config.n_heads
    8
    """
    if isinstance(name_or_path, str) and not name_or_path:
        raise LoadError(f"No name or path was given. {_known()}")
    if not isinstance(name_or_path, str | Path) and not hasattr(name_or_path, "state_dict"):
        raise LoadError(
            f"A model is loaded by its name, from a path, or from a live TransformerLens model; found "
            f"{name_or_path!r:.60}. {_known()}"
        )
    if not isinstance(name_or_path, str | Path):
        return from_transformer_lens(name_or_path, ignore=read_options(options).ignore)
    given = read_options(options)
    if not isinstance(name_or_path, str) or name_or_path not in _names():
        return load_path(_existing(name_or_path), given)
    if given != Options():
        raise LoadError(
            f"{name_or_path!r} ships with the package and leaves nothing open, but found {given!r}."
        )
    return load_bundled(name_or_path)


def _existing(name_or_path: str | Path) -> Path:
    if Path(name_or_path).exists():
        return Path(name_or_path)
    raise LoadError(
        f"Cannot load {str(name_or_path)!r}: it is no bundled model and no file.{_hint(str(name_or_path))} "
        f"{_known()} Give one of these, or the path of a file or directory."
    )


def _names() -> tuple[str, ...]:
    return tuple(card.name for card in models())


def _hint(name: str) -> str:
    near = get_close_matches(name.lower(), _names(), n=2)
    return f" Did you mean {' or '.join(map(repr, near))}?" if near else ""


def _known() -> str:
    return f"Bundled models: {', '.join(_names())}."


def _data(name: str) -> Traversable:
    return files("pathexp.model").joinpath("data", name)

"""The trained models that ship with the package."""

from __future__ import annotations

import json
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache
from importlib.resources import as_file, files
from importlib.resources.abc import Traversable

from ..errors import LoadError
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
    if name not in bundled_names():
        raise LoadError(f"No bundled model is called {name!r}.{near_names(name)} {known_names()}")
    with as_file(_data(f"{name}.npz")) as path:
        return load_npz(path)


def bundled_names() -> tuple[str, ...]:
    """The names of the bundled models."""
    return tuple(card.name for card in models())


def near_names(name: str) -> str:
    """A question for a message: whether one of the bundled names that are like this one was meant, if any is."""
    near = get_close_matches(name.lower(), bundled_names(), n=2)
    return f" Did you mean {' or '.join(map(repr, near))}?" if near else ""


def known_names() -> str:
    """The bundled names, for a message."""
    return f"Bundled models: {', '.join(bundled_names())}."


def _data(name: str) -> Traversable:
    return files("pathexp.model").joinpath("data", name)

"""The door through which every model is loaded: by a name, from a path, or from what is in memory already."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from ..errors import LoadError
from .bundled import bundled_names, known_names, load_bundled, near_names
from .load.formats import load_path
from .load.given_tokenizer import given_tokenizer
from .load.hub import is_hub_name, load_hub, not_in_cache
from .load.live import from_bridge, from_transformers, is_bridge, is_transformers
from .load.options import TRANSFORMERS, Options
from .load.options import options as read_options
from .load.state_dict import from_state_dict
from .load.transformer_lens import from_transformer_lens, is_transformer_lens
from .model import Model
from .tokenizer import Tokenizer


def load(name_or_path: str | Path | Any, **options: Any) -> Model:
    """A model by the name of a bundled one, or else from a file or a directory, or one that is in memory already.

    A name wins over a file of the same name; write ``./attn-2l`` or give a Path for the file. Known are
    ``.npz`` (as ``Model.save`` writes them), directories with config.json and safetensors (as transformers
    saves them), ``.gguf``, and ``.bin`` of llama2.c. Other names are those of models of the Hugging Face Hub, read from
    its local cache. Nothing is fetched without ``download=True``, and no code in a file is run.

    In memory: a model of transformers; one of TransformerLens, 2 or 4; a state dict of either with ``config=``.
    ``options`` answer what is left open: ``tie``, ``no_unembedding``, ``vocab_from_checkpoint``, ``strict``, ``ignore``,
    ``embedding_scale``, ``adapter``, ``tokenizer``, ``config``, ``names``, ``header``, ``unknown``, ``revision``, ``download``, as pathexp.model.load.options.Options has them.

    Raises LoadError if it is neither a bundled name nor there, or cannot be read.

    >>> load("attn-1l").config.n_heads
    8
    """
    given = read_options(options)
    found = _loaded(name_or_path, replace(given, unknown=None))
    return found if given.unknown is None else _coping(found, given.unknown)


def _loaded(name_or_path: Any, given: Options) -> Model:
    if isinstance(name_or_path, str | Path):
        return _of_name(name_or_path, given)
    if isinstance(name_or_path, Mapping):
        return from_state_dict(name_or_path, given)
    return _of_object(name_or_path, given)


def _coping(model: Model, unknown: str) -> Model:
    """The model with a tokenizer that refuses, skips or replaces characters that it does not know."""
    if not isinstance(model.tokenizer, Tokenizer):
        raise LoadError(
            f"unknown={unknown!r:.40} is offered by vocabularies of pieces, as bundled models have; {model!r} has "
            f"{'no tokenizer' if model.tokenizer is None else 'a tokenizer with ways of its own'}: leave unknown out."
        )
    return replace(model, tokenizer=replace(model.tokenizer, unknown=unknown))


def _of_name(name_or_path: str | Path, given: Options) -> Model:
    if name_or_path == "":
        raise LoadError(f"No name or path was given. {known_names()}")
    if isinstance(name_or_path, str) and name_or_path in bundled_names():
        given.only((), repr(name_or_path), "it ships with the package and leaves")
        return load_bundled(name_or_path)
    if _exists(name_or_path):
        return load_path(Path(name_or_path), given)
    found = load_hub(str(name_or_path), given) if is_hub_name(name_or_path) else None
    if found is None:
        raise _nowhere(name_or_path)
    return given_tokenizer(found, given.tokenizer)


def _of_object(model: Any, given: Options) -> Model:
    """A live model, by what it has."""
    where = f"the {type(model).__name__}"
    if is_bridge(model) or is_transformers(model):
        given.only((*TRANSFORMERS, "tokenizer"), where, "a live model leaves")
        read = from_bridge if is_bridge(model) else from_transformers
        return given_tokenizer(read(model, given), given.tokenizer)
    if is_transformer_lens(model):
        given.only(("ignore", "tokenizer"), where, "a model of TransformerLens leaves")
        return given_tokenizer(from_transformer_lens(model, ignore=given.ignore), given.tokenizer)
    raise LoadError(
        f"A model is loaded by its name, from a path, from a live model of transformers or TransformerLens, or from a "
        f"state dict with config=; found {model!r:.60}. {known_names()}"
    )


def _exists(name_or_path: str | Path) -> bool:
    try:
        return Path(name_or_path).exists()
    except (OSError, ValueError):  # a name that the system cannot look for
        return False


def _nowhere(name_or_path: str | Path) -> LoadError:
    hub = not_in_cache(str(name_or_path)) if is_hub_name(name_or_path) else ""
    return LoadError(
        f"Cannot load {str(name_or_path)!r:.200}: it is no bundled model and no file.{near_names(str(name_or_path))} "
        f"{known_names()} Give one of these, or the path of a file or directory.{hub}"
    )

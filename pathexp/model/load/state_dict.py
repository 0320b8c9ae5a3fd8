"""A state dict in memory, as torch.load(..., weights_only=True) or safetensors give it, and its configuration."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...errors import LoadError, PathexpError
from ..config import Config
from ..model import Model
from ..weights import Weights, expected
from .adapter import read_adapters
from .checkpoint import Held, as_array, listed
from .given_tokenizer import given_tokenizer
from .huggingface import assembled
from .keys import Keys
from .named_arrays import from_named, unnamed
from .options import TRANSFORMERS, Options
from .transformer_lens import from_transformer_lens, is_lens_state

_ADVICE = (
    "Give config=: the configuration of transformers (with its model_type), the cfg of TransformerLens, or a px.Config "
    "for arrays by the names of px.Weights, or by names= that say which is which."
)


def from_state_dict(state: Mapping[str, Any], options: Options, where: str = "the state dict") -> Model:
    """A model from named tensors and ``options.config``; ``where`` they are, for messages.

    Names as TransformerLens has them go with its configuration; a configuration with ``model_type`` goes with names as
    transformers has them; a px.Config, or its ``to_dict``, with those of px.Weights, or with any names that
    ``options.names`` tells.

    Raises LoadError for a configuration that is missing or of no known kind, and as the readers do.
    """
    _check_names(state, where)
    if options.config is None:
        raise LoadError(
            f"Cannot load {where}: tensors alone do not say what is computed with them. {_ADVICE}"
        )
    if options.names is not None:
        options.only(("config", "names", "ignore", "tokenizer"), where, "named arrays leave")
        found = from_named(Held(state, where), options.config, options.names, options.ignore)
    elif is_lens_state(state):
        options.only(("config", "ignore", "tokenizer"), where, "a state dict of TransformerLens leaves")
        found = from_transformer_lens(state, options.config, ignore=options.ignore)
    elif "model_type" in (values := _values(options.config, where)):
        options.only((*TRANSFORMERS, "config", "tokenizer"), where, "a state dict of transformers leaves")
        found = _of_transformers(state, values, options, where)
    else:
        options.only(("config", "tokenizer"), where, "arrays by the names of px.Weights leave")
        found = _by_our_names(state, options.config, values, where)
    return given_tokenizer(found, options.tokenizer)


def _check_names(state: Mapping[Any, Any], where: str) -> None:
    """Names are texts, and tensors can be looked at; a checkpoint of a training run often holds them one level below."""
    if odd := [key for key in state if not isinstance(key, str)]:
        raise LoadError(f"Cannot load {where}: its names must be texts, found {odd[0]!r:.60}.")
    below = [key for key, value in state.items() if isinstance(value, Mapping)]
    if below:
        raise LoadError(
            f"Cannot load {where}: under {listed(below, 3)} it holds mappings, no tensors, as a checkpoint of a training "
            f"run does: give the one that holds the tensors, as in load(checkpoint[{below[0]!r:.40}], ...)."
        )
    if not state:
        raise LoadError(f"Cannot load {where}: it is empty.")


def _values(config: Any, where: str) -> Mapping[str, Any]:
    """The values of a configuration: a mapping, ours, or an object of transformers."""
    if isinstance(config, Mapping):
        return config
    if hasattr(config, "to_dict"):
        found = config.to_dict()
        if isinstance(found, Mapping):
            return found
    raise LoadError(f"Cannot load {where}: found config={config!r:.60}. {_ADVICE}")


def _of_transformers(
    state: Mapping[str, Any], values: Mapping[str, Any], options: Options, where: str
) -> Model:
    try:
        adapters = read_adapters(options.adapter)
        config, weights = assembled(Keys(values, where), Held(state, where), options, adapters)
        history = tuple(adapter.said for adapter in adapters)
        return Model(config, weights, name=str(values["model_type"]), history=history)
    except LoadError:
        raise
    except PathexpError as error:
        raise LoadError(f"Cannot load {where}: {error}") from error


def _by_our_names(state: Mapping[str, Any], config: Any, values: Mapping[str, Any], where: str) -> Model:
    unknown = sorted(set(state) - set(Weights.__dataclass_fields__))
    if unknown:
        raise unnamed(unknown, where)
    try:
        sizes = config if isinstance(config, Config) else Config.from_dict(values)
        places = expected(sizes)
    except PathexpError as error:
        raise LoadError(f"Cannot load {where}: {error}") from error
    missing = [name for name, place in places.items() if place.required and name not in state]
    if missing:
        raise LoadError(
            f"Cannot load {where}: {len(missing)} arrays of its configuration are missing: {', '.join(missing)}."
        )
    try:
        return Model(sizes, Weights(**{name: as_array(tensor) for name, tensor in state.items()}))
    except PathexpError as error:
        raise LoadError(f"Cannot load {where}: {error}") from error

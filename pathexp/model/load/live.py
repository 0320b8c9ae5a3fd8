"""Live models of transformers, bare or behind a bridge of TransformerLens 4: saved to a folder that is gone afterwards.

save_pretrained knows which names and layouts the files of a family have, which its state dict may not have.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from ...errors import LoadError
from ..model import Model, TextCoder
from ..weights import Weights
from .checkpoint import as_array, listed
from .huggingface import load_huggingface
from .options import Options

_INSIDE = "._original_component"
"""What a bridge of TransformerLens 4 puts into the names of a model that it stands before."""


def is_transformers(model: object) -> bool:
    """Whether an object is a model as those of transformers are: with a configuration, a state dict, and a way to be saved."""
    return all(hasattr(model, name) for name in ("config", "state_dict", "save_pretrained"))


def is_bridge(model: object) -> bool:
    """Whether an object is a bridge of TransformerLens 4 before a model of transformers."""
    return hasattr(model, "cfg") and is_transformers(getattr(model, "original_model", None))


def from_transformers(model: Any, options: Options, tokenizer: TextCoder | None = None) -> Model:
    """A live model of transformers: what ``save_pretrained`` writes is read, from a folder for temporary files.

    Its numbers stay in the precision that they have, as they are stored there; the file is removed, and its place is
    free when the model is let go. Later changes to the object are not seen. Nothing of torch is imported.

    Raises LoadError as for a directory, for adapters of peft that are not merged, and where it cannot be saved.
    """
    where = f"the {type(model).__name__}"
    if adapted := [key for key in model.state_dict() if ".base_layer." in key or "lora_" in key]:
        raise LoadError(
            f"Cannot load {where}: it holds adapters of peft that are not merged: {listed(adapted, 2)}. Load "
            "model.merge_and_unload(), or the base with adapter=, the folder where save_pretrained put the adapter."
        )
    with TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        try:
            model.save_pretrained(folder)
        except Exception as error:  # of transformers, safetensors, or the disk
            raise LoadError(f"Cannot load {where}: its save_pretrained failed: {error}") from error
        try:
            found = load_huggingface(Path(folder), options)
        except LoadError as error:
            raise LoadError(str(error).replace(folder, type(model).__name__)) from error
    return replace(found, tokenizer=tokenizer, name=_name(model.config))


def from_bridge(bridge: Any, options: Options, tokenizer: TextCoder | None = None) -> Model:
    """The model of transformers that a bridge of TransformerLens 4 stands before.

    Raises LoadError for a bridge whose weights were processed (folded, centered) or edited: the configuration of
    transformers does not say what they then compute.
    """
    behind = bridge.original_model
    where = f"the {type(bridge).__name__} before a {type(behind).__name__}"
    if getattr(bridge, "_weights_processed", False):
        raise LoadError(
            f"Cannot load {where}: its weights were processed (enable_compatibility_mode folds and centers them). Load it "
            "before that, or the model of transformers itself; px.rewrite folds and centers with a proof."
        )
    found = from_transformers(_bare(behind, where), options, tokenizer)
    state = {key.replace(_INSIDE, ""): value for key, value in bridge.state_dict().items()}
    _check_copies(state, found.weights, where)
    return found


def _bare(behind: Any, where: str) -> Any:
    """A model of transformers as it was before a bridge took its modules apart."""
    state = {key.replace(_INSIDE, ""): value for key, value in behind.state_dict().items()}
    try:
        bare = type(behind)(behind.config).to(next(behind.parameters()).dtype)
        bare.load_state_dict({key: state[key] for key in bare.state_dict()})
    except (TypeError, KeyError, RuntimeError, StopIteration) as error:
        raise LoadError(
            f"Cannot load {where}: the model behind it cannot be put together again: {error}. Load the model of "
            "transformers before it goes behind a bridge."
        ) from error
    return bare


def _name(config: Any) -> str:
    return str(getattr(config, "name_or_path", "") or getattr(config, "model_type", ""))


def _check_copies(state: Mapping[str, Any], weights: Weights, where: str) -> None:
    """A bridge runs on copies of some tensors: they must hold what those behind it do."""
    for letter in "qkv":
        ours = getattr(weights, f"W_{letter.upper()}")
        for layer in range(len(ours)):
            name = f"blocks.{layer}.attn.{letter}.weight"
            flat = ours[layer].reshape(-1, ours.shape[-1])
            if name in state and not _is_one_of(state[name], flat, flat.T):
                raise _edited(name, where)
    bias = state.get("unembed.bias")
    if bias is not None and weights.b_U is None and np.any(as_array(bias)):
        raise _edited("unembed.bias", where)


def _is_one_of(copy: Any, *arrays: Any) -> bool:
    found = as_array(copy)
    return any(np.array_equal(found, each) for each in arrays)


def _edited(name: str, where: str) -> LoadError:
    return LoadError(
        f"Cannot load {where}: {name!r} was edited, and the model of transformers behind it was not. Edit that, or the "
        "loaded model."
    )

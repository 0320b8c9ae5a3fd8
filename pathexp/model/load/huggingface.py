"""Directories as transformers saves them: config.json, safetensors, tokenizer.json. Nothing is fetched."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from ...errors import LoadError, LoadWarning, PathexpError
from ..config import Config
from ..model import Model
from ..weights import Weights
from .adapter import Adapter, adapted, alone, has_adapter, read_adapters
from .checkpoint import Checkpoint, Renamed, check_layers, refuse_quantized
from .families.bert import BERT, ROBERTA
from .families.bloom import BLOOM
from .families.cohere import COHERE, COHERE2
from .families.deepseek import DEEPSEEK_V2, DEEPSEEK_V3
from .families.distilbert import DISTILBERT
from .families.falcon import FALCON
from .families.gpt2 import GPT2
from .families.gpt_bigcode import GPT_BIGCODE
from .families.gpt_neox import GPT_NEOX
from .families.gptj import GPTJ
from .families.layernormed import NEMOTRON, OLMO, STABLELM, STARCODER2
from .families.llama import (
    GEMMA,
    GEMMA2,
    GEMMA3,
    GEMMA3_TEXT,
    GRANITE,
    LLAMA,
    MISTRAL,
    OLMO2,
    PHI3,
    QWEN2,
    QWEN3,
    SMOLLM3,
)
from .families.mixtures import GPT_OSS, MIXTRAL, OLMOE, QWEN2_MOE, QWEN3_MOE
from .families.modernbert import MODERNBERT
from .families.mpt import MPT
from .families.opt import OPT
from .families.phi import PHI
from .families.plan import Family, Plan
from .gather import gather
from .keys import Keys, read_keys
from .options import Options
from .rope import stretched
from .safetensors_file import open_safetensors
from .shards import open_folder, open_index
from .tables import find_tables
from .tokenizer_json import JsonTokenizer, open_tokenizer

CONFIG, TOKENIZER = "config.json", "tokenizer.json"

FAMILIES: Mapping[str, Family] = {
    "bert": BERT,
    "bloom": BLOOM,
    "camembert": ROBERTA,
    "cohere": COHERE,
    "cohere2": COHERE2,
    "deepseek_v2": DEEPSEEK_V2,
    "deepseek_v3": DEEPSEEK_V3,
    "distilbert": DISTILBERT,
    "falcon": FALCON,
    "gemma": GEMMA,
    "gemma2": GEMMA2,
    "gemma3": GEMMA3,
    "gemma3_text": GEMMA3_TEXT,
    "gpt2": GPT2,
    "gpt_bigcode": GPT_BIGCODE,
    "gpt_neox": GPT_NEOX,
    "gpt_oss": GPT_OSS,
    "gptj": GPTJ,
    "granite": GRANITE,
    "llama": LLAMA,
    "mistral": MISTRAL,
    "mixtral": MIXTRAL,
    "modernbert": MODERNBERT,
    "mpt": MPT,
    "nemotron": NEMOTRON,
    "olmo": OLMO,
    "olmo2": OLMO2,
    "olmoe": OLMOE,
    "opt": OPT,
    "phi": PHI,
    "phi3": PHI3,
    "qwen2": QWEN2,
    "qwen2_moe": QWEN2_MOE,
    "qwen3": QWEN3,
    "qwen3_moe": QWEN3_MOE,
    "roberta": ROBERTA,
    "smollm3": SMOLLM3,
    "stablelm": STABLELM,
    "starcoder2": STARCODER2,
    "xlm-roberta": ROBERTA,
}
"""The architectures that are known, by the ``model_type`` of config.json."""


def load_huggingface(path: str | Path, options: Options | None = None) -> Model:
    """Read a model from a directory with config.json, safetensors and perhaps tokenizer.json.

    ``path`` is the directory, or its .safetensors or .safetensors.index.json where it has several. Any model
    of a known architecture loads, whatever its name. Half precision comes as float64. BERT reads one segment.

    Raises LoadError for what is missing, unknown or in disagreement, by name; see ``Options`` for decisions
    that can be made.
    """
    place = Path(path)
    folder = place if place.is_dir() else place.parent
    try:
        return _loaded(folder, place, options or Options())
    except LoadError:
        raise
    except PathexpError as error:
        raise LoadError(f"Cannot load {str(path)!r}: {error}") from error


def _loaded(folder: Path, place: Path, options: Options) -> Model:
    keys = Keys(_config_values(folder), repr(str(folder / CONFIG)))
    adapters = read_adapters(options.adapter, folder)
    config, weights = assembled(keys, _checkpoint(folder, place), options, adapters)
    history = tuple(adapter.said for adapter in adapters)
    return Model(
        config,
        weights,
        _tokenizer(folder, config) if options.tokenizer is None else None,
        folder.resolve().name,
        history,
    )


def assembled(
    keys: Keys, stored: Checkpoint, options: Options, adapters: Sequence[Adapter] = ()
) -> tuple[Config, Weights]:
    """Make sizes and arrays of a configuration of transformers and the tensors that belong to it, with adapters applied.

    Raises LoadError for what is missing, unknown or in disagreement.
    """
    family = _family(keys)
    keys = _of_text(keys, family, options)
    checkpoint = _based(stored, family)
    refuse_quantized(checkpoint.shapes, checkpoint.where)
    for key in ("num_hidden_layers", "n_layer", "n_layers"):
        check_layers(keys.values.get(key), checkpoint)
    plan = family.plan(_with_vocabulary(keys, family, checkpoint, options), options)
    tied = keys.switch("tie_word_embeddings", family.tied)
    keys.finish(options.ignore)
    checkpoint = adapted(checkpoint, adapters, (family.embedding, family.unembedding), tied or options.tie)
    return _read(checkpoint, family, plan, tied, options)


def _config_values(folder: Path) -> Mapping[str, Any]:
    if not (folder / CONFIG).is_file() and has_adapter(folder):
        raise alone(folder)
    if not (folder / CONFIG).is_file():
        raise LoadError(
            f"Cannot load {str(folder)!r}: it has no {CONFIG}, and tensors alone do not say what is computed "
            "with them. Put the model's own beside them."
        )
    return read_keys(folder / CONFIG)


def _family(keys: Keys) -> Family:
    kind = keys.get("model_type")
    if not isinstance(kind, str) or kind not in FAMILIES:
        raise keys.error(f"model_type {kind!r} is not known; known: {', '.join(FAMILIES)}")
    return FAMILIES[kind]


def _of_text(keys: Keys, family: Family, options: Options) -> Keys:
    """The keys of the text in a model of several media, and the sizes that are left to the family's own code."""
    if family.part is not None:
        inner = keys.get(family.part)
        if not isinstance(inner, Mapping):
            raise keys.error(
                f"{family.part!r} must be an object with the sizes of the text, found {inner!r:.80}"
            )
        keys.asked |= {*family.beside_keys, "tie_word_embeddings"}
        keys.finish(options.ignore)
        tied = {"tie_word_embeddings": keys.get("tie_word_embeddings")}
        keys = Keys({**tied, **inner}, f"{keys.where}, {family.part}")
    for key, size in family.defaults.items():
        keys.assume(key, size)
    keys.values = {**keys.values, **keys.assumed}
    return keys


def _checkpoint(folder: Path, place: Path) -> Checkpoint:
    if place.is_dir():
        return open_folder(folder)
    return open_index(place) if place.suffix == ".json" else open_safetensors(place)


def _based(checkpoint: Checkpoint, family: Family) -> Checkpoint:
    """The checkpoint under the names of the whole model, also if it is saved from the base model alone."""
    names = family.renamed(list(checkpoint.shapes))
    if not any(name.startswith(family.base) for name in names):
        outside = {family.unembedding}
        names = {name if name in outside else family.base + name: old for name, old in names.items()}
    return Renamed(checkpoint, names)


def _with_vocabulary(keys: Keys, family: Family, checkpoint: Checkpoint, options: Options) -> Keys:
    """The keys, with the vocabulary's size as the tensors have it, if that is asked for."""
    told = keys.size("vocab_size")
    stored = [checkpoint.shapes[n] for n in (family.embedding, family.unembedding) if n in checkpoint.shapes]
    found = stored[0][0] if stored and stored[0] else told
    if found == told:
        return keys
    if not options.vocab_from_checkpoint:
        raise keys.error(
            f"vocab_size is {told}, but {family.embedding!r} has shape {list(stored[0])}, expected {told} rows. "
            "If the tensors are right: load(..., vocab_from_checkpoint=True), or --vocab-from-checkpoint"
        )
    warnings.warn(
        f"{keys.where} says vocab_size = {told}; {found} is taken, the rows of {family.embedding!r}.",
        LoadWarning,
        stacklevel=2,
    )
    keys.values = {**keys.values, "vocab_size": found}
    return keys


def _read(
    checkpoint: Checkpoint, family: Family, plan: Plan, tied: bool, options: Options
) -> tuple[Config, Weights]:
    config = plan.config
    names = family.embedding, family.unembedding
    shape = config.d_vocab, plan.table_width or config.d_model
    tables = find_tables(checkpoint, names, shape, tied, options, plan.head)
    unused = [*plan.unused, *family.beside]
    arrays = gather(checkpoint, [*tables.pieces, *plan.pieces], config.n_layers, unused)
    _check_frequencies(checkpoint, config)
    config = replace(
        stretched(config), tied=tables.shared and plan.table_width is None, d_out=tables.d_out or config.d_out
    )
    return config, Weights(**plan.finish(tables.complete(arrays)))


def _check_frequencies(checkpoint: Checkpoint, config: Config) -> None:
    """Rotary frequencies that were stored must be those of the configuration."""
    for name in checkpoint.shapes:
        if name.endswith("rotary_emb.inv_freq") and config.rotary is not None:
            stored, ours = checkpoint.read(name), config.rotary.frequencies()
            if stored.shape != ours.shape or not np.allclose(stored, ours, rtol=1e-2, atol=1e-6):
                raise LoadError(
                    f"Cannot load {checkpoint.where}: {name!r} holds {stored.tolist()!r:.60}, "
                    f"but the configuration gives {ours.tolist()!r:.60}."
                )


def _tokenizer(folder: Path, config: Config) -> JsonTokenizer | None:
    path = folder / TOKENIZER
    if not path.is_file():
        return None
    tokenizer = open_tokenizer(path, config.d_vocab)
    if tokenizer.unused:
        warnings.warn(
            f"{str(path)!r} has no token for {tokenizer.unused} of the model's {config.d_vocab} ids: padding.",
            LoadWarning,
            stacklevel=2,
        )
    return tokenizer

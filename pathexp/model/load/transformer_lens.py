"""Models of TransformerLens: a live object, or its state dict and its configuration."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ...errors import LoadError, PathexpError
from ..config import Config
from ..model import Model, TextCoder
from ..rotary import Llama3, Rotary
from ..weights import Weights
from .checkpoint import Held, check_layers
from .families.plan import ACTIVATIONS
from .gather import Array, gather
from .keys import Keys
from .lens_pieces import module_pieces, property_pieces

_POSITIONS = {"standard": "learned", "rotary": "rotary", "shortformer": "qk", "alibi": "alibi"}
_NORMS: Mapping[str | None, str | None] = {
    None: None,
    "LN": "layernorm",
    "LNPre": "layernorm",
    "RMS": "rmsnorm",
    "RMSPre": "rmsnorm",
}
_UNUSED = (r"blocks\.\d+\.attn\.(mask|IGNORE|rotary_sin|rotary_cos|alibi)",)
_OFF = {
    "scale_attn_by_inverse_layer_idx": "scores scaled by layer are not known here",
    "relative_attention_num_buckets": "relative positional biases are not known here",
    "qk_norm_after_rope": "norms of queries and keys after they are turned are not known here",
    "rotary_interleaved_cos_sin": "this order of rotary angles is not known here",
    "load_in_4bit": "the weights are quantized; load the model in full precision",
    "rmsnorm_uses_offset": "gains stored less one are not known in this layout",
    "scale_embedding": "a multiplier of the embedding is not known in this layout",
    "per_layer_head_dim": "heads whose size differs between layers are not known here",
    "per_layer_num_key_value_heads": "key/value heads whose number differs between layers are not known here",
    "rope_scaling": "scaled rotary positions are not known in this layout; load the original directory",
    "is_audio_model": "audio models are not known here",
    "is_visual_model": "vision models are not known here",
    "is_stateful": "recurrent models are not known here",
    "is_multimodal": "models of more than text are not known here",
}
_INERT = frozenset((
    "NTK_original_ctx_len", "d_vocab_out", "default_padding_side", "default_prepend_bos", "device",
    "checkpoint_index", "checkpoint_label_type", "checkpoint_value", "from_checkpoint", "init_mode",
    "init_weights", "initializer_range", "layer_norm_folding", "model_name", "n_devices", "n_params",
    "original_architecture", "seed", "split_attention_weights", "tie_word_embeddings",
    "tokenizer_appends_eos", "tokenizer_name", "tokenizer_prepends_bos", "trust_remote_code",
    "ungroup_grouped_query_attention", "use_attn_in", "use_attn_result", "use_hook_mlp_in",
    "use_hook_tokens", "use_split_qkv_input", "uses_rms_norm", "window_size",
    "NTK_by_parts_low_freq_factor", "NTK_by_parts_high_freq_factor", "NTK_by_parts_factor",
    "act_fn", "d_mlp", "gated_mlp", "rotary_adjacent_pairs", "rotary_base", "rotary_dim",
))  # fmt: skip


def from_transformer_lens(
    model: Any,
    config: Mapping[str, Any] | Any = None,
    *,
    tokenizer: TextCoder | None = None,
    name: str = "",
    ignore: tuple[str, ...] = (),
) -> Model:
    """A model of TransformerLens: a live object that has ``cfg`` and ``state_dict()``, or a state dict.

    ``model``: the object, or a mapping of names (``blocks.0.attn.W_Q`` or ``blocks.0.attn.q.weight``) to
    arrays; ``config``: for a mapping, its configuration as a mapping or an object. ``ignore``: configuration
    keys that are known to you not to matter. Folded models (LNPre, RMSPre) come as they are. Everything is
    copied; nothing of TransformerLens or torch is imported.

    Raises LoadError for tensors that are missing (the unembedding among them), extra or of another shape, and
    for keys that are not known. A bridge over a model of transformers is refused: load its directory.
    """
    state, keys = _parts(model, config)
    if any(key.startswith("embed.embed.") for key in state):
        raise keys.error(
            "it is a HookedEncoder (BERT), whose names are others; load the model of transformers behind it"
        )
    held = Held(state, keys.where)
    try:
        found = _config(keys, held)
        keys.finish((*_INERT, *ignore), off=(None, False, -1))
        arrays = _arrays(found, held, keys)
        return Model(found, Weights(**arrays), tokenizer, name or str(keys.values.get("model_name") or ""))
    except LoadError:
        raise
    except PathexpError as error:
        raise LoadError(f"Cannot load {keys.where}: {error}") from error


def is_transformer_lens(model: object) -> bool:
    """Whether an object is a model as those of TransformerLens are."""
    return hasattr(model, "cfg") and hasattr(model, "state_dict")


def is_lens_state(state: Mapping[str, Any]) -> bool:
    """Whether named tensors are those of a model of TransformerLens, by the name of its embedding."""
    return "embed.W_E" in state or ("embed.weight" in state and "unembed.weight" in state)


def _parts(model: Any, config: Any) -> tuple[Mapping[str, Any], Keys]:
    if isinstance(model, Mapping):
        if config is None:
            raise LoadError("Cannot load a state dict alone: give its configuration as the second argument.")
        return model, Keys(_values(config), "the TransformerLens state dict")
    if config is not None or not hasattr(model, "cfg") or not hasattr(model, "state_dict"):
        raise LoadError(
            "from_transformer_lens takes a model with cfg and state_dict(), or a state dict and its "
            f"configuration; found {type(model).__name__} and {type(config).__name__}."
        )
    return model.state_dict(), Keys(_values(model.cfg), f"the {type(model).__name__}")


def _values(config: Any) -> Mapping[str, Any]:
    if isinstance(config, Mapping):
        return dict(config)
    if not hasattr(config, "__dict__"):
        raise LoadError(
            f"Cannot load a state dict of TransformerLens: its configuration must be a mapping or a config object, found "
            f"{config!r:.60}."
        )
    return dict(vars(config))


def _is_modules(held: Held) -> bool:
    return "embed.weight" in held.shapes


def _config(keys: Keys, held: Held) -> Config:
    for key, reason in _OFF.items():
        keys.must_be_off(key, reason)
    check_layers(keys.values.get("n_layers"), held)
    modules = _is_modules(held)
    _check_native(keys, modules)
    d_model, d_head = keys.size("d_model"), keys.size("d_head")
    n_heads, d_vocab = _counted(keys, "n_heads", d_model // d_head), keys.size("d_vocab")
    d_out = _counted(keys, "d_vocab_out", d_vocab)
    n_layers, norm = keys.size("n_layers"), _norm(keys)
    positions = keys.choice(
        "positional_embedding_type", keys.assume("positional_embedding_type", "standard"), _POSITIONS
    )
    if keys.switch("post_embedding_ln", False) and positions == "learned":
        raise keys.error("'post_embedding_ln' norms before positions are added, which is not known here")
    causal = keys.choice("attention_dir", keys.get("attention_dir", "causal"), _DIRECTIONS) == "causal"
    if positions == "alibi":
        _check_slopes(keys, n_heads, causal)
    attention_only = keys.switch("attn_only", False)
    return Config(
        n_layers=n_layers,
        n_heads=n_heads,
        n_kv_heads=_kv_heads(keys, held, n_heads),
        d_model=d_model,
        d_head=d_head,
        d_vocab=d_vocab,
        d_out=d_out,
        n_ctx=keys.size("n_ctx"),
        d_mlp=0 if attention_only else keys.size("d_mlp", 4 * d_model),
        gated=keys.switch("gated_mlp", False) and not attention_only,
        activation="gelu" if attention_only else keys.choice("act_fn", keys.get("act_fn"), ACTIVATIONS),
        positions=positions,
        rotary=_rotary(keys, d_head, modules) if positions == "rotary" else None,
        norm=norm,
        norm_placement="sandwich" if keys.switch("use_normalization_before_and_after", False) else "pre",
        embed_norm=keys.switch("post_embedding_ln", False),
        norm_eps=keys.number("eps", 1e-5),
        qk_norm="head" if keys.switch("use_qk_norm", False) else None,
        attention_scale=_scale(keys, modules, d_head),
        attention_cap=_cap(keys, "attn_scores_soft_cap"),
        logit_cap=_cap(keys, "output_logits_soft_cap"),
        causal=causal,
        windows=_windows(keys, n_layers),
        parallel="separate" if keys.switch("parallel_attn_mlp", False) and not attention_only else None,
    )


def _counted(keys: Keys, key: str, default: int) -> int:
    """A size; where it is not told, or -1 as TransformerLens writes that, what it makes of the others."""
    return default if keys.get(key) in (None, -1) else keys.size(key)


_DIRECTIONS = {"causal": "causal", "bidirectional": "bidirectional"}


def _check_native(keys: Keys, modules: bool) -> None:
    """Only of the native model does cfg tell everything; a bridge to another stands before its own code."""
    architecture = keys.get("architecture")
    if architecture not in (None, "TransformerLensNative"):
        raise keys.error(
            f"'architecture' is {architecture!r}: the bridge stands before a model of transformers. "
            "Save that with save_pretrained and load its directory"
        )
    for key in ("parallel_attn_mlp", "use_local_attn", "use_qk_norm") if modules else ():
        keys.must_be_off(key, "TransformerLens's native model does not do what this says")


def _check_slopes(keys: Keys, n_heads: int, causal: bool) -> None:
    """TransformerLens's slopes are those of the paper for powers of two, and zero for keys that come later."""
    if n_heads & (n_heads - 1):
        raise keys.error(
            f"'alibi' with {n_heads} heads: its slopes are others than those of Press et al. 2022 where the number of heads "
            "is no power of two, and are not known here"
        )
    if not causal:
        raise keys.error(
            "'alibi' with bidirectional attention has slopes on one side only, which is not known here"
        )


def _norm(keys: Keys) -> str | None:
    told = "normalization_type" in keys.values
    kind = keys.get("normalization_type") if told else keys.assume("normalization_type", "LN")
    if not isinstance(kind, str | None) or kind not in _NORMS:
        raise keys.error(f"'normalization_type' is {kind!r:.80}, known are {', '.join(map(repr, _NORMS))}")
    if keys.switch("final_rms", False) and _NORMS[kind] == "layernorm":
        raise keys.error("'final_rms' with LayerNorm makes two kinds of norms, which is not known here")
    return _NORMS[kind]


def _kv_heads(keys: Keys, held: Held, n_heads: int) -> int:
    """As many as are stored: get_params repeats grouped keys and values for every query head."""
    told = keys.size("n_key_value_heads", n_heads)
    stored = held.shapes.get("blocks.0.attn.W_K", (told,))[0]
    return n_heads if stored == n_heads else told


def _rotary(keys: Keys, d_head: int, modules: bool) -> Rotary:
    adjacent = modules or keys.switch("rotary_adjacent_pairs", False)
    keys.asked.add("rotary_adjacent_pairs")
    scaling = None
    if keys.switch("use_NTK_by_parts_rope", False):
        scaling = Llama3(
            factor=keys.number("NTK_by_parts_factor", 8.0),
            low_freq_factor=keys.number("NTK_by_parts_low_freq_factor", 1.0),
            high_freq_factor=keys.number("NTK_by_parts_high_freq_factor", 4.0),
            original_n_ctx=keys.size("NTK_original_ctx_len", 8192),
        )
    return Rotary(
        base=keys.assumed_number("rotary_base", 10000.0),
        dims=keys.size("rotary_dim", d_head),
        pairing="adjacent" if adjacent else "half",
        scaling=scaling,
    )


def _scale(keys: Keys, modules: bool, d_head: int) -> float:
    """One over what scores are divided by: √d_head where nothing else is told."""
    used, divisor = keys.switch("use_attn_scale", True), keys.number("attn_scale", -1.0)
    if not used and not modules:
        return 1.0
    return 1 / divisor if used and divisor > 0 else d_head**-0.5


def _cap(keys: Keys, key: str) -> float | None:
    found = keys.number(key, -1.0)
    return found if found > 0 else None


def _windows(keys: Keys, n_layers: int) -> tuple[int | None, ...] | None:
    if not keys.switch("use_local_attn", False):
        keys.asked.add("attn_types")
        return None
    kinds, width = keys.get("attn_types"), keys.size("window_size")
    if not isinstance(kinds, list | tuple) or set(kinds) - {"local", "global"}:
        raise keys.error(f"'attn_types' must be a list of 'local' and 'global', found {kinds!r:.80}")
    return tuple(width if kind == "local" else None for kind in kinds[:n_layers])


def _arrays(config: Config, held: Held, keys: Keys) -> dict[str, Array]:
    stored = not str(keys.get("normalization_type")).endswith("Pre")
    unused = (*_UNUSED, r"pos_embed\.W_pos") if config.positions == "alibi" else _UNUSED
    if _is_modules(held):
        return gather(held, list(module_pieces(config, stored)), config.n_layers, unused)
    grouped = "blocks.0.attn._W_K" in held.shapes
    arrays = gather(held, list(property_pieces(config, grouped, stored)), config.n_layers, unused)
    return _without_bias_behind_gate(arrays) if config.gated else arrays


def _without_bias_behind_gate(arrays: dict[str, Array]) -> dict[str, Array]:
    """TransformerLens adds b_in of a gated MLP behind the product; W_out carries it on to b_out, exactly."""
    b_in = arrays.pop("b_in")
    arrays["b_out"] = arrays["b_out"] + np.einsum("ldm,lm->ld", arrays["W_out"], b_in)
    return arrays

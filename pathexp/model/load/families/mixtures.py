"""Mixtures of experts that are Llamas otherwise: Mixtral, OLMoE, Qwen-MoE."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from ..experts import MIXTRAL_NAMES, experts_of, sparse_layers
from ..keys import Keys
from ..options import Options
from .llama import Kind, plan_of
from .plan import Family, windows

Fields = Mapping[str, Any]

_PRE = {"input_layernorm": "attn", "post_attention_layernorm": "mlp"}


def _mixtral(keys: Keys, options: Options) -> Fields:
    keys.get("router_jitter_noise")  # for training
    experts = experts_of(keys, keys.size("num_hidden_layers"), width="intermediate_size", normalized=True)
    return {"d_mlp": 0, "experts": experts, "windows": keys.get("sliding_window")}


def _olmoe(keys: Keys, options: Options) -> Fields:
    keys.must_be_off("clip_qkv", "queries, keys and values that are clipped are not known here")
    experts = experts_of(keys, keys.size("num_hidden_layers"), width="intermediate_size")
    return {"d_mlp": 0, "experts": experts}


def _qwen2_moe(keys: Keys, options: Options) -> Fields:
    shared, last = keys.size("shared_expert_intermediate_size"), keys.get("max_window_layers", 28)
    width = keys.optional_size("sliding_window", 4096) if _slides(keys) else None
    slide = windows(keys, keys.size("num_hidden_layers"), width, lambda at: at % 2 == 0 and at < last)
    return {**_some_sparse(keys, shared=shared, shared_gate=True), "windows": slide}


def _qwen3_moe(keys: Keys, options: Options) -> Fields:
    keys.get("max_window_layers")  # this family slides in all layers or in none
    width = keys.optional_size("sliding_window", 4096) if _slides(keys) else None
    return {**_some_sparse(keys), "windows": width}


def _slides(keys: Keys) -> bool:
    keys.asked.add("sliding_window")
    return keys.switch("use_sliding_window", False)


def _some_sparse(keys: Keys, **more: Any) -> Fields:
    """Layers with experts among those with an MLP."""
    n_layers = keys.size("num_hidden_layers")
    layers = sparse_layers(keys, n_layers)
    experts = experts_of(keys, n_layers, layers=layers, **more)
    return {"experts": experts if layers else None, **({"d_mlp": 0} if len(layers) == n_layers else {})}


def _family(kind: Kind) -> Family:
    return Family(
        "model.", "model.embed_tokens.weight", "lm_head.weight", tied=False, plan=partial(plan_of, kind)
    )


MIXTRAL = _family(
    Kind(
        _mixtral,
        _PRE,
        biases="",
        told=("num_key_value_heads",),
        epsilon=1e-5,
        theta=1e6,
        experts=MIXTRAL_NAMES,
    )
)
OLMOE = _family(Kind(_olmoe, _PRE, qk_norm="projection", epsilon=1e-5))
QWEN2_MOE = _family(
    Kind(_qwen2_moe, _PRE, biases="qkv", bias_key=("qkv_bias", True), told=("num_key_value_heads",))
)
QWEN3_MOE = _family(Kind(_qwen3_moe, _PRE, qk_norm="head", told=("num_key_value_heads", "head_dim")))

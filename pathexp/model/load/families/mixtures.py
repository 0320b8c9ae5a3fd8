"""Mixtures of experts that are Llamas otherwise: Mixtral, OLMoE, Qwen-MoE."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from ...activations import QUICK
from ..experts import GPT_OSS_NAMES, MIXTRAL_NAMES, experts_of, sparse_layers
from ..gather import Piece, as_it_is
from ..keys import Keys
from ..options import Options
from .llama import Kind, plan_of
from .plan import Family, Plan, windows

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


def _gpt_oss(keys: Keys, options: Options) -> Fields:
    """Gates are act(z) = z σ(1.702 z), whatever hidden_act says; they and what they multiply are clipped."""
    for key in ("experts_per_token", "initial_context_length"):
        keys.get(key)  # said elsewhere again
    alpha, limit = keys.number("swiglu_alpha", QUICK), keys.assumed_number("swiglu_limit", 7.0)
    if alpha != QUICK:
        raise keys.error(f"'swiglu_alpha' is {alpha:g}, known is {QUICK:g}")
    n_layers, width = keys.size("num_hidden_layers"), keys.optional_size("sliding_window", 128)
    experts = experts_of(keys, n_layers, width="intermediate_size", normalized=True, limit=limit, shift=1.0)
    return {
        "d_mlp": 0,
        "experts": experts,
        "activation": "quick_gelu",
        "sinks": True,
        "windows": windows(keys, n_layers, width, lambda layer: layer % 2 == 0),
    }


def _with_sinks(kind: Kind, keys: Keys, options: Options) -> Plan:
    plan = plan_of(kind, keys, options)
    sinks = Piece("model.layers.{l}.self_attn.sinks", (plan.config.n_heads,), {"sinks": as_it_is})
    return replace(plan, pieces=[*plan.pieces, sinks])


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
GPT_OSS = replace(
    OLMOE,
    plan=partial(
        _with_sinks,
        Kind(
            _gpt_oss, _PRE, bias_key=("attention_bias", True), told=("num_key_value_heads", "head_dim"), epsilon=1e-5,
            theta=150000.0, experts=GPT_OSS_NAMES,
        ),
    ),
)  # fmt: skip

"""DeepSeek-V2 and V3: Llamas with latent attention, their first layers dense, experts with a shared one after them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from ...config import Config
from ...latent import Latent
from ...rotary import Rotary
from ...routing import Experts
from ..experts import ExpertNames, expert_pieces
from ..gather import Array, Piece, Turn, as_it_is
from ..keys import Keys
from ..options import Options
from ..rope import mean_scale, rotary
from .plan import Family, Plan, activation

_ATTENTION = "model.layers.{l}.self_attn."
_NAMES = ExpertNames(shared="mlp.shared_experts.")
EPS = 1e-6
"""The norms of latents do not read rms_norm_eps in transformers."""
_GATED = {"gate": "gate_proj", "in": "up_proj", "out": "down_proj"}
_UNREAD = (
    "aux_loss_alpha",
    "seq_aux",
    "ep_size",
    "num_nextn_predict_layers",
    "num_mtp_layers",
    "output_router_logits",
)
"""Keys of training, of how experts are spread over machines, and of layers that predict a second token ahead."""


def _plan(version: int, keys: Keys, options: Options) -> Plan:
    biased, mlp_biased = keys.switch("attention_bias", False), version == 2 and keys.switch("mlp_bias", False)
    latent = _latent(keys)
    config = _config(version, keys, latent)
    pieces = [
        *_attention(config, latent, biased),
        *_mlp(config, mlp_biased),
        *expert_pieces(config, _NAMES),
        *_shared_biases(config, mlp_biased),
        *_choice(version, config),
        *_norms(config),
    ]
    return Plan(config, pieces, _unused(keys, config))


def _config(version: int, keys: Keys, latent: Latent) -> Config:
    n_heads, n_layers = keys.size("num_attention_heads"), keys.size("num_hidden_layers")
    if keys.size("num_key_value_heads", n_heads) != n_heads:
        raise keys.error(
            f"'num_key_value_heads' is {keys.get('num_key_value_heads')}: in latent attention each of the {n_heads} heads has "
            "its own keys and values"
        )
    keys.must_be(
        "head_dim", latent.d_shared, "this family turns qk_rope_head_dim numbers, whatever head_dim says"
    )
    keys.must_be("qk_head_dim", _head_size(keys), "it must be qk_nope_head_dim + qk_rope_head_dim")
    keys.must_be("moe_layer_freq", 1, "every layer after the first dense ones has experts")
    for key in _UNREAD:
        keys.get(key)
    dense = min(keys.size("first_k_dense_replace", 0 if version == 2 else 3, least=0), n_layers)
    experts = (_experts_of_v2 if version == 2 else _experts_of_v3)(keys) if dense < n_layers else None
    if experts is None:
        keys.asked |= {*_ROUTING, "scoring_func", "n_routed_experts", "num_experts_per_tok", "num_experts"}
    width = keys.size("intermediate_size")
    return Config(
        n_layers=n_layers,
        n_heads=n_heads,
        d_model=keys.size("hidden_size"),
        d_head=_head_size(keys),
        d_vocab=keys.size("vocab_size"),
        n_ctx=keys.size("max_position_embeddings"),
        d_mlp=width if dense else 0,
        positions="rotary",
        rotary=_turned(version, keys, latent.d_shared),
        attention_scale=mean_scale(keys) * mean_scale(keys) / math.sqrt(_head_size(keys)),
        norm="rmsnorm",
        norm_eps=keys.assumed_number("rms_norm_eps", 1e-6),
        activation=activation(keys, "hidden_act", "silu"),
        gated=True,
        latent=latent,
        experts=None if experts is None else replace(experts, layers=tuple(range(dense, n_layers))),
    )


def _head_size(keys: Keys) -> int:
    return keys.size("qk_nope_head_dim") + keys.size("qk_rope_head_dim")


def _latent(keys: Keys) -> Latent:
    queries = None if keys.get("q_lora_rank") is None else keys.size("q_lora_rank")
    if "q_lora_rank" not in keys.values:
        raise keys.error("'q_lora_rank' is not told: how many numbers queries are made of, or null")
    return Latent(
        rank=keys.size("kv_lora_rank"), d_shared=keys.size("qk_rope_head_dim"), d_value=keys.size("v_head_dim"),
        query_rank=queries, eps=EPS,
    )  # fmt: skip


def _turned(version: int, keys: Keys, dims: int) -> Rotary:
    """V2 turns pairs of neighbours; V3 does unless told, else pairs half of what is turned apart."""
    adjacent = version == 2 or keys.switch("rope_interleave", True)
    return replace(rotary(keys, dims, partial=False), pairing="adjacent" if adjacent else "half")


_ROUTING = (
    "n_group", "topk_group", "topk_method", "norm_topk_prob", "routed_scaling_factor", "n_shared_experts",
    "moe_intermediate_size",
)  # fmt: skip


def _experts_of_v2(keys: Keys) -> Experts:
    keys.must_be("scoring_func", "softmax", "this family weighs experts by a softmax over all of them")
    keys.must_be_off(
        "norm_topk_prob", "the code of this family in transformers does not make weights add up to 1"
    )
    method = keys.choice(
        "topk_method", keys.get("topk_method", "greedy"), {"greedy": "all", "group_limited_greedy": "groups"}
    )
    groups = (
        {"groups": keys.size("n_group"), "chosen_groups": keys.size("topk_group")}
        if method == "groups"
        else {}
    )
    keys.asked |= {"n_group", "topk_group"}
    return _experts(keys, 1.0, **groups)


def _experts_of_v3(keys: Keys) -> Experts:
    keys.must_be("scoring_func", "sigmoid", "this family weighs each expert by a sigmoid")
    keys.must_be("topk_method", "noaux_tc", "this family chooses by weight plus a correction")
    keys.assume("norm_topk_prob", True)
    return _experts(
        keys, 2.5, groups=keys.size("n_group"), chosen_groups=keys.size("topk_group"), by_two=True, scoring="sigmoid",
        normalized=keys.switch("norm_topk_prob", True),
    )  # fmt: skip


def _experts(keys: Keys, multiplier: float, **more: Any) -> Experts:
    width, count = keys.size("moe_intermediate_size"), keys.size("n_routed_experts")
    keys.must_be("num_experts", count, "it must be n_routed_experts")
    keys.must_be("num_local_experts", count, "it must be n_routed_experts")
    return Experts(
        count=count, chosen=keys.size("num_experts_per_tok"), width=width, shared=width * keys.size("n_shared_experts"),
        multiplier=keys.assumed_number("routed_scaling_factor", multiplier), **more,
    )  # fmt: skip


# Tensors ---------------------------------------------------------------------------------------------------


def _attention(c: Config, e: Latent, biased: bool) -> Iterator[Piece]:
    shape = c.n_heads * c.d_head
    if e.query_rank is None:
        yield Piece(f"{_ATTENTION}q_proj.weight", (shape, c.d_model), {"W_Q": turning_first(c, e)})
    else:
        yield Piece(f"{_ATTENTION}q_a_proj.weight", (e.query_rank, c.d_model), {"W_DQ": as_it_is})
        yield Piece(f"{_ATTENTION}q_a_layernorm.weight", (e.query_rank,), {"g_q_latent": as_it_is})
        yield Piece(f"{_ATTENTION}q_b_proj.weight", (shape, e.query_rank), {"W_UQ": turning_first(c, e)})
    compressed = e.rank + e.d_shared
    yield Piece(f"{_ATTENTION}kv_a_proj_with_mqa.weight", (compressed, c.d_model), down(e, "W"))
    yield Piece(f"{_ATTENTION}kv_a_layernorm.weight", (e.rank,), {"g_kv_latent": as_it_is})
    rows = c.n_heads * (c.d_head - e.d_shared + e.d_value)
    yield Piece(f"{_ATTENTION}kv_b_proj.weight", (rows, e.rank), up(c, e))
    out = (c.d_model, c.n_heads * e.d_value)
    yield Piece(f"{_ATTENTION}o_proj.weight", out, {"W_O": values_out(c, e)})
    if biased:
        if e.query_rank is not None:
            yield Piece(f"{_ATTENTION}q_a_proj.bias", (e.query_rank,), {"b_DQ": as_it_is})
        yield Piece(f"{_ATTENTION}kv_a_proj_with_mqa.bias", (compressed,), down(e, "b"))
        yield Piece(f"{_ATTENTION}o_proj.bias", (c.d_model,), {"b_O": as_it_is})


def turning_first(c: Config, e: Latent) -> Turn:
    """Heads side by side, (H h, ·), to (H, h, ·), the numbers that rotary positions turn before the others."""

    def turn(raw: Array) -> Array:
        heads = raw.reshape(c.n_heads, c.d_head, -1)
        return np.concatenate([heads[:, c.d_head - e.d_shared :], heads[:, : c.d_head - e.d_shared]], axis=1)

    return turn


def down(e: Latent, kind: str) -> Mapping[str, Turn]:
    """The latent of keys and values, and after it the key that heads share."""
    return {f"{kind}_DKV": lambda raw: raw[: e.rank], f"{kind}_KR": lambda raw: raw[e.rank :]}


def up(c: Config, e: Latent) -> Mapping[str, Turn]:
    """Each head's own part of its key, and after it its value."""
    own = c.d_head - e.d_shared

    def heads(raw: Array) -> Array:
        return raw.reshape(c.n_heads, own + e.d_value, e.rank)

    return {"W_UK": lambda raw: heads(raw)[:, :own], "W_UV": lambda raw: heads(raw)[:, own:]}


def values_out(c: Config, e: Latent) -> Turn:
    """An output projection, (d_model, H · d_value), to (H, d_model, d_value)."""
    return lambda raw: raw.reshape(c.d_model, c.n_heads, e.d_value).transpose(1, 0, 2)


def _mlp(c: Config, biased: bool) -> Iterator[Piece]:
    if not c.d_mlp:
        return
    layers = tuple(filter(c.has_dense, range(c.n_layers)))
    for ours, theirs in _GATED.items():
        shape = (c.d_model, c.d_mlp) if ours == "out" else (c.d_mlp, c.d_model)
        yield Piece(f"model.layers.{{l}}.mlp.{theirs}.weight", shape, {f"W_{ours}": as_it_is}, layers)
        if biased:
            yield Piece(f"model.layers.{{l}}.mlp.{theirs}.bias", shape[:1], {f"b_{ours}": as_it_is}, layers)


def _shared_biases(c: Config, biased: bool) -> Iterator[Piece]:
    """Where MLPs have biases, the expert that all share has them too; those that are chosen have none."""
    if c.experts is None or not biased:
        return
    for ours, theirs in _GATED.items():
        size = c.d_model if ours == "out" else c.experts.shared
        name = f"model.layers.{{l}}.mlp.shared_experts.{theirs}.bias"
        yield Piece(name, (size,), {f"b_{ours}_shared": as_it_is}, c.experts.layers)


def _choice(version: int, c: Config) -> Iterator[Piece]:
    if version == 3 and c.experts is not None:
        name = "model.layers.{l}.mlp.gate.e_score_correction_bias"
        yield Piece(name, (c.experts.count,), {"b_choice": as_it_is}, c.experts.layers)


def _norms(c: Config) -> Iterator[Piece]:
    yield Piece("model.layers.{l}.input_layernorm.weight", (c.d_model,), {"g_attn": as_it_is})
    yield Piece("model.layers.{l}.post_attention_layernorm.weight", (c.d_model,), {"g_mlp": as_it_is})
    yield Piece("model.norm.weight", (c.d_model,), {"g_final": as_it_is})


def _unused(keys: Keys, c: Config) -> tuple[str, ...]:
    """Stored frequencies, and the layers behind the last that predict a second token ahead."""
    ahead = keys.size("num_nextn_predict_layers", keys.size("num_mtp_layers", 0, least=0), least=0)
    layers = (rf"model\.layers\.{c.n_layers + more}\..*" for more in range(min(ahead, 16)))
    return (r"model\.layers\.\d+\.self_attn\.rotary_emb\.inv_freq", *layers)


def _family(version: int) -> Family:
    return Family(
        "model.", "model.embed_tokens.weight", "lm_head.weight", tied=False, plan=partial(_plan, version)
    )


DEEPSEEK_V2, DEEPSEEK_V3 = _family(2), _family(3)

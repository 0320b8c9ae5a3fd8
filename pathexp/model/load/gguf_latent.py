"""Latent attention as the keys of a GGUF file of DeepSeek tell it, and where its tensors and its experts' are."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

from ..config import Config
from ..latent import Latent
from ..routing import Experts
from .checkpoint import Shape
from .families.deepseek import EPS, down, turning_first, up, values_out
from .gather import Array, Piece, as_it_is
from .gguf_keys import GgufKeys
from .options import Options

_BLOCK = "blk.{l}."
_SIGMOID = 2


def latent_fields(keys: GgufKeys, shapes: Mapping[str, Shape], options: Options) -> Mapping[str, Any]:
    """The fields of a configuration that latent attention changes, and its experts.

    Newer files count one key and value head, the latent, and tell the sizes of heads by keys of their own.
    """
    latent, d_head = _latent(keys)
    n_layers, multiplier = keys.size("block_count"), keys.number("rope.scaling.yarn_log_multiplier", 0.0)
    dense = min(keys.size("leading_dense_block_count", 0, least=0), n_layers)
    experts = _experts(keys, dense, n_layers) if keys.get("expert_count") else None
    found = experts if dense < n_layers else None
    return {
        "n_kv_heads": keys.even("attention.head_count"),
        "d_head": d_head,
        "latent": latent,
        "attention_scale": _mean_scale(keys, multiplier) / math.sqrt(d_head),
        "experts": found,
        **({"d_mlp": 0} if found is not None and not dense else {}),
    }


def _latent(keys: GgufKeys) -> tuple[Latent, int]:
    """The latent and the size of a head's keys."""
    rank, shared = keys.size("attention.kv_lora_rank"), keys.size("rope.dimension_count")
    ending = ""
    if keys.get("attention.key_length_mla") is not None:
        ending = "_mla"
        keys.must_be("attention.key_length", rank + shared, "it is the latent and the shared key")
        keys.must_be("attention.value_length", rank, "it is the latent")
        keys.must_be("attention.head_count_kv", 1, "all heads read one latent")
    else:
        keys.must_be(
            "attention.head_count_kv", keys.even("attention.head_count"), "heads have keys of their own"
        )
    sizes = [keys.size(f"attention.{side}_length{ending}") for side in ("key", "value")]
    queries = keys.size("attention.q_lora_rank") if keys.get("attention.q_lora_rank") else None
    return Latent(rank=rank, d_shared=shared, d_value=sizes[1], query_rank=queries, eps=EPS), sizes[0]


def _mean_scale(keys: GgufKeys, multiplier: float) -> float:
    """What whole products of queries and keys are multiplied by, where positions are stretched."""
    if keys.get("rope.scaling.type") != "yarn":
        return 1.0
    if not multiplier:
        raise keys.error(
            "'rope.scaling.yarn_log_multiplier' is not told, by which this architecture scales stretched positions"
        )
    factor = keys.number("rope.scaling.factor", 1.0)
    mean = 1 + multiplier * math.log(factor) if factor > 1 else 1.0
    return mean * mean


def _experts(keys: GgufKeys, dense: int, n_layers: int) -> Experts:
    gating = keys.get("expert_gating_func", 1)
    if gating not in (1, _SIGMOID):
        raise keys.error(f"'expert_gating_func' is {gating!r}, known are 1 and 2: a softmax, sigmoids")
    width, sigmoid = keys.size("expert_feed_forward_length"), gating == _SIGMOID
    groups = keys.size("expert_group_count", 1)
    return Experts(
        count=keys.size("expert_count"),
        chosen=keys.size("expert_used_count"),
        width=width,
        shared=width * keys.size("expert_shared_count", 0, least=0),
        scoring="sigmoid" if sigmoid else "softmax",
        normalized=keys.switch("expert_weights_norm", False),
        multiplier=keys.number("expert_weights_scale", 0.0) or 1.0,
        groups=groups,
        chosen_groups=keys.size("expert_group_used_count", groups),
        by_two=sigmoid and groups > 1,
        layers=tuple(range(dense, n_layers)),
    )


def latent_pieces(c: Config, e: Latent, shapes: Mapping[str, Shape]) -> Iterator[Piece]:
    """The tensors of attention; keys and values are made by one tensor in older files, by two in newer ones."""
    rows, both = c.n_heads * c.d_head, e.rank + e.d_shared
    if e.query_rank is None:
        yield Piece(f"{_BLOCK}attn_q.weight", (rows, c.d_model), {"W_Q": turning_first(c, e)})
    else:
        yield Piece(f"{_BLOCK}attn_q_a.weight", (e.query_rank, c.d_model), {"W_DQ": as_it_is})
        yield Piece(f"{_BLOCK}attn_q_a_norm.weight", (e.query_rank,), {"g_q_latent": as_it_is})
        yield Piece(f"{_BLOCK}attn_q_b.weight", (rows, e.query_rank), {"W_UQ": turning_first(c, e)})
    yield Piece(f"{_BLOCK}attn_kv_a_mqa.weight", (both, c.d_model), down(e, "W"))
    yield Piece(f"{_BLOCK}attn_kv_a_norm.weight", (e.rank,), {"g_kv_latent": as_it_is})
    own = c.d_head - e.d_shared
    if "blk.0.attn_kv_b.weight" in shapes:
        yield Piece(f"{_BLOCK}attn_kv_b.weight", (c.n_heads * (own + e.d_value), e.rank), up(c, e))
    else:
        yield Piece(f"{_BLOCK}attn_k_b.weight", (c.n_heads, e.rank, own), {"W_UK": _outputs_first})
        yield Piece(f"{_BLOCK}attn_v_b.weight", (c.n_heads, e.d_value, e.rank), {"W_UV": as_it_is})
    out = (c.d_model, c.n_heads * e.d_value)
    yield Piece(f"{_BLOCK}attn_output.weight", out, {"W_O": values_out(c, e)})


def _outputs_first(raw: Array) -> Array:
    return raw.swapaxes(-1, -2)


def dense_pieces(c: Config) -> Iterator[Piece]:
    """The MLPs of the first layers."""
    layers = tuple(filter(c.has_dense, range(c.n_layers)))
    for theirs, ours in (("gate", "gate"), ("up", "in"), ("down", "out")):
        shape = (c.d_model, c.d_mlp) if ours == "out" else (c.d_mlp, c.d_model)
        yield Piece(f"{_BLOCK}ffn_{theirs}.weight", shape, {f"W_{ours}": as_it_is}, layers)


def choice_pieces(c: Config, shapes: Mapping[str, Shape]) -> Iterator[Piece]:
    """What is added to weights where experts are chosen, if the file has it."""
    layers = () if c.experts is None else c.experts.layers or ()
    if c.experts is not None and layers and f"blk.{layers[0]}.exp_probs_b.bias" in shapes:
        yield Piece(f"{_BLOCK}exp_probs_b.bias", (c.experts.count,), {"b_choice": as_it_is}, layers)

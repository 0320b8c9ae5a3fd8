"""Cohere's Command R: attention and MLP in parallel behind one LayerNorm without bias, rotary in adjacent pairs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from ...config import Config
from ..gather import Piece, as_it_is
from ..keys import Keys
from ..options import Options
from ..rope import rotary
from .head_norms import in_one_table
from .plan import Family, Plan, activation
from .projections import GATED, LAYER, ROTARY_BUFFERS, mlp, projections, sizes


def _plan(keys: Keys, options: Options) -> Plan:
    found = sizes(keys)
    turned = replace(rotary(keys, found["d_head"], partial=False, default=500000.0), pairing="adjacent")
    normed = keys.switch("use_qk_norm", False)
    config = Config(
        **found,
        positions="rotary",
        rotary=turned,
        norm="layernorm",
        norm_eps=keys.assumed_number("layer_norm_eps", 1e-5),
        qk_norm="layernorm" if normed else None,
        activation=activation(keys, "hidden_act", "silu"),
        gated=True,
        parallel="shared",
        logit_multiplier=keys.assumed_number("logit_scale", 0.0625),
    )
    pieces = [*projections(config, "qkvo" * keys.switch("attention_bias", False)), *mlp(config, GATED, False)]
    normed_heads = in_one_table(config, LAYER + "self_attn.{side}_norm") if normed else ()
    return Plan(config, [*pieces, *_norms(config), *normed_heads], ROTARY_BUFFERS)


def _norms(c: Config) -> Iterator[Piece]:
    yield Piece(LAYER + "input_layernorm.weight", (c.d_model,), {"g_attn": as_it_is})
    yield Piece("model.norm.weight", (c.d_model,), {"g_final": as_it_is})


COHERE = Family("model.", "model.embed_tokens.weight", "lm_head.weight", tied=True, plan=_plan)

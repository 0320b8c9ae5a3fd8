"""Cohere's Command R: attention and MLP in parallel behind one LayerNorm without bias, rotary in adjacent pairs.

Of the second generation, layers that see everything are not turned.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial

from ...config import Config
from ...rotary import Rotary
from ..gather import Piece, as_it_is
from ..keys import Keys
from ..options import Options
from ..rope import rotary
from .head_norms import in_one_table
from .plan import Family, Plan, activation, windows
from .projections import GATED, LAYER, ROTARY_BUFFERS, mlp, projections, sizes


@dataclass(frozen=True)
class Kind:
    """How the generations differ: the norm of queries and keys of the first, the windows of the second."""

    base: float
    slides: bool


def _plan(kind: Kind, keys: Keys, options: Options) -> Plan:
    found = sizes(keys)
    turned = replace(rotary(keys, found["d_head"], partial=False, default=kind.base), pairing="adjacent")
    normed = keys.switch("use_qk_norm", False)
    if kind.slides and normed:
        raise keys.error("'use_qk_norm' is True: this generation has no norm of queries and keys")
    config = Config(
        **found,
        positions="rotary",
        **_sliding(keys, turned) if kind.slides else {"rotary": turned},
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


def _sliding(keys: Keys, turned: Rotary) -> dict[str, object]:
    """Three layers of a window, turned, then one that sees everything and is not turned."""
    for key, known in _ONE_WAY.items():
        keys.must_be(key, known, "another order of layers is not known here")
    n_layers, width = keys.size("num_hidden_layers"), keys.optional_size("sliding_window", 4096)
    every = keys.size("sliding_window_pattern", keys.size("_sliding_window_pattern", 4))
    keys.must_be("layer_switch", every, "it must be sliding_window_pattern")
    found = windows(keys, n_layers, width, lambda layer: bool((layer + 1) % every))
    return {
        "windows": found,
        "rotaries": tuple(None if width is None else turned for width in found or (None,) * n_layers),
    }


_ONE_WAY = {
    "order_of_interleaved_layers": "local_attn_first",
    "position_embedding_type": "rope_gptj",
    "use_gated_activation": True,
    "use_parallel_block": True,
    "use_parallel_embedding": False,
    "use_embedding_sharing": True,
}
"""Keys of older files, with the values that the family's code means."""


def _norms(c: Config) -> Iterator[Piece]:
    yield Piece(LAYER + "input_layernorm.weight", (c.d_model,), {"g_attn": as_it_is})
    yield Piece("model.norm.weight", (c.d_model,), {"g_final": as_it_is})


def _family(kind: Kind) -> Family:
    return Family(
        "model.", "model.embed_tokens.weight", "lm_head.weight", tied=True, plan=partial(_plan, kind)
    )


COHERE = _family(Kind(base=500_000.0, slides=False))
COHERE2 = _family(Kind(base=10_000.0, slides=True))

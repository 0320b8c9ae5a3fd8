"""MPT: pre-norm without any bias, fused queries, keys and values, ALiBi slopes in an order of its own."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

from ...config import Config
from ..fused import Widths, parts
from ..gather import Piece, as_it_is, heads_out
from ..keys import Keys
from ..options import Options
from .plan import Family, Plan, head_size

_TRAINING = (
    "emb_pdrop",
    "resid_pdrop",
    "embedding_fraction",
    "init_config",
    "init_device",
    "verbose",
    "tokenizer_name",
)
_PERFORMANCE = ("attn_impl", "attn_pdrop", "attn_uses_sequence_id", *("model_type", "dtype", "torch_dtype"))


def _plan(keys: Keys, options: Options) -> Plan:
    for key in _TRAINING:
        keys.get(key)  # how it was trained, not what it computes
    keys.must_be("no_bias", True, "MPT with biases is not known here")
    keys.must_be("expansion_ratio", 4, "MLPs of another size are not known here, nor to transformers")
    keys.must_be_off("logit_scale", "a multiplier of the logits is not known here, nor to transformers")
    keys.choice("norm_type", keys.get("norm_type", "low_precision_layernorm"), _NORMS)
    attention = _attention(keys)
    n_heads, d_model = keys.size("n_heads"), keys.size("d_model")
    config = Config(
        n_layers=keys.size("n_layers"),
        n_heads=n_heads,
        d_model=d_model,
        d_head=head_size(keys, d_model, n_heads),
        d_vocab=keys.size("vocab_size"),
        n_ctx=keys.size("max_seq_len"),
        d_mlp=4 * d_model,
        positions="alibi",
        head_slopes=slopes(n_heads),
        norm="layernorm",
        norm_eps=keys.number("layer_norm_epsilon", 1e-5),
        attention_scale=attention.get("softmax_scale"),
        activation="gelu",
    )
    keys.get("learned_pos_emb")  # off wherever there are slopes
    return Plan(config, list(_pieces(config)))


_NORMS = {"layernorm": "layernorm", "low_precision_layernorm": "layernorm"}


def _attention(keys: Keys) -> Keys:
    """The keys of ``attn_config``, those that change the computation held to what is known."""
    found = keys.get("attn_config", {})
    if not isinstance(found, Mapping):
        raise keys.error(f"'attn_config' must be an object, found {found!r:.80}")
    inner = Keys({name: _plain(value) for name, value in found.items()}, f"{keys.where}, attn_config")
    inner.must_be("attn_type", "multihead_attention", "other attention of MPT is not known here")
    inner.must_be("alibi", True, "MPT without ALiBi slopes is not known here")
    inner.must_be_off(
        "clip_qkv", "queries, keys and values that are clipped are no linear maps of the stream"
    )
    inner.must_be("alibi_bias_max", 8, "transformers computes its slopes from 8, whatever stands here")
    inner.must_be_off("prefix_lm", "a prefix that is read both ways is not known here")
    inner.must_be_off("qk_ln", "LayerNorms of queries and keys are not known here")
    for key in (*_PERFORMANCE, "softmax_scale"):
        inner.get(key)
    inner.finish()
    return inner


def _plain(value: Any) -> Any:
    return None if value == {} else value


def slopes(n_heads: int) -> tuple[float, ...]:
    """ALiBi's slopes as MPT has them: of the next power of two, every second one first where that is more.

    >>> slopes(4), slopes(3)
    ((0.25, 0.0625, 0.015625, 0.00390625), (0.0625, 0.00390625, 0.25))
    """
    power = 2 ** math.ceil(math.log2(n_heads))
    all_of_them = [2.0 ** (-8 / power * (head + 1)) for head in range(power)]
    if power != n_heads:
        all_of_them = all_of_them[1::2] + all_of_them[::2]
    return tuple(all_of_them[:n_heads])


def _pieces(c: Config) -> Iterator[Piece]:
    d, m, width, layer = c.d_model, c.d_mlp, Widths(c.n_heads, c.n_heads, c.d_head), "transformer.blocks.{l}."
    yield Piece(layer + "attn.Wqkv.weight", (width.rows, d), parts("mpt", width, "W"))
    yield Piece(layer + "attn.out_proj.weight", (d, d), {"W_O": heads_out(c.n_heads)})
    yield Piece(layer + "ffn.up_proj.weight", (m, d), {"W_in": as_it_is})
    yield Piece(layer + "ffn.down_proj.weight", (d, m), {"W_out": as_it_is})
    for theirs, ours in (
        (layer + "norm_1", "attn"),
        (layer + "norm_2", "mlp"),
        ("transformer.norm_f", "final"),
    ):
        yield Piece(f"{theirs}.weight", (d,), {f"g_{ours}": as_it_is})


MPT = Family("transformer.", "transformer.wte.weight", "lm_head.weight", tied=True, plan=_plan)

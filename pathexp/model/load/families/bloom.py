"""BLOOM: a norm after the embedding, ALiBi slopes, fused queries, keys and values, head by head."""

from __future__ import annotations

from collections.abc import Iterator

from ...config import Config
from ..fused import Widths, parts
from ..gather import Piece, heads_out
from ..keys import Keys
from ..options import Options
from .plan import Family, Plan, head_size, layer_norm, linear

_BASE = "transformer."


def _plan(keys: Keys, options: Options) -> Plan:
    reason = "residuals taken after the norm are not known here"
    keys.must_be_off("apply_residual_connection_post_layernorm", reason)
    for speed in (
        "slow_but_exact",
        "bias_dropout_fusion",
        "masked_softmax_fusion",
        "attention_softmax_in_fp32",
        "skip_bias_add",
        "skip_bias_add_qkv",
        "offset_alibi",
    ):
        keys.get(speed)  # how fast, not what; the last three are stored and read by nothing
    d_model = keys.size("hidden_size", keys.size("n_embed", 64))
    n_heads = keys.size("n_head", keys.size("num_attention_heads", 8))
    config = Config(
        n_layers=keys.size("n_layer", keys.size("num_hidden_layers", 2)),
        n_heads=n_heads,
        d_model=d_model,
        d_head=head_size(keys, d_model, n_heads),
        d_vocab=keys.size("vocab_size"),
        n_ctx=keys.size("seq_length", 2048),
        d_mlp=4 * d_model,
        positions="alibi",
        norm="layernorm",
        norm_eps=keys.assumed_number("layer_norm_epsilon", 1e-5),
        embed_norm=True,
        activation="gelu_tanh",
    )
    return Plan(config, list(_pieces(config)))


def _pieces(c: Config) -> Iterator[Piece]:
    d, m, width, layer = c.d_model, c.d_mlp, Widths(c.n_heads, c.n_heads, c.d_head), _BASE + "h.{l}."
    attention = layer + "self_attention."
    yield Piece(attention + "query_key_value.weight", (width.rows, d), parts("bloom", width, "W"))
    yield Piece(attention + "query_key_value.bias", (width.rows,), parts("bloom", width, "b"))
    yield from linear(attention + "dense", (d, d), "O", heads_out(c.n_heads))
    yield from linear(layer + "mlp.dense_h_to_4h", (m, d), "in")
    yield from linear(layer + "mlp.dense_4h_to_h", (d, m), "out")
    yield from layer_norm(_BASE + "word_embeddings_layernorm", d, "embed")
    yield from layer_norm(layer + "input_layernorm", d, "attn")
    yield from layer_norm(layer + "post_attention_layernorm", d, "mlp")
    yield from layer_norm(_BASE + "ln_f", d, "final")


BLOOM = Family(_BASE, _BASE + "word_embeddings.weight", "lm_head.weight", tied=True, plan=_plan)

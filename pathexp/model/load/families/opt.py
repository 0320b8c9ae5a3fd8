"""OPT: pre-norm, ReLU, learned positions whose table begins with two rows for padding."""

from __future__ import annotations

from collections.abc import Iterator

from ...config import Config
from ..gather import Piece, heads_in, heads_out
from ..keys import Keys
from ..options import Options
from .plan import Family, Plan, activation, head_size, layer_norm, linear

_BASE = "model.decoder."
_PADDING = 2  # rows of the table of positions that no text reads


def _plan(keys: Keys, options: Options) -> Plan:
    keys.must_be("do_layer_norm_before", True, "OPT with norms after its branches is not known here")
    keys.must_be("enable_bias", True, "OPT without biases is not known here")
    keys.must_be("layer_norm_elementwise_affine", True, "norms without gain are not known here")
    keys.must_be_off("_remove_final_layer_norm", "OPT without its final norm is not known here")
    for dropped in ("dropout", "layerdrop", "activation_dropout"):
        keys.get(dropped)
    n_heads, d_model = keys.size("num_attention_heads"), keys.size("hidden_size")
    keys.must_be("word_embed_proj_dim", d_model, "embeddings of another size are not known here")
    config = Config(
        n_layers=keys.size("num_hidden_layers"),
        n_heads=n_heads,
        d_model=d_model,
        d_head=head_size(keys, d_model, n_heads),
        d_vocab=keys.size("vocab_size"),
        n_ctx=keys.size("max_position_embeddings"),
        d_mlp=keys.size("ffn_dim"),
        positions="learned",
        norm="layernorm",
        activation=activation(keys, "activation_function", "relu"),
    )
    return Plan(config, list(_pieces(config)))


def _pieces(c: Config) -> Iterator[Piece]:
    d, m, layer = c.d_model, c.d_mlp, _BASE + "layers.{l}."
    table = (c.n_ctx + _PADDING, d)
    yield Piece(_BASE + "embed_positions.weight", table, {"W_pos": lambda raw: raw[_PADDING:].T})
    for letter in "qkv":
        yield from linear(f"{layer}self_attn.{letter}_proj", (d, d), letter.upper(), heads_in(c.n_heads))
    yield from linear(layer + "self_attn.out_proj", (d, d), "O", heads_out(c.n_heads))
    yield from linear(layer + "fc1", (m, d), "in")
    yield from linear(layer + "fc2", (d, m), "out")
    yield from layer_norm(layer + "self_attn_layer_norm", d, "attn")
    yield from layer_norm(layer + "final_layer_norm", d, "mlp")
    yield from layer_norm(_BASE + "final_layer_norm", d, "final")


OPT = Family("model.", _BASE + "embed_tokens.weight", "lm_head.weight", tied=True, plan=_plan)

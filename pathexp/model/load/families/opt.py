"""OPT: ReLU, learned positions whose table begins with two rows for padding; in one size norms after the branches.

That size has narrower tables of tokens too, and a projection between them and the stream, which is multiplied in.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ...config import Config
from ..gather import Piece, as_it_is, heads_in, heads_out
from ..keys import Keys
from ..options import Options
from .plan import Arrays, Family, Plan, activation, head_size, layer_norm, linear

_BASE = "model.decoder."
_PADDING = 2  # rows of the table of positions that no text reads


def _plan(keys: Keys, options: Options) -> Plan:
    keys.must_be("enable_bias", True, "OPT without biases is not known here")
    keys.must_be("layer_norm_elementwise_affine", True, "norms without gain are not known here")
    before, removed = (
        keys.switch("do_layer_norm_before", True),
        keys.switch("_remove_final_layer_norm", False),
    )
    for dropped in ("dropout", "layerdrop", "activation_dropout"):
        keys.get(dropped)
    n_heads, d_model = keys.size("num_attention_heads"), keys.size("hidden_size")
    width = keys.size("word_embed_proj_dim", d_model)
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
        norm_placement="pre" if before else "post",
        final_norm=before and not removed,
        activation=activation(keys, "activation_function", "relu"),
    )
    if width == d_model:
        return Plan(config, list(_pieces(config)))
    pieces = [*_pieces(config), *_projections(config, width)]
    return Plan(config, pieces, table_width=width, finish=_projected)


def _projections(c: Config, width: int) -> Iterator[Piece]:
    """Between the tables of tokens, which are narrower, and the stream."""
    yield Piece(_BASE + "project_in.weight", (c.d_model, width), {"project_in": as_it_is})
    yield Piece(_BASE + "project_out.weight", (width, c.d_model), {"project_out": as_it_is})


def _projected(arrays: Arrays) -> Arrays:
    """The tables multiplied by their projections: W_E and W_U as the stream meets them."""
    into, out = arrays.pop("project_in"), arrays.pop("project_out")
    return {**arrays, "W_E": into @ np.asarray(arrays["W_E"]), "W_U": np.asarray(arrays["W_U"]) @ out}


def _pieces(c: Config) -> Iterator[Piece]:
    d, m, layer = c.d_model, c.d_mlp, _BASE + "layers.{l}."
    table = (c.n_ctx + _PADDING, d)
    yield Piece(_BASE + "embed_positions.weight", table, {"W_pos": lambda raw: raw[_PADDING:].T})
    for letter in "qkv":
        yield from linear(f"{layer}self_attn.{letter}_proj", (d, d), letter.upper(), heads_in(c.n_heads))
    yield from linear(layer + "self_attn.out_proj", (d, d), "O", heads_out(c.n_heads))
    yield from linear(layer + "fc1", (m, d), "in")
    yield from linear(layer + "fc2", (d, m), "out")
    behind = "_post" if c.norm_placement == "post" else ""
    yield from layer_norm(layer + "self_attn_layer_norm", d, f"attn{behind}")
    yield from layer_norm(layer + "final_layer_norm", d, f"mlp{behind}")
    if c.final_norm:
        yield from layer_norm(_BASE + "final_layer_norm", d, "final")


OPT = Family("model.", _BASE + "embed_tokens.weight", "lm_head.weight", tied=True, plan=_plan)

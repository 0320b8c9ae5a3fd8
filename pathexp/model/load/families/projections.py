"""What many families have alike: sizes under the same keys, and maps under the names that Llama gave them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ...config import Config
from ..gather import Piece, as_it_is, heads_in, heads_out
from ..keys import Keys
from .plan import head_size

LAYER = "model.layers.{l}."
ROTARY_BUFFERS = (r"model\.layers\.\d+\.self_attn\.rotary_emb\.inv_freq", r"model\.rotary_emb\.inv_freq")
"""Frequencies that older files store; they are compared with those of the configuration."""


def sizes(keys: Keys) -> dict[str, Any]:
    """The sizes of a Config, by its names, from the keys that most families have."""
    n_heads, d_model = keys.size("num_attention_heads"), keys.size("hidden_size")
    return {
        "n_layers": keys.size("num_hidden_layers"),
        "n_heads": n_heads,
        "n_kv_heads": keys.size("num_key_value_heads", n_heads),
        "d_model": d_model,
        "d_head": (keys.get("head_dim") and keys.size("head_dim")) or head_size(keys, d_model, n_heads),
        "d_vocab": keys.size("vocab_size"),
        "n_ctx": keys.size("max_position_embeddings"),
        "d_mlp": keys.size("intermediate_size"),
    }


def projections(c: Config, biased: str, out: str = "o_proj") -> Iterator[Piece]:
    """The maps of attention, ``q_proj`` and so on; ``biased``: those of "qkvo" that have a bias."""
    attention = LAYER + "self_attn."
    for letter, heads in (("q", c.n_heads), ("k", c.n_kv_heads), ("v", c.n_kv_heads)):
        rows, turn = heads * c.d_head, heads_in(heads)
        yield Piece(f"{attention}{letter}_proj.weight", (rows, c.d_model), {f"W_{letter.upper()}": turn})
        if letter in biased:
            yield Piece(f"{attention}{letter}_proj.bias", (rows,), {f"b_{letter.upper()}": turn})
    shape = c.d_model, c.n_heads * c.d_head
    yield Piece(f"{attention}{out}.weight", shape, {"W_O": heads_out(c.n_heads)})
    if "o" in biased:
        yield Piece(f"{attention}{out}.bias", (c.d_model,), {"b_O": as_it_is})


def mlp(c: Config, names: dict[str, str], biased: bool) -> Iterator[Piece]:
    """The maps of the MLP; ``names``: theirs of "gate", "in" and "out", those that there are."""
    for ours, theirs in names.items():
        shape = (c.d_model, c.d_mlp) if ours == "out" else (c.d_mlp, c.d_model)
        yield Piece(f"{LAYER}mlp.{theirs}.weight", shape, {f"W_{ours}": as_it_is})
        if biased:
            yield Piece(f"{LAYER}mlp.{theirs}.bias", shape[:1], {f"b_{ours}": as_it_is})


GATED = {"gate": "gate_proj", "in": "up_proj", "out": "down_proj"}

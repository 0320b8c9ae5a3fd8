"""The two layouts in which TransformerLens names and shapes arrays."""

from __future__ import annotations

from collections.abc import Iterator

from ..config import Config
from .gather import Array, Piece, Turn, as_it_is, heads_in, heads_out, transposed

_NORMS = {"attn": "ln1", "mlp": "ln2", "attn_post": "ln1_post", "mlp_post": "ln2_post"}


def per_head(raw: Array) -> Array:
    """(heads, rows, columns), rows times matrix, to (heads, columns, rows)."""
    return raw.swapaxes(-1, -2)


def property_pieces(c: Config, grouped: bool, stored_norms: bool) -> Iterator[Piece]:
    """Names as W_Q, one axis for the heads, row vectors times matrices: HookedTransformer and get_params.

    ``grouped``: keys and values under names with an underscore, as many as there are key/value heads.
    """
    d, h, m, block = c.d_model, c.d_head, c.d_mlp, "blocks.{l}."
    own = "_" if grouped else ""
    yield Piece("embed.W_E", (c.d_vocab, d), {"W_E": transposed})
    if c.positions in ("learned", "qk"):
        yield Piece("pos_embed.W_pos", (c.n_ctx, d), {"W_pos": transposed})
    for letter, heads, name in (("Q", c.n_heads, "Q"), ("K", c.n_kv_heads, "K"), ("V", c.n_kv_heads, "V")):
        under = "" if letter == "Q" else own
        yield Piece(f"{block}attn.{under}W_{letter}", (heads, d, h), {f"W_{name}": per_head})
        yield Piece(f"{block}attn.{under}b_{letter}", (heads, h), {f"b_{name}": as_it_is})
    yield Piece(block + "attn.W_O", (c.n_heads, h, d), {"W_O": per_head})
    yield Piece(block + "attn.b_O", (d,), {"b_O": as_it_is})
    if m:
        yield Piece(block + "mlp.W_in", (d, m), {"W_in": transposed})
        yield Piece(block + "mlp.b_in", (m,), {"b_in": as_it_is})
        yield Piece(block + "mlp.W_out", (m, d), {"W_out": transposed})
        yield Piece(block + "mlp.b_out", (d,), {"b_out": as_it_is})
    if c.gated:
        yield Piece(block + "mlp.W_gate", (d, m), {"W_gate": transposed})
    yield from _norms(c, stored_norms, ("w", "b"))
    yield Piece("unembed.W_U", (d, c.d_out), {"W_U": transposed})
    yield Piece("unembed.b_U", (c.d_out,), {"b_U": as_it_is})


def module_pieces(c: Config, stored_norms: bool) -> Iterator[Piece]:
    """Names as q.weight, rows as outputs, heads side by side: a native bridge of TransformerLens 4."""
    d, h, m, block = c.d_model, c.d_head, c.d_mlp, "blocks.{l}."
    yield Piece("embed.weight", (c.d_vocab, d), {"W_E": transposed})
    if c.positions == "learned":
        yield Piece("pos_embed.weight", (c.n_ctx, d), {"W_pos": transposed})
    for letter, heads in (("q", c.n_heads), ("k", c.n_kv_heads), ("v", c.n_kv_heads)):
        turn: Turn = heads_in(heads)
        yield Piece(f"{block}attn.{letter}.weight", (heads * h, d), {f"W_{letter.upper()}": turn})
        yield Piece(f"{block}attn.{letter}.bias", (heads * h,), {f"b_{letter.upper()}": turn})
    yield Piece(block + "attn.o.weight", (d, c.n_heads * h), {"W_O": heads_out(c.n_heads)})
    yield Piece(block + "attn.o.bias", (d,), {"b_O": as_it_is})
    if m:
        yield Piece(block + "mlp.in.weight", (m, d), {"W_in": as_it_is})
        yield Piece(block + "mlp.out.weight", (d, m), {"W_out": as_it_is})
    if c.gated:
        yield Piece(block + "mlp.gate.weight", (m, d), {"W_gate": as_it_is})
    elif m:
        yield Piece(block + "mlp.in.bias", (m,), {"b_in": as_it_is})
        yield Piece(block + "mlp.out.bias", (d,), {"b_out": as_it_is})
    yield from _norms(c, stored_norms, ("weight", "bias"))
    yield Piece("unembed.weight", (c.d_out, d), {"W_U": as_it_is})
    yield Piece("unembed.bias", (c.d_out,), {"b_U": as_it_is})


def _norms(c: Config, stored: bool, names: tuple[str, str]) -> Iterator[Piece]:
    """Gains and, for LayerNorm, biases; none where they were folded away."""
    if not stored or c.norm is None:
        return
    gain, bias = names
    sites = {f"blocks.{{l}}.{_NORMS[ours]}": ours for ours in c.block_norms} | {"ln_final": "final"}
    if c.embed_norm:
        sites["embed.ln"] = "embed"
    for theirs, ours in sites.items():
        yield Piece(f"{theirs}.{gain}", (c.d_model,), {f"g_{ours}": as_it_is})
        if c.norm == "layernorm":
            yield Piece(f"{theirs}.{bias}", (c.d_model,), {f"b_{ours}": as_it_is})
    if c.qk_norm:
        yield Piece(f"blocks.{{l}}.attn.q_norm.{gain}", (c.d_head,), {"g_q": as_it_is})
        yield Piece(f"blocks.{{l}}.attn.k_norm.{gain}", (c.d_head,), {"g_k": as_it_is})

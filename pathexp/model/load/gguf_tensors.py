"""Where the arrays of an architecture are among the tensors of a GGUF file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ..config import Config
from .checkpoint import Shape
from .families.plan import Arrays
from .fused import Widths, parts
from .gather import Piece, Turn, as_it_is, heads_in, heads_out, transposed
from .gguf_experts import expert_pieces
from .gguf_kinds import Kind
from .gguf_latent import choice_pieces, dense_pieces, latent_pieces

TABLES = "token_embd.weight", "output.weight"
_BLOCK = "blk.{l}."
_TYPES = "token_types.weight"


def pieces(c: Config, kind: Kind, shapes: Mapping[str, Shape]) -> Iterator[Piece]:
    """The tensors of a model of this kind, the two tables of tokens apart; a bias is one that the file has."""
    yield from _attention(c, kind, shapes) if c.latent is None else latent_pieces(c, c.latent, shapes)
    yield from _mlp(c, kind, shapes) if c.experts is None else expert_pieces(c, c.experts, shapes)
    yield from dense_pieces(c) if c.experts is not None and c.d_mlp else ()
    yield from choice_pieces(c, shapes)
    if c.sinks:
        yield Piece(f"{_BLOCK}attn_sinks.weight", (c.n_heads,), {"sinks": as_it_is})
    norms = {theirs: ours for theirs, ours in _norms(kind, shapes).items() if ours in c.block_norms}
    for theirs, ours in norms.items():
        yield from _norm(kind, shapes, _BLOCK + theirs, ours, c.d_model)
    if c.embed_norm:
        yield from _norm(kind, shapes, "token_embd_norm", "embed", c.d_model)
    if c.final_norm and kind.norm_names:
        yield from _norm(kind, shapes, "output_norm", "final", c.d_model)
    if c.positions == "learned":
        yield Piece("position_embd.weight", (c.n_ctx, c.d_model), {"W_pos": transposed})
    if c.positions == "learned" and len(shapes.get(_TYPES, ())) == 2:
        yield Piece(_TYPES, (shapes[_TYPES][0], c.d_model), {"segments": as_it_is})
    if "output.bias" in shapes:
        yield Piece("output.bias", (c.d_out,), {"b_U": as_it_is})


def with_segment(arrays: Arrays) -> Arrays:
    """The arrays with the vector of the first segment added to positions: a text is one segment."""
    if "segments" not in arrays:
        return arrays
    first = arrays.pop("segments")[0]
    return {**arrays, "W_pos": arrays["W_pos"] + first[:, None]}


def _attention(c: Config, kind: Kind, shapes: Mapping[str, Shape]) -> Iterator[Piece]:
    d, width = c.d_model, Widths(c.n_heads, c.n_kv_heads, c.d_head)
    if "blk.0.attn_qkv.weight" in shapes:
        weights, biases = parts("gpt2", width, "W"), parts("gpt2", width, "b")
        yield from _map(kind, shapes, "attn_qkv", (width.rows, d), weights, biases)
    else:
        for letter, heads in (("Q", c.n_heads), ("K", c.n_kv_heads), ("V", c.n_kv_heads)):
            name, turn = f"attn_{letter.lower()}", heads_in(heads)
            yield from _map(
                kind, shapes, name, (heads * c.d_head, d), {f"W_{letter}": turn}, {f"b_{letter}": turn}
            )
    out = {"W_O": heads_out(c.n_heads)}
    yield from _map(kind, shapes, "attn_output", (d, c.n_heads * c.d_head), out, {"b_O": as_it_is})
    for letter, heads in (("q", c.n_heads), ("k", c.n_kv_heads)):
        yield from _qk_norm(c, letter, heads)


def _qk_norm(c: Config, letter: str, heads: int) -> Iterator[Piece]:
    """The gain of queries or keys: of each head alike, of the whole projection, or of each head by itself."""
    name = f"{_BLOCK}attn_{letter}_norm.weight"
    if c.qk_norm == "head":
        yield Piece(name, (c.d_head,), {f"g_{letter}": as_it_is})
    if c.qk_norm == "projection":
        yield Piece(name, (heads * c.d_head,), {f"g_{letter}": heads_in(heads)})
    if c.qk_norm == "layernorm":
        yield Piece(name, (heads, c.d_head), {f"g_{letter}": as_it_is})


def _mlp(c: Config, kind: Kind, shapes: Mapping[str, Shape]) -> Iterator[Piece]:
    d, m = c.d_model, c.d_mlp
    if kind.fused_gate:
        gate: Turn = lambda raw: raw[:m]  # noqa: E731
        up: Turn = lambda raw: raw[m:]  # noqa: E731
        weights, biases = {"W_gate": gate, "W_in": up}, {"b_gate": gate, "b_in": up}
        yield from _map(kind, shapes, "ffn_up", (2 * m, d), weights, biases)
    else:
        ours = {"ffn_gate": "gate", "ffn_up": "in"} if c.gated else {"ffn_up": "in"}
        for name, our in ours.items():
            yield from _map(kind, shapes, name, (m, d), {f"W_{our}": as_it_is}, {f"b_{our}": as_it_is})
    yield from _map(kind, shapes, "ffn_down", (d, m), {"W_out": as_it_is}, {"b_out": as_it_is})


def _norms(kind: Kind, shapes: Mapping[str, Shape]) -> Mapping[str, str]:
    """Falcon's attention has a second norm where there are two, and the first is then the MLP's."""
    if "blk.0.attn_norm_2.weight" in shapes:
        return {"attn_norm_2": "attn", "attn_norm": "mlp"}
    return kind.norm_names


def _map(
    kind: Kind,
    shapes: Mapping[str, Shape],
    name: str,
    shape: tuple[int, int],
    weights: Mapping[str, Turn],
    biases: Mapping[str, Turn],
) -> Iterator[Piece]:
    yield Piece(f"{_BLOCK}{name}.weight", shape, weights)
    if name in kind.biased or f"blk.0.{name}.bias" in shapes:
        yield Piece(f"{_BLOCK}{name}.bias", shape[:1], biases)


def _norm(kind: Kind, shapes: Mapping[str, Shape], theirs: str, ours: str, d_model: int) -> Iterator[Piece]:
    yield Piece(f"{theirs}.weight", (d_model,), {f"g_{ours}": as_it_is})
    if kind.norm == "layernorm" and (not kind.bare or f"{theirs.replace('{l}', '0')}.bias" in shapes):
        yield Piece(f"{theirs}.bias", (d_model,), {f"b_{ours}": as_it_is})

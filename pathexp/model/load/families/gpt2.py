"""GPT-2: pre-norm, learned positions, one fused tensor for queries, keys and values, stored input × output."""

from __future__ import annotations

from collections.abc import Iterator

from ...config import Config
from ..fused import Widths, parts
from ..gather import Piece, after, as_it_is, heads_out, transposed
from ..keys import Keys
from ..options import Options
from .plan import Family, Plan, activation, head_size, layer_norm


def _plan(keys: Keys, options: Options) -> Plan:
    keys.must_be_off("scale_attn_by_inverse_layer_idx", "scores scaled by layer are not known here")
    n_heads, d_model = keys.size("n_head"), keys.size("n_embd")
    n_ctx = keys.size("n_positions")
    keys.must_be("n_ctx", n_ctx, "it must be n_positions")
    config = Config(
        n_layers=keys.size("n_layer"),
        n_heads=n_heads,
        d_model=d_model,
        d_head=head_size(keys, d_model, n_heads),
        d_vocab=keys.size("vocab_size"),
        n_ctx=n_ctx,
        d_mlp=keys.size("n_inner", 4 * d_model),
        positions="learned",
        norm="layernorm",
        norm_eps=keys.assumed_number("layer_norm_epsilon", 1e-5),
        attention_scale=None if keys.switch("scale_attn_weights", True) else 1.0,  # type: ignore[arg-type]
        activation=activation(keys, "activation_function", "gelu_new"),
    )
    return Plan(config, list(_pieces(config)), unused=(r"transformer\.h\.\d+\.attn\.(bias|masked_bias)",))


def _pieces(c: Config) -> Iterator[Piece]:
    d, m, width = c.d_model, c.d_mlp, Widths(c.n_heads, c.n_heads, c.d_head)
    fused = {name: after(transposed, turn) for name, turn in parts("gpt2", width, "W").items()}
    h = "transformer.h.{l}."
    yield Piece("transformer.wpe.weight", (c.n_ctx, d), {"W_pos": transposed})
    yield Piece(h + "attn.c_attn.weight", (d, width.rows), fused)
    yield Piece(h + "attn.c_attn.bias", (width.rows,), parts("gpt2", width, "b"))
    yield Piece(h + "attn.c_proj.weight", (d, d), {"W_O": after(transposed, heads_out(c.n_heads))})
    yield Piece(h + "attn.c_proj.bias", (d,), {"b_O": as_it_is})
    yield Piece(h + "mlp.c_fc.weight", (d, m), {"W_in": transposed})
    yield Piece(h + "mlp.c_fc.bias", (m,), {"b_in": as_it_is})
    yield Piece(h + "mlp.c_proj.weight", (m, d), {"W_out": transposed})
    yield Piece(h + "mlp.c_proj.bias", (d,), {"b_out": as_it_is})
    for theirs, ours in ((h + "ln_1", "attn"), (h + "ln_2", "mlp"), ("transformer.ln_f", "final")):
        yield from layer_norm(theirs, d, ours)


GPT2 = Family("transformer.", "transformer.wte.weight", "lm_head.weight", tied=True, plan=_plan)

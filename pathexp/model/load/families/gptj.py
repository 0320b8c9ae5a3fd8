"""GPT-J: attention and MLP in parallel behind one norm, rotary positions in adjacent pairs."""

from __future__ import annotations

from collections.abc import Iterator

from ...config import Config
from ...rotary import Rotary
from ..gather import Piece, as_it_is, heads_in, heads_out
from ..keys import Keys
from ..options import Options
from .plan import Family, Plan, activation, head_size, layer_norm, linear


def _plan(keys: Keys, options: Options) -> Plan:
    n_heads, d_model = keys.size("n_head"), keys.size("n_embd")
    d_head, n_ctx = head_size(keys, d_model, n_heads), keys.size("n_positions")
    keys.must_be("n_ctx", n_ctx, "it must be n_positions")
    keys.must_be("rotary", True, "GPT-J without rotary positions is not known here")
    keys.must_be("scale_attn_weights", True, "scores without their scale are not known here")
    config = Config(
        n_layers=keys.size("n_layer"),
        n_heads=n_heads,
        d_model=d_model,
        d_head=d_head,
        d_vocab=keys.size("vocab_size"),
        n_ctx=n_ctx,
        d_mlp=keys.size("n_inner", 4 * d_model),
        positions="rotary",
        rotary=Rotary(base=10000.0, dims=keys.size("rotary_dim", d_head), pairing="adjacent"),
        norm="layernorm",
        norm_eps=keys.assumed_number("layer_norm_epsilon", 1e-5),
        activation=activation(keys, "activation_function", "gelu_new"),
        parallel="shared",
    )
    unused = (r"transformer\.h\.\d+\.attn\.(bias|masked_bias|embed_positions)",)
    return Plan(config, list(_pieces(config)), unused)


def _pieces(c: Config) -> Iterator[Piece]:
    d, m, layer = c.d_model, c.d_mlp, "transformer.h.{l}."
    for letter in "qkv":
        name = f"{layer}attn.{letter}_proj.weight"
        yield Piece(name, (d, d), {f"W_{letter.upper()}": heads_in(c.n_heads)})
    yield Piece(layer + "attn.out_proj.weight", (d, d), {"W_O": heads_out(c.n_heads)})
    yield from linear(layer + "mlp.fc_in", (m, d), "in")
    yield from linear(layer + "mlp.fc_out", (d, m), "out")
    yield from layer_norm(layer + "ln_1", d, "attn")
    yield from layer_norm("transformer.ln_f", d, "final")
    yield Piece("lm_head.bias", (c.d_vocab,), {"b_U": as_it_is})


GPTJ = Family("transformer.", "transformer.wte.weight", "lm_head.weight", tied=False, plan=_plan)

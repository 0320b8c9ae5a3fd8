"""GPT-BigCode (SantaCoder, StarCoder): GPT-2 with one key/value head for all queries."""

from __future__ import annotations

from collections.abc import Iterator

from ...config import Config
from ..fused import Widths, parts
from ..gather import Piece, heads_out, transposed
from ..keys import Keys
from ..options import Options
from .plan import Family, Plan, activation, head_size, layer_norm, linear

_PERFORMANCE = (
    "attention_softmax_in_fp32", "scale_attention_softmax_in_fp32", "inference_runner", "pre_allocate_kv_cache",
    "validate_runner_input", "max_batch_size", "max_sequence_length", "pad_key_length",
)  # fmt: skip
"""How fast and how exactly it is computed, not what."""


def _plan(keys: Keys, options: Options) -> Plan:
    for speed in _PERFORMANCE:
        keys.get(speed)
    n_heads, d_model, n_ctx = keys.size("n_head"), keys.size("n_embd"), keys.size("n_positions")
    keys.must_be("n_ctx", n_ctx, "it must be n_positions")
    one_key = keys.switch("multi_query", True)
    keys.must_be("num_key_value_heads", 1 if one_key else n_heads, "multi_query says how many there are")
    config = Config(
        n_layers=keys.size("n_layer"),
        n_heads=n_heads,
        n_kv_heads=1 if one_key else n_heads,
        d_model=d_model,
        d_head=head_size(keys, d_model, n_heads),
        d_vocab=keys.size("vocab_size"),
        n_ctx=n_ctx,
        d_mlp=keys.size("n_inner", 4 * d_model),
        positions="learned",
        norm="layernorm",
        norm_eps=keys.assumed_number("layer_norm_epsilon", 1e-5),
        attention_scale=None if keys.switch("scale_attn_weights", True) else 1.0,  # type: ignore[arg-type]
        activation=activation(keys, "activation_function", "gelu_pytorch_tanh"),
    )
    layout = "gpt_bigcode multi-query" if one_key else "gpt_bigcode"
    return Plan(
        config, list(_pieces(config, layout)), unused=(r"transformer\.h\.\d+\.attn\.(bias|masked_bias)",)
    )


def _pieces(c: Config, layout: str) -> Iterator[Piece]:
    d, m, width = c.d_model, c.d_mlp, Widths(c.n_heads, c.n_kv_heads, c.d_head)
    h = "transformer.h.{l}."
    yield Piece("transformer.wpe.weight", (c.n_ctx, d), {"W_pos": transposed})
    yield Piece(h + "attn.c_attn.weight", (width.rows, d), parts(layout, width, "W"))
    yield Piece(h + "attn.c_attn.bias", (width.rows,), parts(layout, width, "b"))
    yield from linear(h + "attn.c_proj", (d, d), "O", heads_out(c.n_heads))
    yield from linear(h + "mlp.c_fc", (m, d), "in")
    yield from linear(h + "mlp.c_proj", (d, m), "out")
    for theirs, ours in ((h + "ln_1", "attn"), (h + "ln_2", "mlp"), ("transformer.ln_f", "final")):
        yield from layer_norm(theirs, d, ours)


GPT_BIGCODE = Family("transformer.", "transformer.wte.weight", "lm_head.weight", tied=True, plan=_plan)

"""GPT-NeoX and Pythia: attention and MLP in parallel, each behind its own norm; partly rotary positions."""

from __future__ import annotations

from collections.abc import Iterator

from ...config import Config
from ..fused import Widths, parts
from ..gather import Piece, as_it_is, heads_out
from ..keys import Keys
from ..options import Options
from ..rope import rotary
from .plan import Family, Plan, activation, head_size, layer_norm, linear


def _plan(keys: Keys, options: Options) -> Plan:
    n_heads, d_model = keys.size("num_attention_heads"), keys.size("hidden_size")
    d_head = head_size(keys, d_model, n_heads)
    config = Config(
        n_layers=keys.size("num_hidden_layers"),
        n_heads=n_heads,
        d_model=d_model,
        d_head=d_head,
        d_vocab=keys.size("vocab_size"),
        n_ctx=keys.size("max_position_embeddings"),
        d_mlp=keys.size("intermediate_size"),
        positions="rotary",
        rotary=rotary(keys, d_head, share=0.25),
        norm="layernorm",
        norm_eps=keys.assumed_number("layer_norm_eps", 1e-5),
        activation=activation(keys, "hidden_act", "gelu"),
        parallel="separate" if keys.switch("use_parallel_residual", True) else None,
    )
    pieces = _pieces(config, biased=keys.switch("attention_bias", True))
    buffers = r"gpt_neox\.layers\.\d+\.attention\.(bias|masked_bias|rotary_emb\.inv_freq)"
    return Plan(config, list(pieces), unused=(buffers, r"gpt_neox\.rotary_emb\.inv_freq"))


def _pieces(c: Config, biased: bool) -> Iterator[Piece]:
    d, m, width = c.d_model, c.d_mlp, Widths(c.n_heads, c.n_heads, c.d_head)
    block = "gpt_neox.layers.{l}."
    attention, mlp = block + "attention.", block + "mlp."
    yield Piece(attention + "query_key_value.weight", (width.rows, d), parts("gpt_neox", width, "W"))
    yield Piece(attention + "dense.weight", (d, d), {"W_O": heads_out(c.n_heads)})
    if biased:
        yield Piece(attention + "query_key_value.bias", (width.rows,), parts("gpt_neox", width, "b"))
        yield Piece(attention + "dense.bias", (d,), {"b_O": as_it_is})
    yield from linear(mlp + "dense_h_to_4h", (m, d), "in")
    yield from linear(mlp + "dense_4h_to_h", (d, m), "out")
    norms = ("input_layernorm", "attn"), ("post_attention_layernorm", "mlp")
    for theirs, ours in (*((block + name, ours) for name, ours in norms), (_FINAL, "final")):
        yield from layer_norm(theirs, d, ours)


_FINAL = "gpt_neox.final_layer_norm"
GPT_NEOX = Family("gpt_neox.", "gpt_neox.embed_in.weight", "embed_out.weight", tied=False, plan=_plan)

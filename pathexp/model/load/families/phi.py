"""Phi-1, 1.5 and 2: attention and MLP in parallel behind one norm, partly rotary positions, biases everywhere."""

from __future__ import annotations

from collections.abc import Iterator

from ...config import Config
from ..gather import Piece, as_it_is, heads_in, heads_out
from ..keys import Keys
from ..options import Options
from ..rope import rotary
from .head_norms import shared
from .plan import Family, Plan, activation, head_size, layer_norm, linear


def _plan(keys: Keys, options: Options) -> Plan:
    normed = keys.switch("qk_layernorm", False)
    n_heads, d_model = keys.size("num_attention_heads"), keys.size("hidden_size")
    d_head = keys.size("head_dim", head_size(keys, d_model, n_heads))
    config = Config(
        n_layers=keys.size("num_hidden_layers"),
        n_heads=n_heads,
        n_kv_heads=keys.size("num_key_value_heads", n_heads),
        d_model=d_model,
        d_head=d_head,
        d_vocab=keys.size("vocab_size"),
        n_ctx=keys.size("max_position_embeddings"),
        d_mlp=keys.size("intermediate_size"),
        positions="rotary",
        rotary=rotary(keys, d_head, share=0.5),
        norm="layernorm",
        norm_eps=keys.assumed_number("layer_norm_eps", 1e-5),
        qk_norm="layernorm" if normed else None,
        activation=activation(keys, "hidden_act", "gelu_new"),
        parallel="shared",
    )
    normed_heads = shared(config, "model.layers.{l}.self_attn.{side}_layernorm") if normed else ()
    return Plan(
        config, [*_pieces(config), *normed_heads], (r"model\.layers\.\d+\.self_attn\.rotary_emb\.inv_freq",)
    )


def _pieces(c: Config) -> Iterator[Piece]:
    d, m, layer = c.d_model, c.d_mlp, "model.layers.{l}."
    for letter, heads in (("q", c.n_heads), ("k", c.n_kv_heads), ("v", c.n_kv_heads)):
        name = f"{layer}self_attn.{letter}_proj"
        yield from linear(name, (heads * c.d_head, d), letter.upper(), heads_in(heads))
    yield from linear(layer + "self_attn.dense", (d, c.n_heads * c.d_head), "O", heads_out(c.n_heads))
    yield from linear(layer + "mlp.fc1", (m, d), "in")
    yield from linear(layer + "mlp.fc2", (d, m), "out")
    yield from layer_norm(layer + "input_layernorm", d, "attn")
    yield from layer_norm("model.final_layernorm", d, "final")
    yield Piece("lm_head.bias", (c.d_vocab,), {"b_U": as_it_is})


PHI = Family("model.", "model.embed_tokens.weight", "lm_head.weight", tied=False, plan=_plan)

"""DistilBERT: BERT without segments, with names of its own."""

from __future__ import annotations

from collections.abc import Iterator

from ...config import Config
from ..gather import Piece, heads_in, heads_out, transposed
from ..keys import Keys
from ..options import Options
from .endings import CHOICE, MASKED, SPANS, TEXT, TOKENS, Ending, ending
from .plan import Family, Plan, activation, head_size, layer_norm, linear

_BASE = "distilbert."
_ENDINGS = {
    MASKED: Ending("vocab_transform", None, "vocab_layer_norm", bias="vocab_projector.bias"),
    TEXT: Ending("pre_classifier", "relu", head="classifier"),
    CHOICE: Ending("pre_classifier", "relu", head="classifier"),
    TOKENS: Ending(head="classifier"),
    SPANS: Ending(head="qa_outputs"),
}


def _plan(keys: Keys, options: Options) -> Plan:
    for dropped in ("dropout", "qa_dropout", "seq_classif_dropout", "tie_weights_"):
        keys.get(dropped)
    keys.get("sinusoidal_pos_embds")  # how the table of positions was made; it is stored either way
    n_heads, d_model = keys.size("n_heads"), keys.size("dim")
    end = ending(keys, options, _ENDINGS)
    config = Config(
        n_layers=keys.size("n_layers"),
        n_heads=n_heads,
        d_model=d_model,
        d_head=head_size(keys, d_model, n_heads),
        d_vocab=keys.size("vocab_size"),
        n_ctx=keys.size("max_position_embeddings"),
        d_mlp=keys.size("hidden_dim"),
        positions="learned",
        norm="layernorm",
        norm_placement="post",
        norm_eps=1e-12,
        embed_norm=True,
        causal=False,
        activation=activation(keys, "activation", "gelu"),
        **end.fields(),  # type: ignore[arg-type]
    )
    pieces = [*_pieces(config), *end.pieces(config, config.d_vocab)]
    return Plan(config, pieces, (r"distilbert\.embeddings\.position_ids",), end.head)


def _pieces(c: Config) -> Iterator[Piece]:
    d, m, layer = c.d_model, c.d_mlp, _BASE + "transformer.layer.{l}."
    yield Piece(_BASE + "embeddings.position_embeddings.weight", (c.n_ctx, d), {"W_pos": transposed})
    yield from layer_norm(_BASE + "embeddings.LayerNorm", d, "embed")
    for letter in "qkv":
        yield from linear(f"{layer}attention.{letter}_lin", (d, d), letter.upper(), heads_in(c.n_heads))
    yield from linear(layer + "attention.out_lin", (d, d), "O", heads_out(c.n_heads))
    yield from layer_norm(layer + "sa_layer_norm", d, "attn_post")
    yield from linear(layer + "ffn.lin1", (m, d), "in")
    yield from linear(layer + "ffn.lin2", (d, m), "out")
    yield from layer_norm(layer + "output_layer_norm", d, "mlp_post")


DISTILBERT = Family(
    _BASE, _BASE + "embeddings.word_embeddings.weight", "vocab_projector.weight", tied=True, plan=_plan
)

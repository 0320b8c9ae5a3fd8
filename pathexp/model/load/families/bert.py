"""BERT with its masked-token head: both ways, post-norm, one dense layer more before the unembedding.

Texts are one segment: the vector of segment 0 is at every position, and is added to the positions here.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from ...config import Config
from ..gather import Piece, as_it_is, heads_in, heads_out, transposed
from ..keys import Keys
from ..options import Options
from .plan import Arrays, Family, Plan, activation, head_size, layer_norm, linear

_EMBEDDINGS = "bert.embeddings."
_HEAD = "cls.predictions."


def _plan(keys: Keys, options: Options) -> Plan:
    keys.must_be("position_embedding_type", "absolute", "other positions of BERT are not known here")
    whole = not options.no_unembedding
    n_heads, d_model = keys.size("num_attention_heads"), keys.size("hidden_size")
    config = Config(
        n_layers=keys.size("num_hidden_layers"),
        n_heads=n_heads,
        d_model=d_model,
        d_head=head_size(keys, d_model, n_heads),
        d_vocab=keys.size("vocab_size"),
        n_ctx=keys.size("max_position_embeddings"),
        d_mlp=keys.size("intermediate_size"),
        positions="learned",
        norm="layernorm",
        norm_placement="post",
        norm_eps=keys.assumed_number("layer_norm_eps", 1e-12),
        embed_norm=True,
        final_norm=whole,
        transform=whole,
        causal=keys.switch("is_decoder", False),
        activation=activation(keys, "hidden_act", "gelu"),
    )
    unused = (
        r"bert\.embeddings\.(position_ids|token_type_ids)",
        r"bert\.pooler\.dense\.(weight|bias)",
        r"cls\.seq_relationship\.(weight|bias)",
    )
    return Plan(config, list(_pieces(config, keys.size("type_vocab_size", 2))), unused, _with_segment)


def _with_segment(arrays: Arrays) -> Arrays:
    segment = arrays.pop("segments")[0]
    return {**arrays, "W_pos": arrays["W_pos"] + segment[:, None]}


def _pieces(c: Config, segments: int) -> Iterator[Piece]:
    d = c.d_model
    yield Piece(_EMBEDDINGS + "position_embeddings.weight", (c.n_ctx, d), {"W_pos": transposed})
    yield Piece(_EMBEDDINGS + "token_type_embeddings.weight", (segments, d), {"segments": as_it_is})
    yield from layer_norm(_EMBEDDINGS + "LayerNorm", d, "embed")
    yield from _layer(c)
    if not c.transform:
        return
    yield from linear(_HEAD + "transform.dense", (d, d), "transform")
    yield from layer_norm(_HEAD + "transform.LayerNorm", d, "final")
    yield Piece(_HEAD + "bias", (c.d_vocab,), {"b_U": as_it_is})


def _layer(c: Config) -> Iterator[Piece]:
    d, m, layer = c.d_model, c.d_mlp, "bert.encoder.layer.{l}."
    for theirs, ours in (("query", "Q"), ("key", "K"), ("value", "V")):
        name = f"{layer}attention.self.{theirs}"
        yield from linear(name, (d, d), ours, heads_in(c.n_heads))
    yield from linear(layer + "attention.output.dense", (d, d), "O", heads_out(c.n_heads))
    yield from layer_norm(layer + "attention.output.LayerNorm", d, "attn_post")
    yield from linear(layer + "intermediate.dense", (m, d), "in")
    yield from linear(layer + "output.dense", (d, m), "out")
    yield from layer_norm(layer + "output.LayerNorm", d, "mlp_post")


def _renamed(names: Collection[str]) -> Mapping[str, str]:
    """Older files call gain and bias gamma and beta; of two output biases, the decoder's is the one used."""
    found = {name.replace(".gamma", ".weight").replace(".beta", ".bias"): name for name in names}
    used = found.pop(_HEAD + "decoder.bias", None)
    return found if used is None else found | {_HEAD + "bias": used}


BERT = Family(
    "bert.",
    _EMBEDDINGS + "word_embeddings.weight",
    _HEAD + "decoder.weight",
    tied=True,
    plan=_plan,
    renamed=_renamed,
)

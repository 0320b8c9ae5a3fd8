"""BERT and RoBERTa: both ways, post-norm, and a head over tokens, over classes, or none.

Texts are one segment: the vector of segment 0 is at every position, and is added to the positions here. RoBERTa
counts positions from behind the number of its padding token; no token is taken for padding here.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import partial

from ...config import Config
from ..gather import Piece, as_it_is, heads_in, heads_out
from ..keys import Keys
from ..options import Options
from .endings import CHOICE, MASKED, NEXT, SPANS, TEXT, TOKENS, Ending, ending
from .plan import Arrays, Family, Plan, activation, head_size, layer_norm, linear


@dataclass(frozen=True)
class Kind:
    """How the two differ: the prefix of names, their endings, and rows of the table of positions that no text reads."""

    base: str
    endings: Mapping[str, Ending]
    padded: bool = False


def _plan(kind: Kind, keys: Keys, options: Options) -> Plan:
    keys.must_be("position_embedding_type", "absolute", "other positions of BERT are not known here")
    n_heads, d_model = keys.size("num_attention_heads"), keys.size("hidden_size")
    rows, skipped = keys.size("max_position_embeddings"), _skipped(kind, keys)
    end, act = ending(keys, options, kind.endings), activation(keys, "hidden_act", "gelu")
    config = Config(
        n_layers=keys.size("num_hidden_layers"),
        n_heads=n_heads,
        d_model=d_model,
        d_head=head_size(keys, d_model, n_heads),
        d_vocab=keys.size("vocab_size"),
        n_ctx=rows - skipped,
        d_mlp=keys.size("intermediate_size"),
        positions="learned",
        norm="layernorm",
        norm_placement="post",
        norm_eps=keys.assumed_number("layer_norm_eps", 1e-12),
        embed_norm=True,
        causal=keys.switch("is_decoder", False),
        activation=act,
        **end.fields(),  # type: ignore[arg-type]
    )
    pieces = [
        *_pieces(kind, config, skipped, keys.size("type_vocab_size", 2)),
        *end.pieces(config, config.d_vocab),
    ]
    taken = {name for piece in pieces for name in (piece.theirs, *piece.theirs.split(".weight")[:1])}
    return Plan(config, pieces, _unused(kind, end, taken), end.head, finish=_with_segment)


def _skipped(kind: Kind, keys: Keys) -> int:
    if not kind.padded:
        return 0
    found = keys.get("pad_token_id", 1)
    if type(found) is not int or not 0 <= found < keys.size("max_position_embeddings") - 1:
        raise keys.error(
            f"'pad_token_id' must be a token before whose number positions begin, found {found!r}"
        )
    return found + 1


def _unused(kind: Kind, end: Ending, taken: Collection[str]) -> tuple[str, ...]:
    """Tensors of other heads that may be stored beside the one that is read."""
    base = kind.base.replace(".", r"\.")
    found = [base + r"embeddings\.(position_ids|token_type_ids)"]
    for name in (f"{kind.base}pooler.dense", "cls.seq_relationship", "lm_head.decoder"):
        if name not in taken and name != end.head:
            found.append(name.replace(".", r"\.") + r"\.(weight|bias)")
    return tuple(found)


def _with_segment(arrays: Arrays) -> Arrays:
    segment = arrays.pop("segments")[0]
    return {**arrays, "W_pos": arrays["W_pos"] + segment[:, None]}


def _pieces(kind: Kind, c: Config, skipped: int, segments: int) -> Iterator[Piece]:
    d, embeddings = c.d_model, kind.base + "embeddings."
    table = (c.n_ctx + skipped, d)
    yield Piece(embeddings + "position_embeddings.weight", table, {"W_pos": lambda raw: raw[skipped:].T})
    yield Piece(embeddings + "token_type_embeddings.weight", (segments, d), {"segments": as_it_is})
    yield from layer_norm(embeddings + "LayerNorm", d, "embed")
    yield from _layer(c, kind.base + "encoder.layer.{l}.")


def _layer(c: Config, layer: str) -> Iterator[Piece]:
    d, m = c.d_model, c.d_mlp
    for theirs, ours in (("query", "Q"), ("key", "K"), ("value", "V")):
        name = f"{layer}attention.self.{theirs}"
        yield from linear(name, (d, d), ours, heads_in(c.n_heads))
    yield from linear(layer + "attention.output.dense", (d, d), "O", heads_out(c.n_heads))
    yield from layer_norm(layer + "attention.output.LayerNorm", d, "attn_post")
    yield from linear(layer + "intermediate.dense", (m, d), "in")
    yield from linear(layer + "output.dense", (d, m), "out")
    yield from layer_norm(layer + "output.LayerNorm", d, "mlp_post")


def _renamed(bias: str, decoder: str, names: Collection[str]) -> Mapping[str, str]:
    """Older files call gain and bias gamma and beta; of two output biases, the decoder's is the one used."""
    found = {name.replace(".gamma", ".weight").replace(".beta", ".bias"): name for name in names}
    used = found.pop(decoder, None)
    return found if used is None else found | {bias: used}


def _pooled(base: str, head: str) -> Ending:
    return Ending(base + "pooler.dense", "tanh", head=head)


def _family(kind: Kind, unembedding: str) -> Family:
    renamed = partial(_renamed, str(kind.endings[MASKED].bias), f"{unembedding}.bias")
    table = kind.base + "embeddings.word_embeddings.weight"
    return Family(
        kind.base, table, f"{unembedding}.weight", tied=True, plan=partial(_plan, kind), renamed=renamed
    )


_HEAD = "cls.predictions."
BERT = _family(
    Kind(
        "bert.",
        {
            MASKED: Ending(
                _HEAD + "transform.dense", None, _HEAD + "transform.LayerNorm", bias=_HEAD + "bias"
            ),
            TEXT: _pooled("bert.", "classifier"),
            CHOICE: _pooled("bert.", "classifier"),
            NEXT: _pooled("bert.", "cls.seq_relationship"),
            TOKENS: Ending(head="classifier"),
            SPANS: Ending(head="qa_outputs"),
        },
    ),
    _HEAD + "decoder",
)
ROBERTA = _family(
    Kind(
        "roberta.",
        {
            MASKED: Ending("lm_head.dense", "gelu", "lm_head.layer_norm", bias="lm_head.bias"),
            TEXT: Ending("classifier.dense", "tanh", head="classifier.out_proj"),
            CHOICE: _pooled("roberta.", "classifier"),
            TOKENS: Ending(head="classifier"),
            SPANS: Ending(head="qa_outputs"),
        },
        padded=True,
    ),
    "lm_head.decoder",
)

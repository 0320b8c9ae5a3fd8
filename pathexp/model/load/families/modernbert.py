"""ModernBERT: both ways, pre-norm but for the first attention, gated, windows that turn by a base of their own."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ...config import Config
from ..fused import Widths, parts
from ..gather import Piece, as_it_is, heads_out
from ..keys import Keys
from ..options import Options
from ..rope import by_kind
from .endings import BARE, CHOICE, MASKED, SPANS, TEXT, TOKENS, Ending, ending
from .plan import FULL, Arrays, Family, Plan, activation, head_size, layer_kinds

_HEAD = Ending("head.dense", None, "head.norm", "classifier")
_ENDINGS = {
    MASKED: Ending("head.dense", None, "head.norm", bias="decoder.bias"),
    TEXT: _HEAD,
    TOKENS: _HEAD,
    SPANS: _HEAD,
    CHOICE: _HEAD,
}
_TRAINING = (
    "mlp_dropout", "classifier_dropout", "deterministic_flash_attn", "sparse_prediction", "sparse_pred_ignore_index",
    "reference_compile", "repad_logits_with_grad", "initializer_cutoff_factor", "compile_model",
)  # fmt: skip


def _plan(keys: Keys, options: Options) -> Plan:
    for key in _TRAINING:
        keys.get(key)  # how it is trained and how fast it runs
    end = ending(keys, options, _ENDINGS)
    pooling = keys.get("classifier_pooling", "cls")
    if end is _HEAD and pooling != "cls" and _ends_in_text(keys):
        raise keys.error(
            f"'classifier_pooling' is {pooling!r}: a head over the mean of positions is not known here"
        )
    config = _config(keys, end)
    biases = keys.switch("attention_bias", False), keys.switch("mlp_bias", False)
    pieces = [
        *_pieces(config, *biases),
        *_norms(config, keys.switch("norm_bias", False)),
        *_end(config, keys, end),
    ]
    return Plan(config, pieces, _UNUSED, end.head, finish=_stacked)


_UNUSED = (r"model\.rotary_emb\.\w*inv_freq",)


def _ends_in_text(keys: Keys) -> bool:
    told = keys.get("architectures")
    return bool(told) and told[0].endswith(("ForSequenceClassification", "ForMultipleChoice"))


def _config(keys: Keys, end: Ending) -> Config:
    n_layers, n_heads, d_model = (
        keys.size(key) for key in ("num_hidden_layers", "num_attention_heads", "hidden_size")
    )
    every, width = keys.size("global_attn_every_n_layers", 3), keys.size("local_attention", 128) // 2 + 1
    kinds = layer_kinds(keys, n_layers, True, lambda layer: layer % every != 0)
    d_head = head_size(keys, d_model, n_heads)
    turned = by_kind(keys, d_head, "local_rope_theta", ("global_rope_theta",), (10_000.0, 160_000.0))
    whole, eps = end is not BARE, keys.assumed_number("norm_eps", 1e-5)
    keys.must_be("layer_norm_eps", eps, "it must be norm_eps")
    keys.get("position_embedding_type")  # stored, and read by nothing: positions are rotary
    return Config(
        n_layers=n_layers,
        n_heads=n_heads,
        d_model=d_model,
        d_head=d_head,
        d_vocab=keys.size("vocab_size"),
        n_ctx=keys.size("max_position_embeddings"),
        d_mlp=keys.size("intermediate_size"),
        positions="rotary",
        rotaries=tuple(turned[kind] for kind in kinds),
        windows=tuple(None if kind == FULL else width for kind in kinds),
        norm="layernorm",
        norm_eps=eps,
        embed_norm=True,
        first_norm=False,
        causal=False,
        gated=True,
        activation=activation(keys, "hidden_activation", "gelu"),
        transform=whole,
        transform_norm=whole,
        transform_activation=activation(keys, "classifier_activation", "gelu") if whole else None,
    )


def _pieces(c: Config, attention: bool, mlp: bool) -> Iterator[Piece]:
    d, m, width, layer = c.d_model, c.d_mlp, Widths(c.n_heads, c.n_heads, c.d_head), "model.layers.{l}."
    halves = {"W_gate": lambda raw: raw[:m], "W_in": lambda raw: raw[m:]}
    yield Piece(layer + "attn.Wqkv.weight", (width.rows, d), parts("modernbert", width, "W"))
    yield Piece(layer + "attn.Wo.weight", (d, d), {"W_O": heads_out(c.n_heads)})
    yield Piece(layer + "mlp.Wi.weight", (2 * m, d), halves)
    yield Piece(layer + "mlp.Wo.weight", (d, m), {"W_out": as_it_is})
    if attention:
        yield Piece(layer + "attn.Wqkv.bias", (width.rows,), parts("modernbert", width, "b"))
        yield Piece(layer + "attn.Wo.bias", (d,), {"b_O": as_it_is})
    if mlp:
        biases = {"b_gate": lambda raw: raw[:m], "b_in": lambda raw: raw[m:]}
        yield Piece(layer + "mlp.Wi.bias", (2 * m,), biases)
        yield Piece(layer + "mlp.Wo.bias", (d,), {"b_out": as_it_is})


def _norms(c: Config, biased: bool) -> Iterator[Piece]:
    """Norms of layers and of both ends; the first attention has none, and those of the others come one by one."""
    names = {"model.embeddings.norm": "embed", "model.layers.{l}.mlp_norm": "mlp"}
    names["model.final_norm"] = "before_transform" if c.transform else "final"
    if c.transform:
        names["head.norm"] = "final"
    names |= {f"model.layers.{layer}.attn_norm": f"attn.{layer}" for layer in range(1, c.n_layers)}
    for theirs, ours in names.items():
        yield Piece(f"{theirs}.weight", (c.d_model,), {f"g_{ours}": as_it_is})
        if biased:
            yield Piece(f"{theirs}.bias", (c.d_model,), {f"b_{ours}": as_it_is})


def _end(c: Config, keys: Keys, end: Ending) -> Iterator[Piece]:
    biased = keys.switch("classifier_bias", False)
    if end.dense is not None:
        yield Piece(f"{end.dense}.weight", (c.d_model, c.d_model), {"W_transform": as_it_is})
    if end.dense is not None and biased:
        yield Piece(f"{end.dense}.bias", (c.d_model,), {"b_transform": as_it_is})
    if end.bias is not None and keys.switch("decoder_bias", True):
        yield Piece(end.bias, (c.d_vocab,), {"b_U": as_it_is})
    keys.get("decoder_bias")


def _stacked(arrays: Arrays) -> Arrays:
    """Norms of all attentions as one array, ones and zeros for the first, which reads the stream bare."""
    whole = {name: array for name, array in arrays.items() if "." not in name}
    n_layers, d_model = arrays["g_mlp"].shape
    for kind, neutral in (("g", np.ones(d_model)), ("b", np.zeros(d_model))):
        rows = [arrays.get(f"{kind}_attn.{layer}") for layer in range(1, n_layers)]
        if any(row is not None for row in rows) or (kind == "g"):
            whole[f"{kind}_attn"] = np.stack([neutral, *(row for row in rows if row is not None)])
    return whole


MODERNBERT = Family(
    "model.", "model.embeddings.tok_embeddings.weight", "decoder.weight", tied=True, plan=_plan
)

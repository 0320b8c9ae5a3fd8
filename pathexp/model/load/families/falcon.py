"""Falcon: parallel blocks behind one norm or two, one key/value head or several, rotary positions or ALiBi slopes."""

from __future__ import annotations

import warnings
from collections.abc import Iterator

from ....errors import LoadWarning
from ...config import Config
from ...positions import slopes
from ..fused import Widths, parts
from ..gather import Piece, as_it_is, heads_out
from ..keys import Keys
from ..options import Options
from ..rope import rotary
from .plan import Family, Plan, activation, head_size, layer_norm

_BASE = "transformer."


def _plan(keys: Keys, options: Options) -> Plan:
    reason = "residuals taken after the norm are not known here"
    keys.must_be_off("apply_residual_connection_post_layernorm", reason)
    n_heads = keys.size("num_attention_heads")
    d_model = keys.size("hidden_size", keys.size("n_embed", 4544))
    d_head = head_size(keys, d_model, n_heads)
    layout, kv_heads = _layout(keys, n_heads)
    config = Config(
        n_layers=keys.size("num_hidden_layers"),
        n_heads=n_heads,
        n_kv_heads=kv_heads,
        d_model=d_model,
        d_head=d_head,
        d_vocab=keys.size("vocab_size"),
        n_ctx=keys.size("max_position_embeddings", 2048),
        d_mlp=keys.size("ffn_hidden_size", 4 * d_model),
        norm="layernorm",
        norm_eps=keys.assumed_number("layer_norm_epsilon", 1e-5),
        activation=activation(keys, "activation", "gelu"),
        parallel=_parallel(keys),
        **_positions(keys, n_heads, d_head),  # type: ignore[arg-type]
    )
    return Plan(config, list(_pieces(config, layout, keys.switch("bias", False))), unused=_BUFFERS)


_BUFFERS = (
    r"transformer\.h\.\d+\.self_attention\.rotary(_emb)?\.inv_freq",
    r"transformer\.rotary_emb\.inv_freq",
)


def _layout(keys: Keys, n_heads: int) -> tuple[str, int]:
    """How queries, keys and values are fused, and how many key/value heads there are."""
    told, one = keys.size("num_kv_heads", n_heads), keys.switch("multi_query", True)
    if keys.switch("new_decoder_architecture", False):
        return "falcon grouped", told
    return ("falcon multi-query", 1) if one else ("falcon", n_heads)


def _parallel(keys: Keys) -> str | None:
    parallel, new = keys.switch("parallel_attn", True), keys.switch("new_decoder_architecture", False)
    norms = keys.get("num_ln_in_parallel_attn", 2 if new else 1)
    if norms not in (1, 2) or (norms == 2 and not new) or (new and not parallel):
        raise keys.error(
            f"num_ln_in_parallel_attn = {norms!r}, new_decoder_architecture = {new}, parallel_attn = {parallel}: "
            "known are new decoders in parallel behind one or two norms, and old ones behind one"
        )
    if not parallel:
        return None
    return "separate" if norms == 2 else "shared"


def _positions(keys: Keys, n_heads: int, d_head: int) -> dict[str, object]:
    if not keys.switch("alibi", False):
        return {"positions": "rotary", "rotary": rotary(keys, d_head, partial=False)}
    for key in ("rope_theta", "rope_parameters", "rope_scaling"):
        keys.get(key)  # stored, and not read where there are slopes
    if n_heads & (n_heads - 1):
        warnings.warn(
            f"{keys.where} has ALiBi slopes of {n_heads} heads: taken as they are; transformers rounds them to bfloat16.",
            LoadWarning,
            stacklevel=2,
        )
    return {"positions": "alibi", "head_slopes": tuple((slopes(n_heads) * d_head**-0.5).tolist())}


def _pieces(c: Config, layout: str, biased: bool) -> Iterator[Piece]:
    d, m, width, layer = c.d_model, c.d_mlp, Widths(c.n_heads, c.n_kv_heads, c.d_head), _BASE + "h.{l}."
    fused = layer + "self_attention.query_key_value"
    yield Piece(f"{fused}.weight", (width.rows, d), parts(layout, width, "W"))
    if biased:
        yield Piece(f"{fused}.bias", (width.rows,), parts(layout, width, "b"))
    maps = (
        ("self_attention.dense", (d, d), "O", heads_out(c.n_heads)),
        ("mlp.dense_h_to_4h", (m, d), "in", as_it_is),
        ("mlp.dense_4h_to_h", (d, m), "out", as_it_is),
    )
    for theirs, shape, ours, turn in maps:
        yield Piece(f"{layer}{theirs}.weight", shape, {f"W_{ours}": turn})
        if biased:
            yield Piece(f"{layer}{theirs}.bias", shape[:1], {f"b_{ours}": as_it_is})
    for theirs, ours in _norms(c):
        yield from layer_norm(layer + theirs, d, ours)
    yield from layer_norm(_BASE + "ln_f", d, "final")


def _norms(c: Config) -> tuple[tuple[str, str], ...]:
    if c.parallel == "separate":
        return ("ln_attn", "attn"), ("ln_mlp", "mlp")
    if c.parallel == "shared":
        return (("input_layernorm", "attn"),)
    return ("input_layernorm", "attn"), ("post_attention_layernorm", "mlp")


FALCON = Family(_BASE, _BASE + "word_embeddings.weight", "lm_head.weight", tied=True, plan=_plan)

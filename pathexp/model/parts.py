"""Parts of the forward pass on any stream: what one branch, one norm or the end of a model makes of it.

Constants are left out where that is asked, so that what a text brings and what biases bring can be told apart.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from ..labels import read_label
from .attention import attend
from .experts import parts, routed, used, written
from .forward import Run
from .mlp import neurons
from .model import Model
from .norms import normalized
from .positions import sinusoids
from .range import capped

Array = npt.NDArray[np.float64]
Tokens = npt.NDArray[np.int64]
Reads = tuple[Array, Array, Array]
NOTHING: Collection[str] = frozenset()


def embedding_parts(model: Model, tokens: Tokens) -> dict[str, Array]:
    """What tokens and positions bring to the stream, each (n, d), before the norm of the embedding, if any.

    >>> import pathexp as px
    >>> sorted(embedding_parts(px.random_model(positions="learned"), np.array([1, 2])))
    ['E', 'P']
    """
    c, run = model.config, Run(model.config, model.weights)
    parts = {"E": c.embedding_multiplier * model.weights.W_E[:, tokens].T}
    if c.positions == "learned":
        parts["P"] = run.positions(len(tokens))
    if c.positions == "sinusoidal":
        parts["P"] = sinusoids(len(tokens), c.d_model)
    return parts


def embedded(model: Model, stream: Array) -> Array:
    """The norm of the embedding, without its bias, of any sum of its parts, (n, d); that sum where there is none."""
    return norm(model, stream, "embed") if model.config.embed_norm else stream


def head_outputs(
    model: Model,
    layer: int,
    reads: Reads,
    *,
    no_norm_bias: str = "",
    value_bias: bool = True,
    no_latent_bias: str = "",
) -> Array:
    """What each head of a layer gives, (H, n, d), for streams (n, d) that Q, K and V read.

    Norms and patterns are computed for these streams; ``no_norm_bias`` names those of "qkv" that read without the
    norm's bias, ``no_latent_bias`` those of "kv" that are made of a latent without b_DKV. The output bias is no head's and is left out; norm and multiplier behind the heads: `after_block`.
    """
    c, w = model.config, model.weights
    with np.errstate(over="ignore", invalid="ignore"):
        query, key, value = (
            read_through(model, layer, "attn", stream, bias=side not in no_norm_bias)
            for side, stream in zip("qkv", reads, strict=True)
        )
        if c.positions == "qk":
            where = Run(c, w).positions(len(query))
            query, key = query + where, key + where
        apart = {side: replace(w, b_DKV=None) for side in no_latent_bias}
        if not value_bias:
            apart["v"] = replace(apart.get("v", w), b_V=None)
        z = attend(value, query, layer, c, w, keys_from=key, apart=apart).z
    given: Array = z @ np.swapaxes(w.W_O[layer], -1, -2)
    return given


def mlp_output(model: Model, label: str, stream: Array, without: Collection[str] = NOTHING) -> Array:
    """What an MLP gives, (n, d), for a stream that it reads, without its output bias; or what an expert gives, `L0E1`.

    The router of an expert reads the same stream; its biases stay, and the expert's own count as part of it. ``without`` names
    constants inside the component to leave out, "b_in" and "b_out", "shift", and the bias of the norm, "b_mlp" or "b_attn".
    """
    layer = read_label(label).layer
    assert layer is not None, "only labels of components come here"
    norm_name = "attn" if model.config.parallel == "shared" else "mlp"
    with np.errstate(over="ignore", invalid="ignore"):
        read = read_through(model, layer, norm_name, stream, bias=f"b_{norm_name}" not in without)
        if model.config.is_sparse(layer):
            return _expert_output(model, label, layer, read, without)
        left_out: Mapping[str, Any] = dict.fromkeys({"b_out", *({"b_in"} & set(without))})
        return neurons(read, layer, model.config, replace(model.weights, **left_out)).result


def _expert_output(model: Model, label: str, layer: int, read: Array, without: Collection[str]) -> Array:
    """What one expert adds, (n, d), where the router chooses it, for what both read behind their norm."""
    config, kind = model.config, "shared" if label.endswith("S") else "experts"
    if "shift" in without and config.experts is not None:
        config = replace(config, experts=replace(config.experts, shift=0.0))
    absent: Mapping[str, Any] = {f"{name}_{kind}": None for name in ("b_in", "b_out") if name in without}
    w = replace(model.weights, **absent) if absent else model.weights
    index, weight = parts(read, routed(read, layer, config, w)[1], layer, config, w)[label]
    expert = used(read, weight, layer, index, config, w)
    return expert.spread(written(expert, layer, index, w), len(read))


def read_through(model: Model, layer: int, name: str, stream: Array, *, bias: bool = True) -> Array:
    """What a branch reads of a stream: through its norm, if it has one."""
    return norm(model, stream, name, layer, bias=bias) if name in model.config.norms_of(layer) else stream


def after_block(model: Model, layer: int, stream: Array, given: Mapping[str, Array]) -> Array:
    """The stream behind a block, (n, d), of the stream before it and what its branches give, by branch.

    Norms behind a branch, or behind the sum (post-norm), are computed for these; their biases are left out.
    """
    c = model.config
    for branch, result in given.items():
        name = f"{branch}_post"
        if name in c.block_norms and c.norm_placement != "post":
            result = norm(model, result, name, layer)
        stream = stream + c.residual_multiplier * result
        if c.norm_placement == "post":
            stream = norm(model, stream, name, layer)
    return stream


def unembedded(
    model: Model, stream: Array, without: Collection[str] = NOTHING, outputs: Tokens | None = None
) -> Array:
    """What the end of a model makes of any final stream, (n, d) to logits (n, V); ``without`` names biases to omit.

    ``outputs``: those of which logits are made, (n, len(outputs)), if not all.

    >>> import pathexp as px
    >>> trace = px.random_model(norm="layernorm").run([1, 2])
    >>> bool((unembedded(trace.model, trace.residuals["final_in"]) == trace.logits).all())
    True
    """
    weights = model.weights
    if without:
        absent: Mapping[str, Any] = dict.fromkeys(without)
        weights = replace(weights, **absent)
    if outputs is not None:
        bias = None if weights.b_U is None else weights.b_U[outputs]
        weights = replace(weights, W_U=weights.W_U[outputs], b_U=bias)
    with np.errstate(over="ignore", invalid="ignore"):
        return capped(Run(model.config, weights).unembed(stream), model.config.logit_cap)


def norm(model: Model, x: Array, name: str, layer: int | None = None, *, bias: bool = False) -> Array:
    """A norm by the name of its weights, with or without its bias."""
    assert model.config.norm is not None, "a configuration with this norm has one"
    gain, added = (getattr(model.weights, f"{kind}_{name}") for kind in "gb")
    if layer is not None:
        gain, added = (None if array is None else array[layer] for array in (gain, added))
    return normalized(x, model.config.norm, model.config.norm_eps, gain, added if bias else None)[0]

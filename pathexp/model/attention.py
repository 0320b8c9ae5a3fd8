"""Attention: queries, keys, values; scores; patterns; what the heads add. One function a step."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np
import numpy.typing as npt

from .config import Config
from .latent_heads import KV, Q, latent_keys, latent_queries, latent_values
from .norms import normalized
from .score_rows import Piece, each_piece
from .weights import Weights, at

Array = npt.NDArray[np.float64]
NO_OTHERS: Mapping[str, Weights] = MappingProxyType({})
Use = Callable[[Piece, Array, Array], None]
"""What takes a piece, its scores and its pattern."""


@dataclass(frozen=True)
class Attention:
    """What happens in the attention of one layer, with H heads on G key/value heads."""

    queries: Array  # (H, n, h), as they enter the score
    keys: Array  # (G, n, h)
    values: Array  # (G, n, d_value)
    z: Array  # (H, n, d_value)
    result: Array  # (n, d), heads and output bias together
    norm_scales: dict[str, Array]  # of "q" and "k", where those are normed; of latents


def attend(
    read: Array,
    where: Array,
    layer: int,
    config: Config,
    weights: Weights,
    *,
    keys_from: Array | None = None,
    apart: Mapping[str, Weights] = NO_OTHERS,
    use: Use | None = None,
) -> Attention:
    """The attention of one layer: ``read`` (n, d) gives values, ``where`` queries, and keys unless ``keys_from``.

    ``apart``: other weights that make keys "k" or values "v", such as those without a bias. ``use`` is called with every piece
    of scores, -inf where masked, and of the pattern: they are not kept here.
    """
    queries, query_scales = read_queries(where, layer, config, weights)
    keys, key_scales = read_keys(
        where if keys_from is None else keys_from, layer, config, apart.get("k", weights)
    )
    values, value_scales = read_values(read, layer, config, apart.get("v", weights))
    queries, keys = (np.ascontiguousarray(turned(heads, layer, config)) for heads in (queries, keys))
    z = moved(
        queries,
        per_head(keys, config),
        per_head(values, config),
        layer,
        config,
        at(weights.sinks, layer),
        use,
    )
    scales = {"q": query_scales, "k": key_scales}
    if config.latent is not None:
        scales = {Q: query_scales, KV: value_scales}
    norm_scales = {name: scale for name, scale in scales.items() if scale is not None}
    return Attention(queries, keys, values, z, output(z, layer, weights), norm_scales)


def read_queries(read: Array, layer: int, config: Config, weights: Weights) -> tuple[Array, Array | None]:
    """Queries (H, n, h) behind their norm, before they are turned, and the norm's scales."""
    if config.latent is not None:
        return latent_queries(read, layer, config, weights)
    queries = project(read, weights.W_Q[layer], at(weights.b_Q, layer))
    return normed(queries, at(weights.g_q, layer), at(weights.b_q, layer), config)


def read_keys(read: Array, layer: int, config: Config, weights: Weights) -> tuple[Array, Array | None]:
    """Keys (G, n, h) behind their norm, before they are turned, and the norm's scales."""
    if config.latent is not None:
        return latent_keys(read, layer, config, weights)
    keys = project(read, weights.W_K[layer], at(weights.b_K, layer))
    return normed(keys, at(weights.g_k, layer), at(weights.b_k, layer), config)


def read_values(read: Array, layer: int, config: Config, weights: Weights) -> tuple[Array, Array | None]:
    """Values (G, n, d_value), and the scales of their latent's norm, if they have one."""
    if config.latent is not None:
        return latent_values(read, layer, config, weights)
    return project(read, weights.W_V[layer], at(weights.b_V, layer)), None


def project(read: Array, maps: Array, biases: Array | None) -> Array:
    """What each head reads: (n, d) by maps (H, h, d) to (H, n, h)."""
    count, width, d = maps.shape
    side_by_side = read @ maps.reshape(count * width, d).T
    result = np.ascontiguousarray(side_by_side.reshape(len(read), count, width).transpose(1, 0, 2))
    return result if biases is None else result + biases[:, None, :]


def normed(
    heads: Array, gain: Array | None, bias: Array | None, config: Config
) -> tuple[Array, Array | None]:
    """RMS norm over each head, with one gain (h) for all, or over all heads together, with a gain (H, h).

    Or LayerNorm over each head, with gains and biases (H, h).
    """
    if config.qk_norm is None:
        return heads, None
    if config.qk_norm == "head":
        return normalized(heads, "rmsnorm", config.norm_eps, gain, None)
    if config.qk_norm == "layernorm":
        own = (None if array is None else array[:, None, :] for array in (gain, bias))
        return normalized(heads, "layernorm", config.norm_eps, *own)
    count, n, width = heads.shape
    together = heads.transpose(1, 0, 2).reshape(n, count * width)
    flat = None if gain is None else gain.reshape(-1)
    result, scale = normalized(together, "rmsnorm", config.norm_eps, flat, None)
    return result.reshape(n, count, width).transpose(1, 0, 2), scale


def turned(heads: Array, layer: int, config: Config) -> Array:
    """Queries or keys turned by their position, where positions of a layer are rotary."""
    rotary = config.rotary_of(layer)
    return heads if rotary is None else rotary.turned(heads)


def per_head(grouped: Array, config: Config) -> Array:
    """Key/value heads repeated so that there is one for each query head: (G, ..) to (H, ..)."""
    return grouped[[config.kv_head(head) for head in range(config.n_heads)]]


def moved(
    queries: Array,
    keys: Array,
    values: Array,
    layer: int,
    config: Config,
    sinks: Array | None,
    use: Use | None,
) -> Array:
    """What the heads move, (H, n, h), of queries, keys and values (H, n, h); `use` is told of every piece's scores and pattern."""
    z = np.zeros(values.shape)

    def move(piece: Piece, scores: Array) -> None:
        given = None if sinks is None else sinks[piece.heads]
        pattern = softmax(scores, given, scores if use is None else None)
        np.matmul(pattern, values[piece.heads, piece.keys], out=z[piece.heads, piece.queries])
        if use is not None:
            use(piece, scores, pattern)

    each_piece(queries, keys, layer, config, move)
    return z


def softmax(scores: Array, sinks: Array | None = None, out: Array | None = None) -> Array:
    """Over keys, the last axis; a row in which every key is masked is zero. Sinks (H) take their share of (H, n, n).

    ``out`` takes the result, if given; it may be the scores themselves.

    >>> softmax(np.array([[0.0, -np.inf], [-np.inf, -np.inf]])).tolist()
    [[1.0, 0.0], [0.0, 0.0]]
    """
    top = scores.max(axis=-1, keepdims=True)
    if sinks is not None:
        top = np.maximum(top, sinks[:, None, None])
    weights = np.asarray(np.subtract(scores, np.where(np.isneginf(top), 0.0, top), out=out))
    np.exp(weights, out=weights)
    total = weights.sum(axis=-1, keepdims=True)
    if sinks is not None:
        total = total + np.exp(sinks[:, None, None] - top)
    np.divide(weights, total, out=weights, where=total != 0)
    return weights


def output(z: Array, layer: int, weights: Weights) -> Array:
    """The sum of what the heads add, and the output bias, (n, d)."""
    result: Array = np.einsum("hnk,hdk->nd", z, weights.W_O[layer], optimize=True)
    return result if weights.b_O is None else result + weights.b_O[layer]


def concatenated(z: Array, W_O: Array) -> Array:
    """The other form of multi-head attention: heads side by side, (n, H h), times W_O, (d, H h).

    ``z`` (H, n, h) and ``W_O`` (H, d, h). Vaswani et al. 2017, section 3.2.2; equal to the sum of heads.
    """
    heads, n, width = z.shape
    side_by_side = z.transpose(1, 0, 2).reshape(n, heads * width)
    whole: Array = side_by_side @ W_O.transpose(1, 0, 2).reshape(-1, heads * width).T
    return whole

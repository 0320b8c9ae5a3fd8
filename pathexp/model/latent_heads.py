"""Queries, keys and values of latent attention: what is read, compressed and normed, and what each head makes of that."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from .config import Config
from .norms import normalized
from .weights import Weights, at

Array = npt.NDArray[np.float64]

KV, Q = "kv_latent", "q_latent"
"""The norms of what keys and values, and queries, are made of, by the names of their gains and scales."""
_DOWN = {KV: "DKV", Q: "DQ"}


def compressed(read: Array, norm: str, layer: int, config: Config, weights: Weights) -> tuple[Array, Array]:
    """What attention reads, (n, d), as a few numbers a position, (n, r), behind their norm; and the norm's scales, (n)."""
    assert config.latent is not None, "asked for only where there is latent attention"
    down, bias = (getattr(weights, f"{kind}_{_DOWN[norm]}") for kind in "Wb")
    before = read @ down[layer].T
    before = before if bias is None else before + bias[layer]
    return normalized(before, "rmsnorm", config.latent.eps, at(getattr(weights, f"g_{norm}"), layer), None)


def latent_queries(read: Array, layer: int, config: Config, weights: Weights) -> tuple[Array, Array | None]:
    """Queries, (H, n, h), before they are turned, and the scales of their latent's norm, where they have one."""
    assert config.latent is not None, "asked for only where there is latent attention"
    if config.latent.query_rank is None:
        queries = _by_head(read, weights.W_Q[layer])
        return (queries if weights.b_Q is None else queries + weights.b_Q[layer][:, None, :]), None
    latent, scales = compressed(read, Q, layer, config, weights)
    return _by_head(latent, _there(weights.W_UQ)[layer]), scales


def latent_keys(read: Array, layer: int, config: Config, weights: Weights) -> tuple[Array, Array]:
    """Keys, (H, n, h), before they are turned: the part that all heads share, then the head's own; and the norm's scales."""
    latent, scales = compressed(read, KV, layer, config, weights)
    own = _by_head(latent, _there(weights.W_UK)[layer])
    shared = read @ _there(weights.W_KR)[layer].T
    shared = shared if weights.b_KR is None else shared + weights.b_KR[layer]
    for_all = np.broadcast_to(shared, (len(own), *shared.shape))
    return np.concatenate([for_all, own], axis=-1), scales


def latent_values(read: Array, layer: int, config: Config, weights: Weights) -> tuple[Array, Array]:
    """Values, (H, n, d_value), and the scales of their latent's norm."""
    latent, scales = compressed(read, KV, layer, config, weights)
    return _by_head(latent, _there(weights.W_UV)[layer]), scales


def _by_head(read: Array, maps: Array) -> Array:
    made: Array = read @ np.swapaxes(maps, -1, -2)
    return made


def _there(array: Array | None) -> Array:
    assert array is not None, "weights fit their configuration"
    return array

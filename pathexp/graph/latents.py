"""Latent attention, frozen: the maps through the latent, and the scale of its norm, one number a position.

c = RMS(W_DKV x + b_DKV) · G is linear in x once the norm's scale S is held fixed, so that a head still moves (A S) ⊗ W_OV
with W_OV = W_O W_UV G W_DKV. Of a key, the part that all heads share (W_KR x) has no scale and the head's own part has S:
elementwise on (position, feature), as a gate. DeepSeek-V2, section 2.1.
"""

from __future__ import annotations

from typing import Literal

import numpy as np

from ..algebra import Diagonal, LinearMap, Space, add, compose
from ..errors import GraphError
from ..labels import head_label
from ..model import Config, Latent, Weights
from .named import table
from .operators import Array

Side = Literal["Q", "K", "V"]

DOWN = {"Q": ("DQ", "q_latent"), "K": ("DKV", "kv_latent"), "V": ("DKV", "kv_latent")}
"""What compresses for queries, keys and values, and the norm behind it, by the names of their weights."""


def compresses(config: Config, side: Side) -> bool:
    """Return whether queries, keys or values are made of a latent."""
    return config.latent is not None and (side != "Q" or config.latent.query_rank is not None)


def read_map(weights: Weights, config: Config, side: Side, layer: int, head: int) -> LinearMap:
    """Return what a side of a head makes of the stream through its latent, scales left out: (d_head or d_value, d_model)."""
    name = f"W_{DOWN[side][0]}"
    down = table(_at(weights, name, layer), "latent", "model", f"{name}_L{layer}")
    through = compose(up_map(weights, config, side, layer, head), down)
    if side != "K":
        return through
    shared = table(_at(weights, "W_KR", layer), "shared", "model", f"W_KR_L{layer}")
    return add(compose(shared_key(config), shared), through)


def up_map(weights: Weights, config: Config, side: Side, layer: int, head: int) -> LinearMap:
    """Return what a side of a head makes of its latent before the gain: (d_head or d_value, rank)."""
    name = "W_UQ" if side == "Q" else f"W_U{side}"
    array = _at(weights, name, layer)[head]
    place = head_label(layer, head)
    up: LinearMap = table(array, "own" if side == "K" else "head", "latent", f"{name}_{place}")
    gain: Array | None = getattr(weights, f"g_{DOWN[side][1]}")
    if gain is not None:
        up = compose(up, Diagonal(gain[layer], Space("latent", gain.shape[1]), f"G_L{layer}_{DOWN[side][1]}"))
    return compose(own_key(config), up) if side == "K" else up


def shared_key(config: Config) -> LinearMap:
    """Return where the part of a key that heads share stands in it, (d_head, d_shared)."""
    return _placed(config, "shared", 0, _latent(config).d_shared)


def own_key(config: Config) -> LinearMap:
    """Return where a head's own part of a key stands in it, (d_head, d_head - d_shared)."""
    return _placed(config, "own", _latent(config).d_shared, config.d_head)


def key_scales(config: Config, scales: Array) -> Array:
    """Return what keys are multiplied by, (n, d_head): one for what heads share, the norm's scale, (n), for the rest."""
    values = np.ones((len(scales), config.d_head))
    values[:, _latent(config).d_shared :] = scales[:, None]
    return values


def refuse_keys(config: Config, label: str) -> None:
    """Raise GraphError where keys of a head are no one map of the weights, up to one number a position."""
    if config.latent is not None:
        raise GraphError(
            f"keys of {label} are no one map of weights: in latent attention the part of a key that is the head's own is "
            "multiplied by the scale of a norm, which a run has, and the part that heads share is not. Ask "
            "runs: px.score(trace, ...) for scores, px.heads(model) for where heads attend; or for what heads move by the "
            "weights, px.virtual_weight(model, 'E', 'L1H0.V')"
        )


def _placed(config: Config, space: str, begin: int, end: int) -> LinearMap:
    return table(np.eye(config.d_head)[:, begin:end], "head", space, f"I_{space}")


def _latent(config: Config) -> Latent:
    assert config.latent is not None, "asked for only where there is latent attention"
    return config.latent


def _at(weights: Weights, name: str, layer: int) -> Array:
    array: Array | None = getattr(weights, name)
    assert array is not None, "weights fit their configuration"
    found: Array = array[layer]
    return found

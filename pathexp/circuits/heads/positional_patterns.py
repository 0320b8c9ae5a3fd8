"""What a layer attends to by position alone."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ...graph import Array, WeakCache
from ...model import Config, Model, Weights

MEANS: WeakCache[Model, Array] = WeakCache()
"""The mean embedding of the models that are alive, (d_model, 1): read once for all layers."""


def positional_patterns(model: Model, layer: int, positions: int) -> Array:
    """Return the patterns of a layer's heads by position alone, (H, positions, positions).

    They are those of a text that repeats one token whose embedding is the mean of all tokens', read by
    the layer straight from the embedding. From weights alone.
    """
    w = model.weights
    config = replace(
        model.config, n_layers=1, d_vocab=1, d_out=1, d_mlp=0, experts=None, gated=False, parallel=None, tied=False,
        transform=False, transform_norm=False, transform_activation=None, first_norm=model.config.first_norm or layer > 0,
        rotaries=None if model.config.rotaries is None else (model.config.rotaries[layer],),
        windows=None if model.config.windows is None else (model.config.windows[layer],),
    )  # fmt: skip
    mean = MEANS.get(model, None, lambda: w.W_E.mean(axis=1, keepdims=True))
    alike = Model(config, _one_layer(w, mean, config, layer))
    return np.array(alike.run(np.zeros(positions, dtype=np.int64)).patterns[0])


_STACKED = (
    "W_Q", "W_K", "W_V", "W_O", "b_Q", "b_K", "b_V", "b_O", "g_attn", "b_attn", "g_attn_post", "b_attn_post",
    "g_q", "g_k", "b_q", "b_k", "sinks", "W_DQ", "W_UQ", "W_DKV", "W_KR", "W_UK", "W_UV", "b_DQ", "b_DKV", "b_KR",
    "g_q_latent", "g_kv_latent",
)  # fmt: skip
_WHOLE = ("W_pos", "g_embed", "b_embed", "g_final", "b_final")


def _one_layer(w: Weights, mean: Array, config: Config, layer: int) -> Weights:
    arrays = w.arrays()
    kept = {name: arrays[name][layer : layer + 1] for name in _STACKED if name in arrays}
    kept |= {name: arrays[name] for name in _WHOLE if name in arrays}
    return Weights(W_E=mean, W_U=np.zeros((1, config.d_model)), **kept)


def previous_token_share(pattern: Array) -> float:
    """Return the mean attention to the position before, over all queries but the first; 0 for one position."""
    n = len(pattern)
    return float(np.diagonal(pattern, -1).mean()) if n > 1 else 0.0

"""Tiny models by name, each made on demand: every switch of the attention-only transformer is in one of them.

Shapes are adversarial on purpose: d_head != d_model / n_heads, fewer key/value heads than heads, nothing
square or symmetric, gains that are not constant, biases that are not zero.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

import numpy as np

from pathexp.model.handmade import induction_model, random_model, zero_layer_bigram
from pathexp.model.model import Model

Maker = Callable[[], Model]


def bigram() -> Model:
    """Zero layers, a table that is not symmetric."""
    return zero_layer_bigram(np.random.default_rng(5).standard_normal((7, 7)))


_small = partial(random_model, d_model=14, d_head=3, d_vocab=11, n_ctx=40)

ZOO: Mapping[str, Maker] = {
    "bigram": bigram,
    "induction": partial(induction_model, d_vocab=6, n_ctx=12),
    "0L": partial(_small, layers=0, heads=1, biases=True, seed=1),
    "0L-final-layernorm": partial(_small, layers=0, heads=2, norm="layernorm", biases=True, seed=2),
    "1L-none": partial(_small, layers=1, heads=1, positions="none", seed=3),
    "1L-qk-biases": partial(_small, layers=1, heads=3, positions="qk", biases=True, seed=4),
    "1L-layernorm": partial(_small, layers=1, heads=2, norm="layernorm", biases=True, seed=5),
    "1L-bidirectional": partial(_small, layers=1, heads=2, causal=False, biases=True, seed=6),
    "2L-plain": partial(_small, layers=2, heads=2, seed=7),
    "2L-qk": partial(_small, layers=2, heads=3, positions="qk", seed=8),
    "2L-qk-rmsnorm-biases": partial(
        _small, layers=2, heads=2, positions="qk", norm="rmsnorm", biases=True, seed=9
    ),
    "2L-layernorm-no-gain": partial(_small, layers=2, heads=2, norm="layernorm", seed=10),
    "2L-layernorm-no-final": partial(
        _small, layers=2, heads=2, norm="layernorm", final_norm=False, biases=True, seed=11
    ),
    "2L-gqa": partial(_small, layers=2, heads=4, kv_heads=2, norm="rmsnorm", biases=True, seed=12),
    "2L-mqa-no-positions": partial(
        _small, layers=2, heads=3, kv_heads=1, positions="none", biases=True, seed=13
    ),
    "2L-scale": partial(
        _small, layers=2, heads=2, attention_scale=0.9, norm_eps=0.1, norm="rmsnorm", seed=14
    ),
    "3L-layernorm": partial(_small, layers=3, heads=2, norm="layernorm", biases=True, seed=15),
    "3L-one-head": partial(_small, layers=3, heads=1, positions="none", biases=True, seed=16),
}

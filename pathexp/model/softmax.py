"""Logits as distributions, and what a distribution loses on tokens."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]


def log_softmax(logits: Array) -> Array:
    """Return log-probabilities over the last axis, in nats, shaped like `logits`.

    >>> np.exp(log_softmax(np.log([1.0, 3.0]))).round(12).tolist()
    [0.25, 0.75]
    """
    shifted = logits - logits.max(axis=-1, keepdims=True)
    found: Array = shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))
    return found


def next_token_loss(logits: Array, tokens: npt.NDArray[np.integer[Any]]) -> float:
    """Return the mean loss of each token given those before it, in nats; logits (n, V), tokens (n) with n ≥ 2.

    >>> round(next_token_loss(np.zeros((3, 4)), np.array([0, 1, 2])), 4) == round(float(np.log(4)), 4)
    True
    """
    return float(-log_softmax(logits[:-1])[np.arange(len(tokens) - 1), tokens[1:]].mean())

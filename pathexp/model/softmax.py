"""Logits as distributions, and what a distribution loses on tokens."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]
Places = npt.NDArray[np.integer[Any]]
_ROWS = 4
"""Rows of logits that are exponentiated at a time."""


def log_softmax(logits: Array) -> Array:
    """Return log-probabilities over the last axis, in nats, shaped like `logits`.

    >>> np.exp(log_softmax(np.log([1.0, 3.0]))).round(12).tolist()
    [0.25, 0.75]
    """
    shifted = logits - logits.max(axis=-1, keepdims=True)
    found: Array = shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))
    return found


def log_probs_of(logits: Array, rows: Places, tokens: Places) -> Array:
    """Return the log-probabilities of some tokens, (k), each by a row of `logits`, (n, V); to the bit those of `log_softmax`.

    A few rows at a time, in the cache: the table of all log-probabilities is never made.

    >>> log_probs_of(np.log([[1.0, 3.0], [1.0, 1.0]]), np.array([0, 1]), np.array([1, 0])).round(4).tolist()
    [-0.2877, -0.6931]
    """
    top, total = logits.max(axis=-1), np.empty(len(logits))
    for begin in range(0, len(logits), _ROWS):
        few = slice(begin, begin + _ROWS)
        weights = logits[few] - top[few, None]
        total[few] = np.exp(weights, out=weights).sum(axis=-1)
    return np.asarray(logits[rows, tokens] - top[rows] - np.log(total)[rows])


def next_token_loss(logits: Array, tokens: npt.NDArray[np.integer[Any]]) -> float:
    """Return the mean loss of each token given those before it, in nats; logits (n, V), tokens (n) with n ≥ 2.

    >>> round(next_token_loss(np.zeros((3, 4)), np.array([0, 1, 2])), 4) == round(float(np.log(4)), 4)
    True
    """
    return float(-log_probs_of(logits, np.arange(len(tokens) - 1), tokens[1:]).mean())

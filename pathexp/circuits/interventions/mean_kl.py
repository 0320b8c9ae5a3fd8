"""How far two sets of next-token distributions are apart."""

from __future__ import annotations

import numpy as np

from ...arguments import LOGITS, expect
from ...errors import PathexpError
from ...graph import Array
from ...model.softmax import log_softmax


def mean_kl(a: Array, b: Array) -> float:
    """Return the mean over positions of the divergence KL(a ‖ b) of the distributions of two arrays of logits, in nats.

    `a`, `b`: (positions, tokens). Kullback & Leibler 1951. Raises PathexpError where they are no such arrays.

    >>> round(mean_kl(np.log([[0.5, 0.5]]), np.log([[0.25, 0.75]])), 6)
    0.143841
    """
    expect("mean_kl", a=(a, LOGITS), b=(b, LOGITS))
    if np.shape(a) != np.shape(b):
        raise PathexpError(f"mean_kl() compares logits of one shape, found {np.shape(a)} and {np.shape(b)}")
    return divergence(log_softmax(a), log_softmax(b))


def divergence(first: Array, second: Array) -> float:
    """Return the same of log-probabilities (positions, tokens)."""
    return float((np.exp(first) * (first - second)).sum(axis=-1).mean())

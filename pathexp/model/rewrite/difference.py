"""How two models differ on the same tokens: not at all, by one constant per position, or truly."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from weakref import ref

import numpy as np
import numpy.typing as npt

from ...budget import BUDGET
from ...errors import TokenError
from ...workers import in_turn
from ..model import Model
from ..rounding import run_tolerance
from ..weights import Array

BLIND = 1e-4
"""A tolerance above this share of the logits' size would let real faults pass."""
_LENGTH, _SEED = 9, 0


@dataclass(frozen=True)
class Difference:
    """The largest difference of raw logits, in nats, and the largest once each position's mean is taken off.

    ``tolerance``: what rounding explains, measured on both models (`pathexp.model.rounding`). ``constants`` (n): by how
    much each position's logits are shifted; ``same_top``: at how many positions the most likely token is the same;
    ``size``: the largest logit of both, beside each position's mean (a single output has none).
    """

    raw: float
    beside_constants: float
    tolerance: float
    constants: Array
    same_top: int
    size: float

    @property
    def equal(self) -> bool:
        """Whether the logits are the same up to rounding."""
        return self.raw <= self.tolerance and not self.reason

    @property
    def by_constants(self) -> bool:
        """Whether log-probabilities are the same up to rounding: logits may be shifted by position."""
        return self.beside_constants <= self.tolerance and not self.reason

    @property
    def reason(self) -> str:
        """Why it cannot be told whether logits are equal; empty where it can."""
        if self.tolerance > BLIND * self.size and self.raw > 0:
            return f"what rounding may change, {self.tolerance:.2e}, is not small beside the logits ({self.size:.3g})"
        return ""

    def __str__(self) -> str:
        top = f"most likely token the same at {self.same_top} of {len(self.constants)} positions"
        if self.reason:
            return f"CANNOT TELL: largest difference {self.raw:.4g}; {self.reason}; {top}"
        if self.equal:
            return (
                f"logits are equal: largest difference {self.raw:.2e} ≤ tolerance {self.tolerance:.2e}; {top}"
            )
        if self.by_constants:
            return (
                f"logits differ by a per-position constant (up to {np.abs(self.constants).max():.4g}), "
                f"log-probabilities are equal: largest difference {self.beside_constants:.2e} "
                f"≤ tolerance {self.tolerance:.2e}; {top}"
            )
        return (
            f"LOGITS DIFFER: largest difference {self.raw:.4g}, beside a constant per position "
            f"{self.beside_constants:.4g} > tolerance {self.tolerance:.2e}; {top}"
        )


def compare(a: Model, b: Model, tokens: Sequence[int] | None = None) -> Difference:
    """Run two models on the same tokens (default: up to 9 from a fixed seed) and compare logits, before any cap.

    Costs three runs of each, once for two models where no tokens are given.

    Raises TokenError if the models have not the same vocabulary.

    >>> import pathexp as px
    >>> model = px.random_model(norm="layernorm", biases=True)
    >>> px.rewrite.compare(model, px.rewrite.fold_norms(model)).equal
    True
    >>> str(px.rewrite.compare(model, px.rewrite.center_unembedding(model)))[:42]
    'logits differ by a per-position constant ('
    """
    if a.config.d_vocab != b.config.d_vocab:
        raise TokenError(
            f"models of {a.config.d_vocab} and {b.config.d_vocab} tokens cannot be compared: "
            "their logits have no common order"
        )
    if a.config.d_out != b.config.d_out:
        raise TokenError(
            f"models of {a.config.d_out} and {b.config.d_out} outputs cannot be compared: give two with the same."
        )
    if tokens is not None:
        return _compared(a, b, tokens)
    other, found = BUDGET.get(b, ("compared", id(a)), lambda: (ref(a), _compared(a, b, probe(a))))
    return found if other() is a else _compared(a, b, probe(a))


def _compared(a: Model, b: Model, tokens: Sequence[int] | npt.NDArray[np.int64]) -> Difference:
    first, second = (trace for _, trace in in_turn(lambda model: model.run(tokens), (a, b)))
    return between(first.logits_before_cap, second.logits_before_cap, run_tolerance(first, second))


def probe(model: Model) -> npt.NDArray[np.int64]:
    """The tokens of the self-check: up to 9, from a fixed seed."""
    rng = np.random.default_rng(_SEED)
    return rng.integers(0, model.config.d_vocab, min(_LENGTH, model.config.n_ctx))


def between(first: Array, second: Array, tolerance: float) -> Difference:
    """Compare two arrays of logits, (n, V) each, with what rounding explains."""
    gap = second - first
    constants = gap.mean(axis=-1)
    return Difference(
        raw=_largest(gap),
        beside_constants=_largest(gap - constants[:, None]),
        tolerance=tolerance,
        constants=constants,
        same_top=int((first.argmax(axis=-1) == second.argmax(axis=-1)).sum()),
        size=max(map(_size, (first, second))),
    )


def _size(logits: Array) -> float:
    several = logits.shape[-1] > 1
    return _largest(logits - logits.mean(axis=-1, keepdims=True) if several else logits)


def _largest(array: Array) -> float:
    return float(np.abs(array).max(initial=0.0))

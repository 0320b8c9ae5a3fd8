"""How long what a gated component makes of a vector can be, without its matrix at any position.

A position's matrix is A diag(s) B, s its gates and scales. ‖A diag(s) B‖² in Frobenius' norm is sᵀ (Aᵀ A ∘ B Bᵀ) s, so that two
Gram matrices serve all positions. In trained MLPs that is a fifth of what the norms of the factors say, and beginnings pass several.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import frexp, inf, ldexp

import numpy as np

from ...graph import Array, Gate, Operator, Part, Step, word_map
from .rounding import FLOOR, finite, gamma, lengths, powers


def gated_norms(operator: Operator, size: tuple[int, int]) -> Array | None:
    """Return bounds (n,) on the norms of a simple operator's matrices on streams of a size (n, d).

    None unless one gate stands between maps of features. Costs two products of d × f × f numbers.
    """
    n, d = size
    gates = [place for place, part in enumerate(operator) if isinstance(part, Gate)]
    if len(gates) != 1:
        return None
    gate = operator[gates[0]]
    writers, readers = operator[: gates[0]], operator[gates[0] + 1 :]
    inner = np.asarray(gate.numbers()) if isinstance(gate, Gate) else np.zeros(0)
    for part in (*writers, *readers):
        inner = inner * _scales(part, n)
    write, read = _features(writers, inner.shape[1]), _features(readers, d)
    scale, (inner, write, read) = _scaled(inner, write, read)
    square = np.einsum("nf,nf->n", inner @ ((write @ write.T) * (read.T @ read)), inner)
    most = np.abs(inner) @ (lengths(write) * lengths(read.T))
    lost = gamma(4 * (d + inner.shape[1])) * most * most + FLOOR * inner.shape[1] ** 2
    return finite(np.sqrt(np.maximum(square, 0.0) + lost) * (1 + 1e-9) * scale)


def _scaled(*arrays: Array) -> tuple[float, list[Array]]:
    """Arrays over powers of two, entries at most one, so that no square leaves the range; and the product of these, rounded up."""
    scales = [float(powers(array, (0, 1))[0, 0]) for array in arrays]
    power = sum(frexp(scale)[1] - 1 for scale in scales)
    whole = ldexp(1.0, max(power, -1022)) if power < 1024 else inf
    return whole, [array / scale for array, scale in zip(arrays, scales, strict=True)]


def _features(parts: Sequence[Part], width: int) -> Array:
    """What the feature words of steps make of each of so many unit vectors, the last word first."""
    found = [word_map(part.feature) for part in parts if isinstance(part, Step)]
    words = [word for word in found if word is not None]
    if not words:
        return np.eye(width)
    rows = words.pop().dense(max_entries=2**31).T
    for word in reversed(words):
        rows = word.apply(rows)
    return rows


def _scales(part: Part, n: int) -> Array:
    """By what a step scales each position, (n, 1)."""
    position = word_map(part.position) if isinstance(part, Step) else None
    return np.ones((n, 1)) if position is None else np.diagonal(position.dense())[:, None]

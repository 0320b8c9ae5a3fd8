"""How a head's query vector and key vector meet: score = scale · qᵀ R k, capped, + bias by distance.

Without rotary positions there is one bilinear form W_Qᵀ W_K for all pairs; under rotary there is one per
distance, W_Qᵀ R(j - i) W_K (Su et al. 2021, "RoFormer", equation 16). ALiBi adds -slope · |i - j|, which no
path brings (Press et al. 2022, "Train Short, Test Long").
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..algebra import Dense, Space
from ..arguments import check, whole
from ..model import Config
from ..model.rotary import Rotary
from .operators import Array, Factor


@dataclass(frozen=True)
class ScoreForm:
    """The form of one head: its scale, its rotation and its soft-cap if any, its ALiBi slope (0 without).

    `length`: how long the text is, for rotations that depend on it (1: those of a short text).
    """

    d_head: int
    scale: float
    rotary: Rotary | None = None
    slope: float = 0.0
    cap: float | None = None
    length: int = 1

    @property
    def by_distance(self) -> bool:
        """Whether the bilinear form depends on how far apart query and key are."""
        return self.rotary is not None

    def rotation(self, distance: int) -> Factor | None:
        """The map that stands between W_Qᵀ and W_K for a key `distance` positions before its query.

        Shape (d_head, d_head): R(-distance); None where there is no rotation (the identity). Its name is
        `R_5` for distance 5, `R_m5` for a key five positions after. Raises PathexpError for a distance that is no
        integer.
        """
        check("distance", distance, whole())
        if self.rotary is None:
            return None
        name = f"R_{distance}" if distance >= 0 else f"R_m{-distance}"
        space = Space("head", self.d_head)
        array = rotation(self.rotary, -distance, self.d_head, self.length)
        return Factor(name, self.d_head, self.d_head, Dense(array, space, space, name))

    def met(self, keys: Array, query: int) -> Array:
        """Key vectors (..., position, d_head) as the query at a position meets them: R k, unscaled."""
        if self.rotary is None:
            return keys
        steps = np.arange(keys.shape[-2]) - query
        angles = steps[:, None] * self.rotary.frequencies(self.length)
        cos, sin = (self.rotary.amplitude**2 * turn(angles) for turn in (np.cos, np.sin))
        first, second = self.rotary.pairs()
        met = np.array(keys)
        met[..., first] = cos * keys[..., first] - sin * keys[..., second]
        met[..., second] = sin * keys[..., first] + cos * keys[..., second]
        return met

    def ratios(self, scores: Array) -> Array:
        """What a soft-cap leaves of scores, as a factor: cap · tanh(s / cap) / s, which is 1 at 0."""
        if self.cap is None:
            return np.ones_like(scores)
        x = scores / self.cap
        return np.divide(np.tanh(x), x, out=np.ones_like(x), where=x != 0)

    def bias(self, query: int, n: int) -> Array:
        """What is added to the scores of a query by distance alone, (n,): ALiBi's -slope · distance."""
        return -self.slope * np.abs(query - np.arange(n, dtype=np.float64))


def rotation(rotary: Rotary, steps: int, d_head: int, length: int = 1) -> Array:
    """Return the matrix that turns a head's vectors by `steps` positions, (d_head, d_head).

    Queries and keys are each multiplied by the rotation's amplitude (YaRN), the form by its square.

    >>> from pathexp.model.rotary import Rotary
    >>> rotation(Rotary(dims=2), 1, 3).round(4)
    array([[ 0.5403, -0.8415,  0.    ],
           [ 0.8415,  0.5403,  0.    ],
           [ 0.    ,  0.    ,  1.    ]])
    """
    angles = steps * rotary.frequencies(length)
    first, second = rotary.pairs()
    matrix = np.eye(d_head)
    cos, sin = (rotary.amplitude**2 * turn(angles) for turn in (np.cos, np.sin))
    matrix[first, first] = matrix[second, second] = cos
    matrix[first, second], matrix[second, first] = -sin, sin
    return matrix


def score_form(config: Config, layer: int, head: int, length: int = 1) -> ScoreForm:
    """Return the form of one head of a model, in a text of so many positions."""
    slope = config.alibi_slopes[head] if config.alibi_slopes else 0.0
    rotary = config.rotary_of(layer)
    return ScoreForm(config.d_head, config.attention_scale, rotary, slope, config.attention_cap, length)

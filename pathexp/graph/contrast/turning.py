"""Rotary positions as a factor: every query or key turned by the angles of its position."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...model.rotary import Rotary
from ..operators import Action, Array
from ..stack import Indices


@dataclass(frozen=True, eq=False)
class Turn(Action):
    """Pairs of coordinates turned at each position: cos and sin (n, pairs), amplitude included."""

    name: str
    columns: int
    cos: Array
    sin: Array
    pairs: tuple[Indices, Indices]

    @classmethod
    def of(cls, rotary: Rotary, positions: int, d_head: int, name: str = "R") -> Turn:
        """Return the turns of a model's heads at the first positions."""
        angles = np.arange(positions)[:, None] * rotary.frequencies(positions)
        amplitude = rotary.amplitude
        return cls(name, d_head, np.cos(angles) * amplitude, np.sin(angles) * amplitude, rotary.pairs())

    @property
    def positions(self) -> int:  # type: ignore[override]
        return len(self.cos)

    @property
    def rows(self) -> int:  # type: ignore[override]
        return self.columns

    def push(self, x: Array) -> Array:
        return self._turned(x, self.sin)

    def pull(self, r: Array) -> Array:
        return self._turned(r, -self.sin)

    def _turned(self, x: Array, sin: Array) -> Array:
        (first, second), turned = self.pairs, np.array(x)
        turned[..., first] = x[..., first] * self.cos - x[..., second] * sin
        turned[..., second] = x[..., second] * self.cos + x[..., first] * sin
        return turned

    def first(self, positions: int) -> Turn:
        return Turn(self.name, self.columns, self.cos[:positions], self.sin[:positions], self.pairs)

    def at(self, positions: Indices) -> Turn:
        return Turn(self.name, self.columns, self.cos[positions], self.sin[positions], self.pairs)

    def reach(self, far: Array) -> Array:
        """With positive numbers alone a pair grows by |cos| + |sin| at most."""
        return np.asarray(
            far * np.max(np.abs(self.cos) + np.abs(self.sin), axis=-1, initial=1.0) * (1 + 1e-9)
        )

    @property
    def roundings(self) -> int:
        return 3

    def spread(self, noise: Array, backward: bool = False) -> Array:
        """A rotation leaves deviations as they are; its amplitude multiplies them."""
        return noise * max(1.0, float(np.hypot(self.cos, self.sin).max(initial=0.0)))

    @property
    def grows(self) -> float:
        return 2 * max(1.0, float(np.max(np.abs([self.cos, self.sin]), initial=0.0)))

    @property
    def cost(self) -> int:
        return 4 * int(self.cos.shape[1])

"""Named spaces, and the one statement of orientation.

Columns throughout. A map goes from its source to its target and its dense form has shape
(target, source), so that `B @ A` is first A, then B, and a printed product read as numpy is the
computation. A stream is an array X of shape (position, feature); on the product space position * feature
it is flattened row by row (position-major), and (A ⊗ W) takes it to A @ X @ W.T.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..errors import SpaceError


@dataclass(frozen=True)
class Space:
    """A named space of known dimension; two spaces are one when name, size and factors are equal.

    >>> position, model = Space("position", 9), Space("model", 128)
    >>> print(position * model)
    position(9)*model(128)
    >>> (position * model).factors == (position, model)
    True

    Raises SpaceError for an empty name, or for a size that is not an integer of at least 0.
    """

    name: str
    size: int
    factors: tuple[Space, ...] = ()

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name:
            raise SpaceError(f"a space needs a name, such as 'model'; found {self.name!r}")
        if isinstance(self.size, bool) or not hasattr(self.size, "__index__") or self.size < 0:
            raise SpaceError(f"space {self.name!r} dimensions: expected an integer ≥ 0, got {self.size!r}")
        object.__setattr__(self, "size", self.size.__index__())

    def __mul__(self, other: Space) -> Space:
        """Return the product space, whose coordinates run through `other` fastest; associative."""
        if not isinstance(other, Space):
            return NotImplemented
        factors = (self.factors or (self,)) + (other.factors or (other,))
        return Space("*".join(factor.name for factor in factors), self.size * other.size, factors)

    def __str__(self) -> str:
        return "*".join(str(factor) for factor in self.factors) or f"{self.name}({self.size})"

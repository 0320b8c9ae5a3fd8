"""The law of a block: the norms and multipliers through which its branches read the stream and write to it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ..model import Config
from .operators import Operator, chain


@dataclass(frozen=True, eq=False)
class BlockLaw:
    """What stands around the branches "attn" and "mlp" of a block, whatever its norms are made of.

    `norm` gives a norm of a layer by the name of its weights: with a run's scales, without any, or the secant of two
    runs. `multiplied` is the multiplier of what branches add.
    """

    config: Config
    norm: Callable[[str, int], Operator]
    multiplied: Operator = ()

    def read_norm(self, layer: int, branch: str) -> str | None:
        """Return which norm a branch of a layer reads through, if any: where one is shared, that of attention."""
        name = "attn" if self.config.parallel == "shared" else branch
        return name if name in self.config.norms_of(layer) else None

    def read(self, layer: int, branch: str) -> Operator:
        """Return what a branch reads the stream through."""
        name = self.read_norm(layer, branch)
        return () if name is None else self.norm(name, layer)

    def written(self, layer: int, branch: str) -> Operator:
        """Return what a branch's result goes through before it is on the stream: a norm, a multiplier."""
        norm = self._after(layer, branch)
        return chain(norm, self.multiplied) if self.post else chain(self.multiplied, norm)

    def skip(self, layer: int, branch: str) -> Operator:
        """Return the map on the skip edge: the norm of the sum in the original block, else the identity."""
        return self._after(layer, branch) if self.post else ()

    @property
    def post(self) -> bool:
        """Whether norms stand on the stream itself, after the branch was added."""
        return self.config.norm_placement == "post"

    def _after(self, layer: int, branch: str) -> Operator:
        name = f"{branch}_post"
        return self.norm(name, layer) if name in self.config.block_norms else ()

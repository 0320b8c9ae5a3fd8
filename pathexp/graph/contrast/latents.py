"""Latent attention between two runs: what queries, keys and values make of a difference, through the norm of their latent.

With c = W_D x + b and n = c · s(c): Δ(W_U g n) = W̄_U ḡ N Δc, N the secant of the norm, Δc = W̄_D Δx. The part of a key that
heads share passes no norm. Of two models every map, gain and bias on the way is a source, at the mean of what it reads.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np

from ...algebra import compose
from ...labels import head_label
from ...model import Trace
from ..latents import DOWN, Side, own_key, shared_key
from ..named import diagonal, feature
from ..operators import Array, Factor, Operator, Parallel, chain
from .norms import mean_of_products, scaled
from .runs import Runs, midpoint
from .secants import scale_slopes


@dataclass(frozen=True, eq=False)
class Latents:
    """The latents of one layer."""

    runs: Runs
    layer: int

    def read(self, side: Side, head: int) -> Operator:
        """Return the map from what attention reads to a head's queries or keys before they are turned, or its values."""
        down = f"W_{DOWN[side][0]}"
        weight = self.runs.matrix(f"{down}_L{self.layer}", down, (self.layer,), "latent", "model")
        through = chain(self.from_latent(side, head), feature(weight))
        if side != "K":
            return through
        weight = self.runs.matrix(f"W_KR_L{self.layer}", "W_KR", (self.layer,), "shared", "model")
        return (Parallel(f"K_{self._name(head)}", (through, chain(self.from_shared(), feature(weight)))),)

    def from_latent(self, side: Side, head: int) -> Operator:
        """The same from the latent before its norm."""
        return chain(self.from_gain(side, head), self.gain(side), self.norms[DOWN[side][1]])

    def from_gain(self, side: Side, head: int) -> Operator:
        """The same from behind the norm and its gain: what a head makes of the latent."""
        name = "W_UQ" if side == "Q" else f"W_U{side}"
        space = "own" if side == "K" else "head"
        weight = self.runs.matrix(f"{name}_{self._name(head)}", name, (self.layer, head), space, "latent")
        return chain(self.from_own() if side == "K" else (), feature(weight))

    def from_own(self) -> Operator:
        """Where a head's own part of a key stands in it."""
        map = compose(own_key(self.runs.config))
        return feature(Factor("I_own", *map.shape, map))

    def from_shared(self) -> Operator:
        """Where the part of a key that heads share stands in it."""
        map = compose(shared_key(self.runs.config))
        return feature(Factor("I_shared", *map.shape, map))

    def gain(self, side: Side) -> Operator:
        """The gain of a latent's norm, if there is one."""
        name = f"g_{DOWN[side][1]}"
        if not self.runs.has(name):
            return ()
        return feature(
            diagonal(f"G_{DOWN[side][1]}_L{self.layer}", self.runs.weight(name, self.layer), "latent")
        )

    @cached_property
    def norms(self) -> dict[str, Operator]:
        """The secants of the norms of latents, without gains."""
        return {norm: (self._norm(norm),) for norm in self.latents}

    def _norm(self, norm: str) -> Parallel:
        before, scales = self.latents[norm], self.scales(norm)
        middle, content = midpoint(*before), self.runs.between(*before[::-1])
        between = self.runs.between(*scales)
        return scaled(f"{norm}_L{self.layer}", middle, content, scale_slopes(*scales), between)

    @cached_property
    def latents(self) -> dict[str, tuple[Array, Array]]:
        """Both runs' latents before their norm, (n, r) each; traces hold none of them."""
        config = self.runs.config
        assert config.latent is not None, "asked for only where there is latent attention"
        sides: tuple[Side, ...] = ("V",) if config.latent.query_rank is None else ("V", "Q")
        return {DOWN[side][1]: self.runs.both(partial(latent, layer=self.layer, side=side)) for side in sides}

    def scales(self, norm: str) -> tuple[Array, Array]:
        """Both runs' scales of a norm, (n) each."""
        return self.runs.both(lambda run: run.norm_scales[f"L{self.layer}.{norm}"])

    # What differs of two models ------------------------------------------------------------------------

    def normed(self, side: Side) -> Array:
        """The mean of what a gain multiplies, (n, r)."""
        norm = DOWN[side][1]
        return mean_of_products(self.latents[norm], self.scales(norm))

    def gained(self, side: Side) -> Array:
        """The mean of what a head's map reads, (n, r)."""
        norm = DOWN[side][1]
        gains = (gain[self.layer] if gain.ndim else gain for gain in self._gains(f"g_{norm}"))
        values = [x * g for x, g in zip(self.latents[norm], gains, strict=True)]
        return mean_of_products((values[0], values[1]), self.scales(norm))

    def _gains(self, name: str) -> Iterator[Array]:
        if not self.runs.has(name):
            yield from (np.ones(()), np.ones(()))
        else:
            yield from self.runs.weights(name)

    def _name(self, head: int) -> str:
        return head_label(self.layer, head)


def latent(run: Trace, layer: int, side: Side) -> Array:
    """Return a run's latent of a side before its norm, (n, r)."""
    weights, name = run.model.weights, DOWN[side][0]
    down, bias = getattr(weights, f"W_{name}"), getattr(weights, f"b_{name}")
    found: Array = run.residuals[f"L{layer}.attn_in"] @ down[layer].T
    return found if bias is None else found + bias[layer]

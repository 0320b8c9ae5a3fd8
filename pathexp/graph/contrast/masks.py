"""Keys that one run alone sees: a source in each head, what the weights there and the room they take move.

Let C be the keys that both runs see, e_j = ΔA_j outside of C and ρ = Σ e_j. On C the rows add up to less, so that
ΔA_j = Λ_j (Δs_j − Σ_C w Δs) − w_j ρ: the first part runs through keys and queries as ever, and what is left of the
head's difference at mean values, Σ_j e_j v̄_j − ρ Σ_C w_j v̄_j, is a source.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from ...labels import head_label
from ..named import feature
from ..nodes import Source, Values
from ..operators import Array, chain
from .attention import Attention
from .layout import Layout
from .points import depth_behind
from .runs import Runs, visible_in_both

MASK = "mask"


@dataclass(frozen=True, eq=False)
class Masks:
    """The sources that come from keys visible in one run only, such as of two models with other windows."""

    runs: Runs
    layout: Layout

    def sources(self) -> Iterator[Source]:
        """One source for each head that sees other keys, in the order in which they act."""
        for layer in range(self.runs.config.n_layers):
            apart = self.one_alone(layer)
            for head in np.flatnonzero(apart.any(axis=(1, 2))):
                yield self.source(self.layout.attention_of(layer), int(head), apart[head])

    def one_alone(self, layer: int) -> Array:
        """Where a key is visible in one run only, (H, n, n)."""
        here, there = self.runs.both(lambda run: run.scores[layer])
        return np.asarray(~visible_in_both(here, there) & (np.isfinite(here) | np.isfinite(there)))

    def source(self, attention: Attention, head: int, apart: Array) -> Source:
        """What a head moves by weights that one run alone has."""
        layer, label = attention.layer, f"dmask_{head_label(attention.layer, head)}"
        here, there = self.runs.both(lambda run: run.patterns[layer, head])
        weighing, alone = attention.weighing(head), np.where(apart, here - there, 0.0)
        moved = alone @ weighing.values - alone.sum(axis=-1, keepdims=True) * weighing.middle_values
        start = Values(f"x_{label}", moved.shape[-1], moved)
        write = chain(attention.writes, feature(attention.w_o(head)))
        depth = depth_behind(self.runs.config, layer, "attn")
        return Source(label, MASK, start, write, depth=depth, layer=layer)

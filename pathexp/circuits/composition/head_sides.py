"""All heads of a model as readers and writers of the stream, stacked."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ...algebra import LinearMap
from ...budget import BUDGET
from ...graph.form import score_form
from ...graph.latents import refuse_keys
from ...graph.ports import Ports
from ...labels import head_label
from .sides import Array, Side


@dataclass(frozen=True, eq=False)
class HeadSides:
    """The maps of all heads: W_QKᵀ for Q-, W_QK for K-, W_OV for V-composition, and W_OV as what writes.

    Heads run by layer, then head. Query heads that share a key/value head share its weights, which are held once. Under rotary
    positions the form W_Qᵀ R W_K is that of a key `distance` positions before its query.
    """

    ports: Ports
    distance: int = 0

    @property
    def names(self) -> tuple[str, ...]:
        """Such as L0H0, L0H1, …"""
        c = self.ports.model.config
        return tuple(head_label(layer, head) for layer in range(c.n_layers) for head in range(c.n_heads))

    @property
    def kinds(self) -> tuple[str, ...]:
        """What heads read by, as maps of weights: queries, keys and values, or values alone in latent attention."""
        return ("Q", "K", "V") if self.ports.model.config.latent is None else ("V",)

    def reader(self, side: str) -> Side:
        """What heads read by their queries, keys or values: "Q", "K" or "V"."""
        labels = tuple(f"{name}.{side}" for name in self.names)
        if side == "V":
            written = self.outputs
            return Side(labels, self.values, lambda at: written[at].T)
        refuse_keys(self.ports.model.config, self.names[0])
        queries, keys, turn, c = self._read("Q"), self._read("K"), self._rotations(), self.ports.model.config
        if side == "Q":
            return Side(labels, queries, lambda at: _turned(turn, at // c.n_heads, keys[at // self.group]).T)
        back = None if turn is None else np.swapaxes(turn, -1, -2)
        return Side(labels, keys, lambda at: _turned(back, at // c.n_heads, queries[at]).T)

    def writer(self) -> Side:
        """What heads write, by all they read: W_OV."""
        read = self.values
        return Side(self.names, self.outputs, lambda at: read[at // self.group].T)

    @property
    def group(self) -> int:
        """How many query heads share a key/value head."""
        c = self.ports.model.config
        return c.n_heads // c.n_kv_heads

    @property
    def values(self) -> Array:
        """W_V of all key/value heads, norms folded if so asked, (key/value heads, d_value, d_model)."""
        return self._read("V")

    @property
    def outputs(self) -> Array:
        """W_Oᵀ of all heads, likewise, (heads, d_value, d_model)."""
        return self._stacked("O", self.names, lambda name: self.ports.writer(f"{name}.O"))

    def _rotations(self) -> Array | None:
        """What stands between queries and keys of the heads of each layer, (layers, d_head, d_head); None where nothing does."""
        c = self.ports.model.config
        turns = [score_form(c, layer, 0).rotation(self.distance) for layer in range(c.n_layers)]
        if all(turn is None for turn in turns):
            return None
        return np.array([np.eye(c.d_head) if turn is None else turn.numbers().dense() for turn in turns])

    def _read(self, side: str) -> Array:
        """W_Q, W_K or W_V of all heads that have their own, (heads, d_head or d_value, d_model)."""
        names = self.names if side == "Q" else self.names[:: self.group]
        return self._stacked(side, names, lambda name: self.ports.reader(f"{name}.{side}").T)

    def _stacked(self, side: str, names: tuple[str, ...], map_of: Callable[[str], LinearMap]) -> Array:
        """The transposes of maps from heads to the stream, made from their narrow side; kept within the budget.

        Their numbers lie in memory as those of the maps: rows of the stream that are taken together lie together.
        """

        def make() -> Array:
            c = self.ports.model.config
            made = np.empty((len(names), c.d_model, c.d_head if side in "QK" else c.d_value))
            for at, name in enumerate(names):
                made[at] = map_of(name).dense()
            made.setflags(write=False)
            return np.swapaxes(made, 1, 2)

        return BUDGET.get(self.ports.model, (HeadSides, side, self.ports.norms), make)


def _turned(turns: Array | None, layer: int, map: Array) -> Array:
    """A head's map, turned as its layer turns."""
    return map if turns is None else turns[layer] @ map

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

    Heads run by layer, then head. Query heads that share a key/value head share its weights. Under rotary
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
            return Side(labels, self._values, np.swapaxes(self._outputs, 1, 2))
        refuse_keys(self.ports.model.config, self.names[0])
        queries, keys = self._queries, self._keys
        turn = self._rotations()
        if side == "Q":
            return Side(labels, queries, np.swapaxes(keys if turn is None else turn @ keys, 1, 2))
        return Side(
            labels, keys, np.swapaxes(queries if turn is None else np.swapaxes(turn, -1, -2) @ queries, 1, 2)
        )

    def writer(self) -> Side:
        """What heads write, by all they read: W_OV."""
        return Side(self.names, self._outputs, np.swapaxes(self._values, 1, 2))

    @property
    def _queries(self) -> Array:
        return self._read("Q")

    @property
    def _keys(self) -> Array:
        return self._read("K")

    @property
    def _values(self) -> Array:
        return self._read("V")

    def _rotations(self) -> Array | None:
        """What stands between queries and keys of each head, (heads, d_head, d_head); None where nothing does."""
        c = self.ports.model.config
        turns = [score_form(c, layer, 0).rotation(self.distance) for layer in range(c.n_layers)]
        if all(turn is None for turn in turns):
            return None
        arrays = [np.eye(c.d_head) if turn is None else turn.numbers().dense() for turn in turns]
        return np.repeat(np.array(arrays), c.n_heads, axis=0)

    def _read(self, side: str) -> Array:
        """W_Q, W_K or W_V of all heads, norms folded if so asked, (heads, d_head or d_value, d_model)."""
        return self._stacked(side, lambda name: self.ports.reader(f"{name}.{side}").T)

    @property
    def _outputs(self) -> Array:
        """W_Oᵀ of all heads, likewise."""
        return self._stacked("O", lambda name: self.ports.writer(f"{name}.O"))

    def _stacked(self, side: str, map_of: Callable[[str], LinearMap]) -> Array:
        """The transposes of maps from heads to the stream, made from their narrow side; kept within the budget."""

        def make() -> Array:
            c = self.ports.model.config
            made = np.empty((len(self.names), c.d_head if side in "QK" else c.d_value, c.d_model))
            for at, name in enumerate(self.names):
                made[at] = map_of(name).dense().T
            made.setflags(write=False)
            return made

        return BUDGET.get(self.ports.model, (HeadSides, side, self.ports.norms), make)

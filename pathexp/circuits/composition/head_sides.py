"""All heads of a model as readers and writers of the stream, stacked."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ...algebra import LinearMap, compose
from ...graph.form import score_form
from ...labels import head_label
from ..ports import Ports
from ..token_space import reading, writing
from .gram import Array, Side


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

    def reader(self, side: str) -> Side:
        """What heads read by their queries, keys or values: "Q", "K" or "V"."""
        labels = tuple(f"{name}.{side}" for name in self.names)
        if side == "V":
            return Side(labels, self._values, self._outputs)
        queries, keys = self._queries, self._keys
        turn = self._rotation()
        if side == "Q":
            return Side(labels, queries, np.swapaxes(keys if turn is None else turn @ keys, 1, 2))
        return Side(labels, keys, np.swapaxes(queries if turn is None else turn.T @ queries, 1, 2))

    def writer(self) -> Side:
        """What heads write, by all they read: W_OV."""
        return Side(self.names, np.swapaxes(self._outputs, 1, 2), np.swapaxes(self._values, 1, 2))

    @cached_property
    def _queries(self) -> Array:
        return self._read("Q")

    @cached_property
    def _keys(self) -> Array:
        return self._read("K")

    @cached_property
    def _values(self) -> Array:
        return self._read("V")

    @cached_property
    def _outputs(self) -> Array:
        return self._flat(self._written())

    def _rotation(self) -> Array | None:
        turn = score_form(self.ports.model.config, 0).rotation(self.distance)
        return None if turn is None else turn.numbers().dense()

    def _read(self, side: str) -> Array:
        """W_Q, W_K or W_V of all query heads, norms folded if so asked: (heads, d_head, d_model)."""
        c, w = self.ports.model.config, self.ports.model.weights
        array: Array = getattr(w, f"W_{side}")
        gains = getattr(w, f"g_{side.lower()}", None)
        if gains is not None and self.ports.folded:
            array = array * (gains[:, None, :, None] if gains.ndim == 2 else gains[..., None])
        folds = [reading(self.ports.model, layer) if self.ports.folded else () for layer in range(c.n_layers)]
        array = _each_layer(array, [compose(*fold).T if fold else None for fold in folds])
        shared = c.n_heads // (array.shape[1] or 1)
        return self._flat(array if shared == 1 else np.repeat(array, shared, axis=1))

    def _written(self) -> Array:
        """W_O, (layers, heads, d_model, d_head)."""
        model = self.ports.model
        if not self.ports.folded:
            return model.weights.W_O
        folds = [writing(model, layer) for layer in range(model.config.n_layers)]
        turned = np.swapaxes(model.weights.W_O, 2, 3)
        return np.swapaxes(_each_layer(turned, [compose(*fold) if fold else None for fold in folds]), 2, 3)

    @staticmethod
    def _flat(array: Array) -> Array:
        return array.reshape(-1, *array.shape[2:])


def _each_layer(array: Array, folds: list[LinearMap | None]) -> Array:
    """Apply a map of each layer to the last axis of that layer's arrays."""
    if not any(fold is not None for fold in folds):
        return array
    return np.stack(
        [part if fold is None else fold.apply(part) for part, fold in zip(array, folds, strict=True)]
    )

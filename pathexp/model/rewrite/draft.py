"""A model while it is being rewritten: arrays are copied when first written to, never before."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import numpy as np

from ..model import Model
from ..positions import sinusoids
from ..weights import Array, Weights


class Draft:
    """Configuration and arrays that may be changed; the model they came from keeps its own."""

    def __init__(self, model: Model) -> None:
        self.config = model.config
        self._model = model
        self._arrays: dict[str, Array] = model.weights.arrays()
        """Those that nothing has asked for stay as they are stored."""
        self._own: set[str] = set()

    def __contains__(self, name: str) -> bool:
        return name in self._arrays

    def __getitem__(self, name: str) -> Array:
        """An array to read, in memory."""
        self._arrays[name] = np.asarray(self._arrays[name])
        return self._arrays[name]

    def stored(self, name: str) -> Array:
        """An array to read, as it is stored: a layer or some rows at a time."""
        return self._arrays[name]

    def edit(self, name: str) -> Array:
        """An array to write to: a copy, made once."""
        if name not in self._own:
            self.put(name, self._arrays[name])
        return self._arrays[name]

    def put(self, name: str, array: Array, *, fresh: bool = False) -> None:
        """Replace an array by a copy of another, or by a fresh one that nobody else has."""
        given = np.array(array, dtype=np.float64, order="C") if not fresh else array
        self._arrays[name] = np.ascontiguousarray(given, dtype=np.float64)
        self._own.add(name)

    def bias(self, name: str, weight: str) -> Array:
        """The bias that belongs to a map, to write to; zeros where there was none."""
        if name not in self._arrays:
            self.put(name, np.zeros(self._arrays[weight].shape[:-1]))
        return self.edit(name)

    def drop(self, name: str) -> None:
        """Leave an optional array out."""
        self._arrays.pop(name, None)
        self._own.discard(name)

    def switch(self, **changes: Any) -> None:
        """Change the configuration."""
        self.config = replace(self.config, **changes)

    def untie(self) -> None:
        """Give the unembedding memory of its own."""
        if self.config.tied:
            self.edit("W_U")
            self.switch(tied=False)

    def learn_positions(self) -> None:
        """Write sinusoidal positions out as a table, so that they can be changed like learned ones."""
        if self.config.positions == "sinusoidal":
            self.put("W_pos", sinusoids(self.config.n_ctx, self.config.d_model).T)
            self.switch(positions="learned")

    def model(self, history: tuple[str, ...]) -> Model:
        """The model as it now is; it owns the arrays from here on, and further edits copy them anew."""
        for name in self._own:
            self._arrays[name].setflags(write=False)
        self._own.clear()
        return replace(self._model, config=self.config, weights=self._weights(), history=history)

    def _weights(self) -> Weights:
        names = [field.name for field in fields(Weights)]
        return Weights(**{name: self._arrays[name] for name in names if name in self._arrays})

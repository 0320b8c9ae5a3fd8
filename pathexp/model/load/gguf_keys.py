"""The keys of one architecture of GGUF, and which of a file's other keys are known to be harmless."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np

from ...errors import LoadWarning
from .checkpoint import listed
from .keys import Keys

_HARMLESS = ("general.", "tokenizer.", "split.", "quantize.", "imatrix.", "mradermacher.", "provenance.")
"""Where a file says who it is and how it was made; the keys of its tokenizer are read elsewhere."""


class GgufKeys(Keys):
    """Keys of one architecture, without its name in front."""

    def even(self, key: str, default: int | None = None) -> int:
        """A whole number, told once or once a layer. Raises LoadError if layers differ."""
        found = self.get(key)
        if isinstance(found, list):
            n_layers = self.size("block_count")
            if len(found) != n_layers or len(set(map(repr, found))) != 1:
                raise self.error(
                    f"{key!r} must be one number, or the same for each of {n_layers} layers, found {found!r:.80}"
                )
            self.values = {**self.values, key: found[0]}
        return self.size(key, default)

    def number(self, key: str, default: float | None = None) -> float:
        """A real number as it was meant: the shortest decimal that its float32 stands for."""
        return shortest(super().number(key, default))

    def windows(self, width: int | None, period: int) -> tuple[int | None, ...] | None:
        """The window of each layer: of each ``period`` layers the last has none, if no pattern is told."""
        told = self.get("attention.sliding_window_pattern", period)
        if width is None:
            return None
        n_layers = self.size("block_count")
        if isinstance(told, list):
            slides = told
        else:
            each = self.size("attention.sliding_window_pattern", period)
            slides = [layer % each < each - 1 for layer in range(n_layers)]
        if len(slides) != n_layers or not all(isinstance(slide, bool) for slide in slides):
            raise self.error(
                f"'attention.sliding_window_pattern' must say true or false of {n_layers} layers, found {told!r:.80}"
            )
        return tuple(width if slide else None for slide in slides) if any(slides) else None


def shortest(value: float) -> float:
    """The shortest decimal number that a float32 stands for: 1e-05 for 9.999999747378752e-06.

    >>> shortest(9.999999747378752e-06)
    1e-05
    """
    if not math.isfinite(value) or abs(value) > float(np.finfo(np.float32).max):
        return value
    return float(str(np.float32(value)))


def own_keys(fields: Mapping[str, Any], architecture: str, where: str) -> GgufKeys:
    """The keys of the file's own architecture; a LoadWarning names what belongs to nothing here."""
    own = f"{architecture}."
    others = [key for key in fields if not key.startswith((own, *_HARMLESS))]
    if others:
        warnings.warn(
            f"{where}: {listed(sorted(others))} belong to nothing that is known here, and are not read.",
            LoadWarning,
            stacklevel=2,
        )
    return GgufKeys({key.removeprefix(own): v for key, v in fields.items() if key.startswith(own)}, where)

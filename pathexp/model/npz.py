"""Models to and from files of our own format."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt

from .archive import Parts, read_archive, write_archive
from .model import Model


def save_npz(model: Model, path: str | Path, dtype: npt.DTypeLike = np.float64) -> None:
    """Write a model to a file that ends in .npz, its arrays as float64, float32 or float16.

    float64 comes back exactly. Raises LoadError for another ending or precision, WeightsError if a number is
    too large for the precision.
    """
    write_archive(Parts(model.config, model.weights, model.tokenizer, model.name, model.history), path, dtype)


def load_npz(path: str | Path) -> Model:
    """Read a model that ``save_npz`` or ``Model.save`` wrote; arrays are float64 in hand.

    Raises LoadError, saying what and where, for a file that is missing, damaged, or of another format.
    """
    parts = read_archive(path)
    return Model(parts.config, parts.weights, parts.tokenizer, parts.name, parts.history)

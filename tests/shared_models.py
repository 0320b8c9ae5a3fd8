"""Real trained weights that stand beside the repository, for tests that skip where they are absent."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

from pathexp.model.config import Config
from pathexp.model.model import Model
from pathexp.model.weights import Weights

FOLDER = Path(__file__).resolve().parents[2] / "shared" / "models"


def shared_file(name: str) -> Path:
    """The path of a file of the shared folder; skips the test where there is none."""
    path = FOLDER / name
    if not path.is_file():
        pytest.skip(f"{name} is not beside the repository")
    return path


def induction_2l_1h() -> Model:
    """Two attention-only layers of one head, trained to predict what followed the last token before."""
    with np.load(shared_file("induction_2l_1h.npz"), allow_pickle=False) as arrays:
        return Model(_CONFIG, _transposed(dict(arrays)), name="induction_2l_1h")


_CONFIG = Config(n_layers=2, n_heads=1, d_model=64, d_head=64, d_vocab=26, n_ctx=8, positions="learned")


def _transposed(raw: Mapping[str, np.ndarray]) -> Weights:
    """TransformerLens keeps rows times matrix: every map is turned here."""

    def layers(name: str) -> np.ndarray:
        return np.stack([raw[f"blocks.{layer}.attn.{name}"] for layer in range(2)])

    turned = {name: np.swapaxes(layers(name), -1, -2) for name in ("W_Q", "W_K", "W_V", "W_O")}
    biases = {name: layers(name) for name in ("b_Q", "b_K", "b_V", "b_O")}
    return Weights(
        W_E=raw["embed.W_E"].T,
        W_pos=raw["pos_embed.W_pos"].T,
        W_U=raw["unembed.W_U"].T,
        b_U=raw["unembed.b_U"],
        **turned,
        **biases,
    )

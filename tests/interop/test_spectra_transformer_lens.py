"""Spectra, copying scores and attention scores are those that TransformerLens gives on the same weights."""

from __future__ import annotations

import os

import numpy as np
import pytest

os.environ["HF_HUB_OFFLINE"] = "1"
torch = pytest.importorskip("torch")
pytest.importorskip("transformer_lens")

import transformer_lens.model_bridge.sources.native  # noqa: E402, F401
from transformer_lens import FactoredMatrix, TransformerBridgeConfig  # noqa: E402
from transformer_lens.model_bridge.bridge import TransformerBridge  # noqa: E402

import pathexp as px  # noqa: E402
from pathexp.circuits.heads.copying import ov_spectrum, qk_spectrum  # noqa: E402
from pathexp.model import from_transformer_lens  # noqa: E402
from tests.interop.double import in_double, shake  # noqa: E402

pytestmark = pytest.mark.interop

SIZES = {"n_layers": 2, "d_model": 24, "d_head": 10, "n_heads": 4, "n_ctx": 40, "d_vocab": 29}


@pytest.fixture(scope="module")
def bridge():
    with in_double():
        config = TransformerBridgeConfig(**SIZES, attn_only=True, normalization_type=None)
        made = TransformerBridge.boot_native(config, dtype=torch.float64)
        shake(made, seed=5)
        yield made.eval()


def by_size(values: np.ndarray) -> np.ndarray:
    return np.sort(np.abs(values))[::-1]


def test_spectra_and_copying_scores(bridge) -> None:
    ours, w = from_transformer_lens(bridge), bridge.get_params()
    embed, unembed = w["embed.W_E"], w["unembed.W_U"]
    for layer in range(2):
        for index in range(4):
            head = px.head(ours, f"L{layer}H{index}")
            Q, K, V, O = (w[f"blocks.{layer}.attn.W_{name}"][index] for name in "QKVO")
            pairs = (
                (ov_spectrum(head), FactoredMatrix(embed @ V, O @ unembed)),
                (qk_spectrum(head), FactoredMatrix(embed @ Q, (embed @ K).T)),
            )
            for found, matrix in pairs:
                theirs = matrix.eigenvalues.numpy()
                np.testing.assert_allclose(by_size(found.eigenvalues), by_size(theirs), rtol=1e-5)
                score = theirs.sum().real / np.abs(theirs).sum()
                np.testing.assert_allclose(found.score, score, rtol=1e-5, atol=1e-9)


def test_scores_add_up_to_theirs(bridge) -> None:
    tokens = np.random.default_rng(0).integers(0, 29, 9)
    with in_double():
        _, cache = bridge.run_with_cache(torch.tensor(tokens)[None])
    trace = from_transformer_lens(bridge).run(tokens)
    for layer in range(2):
        q, k = (cache[f"blocks.{layer}.attn.hook_{name}"][0].numpy() for name in "qk")
        for index in range(4):
            theirs = q[8].reshape(4, 10)[index] @ k[3].reshape(4, 10)[index] / np.sqrt(10)
            found = px.score(trace, f"L{layer}H{index}", query=8, key=3)
            np.testing.assert_allclose(found.value(), theirs, rtol=1e-5)
            pattern = cache[f"blocks.{layer}.attn.hook_pattern"][0, index, 8].numpy()
            weights = np.exp(found.row())
            np.testing.assert_allclose(weights / weights.sum(), pattern, rtol=1e-5)

"""Native models of TransformerLens 4 give the same logits and patterns here, live or as a state dict."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import pytest

os.environ["HF_HUB_OFFLINE"] = "1"
torch = pytest.importorskip("torch")
pytest.importorskip("transformer_lens")

import transformer_lens.model_bridge.sources.native  # noqa: E402, F401
from transformer_lens import TransformerBridgeConfig  # noqa: E402
from transformer_lens.model_bridge.bridge import TransformerBridge  # noqa: E402

from pathexp.errors import LoadError  # noqa: E402
from pathexp.model import Model, from_transformer_lens  # noqa: E402
from tests.interop.double import in_double, shake  # noqa: E402

pytestmark = pytest.mark.interop

LENGTHS = (1, 2, 9, 33)
SIZES = {"n_layers": 3, "d_model": 24, "d_head": 10, "n_heads": 4, "n_ctx": 40, "d_vocab": 29, "d_mlp": 20}
ROTARY = {"positional_embedding_type": "rotary", "rotary_dim": 6, "rotary_base": 500}
CASES: dict[str, dict[str, Any]] = {
    "gelu": {"act_fn": "gelu", "normalization_type": "LN"},
    "gelu_new, own scale": {"act_fn": "gelu_new", "normalization_type": "LN", "attn_scale": 2.5},
    "attention only, no norm": {"attn_only": True, "normalization_type": None},
    "gains folded": {"act_fn": "relu", "normalization_type": "LNPre", "eps": 1e-3},
    "llama": {
        "act_fn": "silu", "gated_mlp": True, "normalization_type": "RMS", "final_rms": True,
        "n_key_value_heads": 2, **ROTARY,
    },
    "capped, both ways": {
        "act_fn": "silu", "normalization_type": "RMSPre", "attn_scores_soft_cap": 2.0,
        "output_logits_soft_cap": 3.0, "attention_dir": "bidirectional", **ROTARY,
    },
}  # fmt: skip


def made(case: str) -> Any:
    config = TransformerBridgeConfig(**SIZES, **CASES[case])
    bridge = TransformerBridge.boot_native(config, dtype=torch.float64)
    shake(bridge, seed=len(case))
    return bridge.eval()


def compare(bridge: Any, ours: Model) -> float:
    rng = np.random.default_rng(0)
    worst = 0.0
    for length in LENGTHS:
        tokens = rng.integers(0, 29, length)
        logits, cache = bridge.run_with_cache(torch.tensor(tokens)[None])
        trace = ours.run(tokens)
        for layer in range(3):
            pattern = cache[f"blocks.{layer}.attn.hook_pattern"][0].numpy()
            np.testing.assert_allclose(trace.patterns[layer], pattern, atol=1e-11)
        worst = max(worst, np.abs(trace.logits - logits[0].numpy()).max() / np.abs(logits.numpy()).max())
    return worst


@pytest.mark.parametrize("case", CASES)
def test_logits_and_patterns_are_those_of_transformer_lens(case: str) -> None:
    with in_double():
        bridge = made(case)
        assert compare(bridge, from_transformer_lens(bridge)) < 1e-9
        state = {name: tensor.numpy() for name, tensor in bridge.state_dict().items()}
        assert compare(bridge, from_transformer_lens(state, bridge.cfg)) < 1e-9


def test_parameters_by_head_give_the_same_model() -> None:
    """get_params names arrays as HookedTransformer did, and repeats grouped keys and values."""
    with in_double():
        bridge = made("gelu")
        ours = from_transformer_lens(bridge.get_params(), bridge.cfg)
        assert compare(bridge, ours) < 1e-9


def test_what_the_native_model_does_not_do_is_refused() -> None:
    config = TransformerBridgeConfig(**SIZES, act_fn="relu", parallel_attn_mlp=True)
    bridge = TransformerBridge.boot_native(config)
    with pytest.raises(LoadError, match="'parallel_attn_mlp' is True"):
        from_transformer_lens(bridge)

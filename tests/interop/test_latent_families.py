"""Latent attention gives what transformers computes: DeepSeek-V2 and V3, with and without a latent of queries; in double precision."""

from __future__ import annotations

import json
import os
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

os.environ["HF_HUB_OFFLINE"] = "1"
torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

import pathexp as px  # noqa: E402
from pathexp.errors import LoadError  # noqa: E402
from pathexp.model import load  # noqa: E402
from tests.interop.double import in_double, shake  # noqa: E402
from tests.interop.test_expert_families import edited, strictly  # noqa: E402
from tests.interop.test_families import YARN, compare  # noqa: E402

pytestmark = pytest.mark.interop

SIZES = {
    "vocab_size": 29, "hidden_size": 24, "intermediate_size": 20, "num_hidden_layers": 3, "num_attention_heads": 3,
    "num_key_value_heads": 3, "max_position_embeddings": 40, "rms_norm_eps": 1e-3, "q_lora_rank": 11, "kv_lora_rank": 7,
    "qk_nope_head_dim": 5, "qk_rope_head_dim": 4, "v_head_dim": 6, "moe_intermediate_size": 8, "n_routed_experts": 6,
    "n_shared_experts": 2, "num_experts_per_tok": 2, "first_k_dense_replace": 1, "attention_bias": True,
    "rope_parameters": {"rope_type": "default", "rope_theta": 500.0},
}  # fmt: skip
"""Ranks and widths that are all different, none of them a share of another."""
V3 = {**SIZES, "n_group": 3, "topk_group": 2, "routed_scaling_factor": 1.7}
SCALED = {**YARN, "mscale": 0.7, "mscale_all_dim": 1.3}
WIDE = {
    "kv_lora_rank": 24,
    "q_lora_rank": 24,
    "qk_nope_head_dim": 2,
    "v_head_dim": 6,
    "num_attention_heads": 4,
    "num_key_value_heads": 4,
}
"""Ranks as large as the stream, heads as wide as values: nothing is told by its shape."""

CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "deepseek_v2": ("DeepseekV2", {**SIZES, "mlp_bias": True, "routed_scaling_factor": 1.3}),
    "deepseek_v2 groups, queries from the stream": (
        "DeepseekV2",
        {**SIZES, "q_lora_rank": None, "topk_method": "group_limited_greedy", "n_group": 3, "topk_group": 1, "attention_bias": False},
    ),
    "deepseek_v2 yarn, experts in every layer": (
        "DeepseekV2", {**SIZES, "rope_parameters": SCALED, "first_k_dense_replace": 0, "v_head_dim": 13},
    ),
    "deepseek_v2 wide": ("DeepseekV2", {**SIZES, **WIDE}),
    "deepseek_v3": ("DeepseekV3", V3),
    "deepseek_v3 queries from the stream, pairs half apart": (
        "DeepseekV3", {**V3, "q_lora_rank": None, "rope_interleave": False, "norm_topk_prob": False},
    ),
    "deepseek_v3 yarn": ("DeepseekV3", {**V3, "rope_parameters": SCALED, "first_k_dense_replace": 2, "attention_bias": False}),
    "deepseek_v3 all dense, wide": ("DeepseekV3", {**V3, **WIDE, "first_k_dense_replace": 3}),
}  # fmt: skip


def made(case: str, folder: Path) -> Any:
    """A seeded model of transformers, saved to a folder."""
    family, sizes = CASES[case]
    config = getattr(transformers, f"{family}Config")(**sizes)
    config._attn_implementation = config._experts_implementation = "eager"
    model = getattr(transformers, f"{family}ForCausalLM")(config).double().eval()
    shake(model, seed=len(case))
    for layer in model.model.layers:
        if hasattr(gate := getattr(layer.mlp, "gate", None), "e_score_correction_bias"):
            gate.e_score_correction_bias.data = torch.linspace(-0.5, 0.4, 6, dtype=torch.float64)
    model.save_pretrained(folder)
    return model


@pytest.mark.parametrize("case", CASES)
def test_logits_patterns_and_paths_are_those_of_transformers(case: str, tmp_path: Path) -> None:
    with in_double():
        model = made(case, tmp_path)
        ours = strictly(tmp_path)
        assert compare(model, ours) < 1e-9
    assert ours.config.latent is not None
    trace = ours.run(np.random.default_rng(1).integers(0, 29, 9))
    for mode in ("gate", "source"):
        assert px.expand(px.freeze(trace, mlp=mode)).verify().ok


def test_layers_that_predict_a_second_token_are_left_out(tmp_path: Path) -> None:
    """Published V3 stores them behind its last layer; transformers does not read them either."""
    from safetensors.torch import load_file, save_file

    made("deepseek_v3", tmp_path)
    ours = strictly(tmp_path).run([1, 2, 3]).logits
    path = tmp_path / "model.safetensors"
    more = {
        "model.layers.3.eh_proj.weight": torch.ones(24, 48),
        "model.layers.3.enorm.weight": torch.ones(24),
    }
    save_file({**load_file(path), **more}, path)
    edited(tmp_path, num_nextn_predict_layers=1)
    np.testing.assert_array_equal(strictly(tmp_path).run([1, 2, 3]).logits, ours)
    edited(tmp_path, num_nextn_predict_layers=0)
    with pytest.raises(LoadError, match=r"2 tensor.* have no place"):
        load(tmp_path)


def test_a_live_model_is_the_saved_one(tmp_path: Path) -> None:
    model = made("deepseek_v2", tmp_path)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        live = load(model)
    np.testing.assert_array_equal(live.run([1, 2, 3]).logits, strictly(tmp_path).run([1, 2, 3]).logits)
    assert json.loads((tmp_path / "config.json").read_text())["model_type"] == "deepseek_v2"

"""Families of mixtures of experts give what transformers computes: logits, attention, routers; in double precision."""

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
from tests.interop.test_families import OWN_HEAD, SIZES, WINDOW, YARN, compare  # noqa: E402

pytestmark = pytest.mark.interop

FIVE = {"num_experts": 5, "num_experts_per_tok": 2, "moe_intermediate_size": 7}
QWEN2 = {**SIZES, **FIVE, "shared_expert_intermediate_size": 9, "rope_theta": 500.0}

CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "mixtral": ("Mixtral", {**OWN_HEAD, "num_local_experts": 5, "num_experts_per_tok": 2, "rope_theta": 500.0}),
    "mixtral sliding, one expert a token": (
        "Mixtral",
        {**OWN_HEAD, "num_local_experts": 3, "num_experts_per_tok": 1, "sliding_window": WINDOW},
    ),
    "qwen2_moe": ("Qwen2Moe", QWEN2),
    "qwen2_moe sparse every other layer, normalized, sliding": (
        "Qwen2Moe",
        {
            **QWEN2, "decoder_sparse_step": 2, "norm_topk_prob": True, "use_sliding_window": True,
            "sliding_window": WINDOW, "max_window_layers": 2, "qkv_bias": False,
        },
    ),
    "qwen2_moe layers told": ("Qwen2Moe", {**QWEN2, "mlp_only_layers": [0, 2]}),
    "qwen3_moe": ("Qwen3Moe", {**OWN_HEAD, **FIVE, "norm_topk_prob": True, "attention_bias": True}),
    "qwen3_moe some dense, sliding": (
        "Qwen3Moe",
        {**OWN_HEAD, **FIVE, "mlp_only_layers": [1], "use_sliding_window": True, "sliding_window": WINDOW},
    ),
    "qwen3_moe all dense": ("Qwen3Moe", {**OWN_HEAD, **FIVE, "mlp_only_layers": [0, 1, 2]}),
    "olmoe": (
        "Olmoe",
        {**SIZES, "num_experts": 5, "num_experts_per_tok": 3, "rope_theta": 500.0, "eos_token_id": 1, "attention_bias": True},
    ),
    "olmoe normalized": (
        "Olmoe",
        {**SIZES, "num_experts": 4, "num_experts_per_tok": 2, "norm_topk_prob": True, "eos_token_id": 1, "rope_theta": 500.0},
    ),
    "gpt_oss": (
        "GptOss",
        {**OWN_HEAD, "num_local_experts": 5, "num_experts_per_tok": 2, "sliding_window": WINDOW, "rope_parameters": YARN},
    ),
    "gpt_oss clipped, layers told": (
        "GptOss",
        {
            **OWN_HEAD, "num_local_experts": 4, "num_experts_per_tok": 3, "sliding_window": WINDOW, "swiglu_limit": 0.7,
            "layer_types": ["full_attention", "sliding_attention", "sliding_attention"], "attention_bias": False,
            "rope_parameters": {"rope_type": "default", "rope_theta": 500.0},
        },
    ),
}  # fmt: skip


def made(case: str, folder: Path, cases: dict[str, tuple[str, dict[str, Any]]] = CASES) -> Any:
    """A seeded model of transformers, saved to a folder."""
    family, sizes = cases[case]
    config = getattr(transformers, f"{family}Config")(**sizes)
    config._attn_implementation = config._experts_implementation = "eager"
    model = getattr(transformers, f"{family}ForCausalLM")(config).double().eval()
    shake(model, seed=len(case))
    model.save_pretrained(folder)
    return model


def strictly(folder: Path) -> px.Model:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return load(folder)


@pytest.mark.parametrize("case", CASES)
def test_logits_patterns_and_routers_are_those_of_transformers(case: str, tmp_path: Path) -> None:
    with in_double():
        model = made(case, tmp_path)
        ours = strictly(tmp_path)
        assert compare(model, ours) < 1e-9
        tokens = np.random.default_rng(1).integers(0, 29, 33)
        trace = ours.run(tokens)
        if ours.config.experts is not None:
            routers = model(torch.tensor(tokens)[None], output_router_logits=True).router_logits
            assert len(routers) == len(ours.config.experts.layers)
            for layer, scores in zip(ours.config.experts.layers, routers, strict=True):
                np.testing.assert_allclose(trace.router_scores[layer], scores.numpy(), atol=1e-10)
    for mode in ("gate", "source"):
        assert px.expand(px.freeze(trace, mlp=mode)).verify().ok


def test_experts_are_raised_one_at_a_time_and_only_those_that_are_chosen(tmp_path: Path) -> None:
    with in_double():
        made("mixtral", tmp_path)
    ours = strictly(tmp_path)
    stored = ours.weights.W_in_experts
    raised, read = [], stored._read
    stored._read = lambda *place: raised.append(place) or read(*place)
    trace = ours.run([3])
    assert sorted(raised) == [
        (layer, e) for layer in range(3) for e in np.flatnonzero(trace.router_weights[layer, 0])
    ]


def edited(folder: Path, **changes: Any) -> None:
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"num_experts_per_tok": 9}, "found chosen=9"),
        ({"num_experts": 4}, r"different numbers of experts|problem\(s\) with its tensors"),
        ({"mlp_only_layers": "all"}, "'mlp_only_layers' must be a list of layers, found 'all'"),
        ({"decoder_sparse_step": 0}, "'decoder_sparse_step' must be a whole number of at least 1, found 0"),
        ({"norm_topk_prob": 1}, "'norm_topk_prob' must be true or false, found 1"),
        ({"moe_intermediate_size": None}, "'moe_intermediate_size' must be a whole number"),
        ({"model_type": "qwen3"}, "mixtures of experts are not known in a model_type 'qwen3'"),
        ({"quantization_config": {"quant_method": "mxfp4"}}, "mxfp4.*the weights are quantized"),
    ],
)
def test_keys_that_do_not_fit_are_refused_by_name(changes: dict[str, Any], text: str, tmp_path: Path) -> None:
    made("qwen3_moe", tmp_path)
    edited(tmp_path, **changes)
    with pytest.raises(LoadError, match=text):
        load(tmp_path)


def test_a_tensor_of_an_expert_that_is_missing_is_named(tmp_path: Path) -> None:
    made("mixtral", tmp_path)
    edited(tmp_path, num_local_experts=6)
    with pytest.raises(
        LoadError, match=r"block_sparse_moe.gate.weight' has shape \[5, 24\], expected \[6, 24\]"
    ):
        load(tmp_path)

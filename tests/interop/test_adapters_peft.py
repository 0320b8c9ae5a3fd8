"""Adapters as peft saves them, applied to tensors as they are read: the logits of peft's own model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
peft = pytest.importorskip("peft")

import pathexp as px  # noqa: E402
from pathexp.errors import LoadError  # noqa: E402
from tests.interop.double import in_double  # noqa: E402
from tests.interop.test_families import compare, made  # noqa: E402
from tests.interop.test_latent_families import made as latents_made  # noqa: E402

pytestmark = pytest.mark.interop

CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "attention of llama": ("llama", {"target_modules": ["q_proj", "k_proj", "v_proj", "o_proj"]}),
    "all of llama, rank-stabilized": ("llama", {"target_modules": "all-linear", "use_rslora": True}),
    "ranks of their own": (
        "llama",
        {
            "target_modules": ["q_proj", "v_proj", "down_proj"], "rank_pattern": {"v_proj": 2, "model.layers.1.mlp.down_proj": 4},
            "alpha_pattern": {"^model.layers.0.self_attn.q_proj": 7},
        },
    ),
    "some layers": ("qwen2", {"target_modules": ["q_proj", "up_proj"], "layers_to_transform": [1]}),
    "biases": ("qwen2", {"target_modules": ["q_proj", "k_proj"], "bias": "lora_only"}),
    "gpt2, stored the other way round": ("gpt2", {"target_modules": ["c_attn", "c_proj", "c_fc"], "fan_in_fan_out": True}),
    "fused": ("phi3", {"target_modules": ["qkv_proj", "gate_up_proj"]}),
    "gpt_neox, fused head by head": ("gpt_neox parallel", {"target_modules": ["query_key_value", "dense"]}),
    "tables": ("llama", {"target_modules": ["embed_tokens", "lm_head"]}),
    "modules saved": ("llama", {"target_modules": ["q_proj"], "modules_to_save": ["lm_head", "norm"]}),
    "bert": ("bert", {"target_modules": ["query", "value", "dense"]}),
    "latents": (
        "deepseek_v3 all dense, wide",
        {"target_modules": ["q_a_proj", "q_b_proj", "kv_a_proj_with_mqa", "kv_b_proj", "o_proj"]},
    ),
    "latents, queries from the stream": (
        "deepseek_v2 groups, queries from the stream", {"target_modules": ["q_proj", "kv_a_proj_with_mqa", "kv_b_proj", "o_proj"]},
    ),
}  # fmt: skip


def adapter_of(model: Any, folder: Path, seed: int = 0, **own: Any) -> Any:
    """The model with an adapter in which nothing is zero, saved to a folder."""
    found = peft.get_peft_model(model, peft.LoraConfig(**{"r": 3, "lora_alpha": 5, **own}))
    shaken(found, seed)
    found.save_pretrained(folder)
    return found.eval()


def shaken(model: Any, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    for name, parameter in model.named_parameters():
        if parameter.requires_grad:
            noise = torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
            parameter.data = parameter.data.double() + 0.3 * noise if "lora_" not in name else 0.3 * noise


@pytest.mark.parametrize("case", CASES)
def test_an_adapter_beside_its_base_gives_what_peft_computes(case: str, tmp_path: Path) -> None:
    family, own = CASES[case]
    with in_double():
        maker = latents_made if family.startswith("deepseek") else made
        adapted = adapter_of(maker(family, tmp_path / "base"), tmp_path / "adapter", **own)
        ours = px.load(tmp_path / "base", adapter=tmp_path / "adapter")
        assert compare(adapted, ours) < 1e-9
    assert ours.history[0].startswith("adapter adapter: rank 3, alpha 5, ")
    tokens = [3, 1, 4, 1, 5]
    plain = px.load(tmp_path / "base").run(tokens)
    assert np.abs(ours.run(tokens).logits - plain.logits).max() > 1e-3
    contrast = px.contrast(ours.run(tokens), plain)
    assert px.expand(contrast).verify().ok
    if case not in (
        "biases",
        "tables",
        "modules saved",
        "bert",
    ):  # what these change is no part of a component
        apart = px.expand(px.freeze(ours.run(tokens), base=px.load(tmp_path / "base")))
        assert apart.verify().ok and apart.where("S .* added .* U").count() > 0
    ours.save(tmp_path / "merged.npz")
    np.testing.assert_array_equal(
        px.load(tmp_path / "merged.npz").run(tokens).logits, ours.run(tokens).logits
    )


def test_several_adapters_add_up(tmp_path: Path) -> None:
    with in_double():
        adapted = adapter_of(
            made("llama", tmp_path / "base"), tmp_path / "a", target_modules=["q_proj", "v_proj"]
        )
        adapted.add_adapter("b", peft.LoraConfig(r=2, lora_alpha=3, target_modules=["v_proj", "o_proj"]))
        adapted.set_adapter("b")
        shaken(adapted, 7)
        adapted.save_pretrained(tmp_path / "both")
        adapted.base_model.set_adapter(["default", "b"])
        folders = [tmp_path / "both", tmp_path / "both" / "b"]
        ours = px.load(tmp_path / "base", adapter=folders)
        assert compare(adapted, ours) < 1e-9
        assert len(ours.history) == 2
        with pytest.raises(LoadError, match="not merged"):
            px.load(adapted)
        assert compare(adapted, px.load(adapted.merge_and_unload())) < 1e-9


def test_what_changes_more_than_a_product_is_refused(tmp_path: Path) -> None:
    with in_double():
        adapter_of(
            made("llama", tmp_path / "base"), tmp_path / "dora", target_modules=["q_proj"], use_dora=True
        )
        with pytest.raises(LoadError, match="'use_dora' is True: magnitudes"):
            px.load(tmp_path / "base", adapter=tmp_path / "dora")
        adapter_of(
            made("llama biased tied", tmp_path / "tied"), tmp_path / "e", target_modules=["embed_tokens"]
        )
        with pytest.raises(LoadError, match="both tables of tokens of a tied model"):
            px.load(tmp_path / "tied", adapter=tmp_path / "e")

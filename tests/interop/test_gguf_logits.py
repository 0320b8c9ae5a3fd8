"""GGUF files of every architecture give the logits that llama.cpp computes from them."""

from __future__ import annotations

import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("gguf")
pytest.importorskip("cyllama")

import pathexp as px
from pathexp.model import Model
from pathexp.model.load.gguf_kinds import KINDS
from tests.interop import llama_cpp
from tests.model.load import gguf_writing as writing
from tests.model.load.gguf_writing import CASES

pytestmark = pytest.mark.interop

IDS = [3, 1, 4, 1, 5, 9, 2, 6, 5]
BARE = {"model": "no_vocab"}


def as_llama_cpp_has_it(model: Model, architecture: str) -> Model:
    """What llama.cpp computes otherwise than the family: the tanh form of every GELU, no windows in llama and phi3."""
    config = model.config
    if config.activation == "gelu":
        config = replace(config, activation="gelu_tanh")
    if architecture in ("llama", "phi3"):
        config = replace(config, windows=None)
    return Model(config, model.weights)


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case.architecture != "bert"])
def test_the_logits_are_those_of_llama_cpp(tmp_path: Path, name: str) -> None:
    case = CASES[name]
    tensors = writing.tensors_of(case, writing.arrays_of(case.config))
    if "sliding_window" in str(case.fields) and case.architecture == "gemma2":
        case = replace(
            case, fields={**case.fields, "attention.sliding_window": 16}
        )  # its cache pads small ones
    compared(
        writing.write(tmp_path / "x.gguf", case.architecture, case.fields, tensors, BARE), case.architecture
    )


SIZES = {
    "block_count": 3, "context_length": 40, "embedding_length": 24, "feed_forward_length": 20, "vocab_size": 13,
    "attention.head_count": 4, "attention.head_count_kv": 2, "attention.layer_norm_epsilon": 1e-5,
}  # fmt: skip
ROTARY = {**SIZES, "rope.freq_base": 500.0, "rope.dimension_count": 6}
QKV, MLP = ("attn_qkv.weight",), ("ffn_up.weight", "ffn_down.weight", "attn_output.weight")
SINGLE = ("attn_q.weight", "attn_k.weight", "attn_v.weight")
NORM = ("attn_norm.weight", "attn_norm.bias")
TWO = (*NORM, "ffn_norm.weight", "ffn_norm.bias")
MADE: dict[str, tuple[str, dict[str, Any], tuple[str, ...]]] = {
    "starcoder2": ("starcoder2", ROTARY, (*SINGLE, *(n.replace("weight", "bias") for n in (*SINGLE, *MLP)), *MLP, *TWO)),
    "command-r": ("command-r", {**ROTARY, "logit_scale": 0.3}, (*SINGLE, *MLP, "ffn_gate.weight", "attn_norm.weight")),
    "falcon": ("falcon", {**ROTARY, "attention.head_count_kv": 1, "tensor_data_layout": "jploski"}, (*QKV, *MLP, *NORM)),
    "falcon of two norms": ("falcon", ROTARY, (*QKV, *MLP, *NORM, "attn_norm_2.weight", "attn_norm_2.bias")),
    "starcoder": (
        "starcoder",
        {**SIZES, "attention.head_count_kv": 1},
        (*QKV, "attn_qkv.bias", *MLP, *(n.replace("weight", "bias") for n in MLP), *TWO),
    ),
}  # fmt: skip


def made(architecture: str, fields: dict[str, Any], names: tuple[str, ...]) -> dict[str, np.ndarray]:
    """Random tensors of these names in each layer, and those around the layers, of the shapes of SIZES."""
    rng, qkv = np.random.default_rng(2), (4 + 2 * fields["attention.head_count_kv"]) * 6
    rows = {"attn_q": 24, "attn_k": 12, "attn_v": 12, "attn_qkv": qkv, "ffn_up": 20, "ffn_gate": 20}
    found = {"token_embd.weight": rng.standard_normal((13, 24)), "output_norm.weight": 1 + rng.random(24)}
    if "attn_norm.bias" in names:
        found["output_norm.bias"] = rng.standard_normal(24)
    if architecture == "starcoder":
        found["position_embd.weight"] = rng.standard_normal((40, 24))
    for layer in range(3):
        for name in names:
            out = rows.get(name.split(".")[0], 24)
            flat = name.endswith("bias") or "norm" in name
            shape = (out,) if flat else (out, 20 if name == "ffn_down.weight" else 24)
            found[f"blk.{layer}.{name}"] = rng.standard_normal(shape) / (1 if flat else 5)
    return found


@pytest.mark.parametrize("name", MADE)
def test_the_logits_of_made_files_are_those_of_llama_cpp(tmp_path: Path, name: str) -> None:
    architecture, fields, names = MADE[name]
    tensors = made(architecture, fields, names)
    compared(writing.write(tmp_path / "x.gguf", architecture, fields, tensors, BARE), architecture)


def test_every_architecture_with_logits_is_compared() -> None:
    assert set(KINDS) == {case.architecture for case in CASES.values()} | {
        kind for kind, _, _ in MADE.values()
    }


def compared(file: Path, architecture: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = as_llama_cpp_has_it(px.load(file), architecture)
    ours = model.run(IDS).logits
    rounding = 2e-5 if model.config.activation == "silu" else 4e-3  # a GELU is looked up in half precision
    theirs = llama_cpp.logits(file, IDS, ours.shape[-1])
    np.testing.assert_allclose(theirs, ours, rtol=0, atol=rounding * np.abs(ours).max())

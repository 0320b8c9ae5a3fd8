"""GGUF files of every architecture give the logits that llama.cpp computes from them."""

from __future__ import annotations

import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("gguf")
pytest.importorskip("cyllama")

import gguf

import pathexp as px
from pathexp.model import Model
from pathexp.model.rotary import Yarn
from tests.interop import llama_cpp
from tests.model.load import gguf_writing as writing
from tests.model.load.gguf_writing import CASES

pytestmark = pytest.mark.interop

IDS = [3, 1, 4, 1, 5, 9, 2, 6, 5]
BARE = {"model": "no_vocab"}


def as_llama_cpp_has_it(model: Model, architecture: str) -> Model:
    """What llama.cpp computes otherwise than the family: GELUs by tanh, whole ends of YaRN's passage, no windows in llama and phi3.

    And groups of experts by their best two, also where a softmax weighs them.
    """
    config = model.config
    if config.rotary is not None and isinstance(config.rotary.scaling, Yarn):
        scaling = replace(config.rotary.scaling, truncate=True)
        config = replace(config, rotary=replace(config.rotary, scaling=scaling))
    if config.activation == "gelu":
        config = replace(config, activation="gelu_tanh")
    if config.experts is not None and config.experts.groups > 1:
        config = replace(config, experts=replace(config.experts, by_two=True))
    if architecture in ("llama", "phi3"):
        config = replace(config, windows=None)
    return Model(config, model.weights)


LEFT_OUT = {
    "bert",
    "cohere, normed heads",
}  # no logits there; llama.cpp reads these norms in models of 64 layers alone


@pytest.mark.parametrize("name", sorted(set(CASES) - LEFT_OUT))
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


def test_the_features_of_bert_are_those_of_llama_cpp(tmp_path: Path) -> None:
    case = CASES["bert"]
    tensors = writing.tensors_of(case, writing.arrays_of(case.config))
    fields = {**case.fields, "pooling_type": 0}
    file = writing.write(tmp_path / "x.gguf", "bert", fields, tensors, {**BARE, "token_type_count": 2})
    ours = as_llama_cpp_has_it(px.load(file, no_unembedding=True), "bert").run(IDS).logits
    np.testing.assert_allclose(llama_cpp.features(file, IDS), ours, rtol=0, atol=4e-3 * np.abs(ours).max())


def test_experts_in_mxfp4_give_the_logits_of_llama_cpp(tmp_path: Path) -> None:
    """As gpt-oss is published. llama.cpp rounds what packed maps read to 8 bits, half a step of 127 to the largest of 32, in three layers."""
    case = CASES["gpt_oss"]
    wide = {"hidden_size": 64, "intermediate_size": 32}
    fields = {"embedding_length": 64, "feed_forward_length": 32, "expert_feed_forward_length": 32}
    case = replace(case, config={**case.config, **wide}, fields={**case.fields, **fields})
    tensors = writing.tensors_of(case, writing.arrays_of(case.config))
    form = gguf.GGMLQuantizationType.MXFP4
    packed = {
        name: np.stack(
            [gguf.quants.quantize((0.3 * one).astype(np.float32), form) for one in tensors.pop(name)]
        )
        for name in list(tensors)
        if name.endswith("_exps.weight")
    }
    assert len(packed) == 9
    file = writing.write(tmp_path / "x.gguf", "gpt-oss", case.fields, tensors, BARE, packed, form)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = as_llama_cpp_has_it(px.load(file), "gpt-oss")
    unpacked = gguf.quants.dequantize(packed["blk.1.ffn_up_exps.weight"], form)
    np.testing.assert_array_equal(np.asarray(model.weights.W_in_experts[1]), unpacked)
    ours, theirs = model.run(IDS).logits, llama_cpp.logits(file, IDS, 13)
    np.testing.assert_allclose(theirs, ours, rtol=0, atol=3 / 254 * np.abs(ours).max())


def compared(file: Path, architecture: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = as_llama_cpp_has_it(px.load(file), architecture)
    ours = model.run(IDS).logits
    rounding = 2e-5 if model.config.activation == "silu" else 4e-3  # a GELU is looked up in half precision
    rounding *= max(1.0, model.config.n_layers / 3)  # what three layers of most cases round
    theirs = llama_cpp.logits(file, IDS, ours.shape[-1])
    np.testing.assert_allclose(theirs, ours, rtol=0, atol=rounding * np.abs(ours).max())

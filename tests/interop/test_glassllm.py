"""The two trained models of glassllm, against that package's own forward pass."""

from __future__ import annotations

from functools import cache
from importlib.resources import as_file, files
from typing import Any

import numpy as np
import pytest

import pathexp as px
from pathexp.model import Rotary

pytestmark = pytest.mark.interop

glassllm = pytest.importorskip("glassllm")
from glassllm.model import GlassLM  # noqa: E402

LENGTHS = (1, 2, 9, 33)


@cache
def both(language: str) -> tuple[Any, px.Model]:
    """A model as the package has it, in double precision, and as we have it."""
    with as_file(files("glassllm").joinpath("weights", f"{language}.npz")) as path:
        theirs = GlassLM.load(path, dtype=np.float64)
    return theirs, converted(theirs, language)


def converted(theirs: Any, language: str) -> px.Model:
    """Rows times matrix, heads side by side, there: everything is turned here."""
    c = theirs.cfg
    raw = {name: parameter.data for name, parameter in theirs.named_parameters().items()}
    d_head = c.d_model // c.n_heads

    def layers(name: str) -> np.ndarray:
        return np.stack([raw[f"blocks.{layer}.{name}"].T for layer in range(c.n_layers)])

    def heads(name: str, count: int) -> np.ndarray:
        return layers(name).reshape(c.n_layers, count, d_head, c.d_model)

    config = px.Config(
        n_layers=c.n_layers, n_heads=c.n_heads, n_kv_heads=c.n_kv_heads, d_model=c.d_model, d_head=d_head,
        d_vocab=c.vocab_size, n_ctx=c.max_len, d_mlp=raw["blocks.0.ffn.W1"].shape[1], gated=True,
        activation="silu", positions="rotary", rotary=Rotary(base=c.rope_base, pairing="adjacent"),
        norm="rmsnorm", norm_eps=c.eps, tied=True,
    )  # fmt: skip
    weights = px.Weights(
        W_E=raw["E"].T, W_U=raw["E"], W_Q=heads("attn.W_Q", c.n_heads), W_K=heads("attn.W_K", c.n_kv_heads),
        W_V=heads("attn.W_V", c.n_kv_heads),
        W_O=layers("attn.W_O").reshape(c.n_layers, c.d_model, c.n_heads, d_head).transpose(0, 2, 1, 3),
        W_gate=layers("ffn.W1"), W_in=layers("ffn.W3"), W_out=layers("ffn.W2"), g_attn=layers("norm1.gamma"),
        g_mlp=layers("norm2.gamma"), g_final=raw["norm_f.gamma"],
    )  # fmt: skip
    return px.Model(config, weights, name=f"glassllm-{language}")


@pytest.mark.parametrize("language", ["en", "pt"])
@pytest.mark.parametrize("length", LENGTHS)
def test_logits_are_those_of_the_package(language: str, length: int) -> None:
    theirs, ours = both(language)
    tokens = np.random.default_rng(length).integers(4, ours.config.d_vocab, length)
    expected = theirs.forward(tokens).data[0]
    found = ours.run(tokens).logits
    assert np.abs(found - expected).max() < 1e-6


@pytest.mark.parametrize("language", ["en", "pt"])
@pytest.mark.parametrize("mlp", ["gate", "source"])
def test_its_paths_add_up(language: str, mlp: str) -> None:
    _, ours = both(language)
    tokens = np.random.default_rng(7).integers(4, ours.config.d_vocab, 9)
    assert px.expand(px.freeze(ours.run(tokens), mlp=mlp)).verify().ok

"""Random models over every switch at once, for hypothesis."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from pathexp.model.config import CHOICES
from pathexp.model.handmade import random_model
from pathexp.model.model import Model
from pathexp.model.rotary import Dynamic, Linear, Llama3, Rotary, Yarn
from pathexp.model.routing import Experts

SCALINGS = (
    None,
    Linear(factor=2.5),
    Llama3(factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0, original_n_ctx=30),
    Yarn(factor=4.0, original_n_ctx=20),
    Dynamic(factor=2.0, original_n_ctx=4),
    Yarn(factor=3.0, original_n_ctx=50, beta_fast=8.0, attention_factor=0.8, truncate=False),
)


@st.composite
def models(draw: st.DrawFn, attention_only: bool = False) -> Model:
    """A random model; ``attention_only`` leaves out what is not linear once patterns and norms are frozen."""
    switches = draw(_sizes()) | draw(_attention_only())
    if not attention_only:
        switches |= draw(_mlps(switches["layers"])) | draw(_norms(switches["norm"]))
        switches |= draw(_scores(switches)) | draw(_multipliers())
        if switches["parallel"]:
            switches["norm_placement"] = "pre"
    return random_model(**switches, seed=draw(st.integers(0, 10**6)))


@st.composite
def _sizes(draw: st.DrawFn) -> dict[str, Any]:
    kv_heads = draw(st.integers(1, 3))
    return {
        "layers": draw(st.integers(0, 3)),
        "heads": kv_heads * draw(st.integers(1, 2)),
        "kv_heads": kv_heads,
        "d_model": draw(st.integers(2, 9)),
        "d_head": draw(st.integers(2, 5)),
        "d_vocab": draw(st.integers(2, 12)),
        "n_ctx": 40,
        "biases": draw(st.booleans()),
    }


@st.composite
def _attention_only(draw: st.DrawFn) -> dict[str, Any]:
    norm = draw(st.sampled_from(CHOICES["norm"]))
    return {
        "norm": norm,
        "final_norm": draw(st.booleans()) if norm else False,
        "norm_eps": draw(st.sampled_from((1e-5, 0.3))),
        "positions": draw(st.sampled_from(("none", "learned", "qk"))),
        "causal": draw(st.booleans()),
        "attention_scale": draw(st.sampled_from((None, 0.7))),
    }


@st.composite
def _mlps(draw: st.DrawFn, layers: int) -> dict[str, Any]:
    d_mlp, sparse = draw(st.sampled_from((0, 7))), draw(st.booleans())
    gated = (bool(d_mlp) or sparse) and draw(st.booleans())
    return {
        "d_mlp": d_mlp,
        "activation": draw(st.sampled_from(CHOICES["activation"])),
        "gated": gated,
        "parallel": draw(st.sampled_from(CHOICES["parallel"])) if d_mlp or sparse else None,
        "experts": draw(_experts(layers if d_mlp else 0, gated)) if sparse else None,
    }


@st.composite
def _experts(draw: st.DrawFn, layers: int, gated: bool) -> Experts:
    """Experts in some of so many layers, or in all where there are none with an MLP."""
    groups, size = draw(st.integers(1, 3)), draw(st.integers(2, 3))
    chosen_groups, shared = draw(st.integers(1, groups)), draw(st.sampled_from((0, 3)))
    sparse = draw(st.sets(st.integers(0, layers - 1))) if layers else None
    return Experts(
        count=groups * size,
        chosen=draw(st.integers(1, chosen_groups * size)),
        width=draw(st.integers(1, 5)),
        layers=None if sparse is None else tuple(sorted(sparse)),
        shared=shared,
        shared_gate=bool(shared) and draw(st.booleans()),
        scoring=draw(st.sampled_from(("softmax", "sigmoid"))),
        normalized=draw(st.booleans()),
        multiplier=draw(st.sampled_from((1.0, 2.5))),
        groups=groups,
        chosen_groups=chosen_groups,
        by_two=draw(st.booleans()),
        limit=draw(st.sampled_from((None, 0.3))) if gated else None,
        shift=draw(st.sampled_from((0.0, 1.0))) if gated else 0.0,
    )


@st.composite
def _norms(draw: st.DrawFn, norm: str | None) -> dict[str, Any]:
    return {
        "norm_placement": draw(st.sampled_from(CHOICES["norm_placement"])) if norm else "pre",
        "embed_norm": draw(st.booleans()) if norm else False,
        "qk_norm": draw(st.sampled_from(CHOICES["qk_norm"])),
    }


@st.composite
def _scores(draw: st.DrawFn, sizes: dict[str, Any]) -> dict[str, Any]:
    positions = draw(st.sampled_from(CHOICES["positions"]))
    windows = st.lists(st.sampled_from((None, 1, 3)), min_size=sizes["layers"], max_size=sizes["layers"])
    by_layer = positions == "rotary" and draw(st.booleans())
    one = _rotary(sizes["d_head"])
    each = st.lists(st.none() | one, min_size=sizes["layers"], max_size=sizes["layers"])
    return {
        "positions": positions,
        "rotary": draw(one) if positions == "rotary" and not by_layer else None,
        "rotaries": draw(each) if by_layer else None,
        "attention_cap": draw(st.sampled_from((None, 1.5))),
        "windows": draw(st.none() | windows),
        "sinks": draw(st.booleans()),
    }


@st.composite
def _rotary(draw: st.DrawFn, d_head: int) -> Rotary:
    return Rotary(
        base=draw(st.sampled_from((10000.0, 50.0))),
        dims=2 * draw(st.integers(1, d_head // 2)),
        pairing=draw(st.sampled_from(("half", "adjacent"))),
        scaling=draw(st.sampled_from(SCALINGS)),
    )


@st.composite
def _multipliers(draw: st.DrawFn) -> dict[str, Any]:
    return {
        "embedding_multiplier": draw(st.sampled_from((1.0, 1.7))),
        "residual_multiplier": draw(st.sampled_from((1.0, 0.22))),
        "logit_multiplier": draw(st.sampled_from((1.0, 0.5))),
        "logit_cap": draw(st.sampled_from((None, 2.0))),
        "tied": draw(st.booleans()),
    }

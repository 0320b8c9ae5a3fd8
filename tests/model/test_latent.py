"""Latent attention: sizes that fit, runs as by hand, and rewrites of what its latents are read by."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import pathexp as px
from pathexp.errors import ConfigError, RewriteError
from pathexp.model import Config, Latent, Rotary
from tests.model.naive import naive
from tests.zoo import FAMILIES, MORE_LATENTS

SIZES: dict[str, Any] = {"n_layers": 2, "n_heads": 4, "d_model": 14, "d_head": 7, "d_vocab": 11, "n_ctx": 9}
LATENT = Latent(rank=6, d_shared=4, d_value=5)
EVERY = {name: make for name, make in {**FAMILIES, **MORE_LATENTS}.items() if make().config.latent}
TOKENS = [1, 4, 2, 5, 1]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"rank": 0}, "latent rank: expected an integer ≥ 1, got 0"),
        ({"d_value": 2.0}, "latent d_value: expected an integer ≥ 1, got 2.0"),
        ({"d_shared": True}, "latent d_shared: expected an integer ≥ 1, got True"),
        ({"query_rank": 0}, "latent query_rank: expected an integer ≥ 1, got 0"),
        ({"eps": -1.0}, "latent eps"),
    ],
)
def test_sizes_that_are_none_are_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        Latent(**{"rank": 6, "d_shared": 4, "d_value": 5} | change)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"latent": 3}, "latent must be Latent or None, found 3"),
        ({"n_kv_heads": 2}, "every head its own keys and values: found n_heads=4, n_kv_heads=2"),
        ({"d_head": 4}, "d_shared must be below d_head.*found d_shared=4, d_head=4"),
        ({"qk_norm": "head"}, "norms its latents, not queries and keys: found qk_norm='head'"),
        ({"positions": "qk"}, "positions='qk' is not known here"),
        (
            {"positions": "rotary", "rotary": Rotary(dims=6)},
            "dims must be at most latent d_shared: found dims=6, latent d_shared=4",
        ),
    ],
)
def test_switches_that_do_not_fit_are_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        Config(**SIZES | {"latent": LATENT} | change)


def test_it_goes_through_json_and_turns_what_heads_share() -> None:
    config = Config(**SIZES, positions="rotary", latent=LATENT)
    assert Config.from_dict(json.loads(json.dumps(config.to_dict()))) == config
    assert config.rotary is not None
    assert (config.rotary.dims, config.d_value, Config(**SIZES).d_value) == (4, 5, 7)
    with pytest.raises(ConfigError, match="latent"):
        Config.from_dict({**config.to_dict(), "latent": {"rank": 6, "width": 1}})


@pytest.mark.parametrize("name", EVERY)
def test_runs_are_those_of_the_formulas(name: str) -> None:
    model = EVERY[name]()
    for tokens in ([3], TOKENS):
        trace, found = model.run(tokens), naive(model, tokens)
        np.testing.assert_allclose(trace.logits, found.logits, atol=1e-11)
        np.testing.assert_allclose(trace.patterns, found.patterns, atol=1e-12)
        assert trace.values.shape[-1] == trace.z.shape[-1] == model.config.d_value


@pytest.mark.parametrize("name", EVERY)
def test_gains_are_folded_into_what_reads_latents(name: str) -> None:
    model = EVERY[name]()
    latents = [norm for norm in ("kv_latent", "q_latent") if getattr(model.weights, f"g_{norm}") is not None]
    if not latents:
        return
    folded = px.rewrite.fold_norms(model, latents)
    assert all(getattr(folded.weights, f"g_{norm}") is None for norm in latents)
    np.testing.assert_allclose(folded.run(TOKENS).logits, model.run(TOKENS).logits, atol=1e-11)


def test_all_norms_fold_and_then_the_stream_rotates() -> None:
    model = FAMILIES["deepseek-v2"]()
    folded = px.rewrite.fold_norms(model)
    left = [name for name in folded.weights.arrays() if name.startswith("g_")]
    turned = px.rewrite.rotate(folded, 1)
    assert left == [] and not np.allclose(turned.weights.W_DKV, folded.weights.W_DKV)  # type: ignore[arg-type]
    np.testing.assert_allclose(turned.run(TOKENS).logits, model.run(TOKENS).logits, atol=1e-11)
    with pytest.raises(RewriteError, match="q_latents"):
        px.rewrite.fold_norms(model, ["q_latents"])


@pytest.mark.parametrize("name", EVERY)
def test_models_are_saved_whole(name: str, tmp_path: Any) -> None:
    model = EVERY[name]()
    model.save(tmp_path / "m.npz")
    again = px.load(tmp_path / "m.npz")
    assert again.config == model.config
    np.testing.assert_array_equal(again.run(TOKENS).logits, model.run(TOKENS).logits)


SWAPS: dict[str, Callable[[px.Model], px.Swap]] = {
    circuit: lambda model, circuit=circuit: px.swap(model.run(TOKENS), "L1H0", "L1H2", circuit=circuit)  # type: ignore[misc]
    for circuit in ("OV", "QK")
}


@pytest.mark.parametrize("circuit", sorted(SWAPS))
def test_heads_of_one_layer_exchange_their_circuits(circuit: str) -> None:
    """Both exchanged are the same layer with its heads in another order."""
    model = FAMILIES["deepseek-v2"]()
    other = {"OV": "QK", "QK": "OV"}[circuit]
    once = SWAPS[circuit](model).model
    assert not np.allclose(once.run(TOKENS).logits, model.run(TOKENS).logits)
    np.testing.assert_allclose(
        SWAPS[other](once).model.run(TOKENS).logits, model.run(TOKENS).logits, atol=1e-12
    )
    with pytest.raises(px.PathexpError, match="compress what they read to latents of their own"):
        px.swap(model.run(TOKENS), "L0H0", "L1H2", circuit=circuit)  # type: ignore[arg-type]


def test_dimensions_that_a_layer_reads_are_those_of_its_latents() -> None:
    """Heads write d_value each; queries read their latent, keys and values theirs and the shared key, once for all heads."""
    model = px.random_model(
        layers=1, heads=3, d_model=60, d_head=9, norm="rmsnorm", positions="none",
        latent=Latent(rank=7, d_shared=4, d_value=5, query_rank=6),
    )  # fmt: skip
    embed, out = px.bottlenecks(model)
    assert (embed.read - out.read, out.written - embed.written) == (6 + 7 + 4, 3 * 5)

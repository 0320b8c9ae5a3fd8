"""Composition, the account of the stream, the lens and attribution are those of TransformerLens on the same weights.

TransformerLens runs in float64 here, so that both agree far below its usual float32.
"""

from __future__ import annotations

import os
from typing import Any, NamedTuple

import numpy as np
import pytest

os.environ["HF_HUB_OFFLINE"] = "1"
torch = pytest.importorskip("torch")
pytest.importorskip("transformer_lens")

import transformer_lens.model_bridge.sources.native  # noqa: E402, F401
from transformer_lens import TransformerBridgeConfig  # noqa: E402
from transformer_lens.model_bridge.bridge import TransformerBridge  # noqa: E402

import pathexp as px  # noqa: E402
from pathexp.circuits.attribution.attribution import attribution  # noqa: E402
from pathexp.model import from_transformer_lens  # noqa: E402
from tests.interop.double import in_double, shake  # noqa: E402

pytestmark = pytest.mark.interop

CLOSE = 1e-12
"""Largest difference allowed, as a share of the largest number compared."""
SIZES = {"n_layers": 3, "d_model": 24, "d_head": 10, "n_heads": 4, "n_ctx": 40, "d_vocab": 29, "d_mlp": 20}
ROTARY = {"positional_embedding_type": "rotary", "rotary_dim": 6, "rotary_base": 500}
CASES: dict[str, dict[str, Any]] = {
    "LayerNorm": {"act_fn": "gelu", "normalization_type": "LN"},
    "LayerNorm, gains folded": {"act_fn": "gelu_new", "normalization_type": "LNPre", "eps": 1e-3},
    "attention only, no norm": {"attn_only": True, "normalization_type": None},
    "llama": {
        "act_fn": "silu", "gated_mlp": True, "normalization_type": "RMS", "final_rms": True,
        "n_key_value_heads": 2, **ROTARY,
    },
    "RMSNorm, gains folded": {"act_fn": "silu", "normalization_type": "RMSPre", **ROTARY},
}  # fmt: skip


class Pair(NamedTuple):
    """One model on both sides, and one run of nine tokens on both sides."""

    bridge: Any
    cache: Any
    trace: px.Trace


@pytest.fixture(scope="module", params=CASES)
def pair(request: pytest.FixtureRequest) -> Any:
    with in_double():
        config = TransformerBridgeConfig(**SIZES, **CASES[request.param])
        bridge = TransformerBridge.boot_native(config, dtype=torch.float64)
        shake(bridge, seed=len(request.param))
        tokens = np.random.default_rng(0).integers(0, 29, 9)
        _, cache = bridge.eval().run_with_cache(torch.tensor(tokens)[None])
        yield Pair(bridge, cache, from_transformer_lens(bridge).run(tokens))


def agree(ours: Any, theirs: Any) -> None:
    expected = theirs.detach().numpy()
    assert np.shape(ours) == expected.shape
    assert np.abs(ours - expected).max() < CLOSE * np.abs(expected).max()


def final_norm(bridge: Any) -> tuple[Any, Any]:
    """Gain and bias of the final norm, which TransformerLens takes to be folded where it reads single entries."""
    norm = getattr(bridge, "ln_final", None)
    gain, bias = getattr(norm, "weight", None), getattr(norm, "bias", None)
    return 1.0 if gain is None else gain, 0.0 if bias is None else bias


def has_mid(pair: Pair) -> bool:
    return "L0.mid" in pair.trace.residuals


@pytest.mark.parametrize("kind", ["q", "k", "v"])
def test_composition(pair: Pair, kind: Any) -> None:
    """Theirs is by writer and then reader, with zero where nothing can be read."""
    ours = px.composition(pair.trace.model, norms="raw").of(kind)
    theirs = pair.bridge.all_composition_scores(kind.upper()).scores.permute(2, 3, 0, 1)
    later = np.isfinite(ours)
    assert later.sum() == 3 * 4 * 4
    agree(ours[later], theirs[torch.tensor(later)])
    assert not theirs[torch.tensor(~later)].any()


def test_branches_of_the_stream(pair: Pair) -> None:
    parts = px.decompose(pair.trace)
    stack, labels = pair.cache.decompose_resid(return_labels=True)
    theirs = {label: stack[row, 0] for row, label in enumerate(labels)}
    theirs["embed"] = theirs["embed"] + theirs.pop("pos_embed", 0.0)
    ours = parts.branches(parts.points[-1])
    halves = ("attn", "mlp")
    names = {f"{n}_{half}_out": f"L{n}.{half}" for n in range(3) for half in halves} | {"embed": "embed"}
    assert {names[label] for label in theirs} == set(ours)
    for label, value in theirs.items():
        agree(ours[names[label]], value)


def test_heads(pair: Pair) -> None:
    parts = px.decompose(pair.trace)
    stack, labels = pair.cache.stack_head_results(return_labels=True)
    assert labels == [label for label in parts.labels if label[2:3] == "H"]
    for row, label in enumerate(labels):
        agree(parts[label], stack[row, 0])
        agree(pair.trace.head_results[row // 4, row % 4], stack[row, 0])


def test_lens_by_own_statistics(pair: Pair) -> None:
    mid = has_mid(pair)
    lens = px.lens(pair.trace, pair.trace.logit(0), mid=mid).own
    normed, labels = pair.cache.accumulated_resid(incl_mid=mid, apply_ln=True, return_labels=True)
    assert len(labels) == len(lens.points) == (7 if mid else 4)
    agree(lens.logits, normed[:, 0] @ pair.bridge.W_U + pair.bridge.b_U)


def test_lens_by_the_scale_of_the_last_state(pair: Pair) -> None:
    mid = has_mid(pair)
    states = pair.cache.accumulated_resid(incl_mid=mid)
    gain, bias = final_norm(pair.bridge)
    normed = pair.cache.apply_ln_to_stack(states)[:, 0] * gain + bias
    lens = px.lens(pair.trace, pair.trace.logit(0), mid=mid).frozen
    agree(lens.logits, normed @ pair.bridge.W_U + pair.bridge.b_U)


def test_what_each_head_adds_to_the_logits(pair: Pair) -> None:
    """Attribution to every token at once: the frozen final norm, its gain, the unembedding."""
    added = px.decompose(pair.trace).logits()
    stack, labels = pair.cache.stack_head_results(return_labels=True)
    normed = pair.cache.apply_ln_to_stack(stack)[:, 0] * final_norm(pair.bridge)[0]
    agree(np.stack([added[label] for label in labels]), normed @ pair.bridge.W_U)


def attributed(pair: Pair, stack: Any) -> Any:
    """What each entry adds to the logit of 7 less that of 3 at the last position, as logit_attrs has it; which
    takes the gain of the final norm to be folded, so that one that is not is applied here."""
    gain, _ = final_norm(pair.bridge)
    if isinstance(gain, float):
        return pair.cache.logit_attrs(stack, tokens=7, incorrect_tokens=3)[:, 0, -1]
    direction = pair.bridge.tokens_to_residual_directions(7) - pair.bridge.tokens_to_residual_directions(3)
    return pair.cache.apply_ln_to_stack(stack)[:, 0, -1] * gain @ direction


def test_direct_logit_attribution(pair: Pair) -> None:
    """Head by head and MLP by MLP, whose output biases are entries of their own here."""
    found = attribution(pair.trace, pair.trace.logit_difference(7, 3), by="component")
    stack, labels = pair.cache.stack_head_results(return_labels=True)
    agree(np.array([found[label] for label in labels]), attributed(pair, stack))
    if pair.bridge.cfg.attn_only:
        return
    stack = pair.cache.decompose_resid(mode="mlp", incl_embeds=False)
    biased = [f"b_out_L{n}" in found.names for n in range(3)]
    ours = [found[f"L{n}M"] + (found[f"b_out_L{n}"] if biased[n] else 0.0) for n in range(3)]
    agree(np.array(ours), attributed(pair, stack))

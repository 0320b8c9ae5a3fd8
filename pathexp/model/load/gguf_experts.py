"""Mixtures of experts as the keys of a GGUF file tell them, and where their tensors are."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from ..config import Config
from ..routing import Experts
from .checkpoint import Shape
from .gather import Piece, as_it_is
from .gguf_keys import GgufKeys

_BLOCK = "blk.{l}.ffn_"
_SOFTMAX, _SOFTMAX_OF_CHOSEN = 1, 3


def experts_of(
    keys: GgufKeys, *, normalized: bool, shared: bool = False, gating: int = _SOFTMAX
) -> Mapping[str, Any]:
    """The fields of a configuration whose every layer has experts that a softmax weighs, an MLP of its own nowhere.

    ``normalized``: whether this architecture makes the chosen weights add up to 1; ``shared``: whether it has an expert
    that all positions share; ``gating``: the number of its rule, where a file tells it. Raises LoadError for rules that it does not have.
    """
    keys.must_be("expert_gating_func", gating, "this architecture weighs by a softmax")
    keys.must_be("expert_weights_norm", normalized, "this architecture has its own rule")
    keys.must_be("expert_weights_scale", 1.0, "this architecture does not multiply its weights")
    for key in ("expert_group_count", "expert_group_used_count"):
        keys.must_be_off(key, "groups of experts are not known of this architecture")
    chosen, width = keys.size("expert_used_count"), keys.even("feed_forward_length")
    keys.get("expert_shared_count")  # told by the length below
    own = keys.get("expert_feed_forward_length")
    width = keys.size("expert_feed_forward_length") if own else width // (chosen if shared else 1) or 1
    beside = keys.size("expert_shared_feed_forward_length", keys.even("feed_forward_length")) if shared else 0
    count = keys.size("expert_count")
    return {
        "d_mlp": 0,
        "experts": Experts(
            count=count, chosen=chosen, width=width, normalized=normalized, shared=beside, shared_gate=shared
        ),
    }


def gpt_oss_experts(keys: GgufKeys) -> Mapping[str, Any]:
    """The fields of gpt-oss: a softmax over the chosen, gates and values that are clipped, as no key of a file tells."""
    found = experts_of(keys, normalized=True, gating=_SOFTMAX_OF_CHOSEN)
    return {**found, "experts": replace(found["experts"], limit=7.0, shift=1.0)}


def expert_pieces(c: Config, e: Experts, shapes: Mapping[str, Shape]) -> Iterator[Piece]:
    """The router, all experts of a layer in one tensor, and the expert that all positions share; biases that the file has."""
    yield Piece(f"{_BLOCK}gate_inp.weight", (e.count, c.d_model), {"W_router": as_it_is}, e.layers)
    if _bias("gate_inp", e, shapes):
        yield Piece(f"{_BLOCK}gate_inp.bias", (e.count,), {"b_router": as_it_is}, e.layers)
    yield from _maps(c, e, "exps", "experts", e.width, e.count, shapes)
    if e.shared:
        yield from _maps(c, e, "shexp", "shared", e.shared, 0, shapes)
    if e.shared_gate:
        yield Piece(f"{_BLOCK}gate_inp_shexp.weight", (c.d_model,), {"W_shared_gate": as_it_is}, e.layers)


def _bias(name: str, e: Experts, shapes: Mapping[str, Shape]) -> bool:
    """Whether a map of the first layer of experts has a bias."""
    return f"{_BLOCK.format(l=(e.layers or (0,))[0])}{name}.bias" in shapes


def _maps(
    c: Config, e: Experts, ending: str, of: str, m: int, count: int, shapes: Mapping[str, Shape]
) -> Iterator[Piece]:
    read, written = (m, c.d_model), (c.d_model, m)
    for theirs, ours, shape in (("gate", "gate", read), ("up", "in", read), ("down", "out", written)):
        pieces = {f"W_{ours}_{of}": as_it_is}
        yield Piece(f"{_BLOCK}{theirs}_{ending}.weight", shape, pieces, e.layers, count)
        if _bias(f"{theirs}_{ending}", e, shapes):
            biases = {f"b_{ours}_{of}": as_it_is}
            yield Piece(f"{_BLOCK}{theirs}_{ending}.bias", shape[:1], biases, e.layers, count)

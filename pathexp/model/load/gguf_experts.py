"""Mixtures of experts as the keys of a GGUF file tell them, and where their tensors are."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ..config import Config
from ..routing import Experts
from .gather import Piece, as_it_is
from .gguf_keys import GgufKeys

_BLOCK = "blk.{l}.ffn_"
_SOFTMAX = 1


def experts_of(keys: GgufKeys, *, normalized: bool, shared: bool = False) -> Mapping[str, Any]:
    """The fields of a configuration whose every layer has experts, an MLP of its own nowhere.

    ``normalized``: whether this architecture makes the chosen weights add up to 1; ``shared``: whether it has an expert
    that all positions share. Raises LoadError for rules that it does not have.
    """
    keys.must_be("expert_weights_norm", normalized, "this architecture has its own rule")
    keys.must_be("expert_gating_func", _SOFTMAX, "this architecture weighs by a softmax")
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


def expert_pieces(c: Config, e: Experts) -> Iterator[Piece]:
    """The router, all experts of a layer in one tensor, and the expert that all positions share."""
    yield Piece(f"{_BLOCK}gate_inp.weight", (e.count, c.d_model), {"W_router": as_it_is}, e.layers)
    yield from _maps(c, e, "exps", "experts", e.width, e.count)
    if e.shared:
        yield from _maps(c, e, "shexp", "shared", e.shared, 0)
    if e.shared_gate:
        yield Piece(f"{_BLOCK}gate_inp_shexp.weight", (c.d_model,), {"W_shared_gate": as_it_is}, e.layers)


def _maps(c: Config, e: Experts, ending: str, of: str, m: int, count: int) -> Iterator[Piece]:
    read, written = (m, c.d_model), (c.d_model, m)
    for theirs, ours, shape in (("gate", "gate", read), ("up", "in", read), ("down", "out", written)):
        pieces = {f"W_{ours}_{of}": as_it_is}
        yield Piece(f"{_BLOCK}{theirs}_{ending}.weight", shape, pieces, e.layers, count)

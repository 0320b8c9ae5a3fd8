"""Layers of experts as configurations of transformers tell them, and where their tensors are."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from ..config import Config
from ..routing import Experts
from .gather import Piece, Turn, as_it_is, transposed
from .keys import Keys

_BLOCK = "model.layers.{l}."
_COUNTS = ("num_experts", "num_local_experts", "n_routed_experts")


@dataclass(frozen=True)
class ExpertNames:
    """How tensors of a layer of experts are called: router, one expert's maps, the shared expert and its gate."""

    router: str = "mlp.gate"
    expert: str = "mlp.experts.{e}."
    gate: str = "gate_proj"
    up: str = "up_proj"
    down: str = "down_proj"
    shared: str = "mlp.shared_expert."
    shared_gate: str = "mlp.shared_expert_gate"
    fused: bool = False
    """Whether all experts of a layer stand in one tensor, gate and up of each in turns, and everything has a bias."""


SINGLY = ExpertNames()
MIXTRAL_NAMES = ExpertNames(
    router="block_sparse_moe.gate", expert="block_sparse_moe.experts.{e}.", gate="w1", up="w3", down="w2"
)


GPT_OSS_NAMES = ExpertNames(router="mlp.router", expert="mlp.experts.", fused=True)


def experts_of(keys: Keys, n_layers: int, width: str = "moe_intermediate_size", **more: Any) -> Experts:
    """Return the experts of a configuration; ``width`` is the key of how many neurons each has.

    ``normalized``: whether the weights of those chosen are made to add up to 1, where the family has no key for it. Raises
    LoadError for keys that do not fit.
    """
    for key in ("output_router_logits", "router_aux_loss_coef"):
        keys.get(key)  # for training
    if "normalized" not in more:
        keys.assume("norm_topk_prob", False)
        more["normalized"] = keys.switch("norm_topk_prob", False)
    return Experts(
        count=_count(keys), chosen=keys.size("num_experts_per_tok"), width=keys.size(width), **more
    )


def _count(keys: Keys) -> int:
    """How many experts there are, by whatever key it is told."""
    found = {key: keys.size(key) for key in _COUNTS if keys.get(key) is not None}
    if len(set(found.values())) > 1:
        raise keys.error(f"it gives different numbers of experts: {found}; make them agree")
    return next(iter(found.values()), 0) or keys.size(_COUNTS[0])


def sparse_layers(keys: Keys, n_layers: int) -> tuple[int, ...]:
    """Return the layers that have experts: every so many, but for those that are told to have an MLP.

    Raises LoadError for what is no list of layers.
    """
    step, dense = keys.size("decoder_sparse_step", 1), keys.get("mlp_only_layers", [])
    if not isinstance(dense, list) or any(type(layer) is not int for layer in dense):
        raise keys.error(f"'mlp_only_layers' must be a list of layers, found {dense!r:.80}")
    return tuple(layer for layer in range(n_layers) if layer not in dense and (layer + 1) % step == 0)


def expert_pieces(c: Config, names: ExpertNames) -> Iterator[Piece]:
    """Yield where the router, the experts, and the one that all positions share are."""
    e = c.experts
    if e is None or not e.layers:
        return
    yield Piece(f"{_BLOCK}{names.router}.weight", (e.count, c.d_model), {"W_router": as_it_is}, e.layers)
    if names.fused:
        yield from _fused(c, e, names)
        return
    yield from _maps(c, names, names.expert, "experts", e.width, e.count)
    if e.shared:
        yield from _maps(c, names, names.shared, "shared", e.shared, 0)
    if e.shared_gate:
        ours = {"W_shared_gate": lambda raw: raw[0]}
        yield Piece(f"{_BLOCK}{names.shared_gate}.weight", (1, c.d_model), ours, e.layers)


def _fused(c: Config, e: Experts, names: ExpertNames) -> Iterator[Piece]:
    """Matrices stand as (inputs, outputs), gate and up of each neuron side by side."""
    where, d, m = _BLOCK + names.expert, c.d_model, e.width
    yield Piece(f"{_BLOCK}{names.router}.bias", (e.count,), {"b_router": as_it_is}, e.layers)
    both: Mapping[str, Turn] = {
        "W_gate_experts": lambda raw: raw[:, ::2].T,
        "W_in_experts": lambda raw: raw[:, 1::2].T,
    }
    yield Piece(f"{where}gate_up_proj", (d, 2 * m), both, e.layers, e.count)
    biases: Mapping[str, Turn] = {
        "b_gate_experts": lambda raw: raw[::2],
        "b_in_experts": lambda raw: raw[1::2],
    }
    yield Piece(f"{where}gate_up_proj_bias", (2 * m,), biases, e.layers, e.count)
    yield Piece(f"{where}down_proj", (m, d), {"W_out_experts": transposed}, e.layers, e.count)
    yield Piece(f"{where}down_proj_bias", (d,), {"b_out_experts": as_it_is}, e.layers, e.count)


def _maps(c: Config, names: ExpertNames, where: str, of: str, m: int, count: int) -> Iterator[Piece]:
    assert c.experts is not None, "asked for only where there are some"
    read, written = (m, c.d_model), (c.d_model, m)
    for theirs, ours, shape in (
        (names.gate, "gate", read),
        (names.up, "in", read),
        (names.down, "out", written),
    ):
        pieces = {f"W_{ours}_{of}": as_it_is}
        yield Piece(f"{_BLOCK}{where}{theirs}.weight", shape, pieces, c.experts.layers, count)

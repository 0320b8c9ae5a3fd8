"""A layer of experts: the router's scores, the weights they become, and what the chosen experts make of the stream.

Only the positions that chose an expert are computed in it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import numpy.typing as npt

from ..labels import expert_label, shared_label
from ..read_only import restore
from .activations import GATES, silu_gate
from .attention import softmax
from .config import Config
from .mlp import dense
from .routing import Experts
from .weights import Weights, at

Array = npt.NDArray[np.float64]
Indices = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Expert:
    """What happens in one expert at the r positions that use it: what it adds there is weights · (W_out hidden + b_out).

    ``positions`` (r); ``weights`` (r), by which the router weighs it; ``pre``, W_in x + b_in, ``gate_pre``, what the
    activation is applied to, and ``gates``, as in `Trace`, each (r, m). W_out reads ``hidden``, gates · pre + ``shift``;
    the last is zero but where experts have a shift.
    """

    positions: Indices
    weights: Array
    pre: Array
    gate_pre: Array
    gates: Array
    shift: Array

    def __post_init__(self) -> None:
        for each in fields(self):
            getattr(self, each.name).setflags(write=False)

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        restore(self, state)

    @property
    def hidden(self) -> Array:
        """What W_out reads, (r, m)."""
        return np.asarray(self.gates * self.pre + self.shift)

    def spread(self, rows: Array, n: int) -> Array:
        """Numbers of the positions that use it, (r, ..), among those of all n, zero elsewhere."""
        found = np.zeros((n, *rows.shape[1:]))
        found[self.positions] = rows
        return found


@dataclass(frozen=True, eq=False)
class Mixture:
    """What happens in a layer of E experts: ``scores`` and ``weights`` of the router (n, E), and each expert by its label."""

    scores: Array
    weights: Array
    experts: Mapping[str, Expert]
    result: Array  # (n, d), what all of them add together


def mixture(read: Array, layer: int, config: Config, w: Weights) -> Mixture:
    """The experts of one layer on what they read, (n, d)."""
    scores, weights = routed(read, layer, config, w)
    experts, result = {}, np.zeros_like(read)
    for label, (index, weight) in parts(read, weights, layer, config, w).items():
        expert = experts[label] = used(read, weight, layer, index, config, w)
        result[expert.positions] += written(expert, layer, index, w)
    return Mixture(scores, weights, experts, result)


def parts(
    read: Array, weights: Array, layer: int, config: Config, w: Weights
) -> dict[str, tuple[int | None, Array]]:
    """Each expert of a layer by its label: its number, None for the shared one, and its weight at every position, (n)."""
    experts = there(config)
    found: dict[str, tuple[int | None, Array]] = {
        expert_label(layer, index): (index, weights[:, index]) for index in range(experts.count)
    }
    if experts.shared:
        found[shared_label(layer)] = (None, shared_weight(read, layer, experts, w))
    return found


def shared_weight(read: Array, layer: int, experts: Experts, w: Weights) -> Array:
    """The weight of the expert that all positions share, (n)."""
    return silu_gate(shared_score(read, layer, w)) if experts.shared_gate else np.ones(len(read))


def shared_score(read: Array, layer: int, w: Weights) -> Array:
    """The score whose sigmoid weighs the expert that all positions share, (n)."""
    assert w.W_shared_gate is not None, "weights fit their configuration"
    bias = 0.0 if w.b_shared_gate is None else w.b_shared_gate[layer]
    return np.asarray(read @ w.W_shared_gate[layer] + bias)


def routed(read: Array, layer: int, config: Config, w: Weights) -> tuple[Array, Array]:
    """The router's scores and the weights of the experts, zero for those that are not chosen; each (n, E)."""
    experts = there(config)
    assert w.W_router is not None, "weights fit their configuration"
    scores = dense(read, w.W_router[layer], at(w.b_router, layer))
    shares = softmax(scores) if experts.scoring == "softmax" else silu_gate(scores)
    chosen = choice(shares, at(w.b_choice, layer), experts)
    weights = np.where(chosen, shares, 0.0)
    if experts.normalized:
        weights = weights / weights.sum(axis=-1, keepdims=True)
    return scores, experts.multiplier * weights


def choice(shares: Array, bias: Array | None, experts: Experts) -> npt.NDArray[np.bool_]:
    """Which experts each position chooses, (n, E): the largest, of the best groups, with a bias that counts here alone.

    >>> experts = Experts(count=4, chosen=1, width=1, groups=2, chosen_groups=1, by_two=True)
    >>> choice(np.array([[0.5, 0.0, 0.3, 0.4]]), None, experts).tolist()
    [[False, False, False, True]]
    """
    ranked = shares if bias is None else shares + bias
    if experts.groups > 1:
        best = np.sort(ranked.reshape(len(ranked), experts.groups, -1), axis=-1)[..., -1 - experts.by_two :]
        groups = _largest(best.sum(axis=-1), experts.chosen_groups)
        ranked = np.where(np.repeat(groups, experts.count // experts.groups, axis=1), ranked, -np.inf)
    return _largest(ranked, experts.chosen)


def _largest(values: Array, k: int) -> npt.NDArray[np.bool_]:
    """Where the k largest of each row are, the first of equals."""
    order = np.argsort(-values, axis=-1, kind="stable")[:, :k]
    found = np.zeros(values.shape, dtype=bool)
    np.put_along_axis(found, order, True, axis=-1)
    return found


def used(read: Array, weight: Array, layer: int, index: int | None, config: Config, w: Weights) -> Expert:
    """One expert at the positions whose weight for it, (n), is not zero."""
    positions = np.flatnonzero(weight)
    rows = read[positions]
    pre = _neurons("in", rows, layer, index, w)
    gate_pre = _neurons("gate", rows, layer, index, w) if config.gated else pre
    gates, shift = gated(pre, gate_pre, config)
    return Expert(positions, weight[positions], pre, gate_pre, gates, shift)


def gated(pre: Array, gate_pre: Array, config: Config) -> tuple[Array, Array]:
    """What multiplies ``pre``, and what is added to that: act(gate_pre) where gated, else act(pre) / pre, and the shift.

    With a limit gates are capped and ``pre`` is clipped, which multiplies it by what is left of it.
    """
    experts = there(config)
    if not config.gated:
        return GATES[config.activation](pre), np.zeros_like(pre)
    z = gate_pre if experts.limit is None else np.minimum(gate_pre, experts.limit)
    act = GATES[config.activation](z) * z
    shift = experts.shift * act
    if experts.limit is None:
        return act, shift
    size = np.abs(pre)
    return act * np.where(size > experts.limit, experts.limit / np.maximum(size, experts.limit), 1.0), shift


def written(expert: Expert, layer: int, index: int | None, w: Weights) -> Array:
    """What an expert adds at the positions that use it, (r, d)."""
    return np.asarray(expert.weights[:, None] * unweighted(expert, layer, index, w))


def unweighted(expert: Expert, layer: int, index: int | None, w: Weights) -> Array:
    """What an expert makes of the positions that use it, before the router weighs it, (r, d)."""
    return _neurons("out", expert.hidden, layer, index, w)


def _neurons(side: str, rows: Array, layer: int, index: int | None, w: Weights) -> Array:
    kind = "shared" if index is None else "experts"
    place = (layer,) if index is None else (layer, index)
    weight, bias = getattr(w, f"W_{side}_{kind}"), getattr(w, f"b_{side}_{kind}")
    if not len(rows):  # weights that nobody asks for stay as they are stored
        return np.zeros((0, weight.shape[-2]))
    return dense(rows, weight[place], None if bias is None else bias[place])


def there(config: Config) -> Experts:
    """The experts of a configuration that has them."""
    assert config.experts is not None, "only layers of experts come here"
    return config.experts

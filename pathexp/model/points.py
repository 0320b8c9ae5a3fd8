"""What stood at a point of a run, by name: logits, a recorded stream, a head's queries, keys or scores.

A head's queries and keys are those before they are turned by rotary positions, and after their norm, if there is one.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from difflib import get_close_matches
from typing import Protocol

import numpy as np
import numpy.typing as npt

from ..errors import TargetError
from ..labels import read_label
from .attention import read_keys, read_queries
from .config import Config
from .experts import Expert, written
from .weights import Weights
from .weights import at as layer_of

Array = npt.NDArray[np.float64]

LOGITS, FINAL = "logits", "final_in"
NOT_LINEAR = ("log_probs", "log_probability", "loss", "probabilities", "probability", "probs")
_HEAD = re.compile(r"L(\d+)H(\d+)(?:\.(Q|K|score))?")
_ROUTER = re.compile(r"L(\d+)\.router")
_MLP = re.compile(r"L\d+M")


class Weighted(Protocol):
    """What has weights: a model."""

    @property
    def weights(self) -> Weights:
        """All arrays."""


class Recorded(Protocol):
    """What was recorded of a run, as far as its points go: a trace."""

    @property
    def config(self) -> Config:
        """Of the model that ran."""

    @property
    def model(self) -> Weighted:
        """The model that ran."""

    @property
    def logits(self) -> Array:
        """(n, d_out)."""

    @property
    def scores(self) -> Array:
        """(L, H, n, n)."""

    @property
    def router_scores(self) -> Array:
        """(L, n, E)."""

    @property
    def experts(self) -> Mapping[str, Expert]:
        """By label."""

    @property
    def head_results(self) -> Array:
        """(L, H, n, d_model)."""

    @property
    def norm_scales(self) -> Mapping[str, Array]:
        """By site, (n)."""

    @property
    def residuals(self) -> Mapping[str, Array]:
        """By point, (n, d_model)."""


def canonical(name: str) -> str:
    """Return the name under which a point is recorded: "final" is "final_in"."""
    return FINAL if name == "final" else name


def values_at(trace: Recorded, name: str) -> Array:
    """Return what stood at a point of a run, (n, width); scores of keys that a query does not see are given as zero.

    Raises TargetError if there is no such point.

    >>> import pathexp as px
    >>> trace = px.random_model(layers=2, heads=2, d_head=4).run([1, 2, 3])
    >>> values_at(trace, "L1H0.Q").shape, values_at(trace, "L0.out") is trace.residuals["L0.out"]
    ((3, 4), True)
    """
    if name == LOGITS:
        return trace.logits
    known = canonical(name) if isinstance(name, str) else ""
    if known in trace.residuals:
        return trace.residuals[known]
    if _MLP.fullmatch(known) and (out := f"{known[:-1]}.mlp_out") in trace.residuals:
        return trace.residuals[out]
    if is_router(known):
        return np.asarray(trace.router_scores[router_layer(trace, known)])
    if known in trace.experts:
        return _added_by_expert(trace, known)
    head = _HEAD.fullmatch(known)
    if head and int(head[1]) < trace.config.n_layers and int(head[2]) < trace.config.n_heads:
        return _of_head(trace, int(head[1]), int(head[2]), head[3])
    if known in NOT_LINEAR:
        raise TargetError(
            f"{known} of one run is no sum over paths: the softmax divides by a sum over all outputs, so it is no linear "
            "function of the logits. Take logits or their differences; between two runs a difference of "
            "(log-)probabilities is such a sum, in a contrast of the runs"
        )
    near = get_close_matches(known, trace.residuals, 1)
    raise TargetError(
        f"no point {name!r:.40} in this run.{f' Did you mean {near[0]}?' if near else ''} Points: logits, "
        f"{', '.join(trace.residuals)}, L0H0 and L0M for what a head and an MLP add, and L0H0.Q, L0H0.K and L0H0.score for "
        "what a head's queries, keys and scores are."
    )


def is_router(name: object) -> bool:
    """Whether a name is that of a router's scores, such as "L3.router"."""
    return isinstance(name, str) and _ROUTER.fullmatch(name) is not None


def router_layer(trace: Recorded, name: str) -> int:
    """Return the layer of a router by its name. Raises TargetError if the layer has none."""
    found = _ROUTER.fullmatch(name)
    layer = -1 if found is None else int(found[1])
    if not 0 <= layer < trace.config.n_layers or not trace.config.is_sparse(layer):
        layers = [at for at in range(trace.config.n_layers) if trace.config.is_sparse(at)]
        there = f"layers {layers} have some" if layers else "this model has none"
        raise TargetError(f"no router {name!r:.40}: routers stand before layers of experts; {there}")
    return layer


def check_seen(trace: Recorded, name: str, position: int, direction: Array) -> None:
    """Raise TargetError if a direction at a head's scores asks for a key that the position does not see."""
    head = _HEAD.fullmatch(canonical(name))
    if head is None or head[3] != "score":
        return
    scores = trace.scores[int(head[1]), int(head[2]), position]
    if len(hidden := np.flatnonzero(~np.isfinite(scores) & (direction != 0))):
        raise TargetError(
            f"{name.removesuffix('.score')} at position {position} does not see key {hidden[0]}: it has no score there"
        )


def _of_head(trace: Recorded, layer: int, head: int, what: str | None) -> Array:
    """What a head adds to the stream, its queries, keys or scores; nothing where a score is masked."""
    if what is None:
        return _added_by_head(trace, layer, head)
    if what == "score":
        scores = trace.scores[layer, head]
        return np.where(np.isfinite(scores), scores, 0.0)
    return _read_by_head(trace, layer, head, what)


def _read_by_head(trace: Recorded, layer: int, head: int, side: str) -> Array:
    config, w = trace.config, trace.model.weights
    read = trace.residuals[f"L{layer}.attn_in"]
    if config.positions == "qk":
        assert w.W_pos is not None, "weights fit their configuration"
        read = read + w.W_pos[:, : len(read)].T
    heads, _ = (read_queries if side == "Q" else read_keys)(read, layer, config, w)
    return np.asarray(heads[head if side == "Q" else config.kv_head(head)])


def _added_by_head(trace: Recorded, layer: int, head: int) -> Array:
    """What a head adds to the stream, without the output bias; a norm of the branch at its recorded scale."""
    if trace.config.norm_placement == "post" and "attn_post" in trace.config.block_norms:
        raise TargetError(
            f"L{layer}H{head} is no point of a post-norm model: the norm stands on the sum of stream and heads. Take "
            f"L{layer}.mid, or the head's query or key"
        )
    return _behind_branch(trace, layer, "attn", trace.head_results[layer, head])


def _added_by_expert(trace: Recorded, label: str) -> Array:
    """What an expert adds to the stream, biases inside it included; a norm of the branch at its recorded scale."""
    found, expert = read_label(label), trace.experts[label]
    layer = found.layer or 0
    if trace.config.norm_placement == "post":
        raise TargetError(
            f"{label} is no point of a post-norm model: the norm stands on the sum of stream and experts. Take "
            f"L{layer}.out"
        )
    rows = written(expert, layer, found.index, trace.model.weights)
    return _behind_branch(trace, layer, "mlp", expert.spread(rows, len(trace.logits)))


def _behind_branch(trace: Recorded, layer: int, branch: str, result: Array) -> Array:
    """What part of a branch's result adds to the stream: through the norm behind the branch, and multiplied."""
    config, name = trace.config, f"{branch}_post"
    if name in config.block_norms:
        centred = result - result.mean(axis=-1, keepdims=True) if config.norm == "layernorm" else result
        result = centred * trace.norm_scales[f"L{layer}.{name}"][:, None]
        gain = layer_of(getattr(trace.model.weights, f"g_{name}"), layer)
        result = result if gain is None else result * gain
    return np.asarray(config.residual_multiplier * result)

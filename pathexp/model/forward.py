"""Tokens to Trace: the reference forward pass, one function a step, in plain numpy.

A stream X is (position, d_model), so that a map W, (target, source), acts on it as X @ W.T. Nothing here is
shared with the algebra of linear maps: what an expansion adds up to is compared with this.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import numpy.typing as npt

from ..errors import WeightsError
from .config import Config
from .trace import Trace
from .weights import Weights

if TYPE_CHECKING:
    from .model import Model

Array = npt.NDArray[np.float64]
Tokens = npt.NDArray[np.int64]
Frozen = TypeVar("Frozen", bound=npt.NDArray[Any])


def forward(model: Model, tokens: Tokens) -> Trace:
    """Run a model on token ids, (n), and keep everything that happened.

    Raises WeightsError if a logit is not finite.
    """
    run = _Run(model.config, model.weights)
    with np.errstate(over="ignore", invalid="ignore"):  # what overflows reaches the logits, and raises there
        stream = run.embed(tokens)
        for layer in range(model.config.n_layers):
            stream = run.block(stream, layer)
        logits = run.unembed(stream)
    return run.trace(model, tokens, logits)


class _Run:
    """The record of a run while it is made."""

    def __init__(self, config: Config, weights: Weights) -> None:
        self.config = config
        self.w = weights
        self.residuals: dict[str, Array] = {}
        self.norm_scales: dict[str, Array] = {}
        self.scores: list[Array] = []
        self.patterns: list[Array] = []
        self.z: list[Array] = []

    def embed(self, tokens: Tokens) -> Array:
        stream = self.w.W_E[:, tokens].T  # (n, d)
        if self.config.positions == "learned":
            stream = stream + self.positions(len(tokens))
        return self.keep("embed", stream)

    def positions(self, n: int) -> Array:
        assert self.w.W_pos is not None, "weights were checked against their configuration"
        return self.w.W_pos[:, :n].T  # (n, d)

    def block(self, stream: Array, layer: int) -> Array:
        read = self.keep(f"L{layer}.attn_in", self.norm(stream, f"L{layer}.attn"))
        return self.keep(f"L{layer}.out", stream + self.attention(read, layer))

    def attention(self, read: Array, layer: int) -> Array:
        scores = self.attention_scores(read, layer)
        pattern = softmax(scores)
        z = pattern @ self.per_head(self.values(read, layer))  # (H, n, h)
        self.scores.append(scores)
        self.patterns.append(pattern)
        self.z.append(z)
        return self.output(z, layer)

    def attention_scores(self, read: Array, layer: int) -> Array:
        """(H, n, n), masked: the scores before the softmax."""
        where = read + self.positions(len(read)) if self.config.positions == "qk" else read
        queries = project(where, self.w.W_Q[layer], at(self.w.b_Q, layer))  # (H, n, h)
        keys = self.per_head(project(where, self.w.W_K[layer], at(self.w.b_K, layer)))  # (H, n, h)
        scores = queries @ np.swapaxes(keys, -1, -2) * self.config.attention_scale
        check_finite(scores, f"a score of layer {layer}", "head, query, key")
        return np.where(visible(len(read), self.config.causal), scores, -np.inf)

    def values(self, read: Array, layer: int) -> Array:
        return project(read, self.w.W_V[layer], at(self.w.b_V, layer))  # (G, n, h)

    def per_head(self, grouped: Array) -> Array:
        """Key/value heads repeated so that there is one for each query head: (G, ...) to (H, ...)."""
        return grouped[[self.config.kv_head(head) for head in range(self.config.n_heads)]]

    def output(self, z: Array, layer: int) -> Array:
        """The sum of the heads' results and the output bias, (n, d)."""
        result = np.einsum("hnk,hdk->nd", z, self.w.W_O[layer], optimize=True)
        return plus(result, at(self.w.b_O, layer))

    def unembed(self, stream: Array) -> Array:
        self.keep("final_in", stream)
        if self.config.final_norm:
            stream = self.norm(stream, "final")
        self.keep("final_out", stream)
        return plus(stream @ self.w.W_U.T, self.w.b_U)

    def norm(self, stream: Array, site: str) -> Array:
        """Center (LayerNorm only), scale each position, multiply by the gain, add the bias."""
        if self.config.norm is None:
            return stream
        centered = center(stream) if self.config.norm == "layernorm" else stream
        scale = 1 / np.sqrt(np.mean(centered**2, axis=-1) + self.config.norm_eps)  # (n,)
        self.norm_scales[site] = scale
        gain, bias = self.norm_weights(site)
        return plus(times(centered * scale[:, None], gain), bias)

    def norm_weights(self, site: str) -> tuple[Array | None, Array | None]:
        if site == "final":
            return self.w.g_final, self.w.b_final
        layer = int(site[1 : site.index(".")])
        return at(self.w.g_attn, layer), at(self.w.b_attn, layer)

    def keep(self, point: str, stream: Array) -> Array:
        self.residuals[point] = stream
        return stream

    def trace(self, model: Model, tokens: Tokens, logits: Array) -> Trace:
        check_finite(logits, "a logit", "position, token")
        n, c = len(tokens), self.config
        return Trace(
            model=model,
            tokens=frozen(tokens),
            scores=stacked(self.scores, (c.n_heads, n, n)),
            patterns=stacked(self.patterns, (c.n_heads, n, n)),
            z=stacked(self.z, (c.n_heads, n, c.d_head)),
            residuals=MappingProxyType({point: frozen(x) for point, x in self.residuals.items()}),
            norm_scales=MappingProxyType({site: frozen(s) for site, s in self.norm_scales.items()}),
            logits=frozen(logits),
        )


def project(read: Array, maps: Array, biases: Array | None) -> Array:
    """What each head reads: (n, d) by maps (H, h, d) to (H, n, h)."""
    result = read @ np.swapaxes(maps, -1, -2)
    return result if biases is None else result + biases[:, None, :]


def concatenated(z: Array, W_O: Array) -> Array:
    """The other form of multi-head attention: heads side by side, (n, H h), times W_O, (d, H h).

    ``z`` (H, n, h) and ``W_O`` (H, d, h). Vaswani et al. 2017, section 3.2.2.
    """
    heads, n, width = z.shape
    side_by_side = z.transpose(1, 0, 2).reshape(n, heads * width)
    return side_by_side @ W_O.transpose(1, 0, 2).reshape(-1, heads * width).T


def softmax(scores: Array) -> Array:
    """Over keys; a row in which every key is masked is zero."""
    top = scores.max(axis=-1, keepdims=True)
    weights = np.exp(scores - np.where(np.isneginf(top), 0.0, top))
    total = weights.sum(axis=-1, keepdims=True)
    pattern: Array = np.divide(weights, total, out=np.zeros_like(weights), where=total != 0)  # NaN stays
    return pattern


def visible(n: int, causal: bool) -> npt.NDArray[np.bool_]:
    """(query, key): whether the query may look at the key."""
    return np.tri(n, dtype=bool) if causal else np.ones((n, n), dtype=bool)


def center(stream: Array) -> Array:
    centered: Array = stream - stream.mean(axis=-1, keepdims=True)
    return centered


def at(array: Array | None, layer: int) -> Array | None:
    return None if array is None else array[layer]


def plus(stream: Array, bias: Array | None) -> Array:
    return stream if bias is None else stream + bias


def times(stream: Array, gain: Array | None) -> Array:
    return stream if gain is None else stream * gain


def check_finite(array: Array, what: str, axes: str) -> None:
    if not np.isfinite(array).all():
        place = tuple(int(i) for i in np.argwhere(~np.isfinite(array))[0])
        raise WeightsError(
            f"The run overflowed: {what} is {array[place]}, at ({axes}) = {place}. "
            "The weights are too large for double precision; rescale them."
        )


def stacked(layers: list[Array], shape: tuple[int, ...]) -> Array:
    return frozen(np.stack(layers) if layers else np.zeros((0, *shape)))


def frozen(array: Frozen) -> Frozen:
    array.setflags(write=False)
    return array

"""Live patching of every head and MLP of a model, batched: what one run becomes with one output of another run in it.

Every patched stream joins the batch behind the component that was patched, so that weights are read once for all of
them, and positions before the first token that differs are not computed again. Blocks with the norm before them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

import pathexp as px
from pathexp.model.attention import softmax
from pathexp.model.mlp import neurons
from pathexp.model.norms import normalized
from pathexp.model.range import capped
from pathexp.model.weights import at

Array = npt.NDArray[np.float64]


def nodes(config: px.Config) -> tuple[str, ...]:
    """Return the heads and MLPs of a model in the order of the forward pass."""
    mlp = [[f"L{layer}M"] if config.d_mlp else [] for layer in range(config.n_layers)]
    return tuple(
        name
        for layer in range(config.n_layers)
        for name in [*(f"L{layer}H{head}" for head in range(config.n_heads)), *mlp[layer]]
    )


def layer_of(head: str) -> int:
    """Return the layer of a head by its label."""
    return int(head[1:].partition("H")[0])


def output_changes(here: px.Trace, there: px.Trace) -> dict[str, Array]:
    """Return what every node writes in one run minus what it writes in the other, (n, d) each."""
    heads = here.config.residual_multiplier * (here.head_results - there.head_results)
    changes = {f"L{l}H{h}": heads[l, h] for l in range(len(heads)) for h in range(heads.shape[1])}
    for layer in range(here.config.n_layers if here.config.d_mlp else 0):
        point = f"L{layer}.mlp_out"
        changes[f"L{layer}M"] = here.residuals[point] - there.residuals[point]
    return {node: changes[node] for node in nodes(here.config)}


@dataclass(frozen=True, eq=False)
class Patched:
    """The run `base`, once for each node (or only some) with that node's output taken from the run `donor`.

    Several heads patched together are one name, "L14H3+L15H6", in the order of the forward pass: the first layer's
    outputs are put in, and each later head's output is the donor's as well, whatever it would have been.
    """

    base: px.Trace
    donor: px.Trace
    only: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        c = self.base.config
        plain = not (c.parallel or c.transform or c.windows or c.alibi_slopes or c.qk_norm)
        if (
            not plain
            or not c.causal
            or c.norm_placement != "pre"
            or {"attn_post", "mlp_post"} & set(c.block_norms)
        ):
            raise NotImplementedError("live_patching.py knows plain causal blocks with the norm before them")

    @cached_property
    def first(self) -> int:
        """The first position whose token differs."""
        return int(np.flatnonzero(self.base.tokens != self.donor.tokens)[0])

    def joining(self, layer: int, kind: str, point: str) -> Array:
        """The streams that leave the base run behind one branch of a layer, (nodes, positions, d)."""
        stream = self.base.residuals[point]
        names = self.names(layer, kind)
        changes = [self.changes[name] for name in names]
        return (stream + np.array(changes).reshape(-1, *stream.shape))[:, self.first :]

    def names(self, layer: int, kind: str) -> list[str]:
        """The patches that begin in one branch of a layer."""
        return [name for name in self.changes if name.startswith(f"L{layer}{kind}")]

    @cached_property
    def changes(self) -> dict[str, Array]:
        """What is added to the base run's stream, by node."""
        changes = output_changes(self.donor, self.base)
        if self.only is None:
            return changes
        together = {name: self.begun(name, changes) for name in self.only if "+" in name}
        order = list(changes)
        chosen = {name: changes[name] for name in changes if name in self.only} | together
        return dict(sorted(chosen.items(), key=lambda item: order.index(item[0].partition("+")[0])))

    def begun(self, name: str, changes: dict[str, Array]) -> Array:
        """What the heads of a joint patch that stand in its first layer add to the base run's stream."""
        heads = name.split("+")
        assert all("H" in head for head in heads), "heads are patched together, not MLPs"
        return np.sum([changes[head] for head in heads if layer_of(head) == layer_of(heads[0])], axis=0)

    def replaced(self, z: Array, layer: int) -> Array:
        """The results of a layer's heads, (nodes, positions, heads, d_head), with those that joint patches hold."""
        before = [name for l in range(layer) for kind in "HM" for name in self.names(l, kind)]
        for row, name in enumerate(before):
            for head in name.split("+") if "+" in name else ():
                if layer_of(head) == layer:
                    number = int(head.partition("H")[2])
                    z[row, :, number] = self.donor.z[layer, number, self.first :]
        return z

    @cached_property
    def streams(self) -> tuple[Array, tuple[Array, ...]]:
        """The final streams at the last position, (nodes, d), and by layer the batch's patterns from there."""
        c, patterns = self.base.config, []
        x = np.zeros((0, len(self.base) - self.first, c.d_model))
        for layer in range(c.n_layers):
            added, pattern = (
                self.attention(x, layer) if len(x) else (x, np.zeros((0, c.n_heads, 1, len(self.base))))
            )
            x = x + added
            patterns.append(pattern[:, :, -1])
            x = np.concatenate([x, self.joining(layer, "H", f"L{layer}.{'mid' if c.d_mlp else 'out'}")])
            if c.d_mlp:
                x = np.concatenate([x + self.mlp(x, layer), self.joining(layer, "M", f"L{layer}.out")])
        return x[:, -1], tuple(patterns)

    def norm(self, x: Array, name: str, layer: int | None = None) -> Array:
        """A norm of the model, by its name; x itself where the model has none there."""
        c, w = self.base.config, self.base.model.weights
        if c.norm is None or not (c.final_norm if layer is None else name in c.block_norms):
            return x
        gain, bias = (getattr(w, f"{kind}_{name}") for kind in "gb")
        if layer is not None:
            gain, bias = at(gain, layer), at(bias, layer)
        return normalized(x, c.norm, c.norm_eps, gain, bias)[0]

    def mlp(self, x: Array, layer: int) -> Array:
        """What the MLP of a layer adds to each stream."""
        flat = self.norm(x, "mlp", layer).reshape(-1, x.shape[-1])
        result = neurons(flat, layer, self.base.config, self.base.model.weights).result
        return self.base.config.residual_multiplier * result.reshape(x.shape)

    def attention(self, x: Array, layer: int) -> tuple[Array, Array]:
        """What the heads of a layer add to each stream, and their patterns, (nodes, heads, positions, n)."""
        c, w, trace = self.base.config, self.base.model.weights, self.base
        read = self.norm(x, "attn", layer)
        where = read + w.W_pos[:, self.first : len(trace)].T if c.positions == "qk" else read
        queries = self.turned(projected(where, w.W_Q[layer], at(w.b_Q, layer)))
        keys = self.turned(projected(where, w.W_K[layer], at(w.b_K, layer)))
        values = projected(read, w.W_V[layer], at(w.b_V, layer))
        keys, values = self.whole(trace.keys[layer], keys), self.whole(trace.values[layer], values)
        scores = capped(c.attention_scale * (queries @ np.swapaxes(keys, -1, -2)), c.attention_cap)
        later = np.arange(len(trace)) > np.arange(self.first, len(trace))[:, None]
        pattern = softmax(np.where(later, -np.inf, scores))
        z = self.replaced((pattern @ values).transpose(0, 2, 1, 3), layer).reshape(-1, c.n_heads * c.d_head)
        result = z @ w.W_O[layer].transpose(1, 0, 2).reshape(c.d_model, -1).T
        result = result if w.b_O is None else result + w.b_O[layer]
        return c.residual_multiplier * result.reshape(x.shape), pattern

    def turned(self, vectors: Array) -> Array:
        """Queries or keys turned by rotary positions, counted from the first that is computed again."""
        if self.base.config.rotary is None:
            return vectors
        before = np.zeros((*vectors.shape[:-2], self.first, vectors.shape[-1]))
        return self.base.config.rotary.turned(np.concatenate([before, vectors], axis=-2))[
            ..., self.first :, :
        ]

    def whole(self, before: Array, vectors: Array) -> Array:
        """Keys or values of all positions, one for each query head: the run's own before the first that differs."""
        shared = np.broadcast_to(before[:, : self.first], (len(vectors), *before[:, : self.first].shape))
        groups = [self.base.config.kv_head(head) for head in range(self.base.config.n_heads)]
        return np.concatenate([shared, vectors], axis=-2)[:, groups]

    def effects(self, target: px.Target) -> Array:
        """Return how far a target at the last position moves with each node patched, in the order of `changes`."""
        assert target.at == "logits" and target.position == len(self.base) - 1
        c, w = self.base.config, self.base.model.weights
        ends = np.concatenate([self.base.residuals["final_in"][-1:], self.streams[0]])
        read = c.logit_multiplier * (self.norm(ends, "final") @ (w.W_U.T @ target.direction))
        return np.asarray(read[1:] - read[0])

    def attention_from_the_end(self, layer: int, head: int) -> Iterator[tuple[str, Array]]:
        """Yield by node of an earlier layer how a head attends from the last position once that node is patched."""
        yield from zip(self.changes, self.streams[1][layer][:, head], strict=False)


def by_rerun(base: px.Trace, donor: px.Trace, node: str, target: px.Target) -> float:
    """Return the effect of one patch by running the model again: the same, one node at a time, from the start."""
    layer, _, head = node[1:].partition("H")
    point = f"L{layer}.attn_out" if head else f"L{layer[:-1]}.mlp_out"
    change = output_changes(donor, base)[node]
    patched = px.rerun(base, {point: lambda stream: stream + change})
    return float((patched.logits[-1] - base.logits[-1]) @ target.direction)


def projected(read: Array, maps: Array, biases: Array | None) -> Array:
    """What each head reads in every run: (runs, n, d) by maps (H, h, d) to (runs, H, n, h)."""
    result: Array = read[:, None] @ np.swapaxes(maps, -1, -2)
    return result if biases is None else result + biases[:, None, :]

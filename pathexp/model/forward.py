"""Tokens to Trace: the reference forward pass in plain numpy.

A stream X is (position, d_model), so that a map W, (target, source), acts on it as X @ W.T. Nothing here is
shared with the algebra of linear maps: what an expansion adds up to is compared with this.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import numpy.typing as npt

from ..arguments import Kind, expect
from ..errors import PathexpError
from .activations import GATES
from .attention import Use, attend
from .config import Config
from .experts import Expert, mixture
from .made_again import is_long, scores_and_patterns
from .mlp import by_rows, dense, neurons
from .norms import normalized
from .positions import sinusoids
from .range import capped, check_finite
from .score_rows import Piece
from .trace import Trace, check_trace
from .weights import Weights

if TYPE_CHECKING:
    from .model import Model

Array = npt.NDArray[np.float64]
Tokens = npt.NDArray[np.int64]
Edit = Callable[[Array], Array]
Edits = Mapping[str, Edit]
NO_EDITS: Edits = MappingProxyType({})
Frozen = TypeVar("Frozen", bound=npt.NDArray[Any])


def forward(model: Model, tokens: Tokens, edits: Edits = NO_EDITS) -> Trace:
    """Run a model on token ids, (n), and keep everything that happened.

    ``edits`` by point: what is kept there, (n, d), is replaced by what a function makes of it.

    Raises WeightsError if a score or a logit is not finite, PathexpError for an edit that is never met or of
    another shape.
    """
    run = Run(model.config, model.weights, edits)
    logits = played(run, tokens)
    run.check_edits()
    return _trace(model, tokens, logits, run)


def forward_many(model: Model, rows: Sequence[Tokens]) -> tuple[Trace, ...]:
    """Run a model on each row of token ids, all of them layer by layer: stored weights become float64 once for all.

    Raises WeightsError if a score or a logit is not finite.
    """
    runs = [Run(model.config, model.weights) for _ in rows]
    found = played_together(runs, rows)
    return tuple(
        _trace(model, tokens, logits, run) for tokens, logits, run in zip(rows, found, runs, strict=True)
    )


def played(run: Run, tokens: Tokens) -> Array:
    """Return the logits (n, O) of token ids, before any cap; the run keeps what happened.

    Raises WeightsError if a score or a logit is not finite.
    """
    return played_together([run], [tokens])[0]


def played_together(runs: Sequence[Run], rows: Sequence[Tokens]) -> list[Array]:
    """Return the logits of each row of token ids, as `played` does; a layer is done for all before the next begins."""
    layers = runs[0].config.n_layers if runs else 0
    with np.errstate(over="ignore", invalid="ignore"):  # what overflows reaches scores or logits, and raises
        streams = [run.embed(tokens) for run, tokens in zip(runs, rows, strict=True)]
        for layer in range(layers):
            streams = [run.block(stream, layer) for run, stream in zip(runs, streams, strict=True)]
        found = [run.unembed(stream) for run, stream in zip(runs, streams, strict=True)]
        for logits in found:
            check_finite(logits, "a logit", "position, token")
    return found


def rerun(trace: Trace, edits: Edits) -> Trace:
    """Run the tokens of a trace again, with edits: a live intervention, everything behind it recomputed.

    ``edits``: by point of `Trace.residuals`, a function of what is there, (n, d), to what shall be there instead.
    The graph of an edited run does not know of the edits: its verdict says so, and `intervene` refuses it.

    Raises PathexpError for a point this run does not come by, or an edit that returns another shape.

    >>> import pathexp as px
    >>> trace = px.random_model(layers=2).run([1, 2, 3])
    >>> silenced = rerun(trace, {"L1.attn_out": lambda x: 0 * x})
    >>> bool((silenced.residuals["L1.out"] == trace.residuals["L0.out"]).all())
    True
    """
    check_trace(trace, "rerun")
    expect("rerun", edits=(edits, Kind("functions by point of the run", _functions)))
    return forward(trace.model, trace.tokens, edits)


def _functions(edits: object) -> bool:
    """Whether edits are functions by the names of points."""
    return isinstance(edits, Mapping) and all(isinstance(k, str) and callable(f) for k, f in edits.items())


class Run:
    """The record of a run while it is made."""

    def __init__(self, config: Config, weights: Weights, edits: Edits = NO_EDITS) -> None:
        self.config = config
        self.edits = edits
        self.w = weights
        self.residuals: dict[str, Array] = {}
        self.before_edits: dict[str, Array] = {}
        self.norm_scales: dict[str, Array] = {}
        self.layers: dict[str, Array] = {}
        self.experts: dict[str, Expert] = {}
        self.transform_gates = np.zeros((0, config.d_model))

    def embed(self, tokens: Tokens) -> Array:
        stream = times(self.config.embedding_multiplier, self.w.W_E[:, tokens].T)  # (n, d)
        if self.config.positions == "learned":
            stream = stream + self.positions(len(tokens))
        if self.config.positions == "sinusoidal":
            stream = stream + sinusoids(len(tokens), self.config.d_model)
        if self.config.embed_norm:
            stream = self.norm(self.keep("embed_in", stream), "embed")
        return self.keep("embed", stream)

    def positions(self, n: int) -> Array:
        assert self.w.W_pos is not None, "weights fit their configuration"
        return self.w.W_pos[:, :n].T  # (n, d)

    def block(self, stream: Array, layer: int) -> Array:
        if self.config.parallel:
            out = stream + self.attention_branch(stream, layer) + self.mlp_branch(stream, layer)
            return self.keep(f"L{layer}.out", out)
        stream = self.added(stream, self.attention_branch(stream, layer), layer, "attn")
        if self.config.has_mlps:
            stream = self.keep(f"L{layer}.mid", stream)
            stream = self.added(stream, self.mlp_branch(stream, layer), layer, "mlp")
        return self.keep(f"L{layer}.out", stream)

    def attention_branch(self, stream: Array, layer: int) -> Array:
        read = self.read(stream, layer, "attn", "attn")
        where = read + self.positions(len(read)) if self.config.positions == "qk" else read
        attention = attend(read, where, layer, self.config, self.w, use=self.kept_scores(layer, len(read)))
        self.record(
            layer, queries=attention.queries, keys=attention.keys, values=attention.values, z=attention.z
        )
        self.norm_scales |= {f"L{layer}.{name}": s for name, s in attention.norm_scales.items()}
        return self.written(attention.result, layer, "attn")

    def kept_scores(self, layer: int, n: int) -> Use | None:
        """What puts scores and patterns into arrays of all layers, (L, H, n, n); None for a long run."""
        if is_long(self.config, n):
            return None
        scores, patterns = (
            self.of_layers(name, (self.config.n_heads, n, n))[layer] for name in ("scores", "patterns")
        )
        scores.fill(-np.inf)

        def keep(piece: Piece, score: Array, pattern: Array) -> None:
            piece.put(score, scores)
            piece.put(pattern, patterns)

        return keep

    def mlp_branch(self, stream: Array, layer: int) -> Array:
        norm = "attn" if self.config.parallel == "shared" else "mlp"
        read = self.read(stream, layer, "mlp", norm)
        if self.config.is_sparse(layer):
            mix = mixture(read, layer, self.config, self.w)
            self.record(layer, router_scores=mix.scores, router_weights=mix.weights)
            self.experts |= mix.experts
            return self.written(mix.result, layer, "mlp")
        mlp = neurons(read, layer, self.config, self.w)
        self.record(layer, mlp_pre=mlp.pre, mlp_gates=mlp.gates)
        if self.config.gated:
            self.record(layer, mlp_gate_pre=mlp.gate_pre)
        return self.written(mlp.result, layer, "mlp")

    def read(self, stream: Array, layer: int, branch: str, norm: str) -> Array:
        """What a branch reads: the stream, through its norm if it has one there."""
        return self.keep(f"L{layer}.{branch}_in", self.block_norm(stream, layer, norm))

    def written(self, result: Array, layer: int, branch: str) -> Array:
        """What a branch adds to the stream: its result, through its norm if it has one there, multiplied."""
        result = self.keep(f"L{layer}.{branch}_result", result)
        if self.config.norm_placement != "post":
            result = self.block_norm(result, layer, f"{branch}_post")
        return self.keep(f"L{layer}.{branch}_out", times(self.config.residual_multiplier, result))

    def added(self, stream: Array, branch_out: Array, layer: int, branch: str) -> Array:
        """The stream after a branch; in the original block, the norm of the sum."""
        stream = stream + branch_out
        if self.config.norm_placement != "post":
            return stream
        return self.block_norm(self.keep(f"L{layer}.{branch}_sum", stream), layer, f"{branch}_post")

    def block_norm(self, x: Array, layer: int, name: str) -> Array:
        return self.norm(x, name, layer) if name in self.config.norms_of(layer) else x

    def norm(self, x: Array, name: str, layer: int | None = None) -> Array:
        """A norm by the name of its weights, g_… and b_…; its scales are kept under its site."""
        assert self.config.norm is not None, "a configuration with this norm has one"
        gain, bias = (getattr(self.w, f"{kind}_{name}") for kind in "gb")
        if layer is not None:
            gain, bias = (None if array is None else array[layer] for array in (gain, bias))
        y, scale = normalized(x, self.config.norm, self.config.norm_eps, gain, bias)
        self.norm_scales[name if layer is None else f"L{layer}.{name}"] = scale
        return y

    def unembed(self, stream: Array) -> Array:
        return times(self.config.logit_multiplier, by_rows(self.final(stream), self.w.W_U, self.w.b_U))

    def final(self, stream: Array) -> Array:
        """What the unembedding reads."""
        stream = self.keep("final_in", stream)
        if self.config.transform_norm:
            stream = self.norm(stream, "before_transform")
        if self.config.transform:
            stream = self.keep("transform_in", stream)
            stream = self.keep("transform_out", self.transform(stream))
        if self.config.final_norm:
            stream = self.norm(stream, "final")
        return self.keep("final_out", stream)

    def transform(self, stream: Array) -> Array:
        """The dense layer with an activation that stands before the final norm and the unembedding."""
        assert self.w.W_transform is not None, "weights fit their configuration"
        pre = dense(stream, self.w.W_transform, self.w.b_transform)
        self.transform_gates = GATES[str(self.config.transform_activation)](pre)
        return self.transform_gates * pre

    def keep(self, point: str, stream: Array) -> Array:
        """Keep a stream under its name and hand it on, edited if an edit asks for that."""
        if point in self.edits:
            self.before_edits[point] = stream
            stream = _edited(point, self.edits[point], stream)
        self.residuals[point] = stream
        return stream

    def record(self, layer: int, **parts: Array) -> None:
        """Put what a layer made, (…), into arrays of all layers, (L, …), zero in layers that have no such part."""
        for name, part in parts.items():
            self.of_layers(name, part.shape)[layer] = part

    def of_layers(self, name: str, shape: tuple[int, ...]) -> Array:
        """The array of what all layers make, (L, …), of a shape each; zeros to begin with."""
        if name not in self.layers:
            self.layers[name] = np.zeros((self.config.n_layers, *shape))
        return self.layers[name]

    def check_edits(self) -> None:
        """Raise PathexpError for an edit at a point that this run did not come by."""
        if unmet := [point for point in self.edits if point not in self.residuals]:
            raise PathexpError(
                f"no point {unmet[0]!r} to edit in this run; points: {', '.join(self.residuals)}"
            )


class UnrecordedRun(Run):
    """A run of which streams alone are kept."""

    def record(self, layer: int, **parts: Array) -> None:
        """Let go what a layer made."""

    def kept_scores(self, layer: int, n: int) -> None:
        """Keep no scores."""


def times(multiplier: float, x: Array) -> Array:
    """A stream multiplied; itself where the multiplier is one."""
    return x if multiplier == 1.0 else multiplier * x


def _edited(point: str, edit: Edit, stream: Array) -> Array:
    found = np.array(edit(stream.copy()), dtype=np.float64)
    if found.shape != stream.shape or not np.isfinite(found).all():
        raise PathexpError(
            f"the edit at {point} must return finite numbers of shape {stream.shape}, found shape {found.shape}"
        )
    return found


def _trace(model: Model, tokens: Tokens, logits: Array, run: Run) -> Trace:
    c = model.config
    layers = {name: _frozen(array) for name, array in (_nothing(c, len(tokens)) | run.layers).items()}
    if is_long(c, len(tokens)):
        layers["scores"], layers["patterns"] = scores_and_patterns(
            layers["queries"], layers["keys"], c, model.weights.sinks
        )
    return Trace(
        model=model,
        tokens=_frozen(tokens),
        **{"mlp_gate_pre": layers["mlp_pre"]} | layers,
        transform_gates=_frozen(run.transform_gates),
        experts=MappingProxyType(run.experts),
        residuals=MappingProxyType({point: _frozen(x) for point, x in run.residuals.items()}),
        norm_scales=MappingProxyType({site: _frozen(s) for site, s in run.norm_scales.items()}),
        logits_before_cap=_frozen(logits),
        logits=_frozen(capped(logits, c.logit_cap)),
        edited=tuple(run.edits),
        before_edits=MappingProxyType({point: _frozen(x) for point, x in run.before_edits.items()}),
    )


def _nothing(c: Config, n: int) -> dict[str, Array]:
    """What a run has of parts that no layer of its model makes: arrays of zeros, without memory."""
    heads, groups, hidden = (c.n_heads, n, c.d_head), (c.n_kv_heads, n, c.d_head), (n, c.d_mlp)
    routed = n, 0 if c.experts is None else c.experts.count
    shapes = {
        "queries": heads, "keys": groups, "values": (*groups[:-1], c.d_value), "z": (*heads[:-1], c.d_value),
        "mlp_pre": hidden, "mlp_gates": hidden,
        "router_scores": routed, "router_weights": routed,
    }  # fmt: skip
    shapes |= {} if is_long(c, n) else dict.fromkeys(("scores", "patterns"), (c.n_heads, n, n))
    return {name: np.zeros((c.n_layers, *shape)) for name, shape in shapes.items()}


def _frozen(array: Frozen) -> Frozen:
    array.setflags(write=False)
    return array

"""Runs that differ from others in some rows of a stream, from a layer and a position on: only what differs is computed.

What stands before the first row that differs is what it was, and is read from the keys and values that were recorded. Runs
that begin at one position go through a layer together, however many there are.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from .attention import output, per_head, read_keys, read_queries, read_values, softmax
from .forward import UnrecordedRun, times
from .mlp import by_rows
from .positions import distances, visible
from .range import capped, check_finite
from .stored import BLOCK
from .target import Target
from .trace import Trace
from .weights import at

Array = npt.NDArray[np.float64]


class ContinuedRuns(UnrecordedRun):
    """Streams of the positions from `first` up to `end` that go on from runs of one model and length.

    A stream is (R · S · m, d): for each of R runs S streams of m = end − first positions, one after the other. Positions
    before `first` are those of the runs. Where a position looks ahead, take all positions.

    >>> import pathexp as px
    >>> trace = px.random_model(layers=2).run([1, 2, 3, 4])
    >>> runs = ContinuedRuns([trace], 2, 4)
    >>> bool(np.allclose(runs.block(trace.residuals["L0.out"][2:], 1), trace.residuals["L1.out"][2:], atol=1e-12))
    True
    """

    def __init__(self, runs: Sequence[Trace], first: int, end: int) -> None:
        super().__init__(runs[0].config, runs[0].model.weights)
        self.runs, self.first, self.end = runs, first, end

    def keep(self, point: str, stream: Array) -> Array:
        """Hand a stream on."""
        return stream

    def block(self, stream: Array, layer: int) -> Array:
        """Streams behind a layer, of those before it; what overflows reaches scores or logits, and raises."""
        with np.errstate(over="ignore", invalid="ignore"):
            return super().block(stream, layer)

    def attention_branch(self, stream: Array, layer: int) -> Array:
        """What the heads of a layer add, (R · S · m, d)."""
        read = self.read(stream, layer, "attn", "attn")
        where = read
        if self.config.positions == "qk":
            rows = self.positions(self.end)[self.first :]
            where = (read.reshape(-1, *rows.shape) + rows).reshape(read.shape)
        queries, keys, values = self._reading(read, where, layer)
        pattern = softmax(self._scores(queries, keys, layer), self._sinks(layer))
        z = pattern @ values
        return self.written(output(z.reshape(len(z), -1, z.shape[-1]), layer, self.w), layer, "attn")

    def _reading(self, read: Array, where: Array, layer: int) -> tuple[Array, Array, Array]:
        """Queries (H, R, S, m, h) of these positions, keys and values (H, R, S, end, h) of those before as well."""
        config, w = self.config, self.w
        queries, keys = (
            self._turned(self._apart(made(where, layer, config, w)[0]), layer)
            for made in (read_queries, read_keys)
        )
        values, _ = read_values(read, layer, config, w)
        whole = self._joined("keys", keys, layer), self._joined("values", self._apart(values), layer)
        return queries, *whole

    def _apart(self, heads: Array) -> Array:
        """What each head reads, (H, R · S · m, h), by runs, streams and positions."""
        return heads.reshape(len(heads), len(self.runs), -1, self.end - self.first, heads.shape[-1])

    def _turned(self, heads: Array, layer: int) -> Array:
        rotary = self.config.rotary_of(layer)
        return heads if rotary is None else rotary.turned(heads, self.first, len(self.runs[0]))

    def _joined(self, name: str, own: Array, layer: int) -> Array:
        """Keys or values of all positions, one for each query head: those of the runs before, and their streams' own."""
        before = np.stack([getattr(run, name)[layer][:, : self.first] for run in self.runs], axis=1)
        shape = (*own.shape[:3], self.first, own.shape[-1])
        whole = np.concatenate([np.broadcast_to(before[:, :, None], shape), own], axis=3)
        return per_head(whole, self.config)

    def _scores(self, queries: Array, keys: Array, layer: int) -> Array:
        """What enters the softmax, (H, R, S, m, end)."""
        rows, columns, config = slice(self.first, self.end), slice(0, self.end), self.config
        scores = queries @ np.swapaxes(keys, -1, -2)
        scores *= config.attention_scale
        check_finite(scores, f"a score of layer {layer}", "head, run, stream, query, key")
        scores = capped(scores, config.attention_cap)
        if config.alibi_slopes is not None:
            slopes = np.array(config.alibi_slopes)[:, None, None, None, None]
            scores = scores - slopes * distances(rows, columns)
        seen = visible(rows, columns, config.causal, config.window(layer))
        return np.where(seen, scores, -np.inf)

    def _sinks(self, layer: int) -> Array | None:
        sinks = at(self.w.sinks, layer)
        return None if sinks is None else sinks[:, None, None]


def without_result(trace: Trace, layer: int, result: Array) -> Array:
    """Return the stream behind a layer if its attention gave less by a result, (n, d): the norm behind it, if any, anew.

    >>> import pathexp as px
    >>> trace = px.random_model(layers=2).run([1, 2, 3])
    >>> bool(np.allclose(without_result(trace, 1, np.zeros((3, 24))), trace.residuals["L1.out"]))
    True
    """
    before = trace.residuals["embed" if layer == 0 else f"L{layer - 1}.out"]
    written = UnrecordedRun(trace.config, trace.model.weights).written(
        trace.residuals[f"L{layer}.attn_result"] - result, layer, "attn"
    )
    return GivenBranches(trace, {"attn": written}).block(before, layer)


class GivenBranches(UnrecordedRun):
    """A block of which the attention's or the MLP's output is given, (n, d); every row is then computed for itself.

    >>> import pathexp as px
    >>> trace = px.random_model(layers=2, d_mlp=8).run([1, 2, 3])
    >>> block = GivenBranches(trace, {"attn": trace.residuals["L0.attn_out"]})
    >>> bool(np.allclose(block.block(trace.residuals["embed"], 0), trace.residuals["L0.out"], atol=1e-12))
    True
    """

    def __init__(self, trace: Trace, given: dict[str, Array]) -> None:
        super().__init__(trace.config, trace.model.weights)
        self.given = given

    def attention_branch(self, stream: Array, layer: int) -> Array:
        """What is given, or what attention makes of the stream."""
        found = self.given.get("attn")
        return super().attention_branch(stream, layer) if found is None else found

    def mlp_branch(self, stream: Array, layer: int) -> Array:
        """What is given, or what the MLP makes of the stream."""
        found = self.given.get("mlp")
        return super().mlp_branch(stream, layer) if found is None else found


def logits_of_rows(run: UnrecordedRun, stream: Array) -> Array:
    """Return all logits of some rows of the stream, (K, d): (K, O)."""
    logits = run.unembed(stream)
    check_finite(logits, "a logit", "row, token")
    return capped(logits, run.config.logit_cap)


def values_of(run: UnrecordedRun, stream: Array, target: Target) -> Array:
    """Return a target of logits for each row of the stream at the target's position, (K, d): (K,).

    Only the outputs that the target counts are computed, if they are few.

    >>> import pathexp as px
    >>> trace = px.random_model(layers=1).run([1, 2, 3])
    >>> run = ContinuedRuns([trace], 0, 3)
    >>> bool(np.isclose(values_of(run, trace.residuals["L0.out"][-1:], trace.logit(5))[0], trace.logits[-1, 5]))
    True
    """
    w, config = run.w, run.config
    chosen = np.flatnonzero(target.direction)
    final = run.final(stream)
    if len(chosen) > BLOCK:
        logits, direction = by_rows(final, w.W_U, w.b_U), target.direction
    else:
        logits = final @ np.asarray(w.W_U[chosen]).T + (0.0 if w.b_U is None else w.b_U[chosen])
        direction = target.direction[chosen]
    logits = times(config.logit_multiplier, logits)
    check_finite(logits, "a logit", "stream, token")
    return np.asarray(capped(logits, config.logit_cap) @ direction)

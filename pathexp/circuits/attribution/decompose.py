"""The residual stream as an account: at every depth, the sum of what each component has written."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ...errors import GraphError
from ...graph import Array, ResidualGraph, Source, freeze, push, start_value
from ...model import Config, Trace
from ...model.trace import check_trace

SHARE = 1e-11
"""An account is right if it is off by at most this share of the largest sum of the sizes of its entries."""


@dataclass(frozen=True)
class Balance:
    """What an account at one point adds up to, beside the stream of the run."""

    point: str
    entries: int
    error: float
    tolerance: float

    @property
    def ok(self) -> bool:
        """Whether the entries add up to the stream."""
        return self.error <= self.tolerance

    def __str__(self) -> str:
        sign = "=" if self.ok else "≠"
        return (
            f"{self.point} {sign} sum of {self.entries} entries: largest error {self.error:.2e}, "
            f"tolerance {self.tolerance:.2e}"
        )


@dataclass(frozen=True, eq=False, repr=False)
class Decomposition:
    """h_l = h_0 + Σ attention + Σ MLP, by name and at every depth, for one run.

    ``points`` are the depths, by the names of `Trace.residuals`: "embed", then "L0.mid" (after attention, where an
    MLP follows) and "L0.out" for every layer. ``labels`` are in the order in which they are written: sources of the
    embedding (`E`, `P`, `b_embed`), then block by block its components and the biases behind it (`L0H0`, …, `b_O_L0`,
    `L0M`, `b_out_L0`, …). What is constant inside a component (value biases, biases of the norm it reads through,
    biases of neurons) is part of what it writes.

    In a post-norm model the stream passes norms on its way; entries are then *as carried* there, through the frozen
    norms. Everywhere else an entry is what was added, at every later depth.
    """

    trace: Trace
    graph: ResidualGraph

    def __repr__(self) -> str:
        return f"<Decomposition: {len(self.labels)} entries at {len(self.points)} points of {self.trace!r}>"

    @cached_property
    def points(self) -> tuple[str, ...]:
        """The depths at which there is an account, by name."""
        return ("embed", *stream_points(self.trace.config))

    @cached_property
    def labels(self) -> tuple[str, ...]:
        """All entries in the order in which they are written, the order of every array here."""
        return tuple(self._born)

    def at(self, point: str) -> Mapping[str, Array]:
        """What has been written by a point, by label, as it stands there: (n, d_model) each.

        Raises GraphError for a point that is not one of ``points``. Costs one pass over the skip edges.
        """
        depth = self._depth(point)
        return {label: self._carried(label, depth) for label in self.labels if self._born[label] <= depth}

    def stack(self, point: str) -> Array:
        """The same as one array, (entries, n, d_model): row k is that of ``labels[k]``."""
        return np.array(list(self.at(point).values()))

    def __getitem__(self, label: str) -> Array:
        """What one entry is on the final stream, (n, d_model)."""
        self._check_label(label)
        return self._carried(label, len(self.points) - 1)

    def written(self, label: str) -> Array:
        """What one entry was when it was written, (n, d_model). Raises GraphError if there is none."""
        self._check_label(label)
        return self._written[label]

    def branches(self, point: str) -> Mapping[str, Array]:
        """The account by branches: "embed", "L0.attn", "L0.mlp", …, biases included; (n, d_model) each."""
        sums: dict[str, Array] = {}
        for label, stream in self.at(point).items():
            branch = self._branch(label)
            sums[branch] = sums[branch] + stream if branch in sums else stream
        return sums

    def logits(self) -> Mapping[str, Array]:
        """What every entry adds to the logits through the frozen final norm, (n, d_vocab) each; they add up.

        Constants that are read by the unembedding alone (`b_final`, `b_U`) are entries here too.
        """
        sink = self.graph.sink
        found = {label: push(sink.operator, self[label]) for label in self.labels}
        straight = (source for source in self.graph.sources if sink.label in source.into)
        return found | {s.label: start_value(s.start, s.into[sink.label]) for s in straight}

    def balances(self) -> tuple[Balance, ...]:
        """The account at every point beside the stream of the forward pass."""
        return tuple(map(self._balance, self.points))

    @property
    def ok(self) -> bool:
        """Whether every account adds up."""
        return all(balance.ok for balance in self.balances())

    def _balance(self, point: str) -> Balance:
        entries = self.stack(point)
        error = np.abs(entries.sum(axis=0) - self.trace.residuals[point]).max()
        size = np.abs(entries).sum(axis=0).max()
        return Balance(point, len(entries), float(error), float(SHARE * size))

    # How it is made ------------------------------------------------------------------------------------

    @cached_property
    def _written(self) -> dict[str, Array]:
        """Every entry as written, in order: one walk along the stream."""
        found: dict[str, Array] = {}
        x = np.zeros(self.graph.sizes[:2])
        for depth in range(len(self.graph.blocks) + 1):
            for source in self._sources(depth):
                found[source.label] = source.value()
                x = x + found[source.label]
            if depth < len(self.graph.blocks):
                outputs = self._outputs(depth, x)
                x = self.graph.kernels[depth].through_skip(x[None])[0] + sum(outputs.values())
                found |= outputs
        return found

    def _outputs(self, depth: int, x: Array) -> dict[str, Array]:
        """What the components of a block write for a stream x, the constants inside them included."""
        components = self.graph.blocks[depth].components
        streams = self.graph.kernels[depth].each(x[None], np.arange(len(components)))[:, 0]
        outputs = {c.label: stream for c, stream in zip(components, streams, strict=True)}
        for source in self.graph.sources:
            for label, operator in source.into.items():
                if label in outputs:
                    outputs[label] = outputs[label] + start_value(source.start, operator)
        return outputs

    def _sources(self, depth: int) -> list[Source]:
        return [source for source in self.graph.sources if source.depth == depth]

    @cached_property
    def _born(self) -> dict[str, int]:
        """The depth from which on each entry is on the stream."""
        born: dict[str, int] = {}
        for depth in range(len(self.graph.blocks) + 1):
            if depth:
                born |= {c.label: depth for c in self.graph.blocks[depth - 1].components}
            born |= {source.label: depth for source in self._sources(depth)}
        return born

    def _carried(self, label: str, depth: int) -> Array:
        """An entry at a depth: as written, through the maps on the skip edges since."""
        stream = self._written[label]
        for kernel in self.graph.kernels[self._born[label] : depth]:
            stream = kernel.through_skip(stream)
        return stream

    def _depth(self, point: str) -> int:
        if point not in self.points:
            raise GraphError(f"no account at {point!r}; there is one at {', '.join(self.points)}")
        return self.points.index(point)

    def _check_label(self, label: str) -> None:
        if label not in self._born:
            raise GraphError(f"no entry {label!r}; entries are {', '.join(self.labels)}")

    def _branch(self, label: str) -> str:
        node = self.graph.by_label[label]
        layer = getattr(node, "layer", -1)
        if layer < 0:
            return "embed"
        kind = "attn" if getattr(node, "head", None) is not None or label.startswith(_OF_ATTENTION) else "mlp"
        return f"L{layer}.{kind}"


_OF_ATTENTION = ("b_O_", "b_attn_")


def stream_points(config: Config) -> tuple[str, ...]:
    """The points of the stream behind each block, by the names of `Trace.residuals`."""
    halves = ("out",) if config.parallel or not config.d_mlp else ("mid", "out")
    return tuple(f"L{layer}.{half}" for layer in range(config.n_layers) for half in halves)


def decompose(trace: Trace) -> Decomposition:
    """Take the residual stream of a run apart into what each component wrote, at every depth.

    Elhage et al. 2021, "The Residual Stream". Norms, patterns and gates are frozen at the run (`px.freeze(trace)`).

    >>> import pathexp as px
    >>> parts = px.decompose(px.load("attn-1l").run("To be"))
    >>> parts.labels[:3], parts.points
    (('E', 'L0H0', 'L0H1'), ('embed', 'L0.out'))
    >>> print(parts.balances()[-1].ok, parts["L0H0"].shape == parts.trace.residuals["L0.out"].shape)
    True True
    """
    check_trace(trace, "decompose")
    return Decomposition(trace, freeze(trace))

"""The residual stream as an account: at every depth, the sum of what each component has written."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np

from ...answer import Answer, Check, Facts, Figure, Part, Table, columns, visible
from ...arguments import TEXT, expect
from ...errors import GraphError
from ...expansion.header import counted, run_facts
from ...expansion.tolerance import ROUNDING, stream_noise, stream_tolerance
from ...graph import Array, ResidualGraph, Source, freeze, lengths, push, start_value
from ...model import Config, Trace
from ...model.trace import check_trace


@dataclass(frozen=True, eq=False, repr=False)
class Decomposition(Answer):
    """h_l = h_0 + Σ attention + Σ MLP, by name and at every depth, for one run.

    ``points`` are the depths, by the names of `Trace.residuals`: "embed", then "L0.mid" (after attention, where an
    MLP follows) and "L0.out" for every layer. ``labels`` are in the order in which they are written: sources of the
    embedding (`E`, `P`, `b_embed`), then block by block its components and the biases behind it (`L0H0`, …, `b_O_L0`,
    `L0M`, `b_out_L0`, …). What is constant inside a component (value biases, biases of the norm it reads through,
    biases of neurons) is part of what it writes.

    In a post-norm model the stream passes norms on its way; entries are then *as carried* there, through the frozen
    norms. Everywhere else an entry is what was added, at every later depth.
    """

    live: ClassVar[frozenset[str]] = frozenset({"trace", "graph", "_written"})

    trace: Trace
    graph: ResidualGraph
    point: str = ""
    """The depth that is shown; the last where none is named."""

    def headline(self) -> str:
        """Return what is taken apart, and where."""
        return f"the residual stream at {self._shown} as a sum of {counted(len(self.at(self._shown)), 'entry', 'entries')}"

    def parts(self) -> Iterator[Part]:
        """Yield the entries at one depth, the balance at every depth, and shares by position."""
        yield run_facts(self.trace)
        yield Facts({"point": self._shown})
        yield self._entries()
        balances = self.balances()
        yield Table(
            (columns.text("point"), columns.number("error", digits=-3, signed=False),
             columns.number("tolerance", digits=-3, signed=False)),
            [(each.name, each.error, each.tolerance) for each in balances],
            name="balances", title="the sum of the entries beside the stream of the forward pass, at every depth",
            key=("point",), value="error", shown=6,
        )  # fmt: skip
        yield worst(balances)
        shares = self._shares(self._shown)
        yield Figure(
            "heatmap", "shares",
            {"rows": list(self.at(self._shown)), "columns": places(self.trace), "values": shares},
            f"share of the squared length of the stream at {self._shown}",
        )  # fmt: skip

    @property
    def _shown(self) -> str:
        return self.point or self.points[-1]

    def _entries(self) -> Table:
        entries, stream = self.at(self._shown), self.trace.residuals[self._shown]
        size = float(np.sum(stream * stream)) or 1.0
        rows = [(label, self._branch(label), float(np.sum(each * stream)) / size, float(lengths(each).mean()))
                for label, each in entries.items()]  # fmt: skip
        return Table(
            (columns.text("entry"), columns.text("branch"), columns.share("share", signed=True),
             columns.number("length", "mean length", signed=False)),
            sorted(rows, key=lambda row: -abs(row[2])), name="entries",
            title="share of the squared length of the stream, over all positions",
            key=("entry",), value="share", additive=True, absent="zero",
            rest=[("all", "", sum(row[2] for row in rows), None)],
        )  # fmt: skip

    def _shares(self, point: str) -> Array:
        stream = self.trace.residuals[point]
        size = np.sum(stream * stream, axis=-1)
        shares: Array = np.sum(self.stack(point) * stream, axis=-1) / np.where(size > 0, size, 1.0)
        return shares

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

    def balances(self) -> tuple[Check, ...]:
        """Return the account at every point beside the stream of the forward pass, as one check each."""
        return tuple(map(self._balance, self.points))

    def _balance(self, point: str) -> Check:
        entries = self.stack(point)
        error = np.abs(entries.sum(axis=0) - self.trace.residuals[point]).max()
        tolerance = stream_tolerance(self._noise[self._depth(point)], np.abs(entries))
        return Check(
            f"the stream at {point} is the sum of {counted(len(entries), 'entry', 'entries')}",
            float(error), tolerance, ROUNDING, name=point,
        )  # fmt: skip

    @cached_property
    def _noise(self) -> list[Array]:
        """The deviation of the stream's rounding at every point."""
        noise = stream_noise(self.graph)
        return noise if len(noise) == len(self.points) else [np.max(noise, axis=0)] * len(self.points)

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
                outputs = outputs_of(self.graph, depth, x)
                x = self.graph.kernels[depth].through_skip(x[None])[0] + sum(outputs.values())
                found |= outputs
        return found

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
        if not any(block.skip for block in self.graph.blocks):
            return stream
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


_OF_ATTENTION = ("b_O_", "b_attn_", "b_DKV_")


def outputs_of(
    graph: ResidualGraph, depth: int, x: Array, wanted: Collection[str] | None = None
) -> dict[str, Array]:
    """Return what the components of a block write for a stream, (n, d_model), the constants inside them included.

    All of them, or those that are wanted, by label.
    """
    every = graph.blocks[depth].components
    places = [at for at, c in enumerate(every) if wanted is None or c.label in wanted]
    streams = graph.kernels[depth].each(x[None], np.array(places, dtype=np.int64))[:, 0]
    outputs = {every[at].label: stream for at, stream in zip(places, streams, strict=True)}
    for source in graph.sources:
        for label, operator in source.into.items():
            if label in outputs:
                outputs[label] = outputs[label] + start_value(source.start, operator)
    return outputs


def written_by(trace: Trace, labels: Collection[str]) -> dict[str, Array]:
    """Return what some sources and components wrote on a run, (n, d_model) each, as `Decomposition.written` has it.

    Each block of theirs acts on the stream of the run, so that no other block is made.

    >>> import pathexp as px
    >>> trace = px.random_model(d_mlp=8).run([1, 2, 3])
    >>> found, whole = written_by(trace, ("E", "L1M")), decompose(trace)
    >>> all(np.allclose(found[label], whole.written(label), rtol=0, atol=1e-12) for label in ("E", "L1M"))
    True
    """
    graph = freeze(trace)
    found = {source.label: source.value() for source in graph.sources if source.label in labels}
    for depth, point in enumerate(("embed", *stream_points(trace.config))[: len(graph.blocks)]):
        wanted = {each.label for each in graph.blocks[depth].components} & set(labels)
        if wanted:
            found |= outputs_of(graph, depth, trace.residuals[point], wanted)
    return found


def stream_points(config: Config) -> tuple[str, ...]:
    """The points of the stream behind each block, by the names of `Trace.residuals`."""
    halves = ("out",) if config.parallel or not config.has_mlps else ("mid", "out")
    return tuple(f"L{layer}.{half}" for layer in range(config.n_layers) for half in halves)


def worst(balances: tuple[Check, ...]) -> Check:
    """Return the balance that is worst for its tolerance, as a statement about all of them."""
    found = max(balances, key=lambda each: each.error / (each.tolerance or 1.0))
    what = f"the stream is the sum of what was written, at {counted(len(balances), 'depth')}"
    return Check(what, found.error, found.tolerance, found.source, f"worst at {found.name}", name="stream")


def places(trace: Trace) -> list[str]:
    """Return the positions of a run with their tokens."""
    return [f"{position} {visible(token)}" for position, token in enumerate(trace.token_strings)]


def decompose(trace: Trace, *, point: str | None = None) -> Decomposition:
    """Take the residual stream of a run apart into what each component wrote, at every depth.

    Elhage et al. 2021, "Virtual Weights and the Residual Stream as a Communication Channel". Norms, patterns and gates
    are frozen at the run (`px.freeze(trace)`). The shares of entries are those of the squared length of the stream:
    the entry's inner product with the stream over the stream's with itself, summed over positions; they add up to 1.

    Parameters
    ----------
    point: the depth that the answer shows, such as "L0.out"; the last by default.

    Raises GraphError for a point that is not there.

    >>> import pathexp as px
    >>> parts = px.decompose(px.load("attn-1l").run("To be"))
    >>> parts.labels[:3], parts.points
    (('E', 'L0H0', 'L0H1'), ('embed', 'L0.out'))
    >>> print(parts.ok, parts["L0H0"].shape == parts.trace.residuals["L0.out"].shape)
    True True
    """
    check_trace(trace, "decompose")
    expect("decompose", point=(point, TEXT.or_none))
    found = Decomposition(trace, freeze(trace), point or "")
    found._depth(point or found.points[-1])
    return found

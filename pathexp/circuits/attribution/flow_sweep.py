"""One backward and one forward sweep: the exact flow of a target along every edge.

The flow of an edge a -> b is ⟨the target pulled back to b's input, a's output carried over the skips⟩: the sum
over all paths that take the edge. With a mask only the open edges exist, and each reader has an input of its own.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from ...errors import SizeError
from ...expansion.targets import on_stream, reads_output
from ...graph import Array, BlockKernel
from ...model import Target
from .open_edges import Mask, open_edges
from .wires import Indices, Wires

MEMORY_LIMIT = 2**28
"""How many numbers the pulled-back targets of all nodes may hold (2 GiB of float64)."""


AT_ONCE = 16
"""How many writers are met with all later readers together: each such meeting reads all of these once."""


NOTHING: Iterator[object] = iter(())
"""No other pass."""


@dataclass(frozen=True, eq=False)
class Backward:
    """Per block, the target pulled back to what its components write and to what they read.

    outputs: (components or 1, states, n, d), one for all without a mask, none where no constant asks for them.
    inputs: (readers, states, n, d), parts of `readers` (all readers, states, n, d), whose last is the sink: the target on the
    final stream.
    """

    outputs: tuple[Array, ...]
    inputs: tuple[Array, ...]
    readers: Array


@dataclass(frozen=True, eq=False)
class FlowSweep:
    """The flows of a target through the accepted paths, or through those of them that a mask leaves open."""

    wires: Wires
    target: Target
    mask: Mask | None = None

    def __post_init__(self) -> None:
        self.wires.check_skips()
        n, d, _ = self.wires.graph.sizes
        numbers = self.wires.columns * len(self.wires.states) * n * d
        if numbers > MEMORY_LIMIT:
            apart = " kept apart by position; leave out per_position, or" if self.wires.by_position else ","
            raise SizeError(
                f"a flow through {self.wires.columns:,} nodes × {len(self.wires.states)} states, "
                f"{n} positions × {d} numbers each, holds {numbers:,} numbers (limit {MEMORY_LIMIT:,}){apart} "
                "run a shorter text"
            )

    # Shapes --------------------------------------------------------------------------------------------

    @property
    def _kernels(self) -> Sequence[BlockKernel]:
        return self.wires.graph.kernels

    @cached_property
    def _shape(self) -> tuple[int, int, int]:
        n, d, _ = self.wires.graph.sizes
        return len(self.wires.states), n, d

    def _open(self, rows: Indices) -> Array:
        """Which edges from some writers are open, (rows, copies, readers) of zeros and ones."""
        assert self.mask is not None
        shaped = self.mask.stream.reshape(len(self.wires.writers), self.wires.copies, -1)
        return shaped[rows].astype(np.float64)

    # Backward ------------------------------------------------------------------------------------------

    @cached_property
    def backward(self) -> Backward:
        """The target pulled back through every component, last block first."""
        covector = on_stream(self.target, self.wires.graph)
        readers = np.empty((self.wires.columns, *self._shape))
        readers[-1] = self.wires.finishes[:, None, None] * covector
        read = readers[-1:]  # what readers so far ask of the stream, (readers, states, n, d)
        columns = np.array([self.wires.columns - 1])
        outputs, inputs = [], []
        for b in reversed(range(len(self._kernels))):
            asked = read if self.mask is None else self._asked(self.wires.members[b], columns, read)
            taken = self._part(readers, b)
            self._pull(b, asked, taken)
            outputs.append(asked if self.wires.reads_constants(b) else asked[:0])
            inputs.append(taken)
            carried = self._over_skip(b, read, backward=True)
            if self.mask is None:
                read = carried + taken.sum(axis=0, keepdims=True)
            else:
                read, columns = (
                    np.concatenate([taken, carried]),
                    np.concatenate([self.wires.ports[b], columns]),
                )
        return Backward(tuple(reversed(outputs)), tuple(reversed(inputs)), readers)

    def _part(self, readers: Array, b: int) -> Array:
        """The readers of a block among all, not copied."""
        first = int(self.wires.ports[b][0]) if len(self.wires.ports[b]) else 0
        return readers[first : first + len(self.wires.ports[b])]

    def _asked(self, rows: Indices, columns: Indices, read: Array) -> Array:
        """What open edges ask of some writers' outputs, (rows, states, n, d)."""
        opened = self._open(rows)[:, :, columns]
        if not self.wires.by_position:
            return np.tensordot(opened[:, 0], read, axes=1)
        return np.einsum("wjp,psjd->wsjd", opened, read, optimize=True)  # type: ignore[no-any-return]

    def _pull(self, b: int, asked: Array, taken: Array) -> None:
        """Put what is asked of a block's outputs, through its components, to what is taken in: (readers, states, n, d)."""
        kernel = self._kernels[b].transposed
        shaped = taken.reshape(len(self.wires.members[b]), self.wires.copies, *self._shape)
        if self._takes_all(b):
            kernel.each(self._copies(asked[0, 0]), np.arange(len(shaped)), shaped[:, :, 0])
            return
        shaped.fill(0.0)
        for state, after, components in self.wires.crossings(b):
            if self.mask is None:
                shaped[components, :, state] = kernel.each(self._copies(asked[0, after]), components)
                continue
            for c in components:
                shaped[c, :, state] = kernel.each(self._copies(asked[c, after]), np.array([c]))[0]

    def _takes_all(self, b: int) -> bool:
        """Whether all there is on the stream passes all components of a block, whose numbers then need no sorting."""
        return self.mask is None and len(self.wires.states) == 1 and bool((self.wires.steps[b] == 0).all())

    def _copies(self, x: Array) -> Array:
        """A field (n, d), or one per copy, with only the positions of each copy kept: (copies, n, d)."""
        return self.wires.selectors[:, :, None] * x

    def _over_skip(self, b: int, x: Array, backward: bool = False) -> Array:
        if not self._kernels[b].skip:
            return x
        kernel = self._kernels[b].transposed if backward else self._kernels[b]
        return kernel.through_skip(x)

    # Forward -------------------------------------------------------------------------------------------

    @cached_property
    def stream(self) -> Array:
        """The flow of every edge on the stream, (writers · copies, readers)."""
        return self._forward(NOTHING)

    def go_forward(self, beside: Iterator[object]) -> None:
        """Find the flows on the stream, and take a step of another pass over the blocks beside each of one's own.

        What blocks are made of, such as the patterns of a long text, is then made once for both.
        """
        vars(self)["stream"] = self._forward(beside)

    def _forward(self, beside: Iterator[object]) -> Array:
        plain = self.mask is None and not any(block.skip for block in self.wires.graph.blocks)
        found = self._over_plain_skips(beside) if plain else self._over_any_skips()
        deque(beside, maxlen=0)
        return found

    def _over_plain_skips(self, beside: Iterator[object] = NOTHING) -> Array:
        """The same where skips change nothing: what is written is met with later readers, some writers at a time, and let go."""
        wires, readers = self.wires, self.backward.readers
        flows = np.zeros((len(wires.writers), wires.copies, wires.columns))
        room = np.empty(
            (min(AT_ONCE, len(wires.writers)) + max(map(len, wires.members), default=0), *self._shape)
        )
        x, fresh, first = np.zeros(self._shape), _Fresh(flows, self._met, room), 0
        next(beside, None)
        for depth in range(len(self._kernels) + 1):
            for row, state, value in wires.entering(depth):
                entered = np.zeros((1, *self._shape))
                entered[0, state] = value
                fresh.room(np.array([row]))[:] = entered
                x[state] += value
            end = first + (len(wires.ports[depth]) if depth < len(self._kernels) else 1)
            fresh.meet(readers, first, end)
            if depth < len(self._kernels):
                output = fresh.room(wires.members[depth])
                next(beside, None)
                self._push(depth, x, output)
                x = x + output.sum(axis=0)
                fresh.settle(readers, end)
            first = end
        return flows.reshape(-1, wires.columns)

    def _over_any_skips(self) -> Array:
        """The same where skips carry what is written on, or edges are closed."""
        wires, backward = self.wires, self.backward
        flows = np.zeros((len(wires.writers) * wires.copies, wires.columns))
        written = np.zeros((len(wires.writers), *self._shape))
        for b in range(len(self._kernels)):
            self._enter(b, written)
            flows[:, wires.ports[b]] = self._met(written, backward.inputs[b])
            x = written.sum(axis=0) if self.mask is None else self._inputs(b, written)
            output = np.empty((len(wires.members[b]), *self._shape))
            self._push(b, x, output)
            written = self._over_skip(b, written)
            written[wires.members[b]] = output
        self._enter(len(self._kernels), written)
        flows[:, -1] = self._met(written, backward.readers[-1:])[:, 0]
        return flows if self.mask is None else flows * self.mask.stream

    def _enter(self, depth: int, written: Array) -> None:
        for row, state, value in self.wires.entering(depth):
            written[row, state] += value

    def _met(self, written: Array, asked: Array) -> Array:
        """What is written, met with what is asked: (writers · copies, readers)."""
        if not self.wires.by_position:
            size = math.prod(self._shape)
            return np.asarray(written.reshape(len(written), size) @ asked.reshape(len(asked), size).T)
        met = np.einsum("wsjd,psjd->wjp", written, asked, optimize=True)
        return np.asarray(met.reshape(len(written) * self.wires.copies, len(asked)))

    def _push(self, b: int, x: Array, output: Array) -> None:
        """Put what the components of a block write, constants read inside them included, to `output` (components, states, n, d).

        `x`: what they read, (states, n, d), or with a mask of each, (components, copies, states, n, d).
        """
        kernel = self._kernels[b]
        if self._takes_all(b):
            kernel.each(x, np.arange(len(output)), output)
            self._add_directs(b, output)
            return
        output.fill(0.0)
        for state, after, components in self.wires.crossings(b):
            if self.mask is None:
                output[components, after] += kernel.each(x[state][None], components)[:, 0]
                continue
            for c in components:
                each = kernel.each(x[c, :, state], np.array([c]))[0]
                output[c, after] += (self.wires.selectors[:, :, None] * each).sum(axis=0)
        self._add_directs(b, output)

    def _inputs(self, b: int, written: Array) -> Array:
        """What reaches each reader of a block over open edges, (components, copies, states, n, d)."""
        opened = self._open(np.arange(len(written)))[:, :, self.wires.ports[b]]
        if not self.wires.by_position:
            x = np.tensordot(opened[:, 0].T, written, axes=1)
        else:
            x = np.einsum("wjp,wsjd->psjd", opened, written, optimize=True)
        return x.reshape(len(self.wires.members[b]), self.wires.copies, *self._shape)

    def _add_directs(self, b: int, output: Array) -> None:
        members = self.wires.members[b]
        for number, direct in enumerate(self.wires.directs):
            row = self.wires.rows.get(direct.reader, -1)
            for c in np.flatnonzero(members == row):
                kept = np.ones(self.wires.copies) if self.mask is None else self.mask.direct[number]
                output[c, direct.state] += (kept @ self.wires.selectors)[:, None] * direct.value

    @cached_property
    def direct(self) -> Array:
        """The flow of every constant that is read past the stream, (directs, copies)."""
        flows = np.array([self._met_direct(number) for number in range(len(self.wires.directs))])
        flows = flows.reshape(len(self.wires.directs), self.wires.copies)
        return flows if self.mask is None else flows * self.mask.direct

    def _met_direct(self, number: int) -> Array:
        direct, wires = self.wires.directs[number], self.wires
        if direct.reader == wires.graph.sink.label:
            met = np.zeros(wires.graph.sizes[0])
            if reads_output(self.target, wires.graph):
                met[self.target.position] = direct.value[self.target.position] @ self.target.direction
        else:
            b = wires.graph.places[direct.reader]
            outputs = self.backward.outputs[b]
            c = (
                0
                if self.mask is None
                else int(np.flatnonzero(wires.members[b] == wires.rows[direct.reader])[0])
            )
            met = np.sum(outputs[c, direct.state] * direct.value, axis=-1)
        return wires.selectors @ met

    # Sums ----------------------------------------------------------------------------------------------

    @cached_property
    def value(self) -> float:
        """What all paths add to the target: the flow into the sink."""
        sink = self.wires.graph.sink.label
        straight = [self.direct[i].sum() for i, d in enumerate(self.wires.directs) if d.reader == sink]
        return float(self.stream[:, -1].sum() + sum(straight))

    # Which edges a path can take -----------------------------------------------------------------------

    @cached_property
    def paths_exist(self) -> Mask:
        """The edges that lie on some accepted path whose edges are all open."""
        return open_edges(self.wires, self.mask)


@dataclass(eq=False)
class _Fresh:
    """What was written and not yet met with all readers: rows of writers, and what they write (writers, states, n, d)."""

    flows: Array
    met: Callable[[Array, Array], Array]
    written: Array
    rows: list[int] = field(default_factory=list)

    def room(self, rows: Indices) -> Array:
        """Return where to put what some writers write, (rows, states, n, d)."""
        begin = len(self.rows)
        self.rows.extend(int(row) for row in rows)
        if len(self.rows) > len(self.written):
            self.written = np.concatenate(
                [self.written[:begin], np.empty((len(rows), *self.written.shape[1:]))]
            )
        return self.written[begin : len(self.rows)]

    def meet(self, readers: Array, first: int, end: int) -> None:
        """Meet what is fresh with some readers."""
        if not self.rows or first == end:
            return
        found = self.met(self.written[: len(self.rows)], readers[first:end])
        self.flows[self.rows, :, first:end] = found.reshape(len(self.rows), self.flows.shape[1], end - first)

    def settle(self, readers: Array, begin: int) -> None:
        """Meet with all later readers what has become much, and let it go."""
        if len(self.rows) >= AT_ONCE:
            self.meet(readers, begin, len(readers))
            self.rows = []

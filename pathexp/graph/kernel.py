"""The numbers of a graph, stacked for speed: all heads of a block in three matrix products.

A head is (A ⊗ left · right) with a narrow waist; heads of one block and one waist are stacked. Whatever does
not fit that shape (gates, maps without positions) is applied as the operator it is.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import overload

import numpy as np
from numpy.typing import NDArray

from ..algebra import Dense, waist
from ..budget import BUDGET
from .along_positions import first, looks_ahead
from .nodes import Block
from .operators import Array, Operator, Step, pull, push, word_map

Indices = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Stack:
    """Heads of one block with one waist: patterns (C, n, n), read (C, r, d), write (C, d, r)."""

    members: Indices
    patterns: Array
    read: Array
    write: Array

    def pick(self, wanted: Indices) -> Indices:
        """Return where in this stack the wanted components of the block stand."""
        return np.flatnonzero(np.isin(self.members, wanted))

    def values(self, x: Array, rows: Indices) -> Array:
        """Streams (K, n, d) to moved values (K, n, len(rows), r)."""
        k, n, d = x.shape
        read = self.read if len(rows) == len(self.members) else self.read[rows]
        patterns = self.patterns if len(rows) == len(self.members) else self.patterns[rows]
        patterns, (c, r) = patterns[:, :n, :n], read.shape[:2]
        values = (x.reshape(k * n, d) @ read.reshape(c * r, d).T).reshape(k, n, c, r)
        moved = patterns @ values.transpose(2, 1, 0, 3).reshape(c, n, k * r)
        return moved.reshape(c, n, k, r).transpose(2, 1, 0, 3)

    def written(self, values: Array, rows: Indices) -> Array:
        """Moved values (K, n, len(rows), r) to the sum of what their heads write, (K, n, d)."""
        k, n, c, r = values.shape
        write = self.write_flat if c == len(self.members) else self._flat(self.write[rows])
        return (values.reshape(k * n, c * r) @ write).reshape(k, n, -1)

    def each(self, x: Array, rows: Indices) -> Array:
        """Streams (K, n, d) to what each chosen head writes, (len(rows), K, n, d)."""
        k, n, _ = x.shape
        moved = self.values(x, rows).transpose(2, 0, 1, 3).reshape(len(rows), k * n, -1)
        return (moved @ np.swapaxes(self.write[rows], -1, -2)).reshape(len(rows), k, n, -1)

    @cached_property
    def norm(self) -> Array:
        """Frobenius norm of each head's feature map: (C,)."""
        return product_norm(self.write, self.read)

    @property
    def write_flat(self) -> Array:
        return BUDGET.get(self, "flat", lambda: self._flat(self.write))

    @staticmethod
    def _flat(write: Array) -> Array:
        return np.ascontiguousarray(write.transpose(0, 2, 1)).reshape(-1, write.shape[1])

    def transposed(self) -> Stack:
        """The same heads read backward: covectors at their outputs to covectors at their inputs."""
        return Stack(
            self.members,
            self.patterns.transpose(0, 2, 1),
            np.ascontiguousarray(self.write.transpose(0, 2, 1)),
            np.ascontiguousarray(self.read.transpose(0, 2, 1)),
        )


@dataclass(frozen=True, eq=False)
class BlockKernel:
    """One block, ready for sums over chosen groups of its components.

    Streams may be shorter than the run: those of its first positions, which is exact if the block is causal.
    """

    stacks: tuple[Stack, ...]
    single: tuple[tuple[int, Operator], ...]
    skip: Operator
    positions: int
    backward: bool = False

    def through_skip(self, x: Array) -> Array:
        """Carry streams (K, n, d) over the skip edge."""
        return self._apply(self.skip, x)

    def sums(self, x: Array, groups: Sequence[Indices]) -> list[Array]:
        """For streams x (K, n, d), return per group the sum of its components' outputs, (K, n, d) each.

        Cost: one reading of x for the union of the groups, one writing per group.
        """
        totals = [np.zeros_like(x) for _ in groups]
        wanted = np.concatenate(groups) if groups else np.array([], dtype=np.int64)
        for stack in self.stacks:
            rows = stack.pick(wanted)
            if not len(rows):
                continue
            values = stack.values(x, rows)
            for total, group in zip(totals, groups, strict=True):
                inside = np.flatnonzero(np.isin(stack.members[rows], group))
                if len(inside):
                    part = values if len(inside) == len(rows) else values[:, :, inside]
                    total += stack.written(part, rows[inside])
        for bundle in self.bundles:
            bundle.add_sums(x, groups, totals)
        for index, operator in self.alone:
            if chosen := [total for total, group in zip(totals, groups, strict=True) if index in group]:
                output = self._apply(operator, x)
                for total in chosen:
                    total += output
        return totals

    def each(self, x: Array, wanted: Indices) -> Array:
        """For streams x (K, n, d), return what each wanted component writes, (len(wanted), K, n, d)."""
        outputs = np.zeros((len(wanted), *x.shape))
        for stack in self.stacks:
            rows = stack.pick(wanted)
            if len(rows) == len(wanted):
                return stack.each(x, rows)
            if len(rows):
                outputs[np.isin(wanted, stack.members[rows])] = stack.each(x, rows)
        for bundle in self.bundles:
            bundle.add_each(x, wanted, outputs)
        for index, operator in self.alone:
            if index in wanted:
                outputs[np.flatnonzero(wanted == index)[0]] = self._apply(operator, x)
        return outputs

    def _apply(self, operator: Operator, x: Array) -> Array:
        return applied(operator, x, self.positions, self.backward)

    @cached_property
    def bundles(self) -> tuple[Bundle, ...]:
        """Components of `single` that begin or end in the same parts, which are then applied once for all of them."""
        return tuple(bundled(self.single, self.positions, self.backward))

    @cached_property
    def alone(self) -> tuple[tuple[int, Operator], ...]:
        """Components of `single` that share nothing with others."""
        together = {int(index) for bundle in self.bundles for index in bundle.members}
        return tuple((index, operator) for index, operator in self.single if index not in together)

    @cached_property
    def causal(self) -> bool:
        """Whether no position takes anything from a later one; asked of blocks read forward."""
        operators = (self.skip, *(operator for _, operator in self.single))
        ahead = any(bool(np.triu(pattern, 1).any()) for stack in self.stacks for pattern in stack.patterns)
        return not ahead and not any(map(looks_ahead, operators))

    @property
    def transposed(self) -> BlockKernel:
        """The block read backward, kept within the budget."""
        return BUDGET.get(self, "transposed", self._transposed)

    def _transposed(self) -> BlockKernel:
        stacks = tuple(stack.transposed() for stack in self.stacks)
        return BlockKernel(stacks, self.single, self.skip, self.positions, backward=not self.backward)


@dataclass(frozen=True, eq=False)
class Bundle:
    """Components that read through the same parts and write through the same parts, such as one norm before all heads."""

    members: Indices
    reads: Operator
    writes: Operator
    inner: BlockKernel

    def add_sums(self, x: Array, groups: Sequence[Indices], totals: Sequence[Array]) -> None:
        """Add what each group's members here make of streams (K, n, d)."""
        local = [np.flatnonzero(np.isin(self.members, group)) for group in groups]
        chosen = [at for at, group in enumerate(local) if len(group)]
        if not chosen:
            return
        sums = self.inner.sums(self._before(x), [local[at] for at in chosen])
        for at, total in zip(chosen, self._after(np.stack(sums)), strict=True):
            totals[at][:] += total

    def add_each(self, x: Array, wanted: Indices, outputs: Array) -> None:
        """Put what the wanted members here make of streams (K, n, d) to their places among (wanted, K, n, d)."""
        places = np.flatnonzero(np.isin(wanted, self.members))
        if len(places):
            local = np.searchsorted(self.members, wanted[places])
            outputs[places] = self._after(self.inner.each(self._before(x), local))

    def _before(self, x: Array) -> Array:
        """Through the parts that all members apply first."""
        operator = self.writes if self.inner.backward else self.reads
        return applied(operator, x, self.inner.positions, self.inner.backward)

    def _after(self, x: Array) -> Array:
        operator = self.reads if self.inner.backward else self.writes
        return applied(operator, x, self.inner.positions, self.inner.backward)


def bundled(single: Sequence[tuple[int, Operator]], positions: int, backward: bool) -> Iterator[Bundle]:
    """Yield bundles of components that share their last part (what they read through), two at least."""
    by_last: dict[int, list[tuple[int, Operator]]] = defaultdict(list)
    for index, operator in single:
        by_last[id(operator[-1]) if operator else 0].append((index, operator))
    for members in by_last.values():
        operators = [operator for _, operator in members]
        reads = _shared([operator[::-1] for operator in operators])[::-1]
        if len(members) > 1 and reads:
            writes = _shared([operator[: len(operator) - len(reads)] for operator in operators])
            inner = [operator[len(writes) : len(operator) - len(reads)] for operator in operators]
            places = np.array([index for index, _ in members])
            yield Bundle(places, reads, writes, _kernel_of(inner, (), positions, backward))


def _shared(operators: Sequence[Operator]) -> Operator:
    """The parts in which all operators begin, the same objects."""
    found = []
    for parts in zip(*operators, strict=False):
        if any(part is not parts[0] for part in parts):
            break
        found.append(parts[0])
    return tuple(found)


def applied(operator: Operator, x: Array, positions: int, backward: bool) -> Array:
    """Return an operator on streams of the first positions, or covectors through its transpose."""
    if x.shape[-2] != positions:
        operator = first(operator, x.shape[-2])
    return pull(operator, x) if backward else push(operator, x)


@dataclass(frozen=True, eq=False)
class Kernels(Sequence[BlockKernel]):
    """The numbers of blocks on streams of so many positions: each is stacked when it is used, and kept within the budget.

    Graphs that share a block share its kernel. Iterate rather than make a tuple, which would hold all at once.
    """

    blocks: tuple[Block, ...]
    positions: int

    def __len__(self) -> int:
        return len(self.blocks)

    @overload
    def __getitem__(self, index: int) -> BlockKernel: ...
    @overload
    def __getitem__(self, index: slice) -> Kernels: ...
    def __getitem__(self, index: int | slice) -> BlockKernel | Kernels:
        """Return the kernel of one block, or those of several."""
        if isinstance(index, slice):
            return Kernels(self.blocks[index], self.positions)
        block = self.blocks[index]
        return BUDGET.get(block, ("kernel", self.positions), lambda: _stacked(block, self.positions))


def _stacked(block: Block, positions: int) -> BlockKernel:
    return _kernel_of([component.operator for component in block.components], block.skip, positions)


def _kernel_of(
    operators: Sequence[Operator], skip: Operator, positions: int, backward: bool = False
) -> BlockKernel:
    by_waist: dict[int, list[tuple[int, Array, Array, Array]]] = defaultdict(list)
    single: list[tuple[int, Operator]] = []
    for index, operator in enumerate(operators):
        if parts := _head_parts(operator):
            by_waist[parts[1].shape[0]].append((index, *parts))
        else:
            single.append((index, operator))
    stacks = tuple(
        Stack(np.array(members), np.stack(patterns), np.stack(read), np.stack(write))
        for members, patterns, read, write in (tuple(zip(*heads, strict=True)) for heads in by_waist.values())
    )
    made = BlockKernel(stacks, tuple(single), skip, positions)
    return made.transposed if backward else made


def _head_parts(operator: Operator) -> tuple[Array, Array, Array] | None:
    """Return (pattern, read, write) of an operator that is one step moving between positions."""
    match operator:
        case (Step(position=position, feature=feature),) if position and feature:
            pattern, feature_map = word_map(position), word_map(feature)
            assert pattern is not None and feature_map is not None
            left, right = waist(feature_map)
            dense = pattern.array if isinstance(pattern, Dense) else pattern.dense()
            return dense, right, left
    return None


def product_norm(left: Array, right: Array) -> Array:
    """Frobenius norms of products left · right, (..., d, r) and (..., r, d), by Gram matrices of their narrow sides.

    Extreme sizes are taken out first. Small by cancellation, a norm is known to 1e-8 of its factors' norms: enough
    for noise.
    """
    (left, size), (right, other) = _sized(left), _sized(right)
    outer, inner = np.swapaxes(left, -1, -2) @ left, right @ np.swapaxes(right, -1, -2)
    return np.asarray(size * other * np.sqrt(np.maximum(np.sum(outer * inner, axis=(-1, -2)), 0.0)))


def _sized(arrays: Array) -> tuple[Array, Array]:
    """Matrices over their largest entries, and these, where one is extreme; else as they are, and ones."""
    largest = np.maximum(arrays.max(axis=(-1, -2), initial=0.0), -arrays.min(axis=(-1, -2), initial=0.0))
    sizes = np.where((largest > 0) & ((largest < _EXTREME**-1) | (largest > _EXTREME)), largest, 1.0)
    return (arrays if (sizes == 1.0).all() else arrays / sizes[..., None, None]), sizes


_EXTREME = 1e50

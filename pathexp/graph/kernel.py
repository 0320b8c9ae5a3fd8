"""The numbers of a graph, stacked for speed: all heads of a block in three matrix products.

A head is (A ⊗ left · right) with a narrow waist; heads of one block and one waist are stacked. Whatever does
not fit that shape (gates, maps without positions) is applied as the operator it is.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import overload

import numpy as np

from ..algebra import Diagonal
from ..budget import BUDGET
from .along_positions import first
from .measures import lengths
from .mixing import is_long
from .nodes import Block
from .operators import Array, Factor, Operator, Step, pull, push
from .stack import Indices, Stack, head_maps, stacked


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

    def each(self, x: Array, wanted: Indices, out: Array | None = None) -> Array:
        """For streams x (K, n, d), return what each wanted component writes, (len(wanted), K, n, d); `out` takes it, if given."""
        outputs = np.empty((len(wanted), *x.shape)) if out is None else out
        for stack in self.stacks:
            rows = stack.pick(wanted)
            if len(rows) == len(wanted):
                return stack.each(x, rows, outputs)
        outputs.fill(0.0)
        for stack in self.stacks:
            rows = stack.pick(wanted)
            if len(rows):
                outputs[np.isin(wanted, stack.members[rows])] = stack.each(x, rows)
        for bundle in self.bundles:
            bundle.add_each(x, wanted, outputs)
        for index, operator in self.alone:
            if index in wanted:
                outputs[np.flatnonzero(wanted == index)[0]] = self._apply(operator, x)
        return outputs

    def sizes(self, x: Array, wanted: Indices) -> Array:
        """How long what each wanted component writes of streams (K, n, d) is, (len(wanted), K, n), for noise.

        Heads' by the Gram matrices of their maps: where features nearly cancel, to 1e-8 of the largest.
        """
        found = np.zeros((len(wanted), *x.shape[:2]))
        others = wanted
        for stack in self.stacks:
            rows = stack.pick(wanted)
            found[np.isin(wanted, stack.members[rows])] = stack.sizes(x, rows)
            others = others[~np.isin(others, stack.members)]
        if len(others):
            found[np.isin(wanted, others)] = lengths(self.each(x, others))
        return found

    def _apply(self, operator: Operator, x: Array) -> Array:
        return applied(operator, x, self.positions, self.backward)

    @property
    def bundles(self) -> tuple[Bundle, ...]:
        """Components of `single` that begin or end in the same parts, which are then applied once for all; kept within the budget."""
        return BUDGET.get(self, "bundles", lambda: tuple(bundled(self.single, self.positions, self.backward)))

    @cached_property
    def alone(self) -> tuple[tuple[int, Operator], ...]:
        """Components of `single` that share nothing with others."""
        together = {int(index) for bundle in self.bundles for index in bundle.members}
        return tuple((index, operator) for index, operator in self.single if index not in together)

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

    def of_head(self, b: int, component: int) -> tuple[BlockKernel, int] | None:
        """Return a kernel with a head of a block that needs no pattern of the others, and its number there; None if there is none.

        Patterns of a long text are made a layer at a time where all heads are asked for; here one of them is.
        """
        block, key = self.blocks[b], ("kernel", self.positions)
        step = one_head([each.operator for each in block.components], component, self.positions)
        if step is None or BUDGET.find(block, key) is not None:
            return None if step is None else (self[b], component)
        return BUDGET.get(block, (*key, component), lambda: _kernel_of([(step,)], (), self.positions)), 0


def _stacked(block: Block, positions: int) -> BlockKernel:
    return _kernel_of([component.operator for component in block.components], block.skip, positions)


def _kernel_of(
    operators: Sequence[Operator], skip: Operator, positions: int, backward: bool = False
) -> BlockKernel:
    heads = {index: step for index, operator in enumerate(operators) if (step := _head_step(operator))}
    single = tuple((index, operator) for index, operator in enumerate(operators) if index not in heads)
    made = BlockKernel(tuple(_stacks(heads, positions)), single, skip, positions)
    return made.transposed if backward else made


def _stacks(heads: Mapping[int, Step], positions: int) -> Iterator[Stack]:
    members, steps = list(heads), list(heads.values())
    for places, maps in head_maps(steps) if steps else ():
        yield stacked([members[at] for at in places], [steps[at] for at in places], maps, positions)


def one_head(operators: Sequence[Operator], chosen: int, positions: int) -> Step | None:
    """Return the step of one head, whose pattern is made without those of others; None where that is no less or might round otherwise.

    Stacked alone it does what it does among all heads if they are all seen alike: causal, with one scale of positions.
    """
    step = _head_step(operators[chosen])
    if step is None or not is_long(positions) or step.position[0].alone is None:
        return None
    words = [other.position for operator in operators if (other := _head_step(operator))]
    if not all(word[0].lower for word in words) or not _one_scale([word[1:] for word in words]):
        return None
    pattern = step.position[0]
    return Step((replace(pattern, map=pattern.alone), *step.position[1:]), step.feature)


def _one_scale(words: Sequence[tuple[Factor, ...]]) -> bool:
    """Whether what follows each pattern is nothing, or one diagonal, the same for all."""
    if any(len(word) != len(words[0]) or len(word) > 1 for word in words):
        return False
    maps = [factor.numbers() for word in words for factor in word]
    values = [map.values for map in maps if isinstance(map, Diagonal)]
    return len(values) == len(maps) and all(np.array_equal(each, values[0]) for each in values)


def _head_step(operator: Operator) -> Step | None:
    """Return the step of an operator that is one step moving between positions."""
    match operator:
        case (Step(position=position, feature=feature) as step,) if position and feature:
            return step
    return None

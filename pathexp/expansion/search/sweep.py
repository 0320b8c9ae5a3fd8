"""One sweep from the sink down over all suffixes whose bound reaches the k-th best value, all of a head at once.

A suffix is the end of a path; its state is the target pulled back to the values of its first component, (n, r).
Block by block, every suffix kept so far is continued into every component of the block; of each continuation
the values of the paths that start there are known and only longer ones are bounded.

Every step rounds. What a step loses of a covector acts on the prefixes that arrive there, none of which is longer than
`Bounds.longest`: the sum over an ending's steps, its `slack`, is how far any value that is read off it can be off
(`Losses`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property, partial

import numpy as np
from numpy.typing import NDArray

from ...graph import Array, Indices, pull
from .below import Below
from .budget import Budget
from .entries import SINK
from .fields import Fields
from .found import Best
from .goal import Goal
from .groups import Group, Piece, Seat, only
from .layout import Heads
from .losses import ABSOLUTE
from .reach import Bounds, Most, States
from .rounding import lengths
from .single import Single
from .tables import Tables

CHUNK = 2**21
"""How many numbers of continuations are formed at once."""

BIG = 2**14
"""From how many covectors on a group on the stream is not joined with others: joining copies."""

OPEN, FEW_OPEN = 8, 2
"""How many times its width a beam may have open, those of earlier blocks included: by lengths alone, and by sets on the stream, which tell more."""


@dataclass(eq=False)
class Sweep:
    """The state of one sweep; `width` limits how many suffixes a block may add (a beam), None is exact.

    Of every ending, covectors that are worth `blur` of the threshold may be left out, once in each component.

    What is stopped in the middle of a block leaves all that is open set aside, at bounds that hold behind the block.
    """

    tables: Tables
    bounds: Bounds
    best: Best
    budget: Budget
    width: int | None = None
    blur: float = 0.0
    open: list[Group] = field(default_factory=list)
    held: int = 0
    done: bool = False
    stopped: bool = False

    def run(self, goal: Goal) -> None:
        """Sweep from a target on the final stream to the first block, or until the budget is spent."""
        depth = len(self.tables.layout.skips)
        states = self.tables.layout.final
        fields, root = Fields.of(goal.field[None]), np.zeros(1, dtype=np.int64)
        slack = np.full(1, self.below.losses.at_start(goal))
        self._direct(depth, SINK, "", states, fields, root, slack)
        most = self.bounds.bound(depth, SINK, states, fields)
        if most is not None:
            self.open = [Group(fields, root, most.total + slack, slack, states)]
        for b in reversed(range(depth)):
            if not self._block(b):
                break
            self.budget.say(
                f"block {b}: {len(self.best.suffixes):,} suffixes, threshold {self.best.threshold:.4g}"
            )
        else:
            self.done = True
            return
        for group in self.open:
            self.best.set_aside(group.bounds)

    def _block(self, b: int) -> bool:
        """Continue all open suffixes into a block; False if the budget is spent."""
        fresh: list[Group] = []
        for made in self._continuations(b):
            fresh += made
            if self._spent:
                break
        if self._spent:
            self.open += fresh
            return False
        self._carry(b)
        width = self.width
        kept = fresh if width is None else self._beam(fresh, width)
        self.open = self._merged([*map(partial(self._lowered, b), self.open), *kept])
        if width is not None:
            self.open = self._beam(self.open, (FEW_OPEN if any(self.bounds.streams) else OPEN) * width)
        self.held = sum(group.fields.nbytes for group in self.open)
        return not self._spent

    @cached_property
    def below(self) -> Below:
        """What may stand in front of each component."""
        return self.tables.below(self.bounds)

    @property
    def _spent(self) -> bool:
        self.stopped = self.stopped or self.budget.spent(len(self.best.suffixes), self.held)
        return self.stopped

    def _continuations(self, b: int) -> Iterator[list[Group]]:
        """What is kept of all open suffixes' continuations, some at a time."""
        for component, states, pieces in self._pieces(b):
            yield self._kept(b, component, states, pieces)
        if self.tables.layout.singles[b] and not self.stopped:
            self._to_streams()
            for group in self.open:
                for single in self.tables.layout.singles[b]:
                    yield self._through(b, single, group)

    def _to_streams(self) -> None:
        """Bring what is open to the stream, group by group, so that little is there twice."""
        for place in range(len(self.open)):
            self.open[place] = self._moved_to_stream(self.open[place])
        self.open = self._merged(self.open)

    def _lowered(self, b: int, group: Group) -> Group:
        """Suffixes that were carried over a block with the bounds that hold in front of it, where those are known."""
        below = self.bounds.below(b, group.states, group.fields) if group.seat is None else None
        return (
            group
            if below is None
            else replace(group, bounds=np.fmin(group.bounds, below.total + group.slack))
        )

    def _through(self, b: int, single: Single, group: Group) -> list[Group]:
        """Continue a group into a component that is no head: valued and bounded before anything is pulled back."""
        states = self.tables.layout.before(b, single.index, group.states)
        if not states or not len(group.numbers):
            return []
        label = self.tables.layout.walk.graph.blocks[b].components[single.index].label
        self._direct(b, single.index, label, states, group.fields, group.numbers, group.slack)
        most = self.bounds.bound(b, single.index, states, group.fields)
        if most is None:
            return []
        slack = group.slack + group.fields.sizes_met(self.below.losses.through(b, single.index)) + ABSOLUTE
        found = self._opened(
            label, most, Group(group.fields, group.numbers, most.total + slack, slack, states)
        )
        return [replace(part, fields=single.pull(part.fields)) for part in found]

    def _opened(self, label: str, most: Most, group: Group) -> list[Group]:
        """Those of a group, by the numbers of their parents, that longer paths may still reach the threshold through.

        Covectors that no prefix can make anything of are left out, and what they might is slack.
        """
        kept = self._above(group.bounds, self.best.threshold)
        if not kept.any():
            return []
        numbers = self.best.suffixes.add(label, group.numbers[kept])
        dropped, lost = self._negligible(most.each[kept])
        group = replace(only(group, kept), numbers=numbers)
        group = replace(group, fields=group.fields.without(dropped), slack=group.slack + lost)
        self.held += group.fields.nbytes
        return [group]

    def _negligible(self, each: Array) -> tuple[NDArray[np.bool_], Array]:
        """Where covectors matter least, (m, n), and what they add at most in all, (m,): a little of the threshold."""
        order = np.argsort(each, axis=1)
        sums = np.cumsum(np.take_along_axis(each, order, axis=1), axis=1) * _UP
        small = (sums <= self.blur * self.best.threshold) & np.isfinite(sums)
        dropped = np.zeros(each.shape, dtype=bool)
        np.put_along_axis(dropped, order, small, axis=1)
        return dropped, np.max(np.where(small, sums, 0.0), axis=1)

    def _pieces(self, b: int) -> Iterator[tuple[int, States, list[Piece]]]:
        """What passes the sieve of all open suffixes' continuations into heads, unless that alone is too much."""
        found: dict[tuple[int, States], list[Piece]] = {}
        threshold, held = self.best.threshold, self.held
        for group in self.open:
            for component, states, piece in self._continued(b, group, threshold):
                found.setdefault((component, states), []).append(piece)
                held += piece.fields.nbytes
                if self.budget.spent(len(self.best.suffixes), held):
                    self.stopped = True
                    return
        for component, states in sorted(found, key=lambda key: (key[0], sorted(key[1]))):
            yield component, states, found[component, states]

    def _continued(self, b: int, group: Group, threshold: float) -> Iterator[tuple[int, States, Piece]]:
        """What passes the sieve of one group's continuations, component by component."""
        if not len(group.numbers):
            return
        layout = self.tables.layout
        for s, heads in enumerate(layout.heads[b]):
            befores = [layout.before(b, int(member), group.states) for member in heads.members]
            if not any(befores):
                continue
            reach = np.stack(
                [self.below.reach(b, s, int(c), q) for c, q in zip(heads.members, befores, strict=True)]
            )
            loses = self.below.losses.into_heads(b, s)
            for part, fields in group.fields.slices(
                CHUNK // (len(heads.members) * heads.width), CHUNK // heads.patterns[0].size
            ):
                results = self._at_results(b, s, heads, group, fields)
                stretch = 1.0 if group.seat is None else self._heads(group.seat).stretch
                slack = group.slack[part] + loses @ fields.lengths.T * stretch + ABSOLUTE
                for row, states in enumerate(befores):
                    if states:
                        yield from self._into(
                            heads,
                            row,
                            states,
                            results,
                            reach[row],
                            slack[row],
                            group.numbers[part],
                            threshold,
                        )

    def _into(
        self,
        heads: Heads,
        row: int,
        states: States,
        results: Fields,
        reach: Array,
        slack: Array,
        numbers: Indices,
        threshold: float,
    ) -> Iterator[tuple[int, States, Piece]]:
        """What passes one head: where lengths of results alone do not say no, the covectors at its values are made."""
        columns = slice(row * heads.width, (row + 1) * heads.width)
        here = results.holding(results.rows[:, columns])
        sizes = lengths(here.rows) * (heads.amounts[row] @ reach)[here.at]
        likely = self._above(here.summed(sizes) * _UP + slack, threshold)
        if not likely.any():
            return
        moved = heads.moved(row, here.chosen(likely).dense())
        slack, numbers = slack[likely], numbers[likely]
        passed = self._above(lengths(moved) @ reach + slack, threshold)
        if passed.any():
            yield (
                int(heads.members[row]),
                states,
                Piece(Fields.of(moved[passed]), numbers[passed], slack[passed]),
            )

    def _above(self, most: Array, threshold: float) -> NDArray[np.bool_]:
        """Which endings may still reach a threshold; the others are set aside."""
        above = ~(most < threshold)
        self.best.set_aside(most[~above])
        return np.asarray(above)

    def _heads(self, seat: Seat) -> Heads:
        b, s, _ = seat
        return self.tables.layout.heads[b][s]

    def _at_results(self, b: int, s: int, heads: Heads, group: Group, fields: Fields) -> Fields:
        """Some of a group's covectors at the results of all heads of a stack, rows of C · r numbers."""
        seat = group.seat
        matrix = heads.flat if seat is None else self.tables.link(*self._from(seat), b, s)
        return fields.mapped(lambda rows, _: rows @ matrix, matrix.shape[1])

    def _merged(self, groups: list[Group]) -> list[Group]:
        """What may still matter: big groups as they are, small ones of equal states as one group on the stream."""
        kept, small = [], dict[States, list[Group]]()
        for group in groups:
            group = only(group, self._above(group.bounds, self.best.threshold))
            covectors, width = group.fields.rows.shape
            if covectors < (width if group.seat else BIG):
                small.setdefault(group.states, []).append(group)
            else:
                kept.append(group)
        return kept + [self._one(states, some) for states, some in small.items()]

    def _one(self, states: States, groups: list[Group]) -> Group:
        moved = [self._moved_to_stream(group) for group in groups]
        numbers, bounds, slack = (
            np.concatenate([getattr(group, name) for group in moved])
            for name in ("numbers", "bounds", "slack")
        )
        return Group(Fields.joined([group.fields for group in moved]), numbers, bounds, slack, states)

    @staticmethod
    def _from(seat: Seat) -> tuple[int, int, int]:
        b, s, row = seat
        return b, row, s

    def _moved_to_stream(self, group: Group) -> Group:
        """A group with its covectors on the stream."""
        if group.seat is None:
            return group
        b, s, row = group.seat
        read = self._heads(group.seat).read[row]
        fields = group.fields.mapped(lambda rows, _: rows @ read, read.shape[1])
        more = group.fields.lengths @ self.below.losses.to_stream(b, s) + ABSOLUTE
        return replace(group, fields=fields, slack=group.slack + more, bounds=group.bounds + more, seat=None)

    def _direct(
        self,
        b: int,
        component: int,
        label: str,
        states: States,
        fields: Fields,
        parents: Indices,
        slack: Array,
    ) -> None:
        """The values of all paths that start right before a component, and how far they may be off."""
        entries = self.below.entries(b, component, states)
        if len(entries):
            read = self.tables.entries[b].readings[component][entries]
            errors = slack + fields.lengths @ self.below.losses.read(b, component) + ABSOLUTE
            self.best.offer(label, fields.met(read), errors, parents, entries)

    def _kept(self, b: int, component: int, states: States, pieces: list[Piece]) -> list[Group]:
        """Value what passed the sieve, and keep what longer paths may still reach the threshold through."""
        label = self.tables.layout.walk.graph.blocks[b].components[component].label
        fields = Fields.joined([piece.fields for piece in pieces])
        parents = np.concatenate([piece.parents for piece in pieces])
        slack = np.concatenate([piece.slack for piece in pieces])
        self._direct(b, component, label, states, fields, parents, slack)
        most = self.bounds.bound(b, component, states, fields)
        if most is None:
            return []
        seat = self._seat(b, component)
        return self._opened(label, most, Group(fields, parents, most.total + slack, slack, states, seat))

    def _seat(self, b: int, component: int) -> Seat | None:
        for s, heads in enumerate(self.tables.layout.heads[b]):
            rows = np.flatnonzero(heads.members == component)
            if len(rows):
                return b, s, int(rows[0])
        return None

    def _beam(self, groups: list[Group], width: int) -> list[Group]:
        """Keep the suffixes of largest bound, `width` of them."""
        bounds = np.concatenate([group.bounds for group in groups]) if groups else np.zeros(0)
        if len(bounds) <= width:
            return groups
        line = np.sort(bounds)[-width]
        self.best.set_aside(bounds[bounds < line])
        return [only(group, kept) for group in groups if (kept := group.bounds >= line).any()]

    def _carry(self, b: int) -> None:
        """Pull what is open back over the block's skip edge, where that is no identity."""
        skip = self.tables.layout.skips[b]
        if skip:
            self.open = [self._over(b, self._moved_to_stream(group)) for group in self.open]

    def _over(self, b: int, group: Group) -> Group:
        """Covectors on the stream behind a block, pulled back over its skip edge."""
        more = group.fields.lengths @ self.below.losses.over(b) + ABSOLUTE
        fields = Fields.of(pull(self.tables.layout.skips[b], group.fields.dense()))
        return replace(group, fields=fields, slack=group.slack + more, bounds=group.bounds + more)


_UP = 1 + 1e-9
"""More than the rounding of the few additions of positive numbers that make a bound."""

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
from .budget import Budget
from .entries import SINK
from .found import Best
from .goal import Goal
from .layout import Heads
from .losses import ABSOLUTE, Losses
from .present import by_rows
from .reach import Bounds, States
from .rounding import lengths, sizes_met
from .single import Single
from .tables import Tables

CHUNK = 2**21
"""How many numbers of continuations are formed at once."""

OPEN = 8
"""How many times its width a beam may have open, those of earlier blocks included."""

Seat = tuple[int, int, int]
"""Where a head stands: block, stack, row."""


@dataclass(frozen=True, eq=False)
class Group:
    """Suffixes that begin with one component, or the sink alone: covectors (m, n, r), numbers, bounds, slacks (m,).

    With a seat the covectors are at the values of that head, else on the stream.
    """

    fields: Array
    numbers: Indices
    bounds: Array
    slack: Array
    states: States
    seat: Seat | None = None


@dataclass(frozen=True, eq=False)
class Piece:
    """Continuations into one component that passed the sieve."""

    fields: Array
    parents: Indices
    slack: Array


@dataclass(eq=False)
class Sweep:
    """The state of one sweep; `width` limits how many suffixes a block may add (a beam), None is exact.

    What is stopped in the middle of a block leaves all that is open set aside, at bounds that hold behind the block.
    """

    tables: Tables
    bounds: Bounds
    best: Best
    budget: Budget
    width: int | None = None
    open: list[Group] = field(default_factory=list)
    held: int = 0
    done: bool = False
    stopped: bool = False

    def run(self, goal: Goal) -> None:
        """Sweep from a target on the final stream to the first block, or until the budget is spent."""
        depth = len(self.tables.layout.skips)
        states = self.tables.layout.final
        fields, root = goal.field[None], np.zeros(1, dtype=np.int64)
        slack = np.full(1, self.losses.at_start(goal))
        self._direct(depth, SINK, "", states, fields, root, slack)
        bounds = self.bounds.bound(depth, SINK, states, fields)
        if bounds is not None:
            self.open = [Group(fields, root, bounds + slack, slack, states)]
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
            self.open = self._beam(self.open, OPEN * width)
        return not self._spent

    @property
    def _spent(self) -> bool:
        self.stopped = self.stopped or self.budget.spent(len(self.best.suffixes), self.held)
        return self.stopped

    def _continuations(self, b: int) -> Iterator[list[Group]]:
        """What is kept of all open suffixes' continuations, some at a time."""
        for component, states, pieces in self._pieces(b):
            yield self._kept(b, component, states, pieces)
        if self.tables.layout.singles[b] and not self.stopped:
            self.open = self._on_streams()
            for group in self.open:
                for single in self.tables.layout.singles[b]:
                    yield self._through(b, single, group)

    def _on_streams(self) -> list[Group]:
        """What is open, small pieces joined, as covectors on the stream."""
        by_states: dict[States, list[Group]] = {}
        for group in self.open:
            by_states.setdefault(group.states, []).append(group)
        return [self._one(states, groups) for states, groups in by_states.items()]

    def _lowered(self, b: int, group: Group) -> Group:
        """Suffixes that were carried over a block with the bounds that hold in front of it, where those are known."""
        below = self.bounds.below(b, group.states, group.fields) if group.seat is None else None
        return group if below is None else replace(group, bounds=np.fmin(group.bounds, below + group.slack))

    def _through(self, b: int, single: Single, group: Group) -> list[Group]:
        """Continue a group into a component that is no head: valued and bounded before anything is pulled back."""
        states = self.tables.layout.before(b, single.index, group.states)
        if not states or not len(group.numbers):
            return []
        label = self.tables.layout.walk.graph.blocks[b].components[single.index].label
        self._direct(b, single.index, label, states, group.fields, group.numbers, group.slack)
        bounds = self.bounds.bound(b, single.index, states, group.fields)
        if bounds is None:
            return []
        slack = group.slack + sizes_met(group.fields, self.losses.through(b, single.index)) + ABSOLUTE
        bounds = bounds + slack
        kept = self._kept_of(bounds)
        if not kept.any():
            return []
        numbers = self.best.suffixes.add(label, group.numbers[kept])
        self.held += int(kept.sum()) * group.fields[0].nbytes
        return [Group(single.pull(group.fields[kept]), numbers, bounds[kept], slack[kept], states)]

    def _kept_of(self, bounds: Array) -> NDArray[np.bool_]:
        """Which endings may still reach the threshold; the others are set aside."""
        kept = ~(bounds < self.best.threshold)
        self.best.set_aside(bounds[~kept])
        return np.asarray(kept)

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
                [self._sieve(b, s, int(c), q) for c, q in zip(heads.members, befores, strict=True)]
            )
            loses = self.losses.into_heads(b, s)
            step = max(1, CHUNK // (layout.size[0] * heads.flat.shape[1]))
            for at in range(0, len(group.numbers), step):
                part = slice(at, at + step)
                fields = heads.moved(self._at_results(b, s, heads, group, part))
                slack = group.slack[part] + loses @ self._lengths(group, part).T + ABSOLUTE
                most = np.einsum("cmn,cn->cm", lengths(fields), reach) + slack
                yield from self._sifted(
                    fields, most, slack, group.numbers[part], heads.members, befores, threshold
                )

    def _sifted(
        self,
        fields: Array,
        most: Array,
        slack: Array,
        numbers: Indices,
        members: Indices,
        befores: list[States],
        threshold: float,
    ) -> Iterator[tuple[int, States, Piece]]:
        passed = ~(most < threshold)
        for row, (member, states) in enumerate(zip(members, befores, strict=True)):
            if not states:
                continue
            chosen = np.flatnonzero(passed[row])
            self.best.set_aside(most[row][~passed[row]])
            if len(chosen):
                yield int(member), states, Piece(fields[row, chosen], numbers[chosen], slack[row, chosen])

    def _lengths(self, group: Group, part: slice) -> Array:
        """How long a group's covectors are on the stream, (m, n)."""
        stretch = 1.0 if group.seat is None else self._heads(group.seat).stretch
        return lengths(group.fields[part]) * stretch

    def _heads(self, seat: Seat) -> Heads:
        b, s, _ = seat
        return self.tables.layout.heads[b][s]

    def _sieve(self, b: int, s: int, component: int, states: States) -> Array:
        """How far anything that may precede a component reaches there, per position."""
        n = self.tables.layout.size[0]
        key = (b, component, states)
        if key not in self._sieves:
            entries = self._entries(b, component, states)
            read = self.tables.entries[b].readings[component][entries]
            direct = lengths(read).max(axis=0, initial=0.0) + self.losses.direct(b, s)
            self._sieves[key] = np.maximum(direct, self.bounds.lengths(b, component, states, n)) * _UP
        return self._sieves[key]

    _sieves: dict[tuple[int, int, States], Array] = field(default_factory=dict)

    def _entries(self, b: int, component: int, states: States) -> Indices:
        """The entries a component takes up, without those for which what it makes is an entry as well."""
        known = self.tables.entries[b]
        taken = np.isin(known.states, sorted(states))
        return np.flatnonzero(taken if component == SINK else taken & ~known.listed[:, component])

    def _at_results(self, b: int, s: int, heads: Heads, group: Group, part: slice) -> Array:
        """A group's covectors at the results of all heads of a stack, (m, n, C · r)."""
        seat = group.seat
        matrix = heads.flat if seat is None else self.tables.link(*self._from(seat), b, s)
        return by_rows(lambda rows, _: rows @ matrix, group.fields[part], matrix.shape[1])

    def _merged(self, groups: list[Group]) -> list[Group]:
        """What may still matter: big groups as they are, small ones of equal states as one group on the stream."""
        kept, small = [], dict[States, list[Group]]()
        for group in groups:
            group = _only(group, self._kept_of(group.bounds))
            m, n, r = group.fields.shape
            if group.seat is None or m * n < r:
                small.setdefault(group.states, []).append(group)
            else:
                kept.append(group)
        return kept + [self._one(states, some) for states, some in small.items()]

    def _one(self, states: States, groups: list[Group]) -> Group:
        moved = [self._moved_to_stream(group) for group in groups]
        fields, numbers, bounds, slack = (
            np.concatenate([getattr(group, name) for group in moved])
            for name in ("fields", "numbers", "bounds", "slack")
        )
        return Group(fields, numbers, bounds, slack, states)

    @staticmethod
    def _from(seat: Seat) -> tuple[int, int, int]:
        b, s, row = seat
        return b, row, s

    def _moved_to_stream(self, group: Group) -> Group:
        """A group with its covectors on the stream."""
        if group.seat is None:
            return group
        b, s, row = group.seat
        fields = group.fields @ self._heads(group.seat).read[row]
        more = lengths(group.fields) @ self.losses.to_stream(b, s) + ABSOLUTE
        return replace(group, fields=fields, slack=group.slack + more, bounds=group.bounds + more, seat=None)

    def _direct(
        self,
        b: int,
        component: int,
        label: str,
        states: States,
        fields: Array,
        parents: Indices,
        slack: Array,
    ) -> None:
        """The values of all paths that start right before a component, and how far they may be off."""
        entries = self._entries(b, component, states)
        if len(entries):
            read = self.tables.entries[b].readings[component][entries]
            values = fields.reshape(len(fields), -1) @ read.reshape(len(entries), -1).T
            errors = slack + lengths(fields) @ self.losses.read(b, component) + ABSOLUTE
            self.best.offer(label, values, errors, parents, entries)

    def _kept(self, b: int, component: int, states: States, pieces: list[Piece]) -> list[Group]:
        """Value what passed the sieve, and keep what longer paths may still reach the threshold through."""
        label = self.tables.layout.walk.graph.blocks[b].components[component].label
        fields = np.concatenate([piece.fields for piece in pieces])
        parents = np.concatenate([piece.parents for piece in pieces])
        slack = np.concatenate([piece.slack for piece in pieces])
        self._direct(b, component, label, states, fields, parents, slack)
        bounds = self.bounds.bound(b, component, states, fields)
        if bounds is None:
            return []
        bounds = bounds + slack
        kept = self._kept_of(bounds)
        if not kept.any():
            return []
        numbers = self.best.suffixes.add(label, parents[kept])
        self.held += int(kept.sum()) * fields[0].nbytes
        return [Group(fields[kept], numbers, bounds[kept], slack[kept], states, self._seat(b, component))]

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
        return [_only(group, kept) for group in groups if (kept := group.bounds >= line).any()]

    def _carry(self, b: int) -> None:
        """Pull what is open back over the block's skip edge, where that is no identity."""
        skip = self.tables.layout.skips[b]
        if skip:
            self.open = [self._over(b, self._moved_to_stream(group)) for group in self.open]

    def _over(self, b: int, group: Group) -> Group:
        """Covectors on the stream behind a block, pulled back over its skip edge."""
        more = lengths(group.fields) @ self.losses.over(b) + ABSOLUTE
        fields = pull(self.tables.layout.skips[b], group.fields)
        return replace(group, fields=fields, slack=group.slack + more, bounds=group.bounds + more)

    @cached_property
    def losses(self) -> Losses:
        """How much every step loses at most."""
        return Losses(self.tables.layout, self.tables.entries, self.bounds.longest, self.bounds.most)


_UP = 1 + 1e-9
"""More than the rounding of the few additions of positive numbers that make a bound."""


def _only(group: Group, kept: NDArray[np.bool_]) -> Group:
    """Some of a group's suffixes."""
    if kept.all():
        return group
    return replace(
        group,
        fields=group.fields[kept],
        numbers=group.numbers[kept],
        bounds=group.bounds[kept],
        slack=group.slack[kept],
    )

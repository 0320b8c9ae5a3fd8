"""Machine × graph: count paths, list them lazily in a fixed order, and sum over them without listing.

A walk pairs every depth of the graph with every state of the query's automaton. Three recurrences run over
those pairs: over integers (counts), over words (lists) and over streams (sums). The cost of a sum is one
forward pass per live state, whatever the number of paths.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from .automaton import Automaton, compile_query
from .counts import Completions, Counts, completions
from .graph import ResidualGraph
from .kept_streams import all_along, all_before, arrivals
from .kernel import BlockKernel
from .nodes import Source, start_value
from .operators import Array, push
from .query import Query
from .stack import Indices

Word = tuple[str, ...]


@dataclass(frozen=True)
class Walk:
    """The paths of a graph that a query accepts."""

    graph: ResidualGraph
    query: Query

    @cached_property
    def automaton(self) -> Automaton:
        return compile_query(self.query, self.graph.alphabet)

    @cached_property
    def _column(self) -> Mapping[str, int]:
        return {label: index for index, label in enumerate(self.graph.alphabet.labels)}

    def next_state(self, state: int, label: str) -> int:
        """The state after a label; -1 where nothing can be accepted any more."""
        return int(self.automaton.table[state, self._column[label]])

    def next_states(self, label: str) -> list[int]:
        """The state after a label, from every state."""
        found: list[int] = self.automaton.table[:, self._column[label]].tolist()
        return found

    @cached_property
    def steps(self) -> tuple[Indices, ...]:
        """Per block, the next state (state, component)."""
        columns = iter(range(len(self.graph.sources), len(self._column)))
        return tuple(
            self.automaton.table[:, [next(columns) for _ in block.components]] for block in self.graph.blocks
        )

    def finishes(self, state: int) -> bool:
        """Whether the sink may be read in this state."""
        return self.next_state(state, self.graph.sink.label) in self.automaton.accepting

    # Counts --------------------------------------------------------------------------------------------

    @cached_property
    def completions(self) -> Completions:
        """The ways from each state at each depth to the sink."""
        states = range(len(self.automaton.table))
        return completions(self.steps, [self.finishes(state) for state in states])

    def starts(self) -> Iterator[tuple[Source, int]]:
        """Sources that some accepted word may begin with, and the state after them."""
        for source in self.graph.sources:
            state = self.next_state(self.automaton.start, source.label)
            if state >= 0:
                yield source, state

    def entries(self, source: Source, state: int) -> Iterator[tuple[Word, int, int, int]]:
        """Where a source's paths set out: (labels so far, depth, state, order so far), the stream first."""
        if source.depth is not None:
            yield (), source.depth, state, 0
        for label in self._readers(source):
            if label != self.graph.sink.label:
                after = self.next_state(state, label)
                if after >= 0:
                    yield (label,), self.graph.places[label] + 1, after, 1

    def _readers(self, source: Source) -> list[str]:
        """Components that read the source directly, in block order."""
        return [label for label in self.graph.places if label in source.into] if source.into else []

    def straight(self, source: Source, state: int) -> bool:
        """Whether the path (source, sink) goes straight from the source into the sink, past the stream."""
        return self.graph.sink.label in source.into and self.finishes(state)

    @cached_property
    def count_by_order(self) -> Counts:
        """Exact numbers of paths by order, from 0 to the number of blocks."""
        total = [0] * (len(self.graph.blocks) + 1)
        for source, state in self.starts():
            total[0] += self.straight(source, state)
            for _, depth, after, order in self.entries(source, state):
                for more, ways in enumerate(self.completions.by_order(depth, after)):
                    total[order + more] += ways
        return tuple(total)

    # Lists ---------------------------------------------------------------------------------------------

    def words(self) -> Iterator[Word]:
        """All paths, lazily: by order, then by source, then by the blocks and places of their components."""
        for order, amount in enumerate(self.count_by_order):
            if amount:
                yield from self.words_of_order(order)

    def words_of_order(self, order: int) -> Iterator[Word]:
        """The paths through exactly `order` components, lazily."""
        for source, state in self.starts():
            if order == 0 and self.straight(source, state):
                yield (source.label, self.graph.sink.label)
            for labels, depth, after, used in self.entries(source, state):
                if order >= used:
                    yield from self._extend((source.label, *labels), depth, after, order - used)

    def ways(self, depth: int, state: int, order: int) -> int:
        """How many endings there are from a depth and a state through `order` more components."""
        counts = self.completions.by_order(depth, state)
        return counts[order] if order < len(counts) else 0

    def _extend(self, prefix: Word, depth: int, state: int, order: int) -> Iterator[Word]:
        ways = self.ways(depth, state, order)
        if ways <= _LISTED_AT_ONCE:
            for tail in self._tails(depth, state, order) if ways else ():
                yield prefix + tail
            return
        for label, after_depth, after in self._choices(depth, state, order):
            yield from self._extend((*prefix, label), after_depth, after, order - 1)

    def _choices(self, depth: int, state: int, order: int) -> list[tuple[str, int, int]]:
        return [
            (self.graph.blocks[b].components[c].label, b + 1, after)
            for b in range(depth, len(self.graph.blocks))
            for c, after in self.choices(b, state, order)
        ]

    def choices(self, depth: int, state: int, order: int) -> list[tuple[int, int]]:
        """Components of one block that a path with `order` more to pass may take: (index, next state)."""
        return [
            (c, int(after))
            for c, after in enumerate(self.steps[depth][state])
            if after >= 0 and self.ways(depth + 1, int(after), order - 1)
        ]

    def onward(self, depth: int, state: int) -> list[tuple[int, int]]:
        """Components of one block that may be taken in a state: (index, next state)."""
        return [(c, int(after)) for c, after in enumerate(self.steps[depth][state]) if after >= 0]

    @cached_property
    def _tail_lists(self) -> dict[tuple[int, int, int], list[Word]]:
        return {}

    def _tails(self, depth: int, state: int, order: int) -> list[Word]:
        """All endings from here, remembered: the same endings follow many beginnings."""
        key = (depth, state, order)
        if key not in self._tail_lists:
            self._tail_lists[key] = (
                [(self.graph.sink.label,)]
                if order == 0
                else [
                    (label, *tail)
                    for label, after_depth, after in self._choices(depth, state, order)
                    for tail in self._tails(after_depth, after, order - 1)
                ]
            )
        return self._tail_lists[key]

    # Sums ----------------------------------------------------------------------------------------------

    def streams(self, by_order: bool) -> tuple[Array, Array]:
        """Return what the accepted paths bring to the sink, summed: (stream, direct).

        stream has shape (K, position, d_model): what arrives on the final stream, by order (K = blocks + 1)
        or in all (K = 1). direct has shape (position, d_out): what constants bring to the sink itself, of
        order 0.  Cost: one forward pass per live state, times the number of orders if they are kept apart; up to where
        all beginnings are accepted, that of the first query.
        """
        n, d, _ = self.graph.sizes
        shape = (len(self.graph.blocks) + 1 if by_order else 1, n, d)
        live = self.before(len(self.graph.blocks), by_order)
        finals = [stream for state, stream in live.items() if self.finishes(state)]
        return sum(finals, np.zeros(shape)), self.straight_sum

    def before(self, depth: int, by_order: bool) -> dict[int, Array]:
        """Return what arrives in front of a block, or at the sink, by state: streams (K, n, d), K being 1 or blocks + 1 orders."""
        n, d, _ = self.graph.sizes
        shape = (len(self.graph.blocks) + 1 if by_order else 1, n, d)
        begin, whole = min(depth, self.all_until[0]), self.all_until[1]
        live: dict[int, Array] = {}
        if begin:
            known = all_before(self.graph, begin, "order" if by_order else "all")
            stream_at(live, whole, shape)[: len(known)] = known
        for at in range(begin, depth + 1):
            for state, order, value in self.arrivals(at) if at > begin or not begin else ():
                stream_at(live, state, shape)[order if by_order else 0] += value
            if at < depth:
                live = self.cross(at, self.graph.kernels[at], live, by_order)
        return live

    def followed(self) -> Iterator[Array]:
        """Yield the stream, (n, d), in front of every block and at the sink, of a walk over all paths; `total` is then kept."""
        x = np.zeros(self.graph.sizes[:2])
        for x in all_along(self.graph):
            yield x
        vars(self)["total"] = x[None], self.straight_sum

    @cached_property
    def all_until(self) -> tuple[int, int]:
        """The largest depth at which one state has all beginnings there are, and that state; depth 0 where none has."""
        found, state = (0, -1), -1
        coming: dict[int, list[int]] = {}
        for each in arrivals(self.graph):
            after = self.automaton.start
            for label in each.labels:
                after = self.next_state(after, label) if after >= 0 else -1
            coming.setdefault(each.depth, []).append(after)
        for depth in range(len(self.graph.blocks) + 1):
            if depth and state >= 0 and (self.steps[depth - 1][state] != state).any():
                break
            states = {*coming.get(depth, ()), *([state] if state >= 0 else [])}
            if len(states) > 1 or -1 in states:
                break
            state = next(iter(states), -1)
            if state >= 0:
                if not self.completions.leads(depth, state):
                    break
                found = depth, state
        return found

    @cached_property
    def free_from(self) -> tuple[int, int]:
        """The least depth from which one state is left and all endings are accepted in it, and that state; or the last depth."""
        found = len(self.graph.blocks), -1
        for depth in reversed(range(len(self.graph.blocks) + 1)):
            if len(self.live[depth]) != 1:
                break
            (state,) = self.live[depth]
            if found[1] not in (-1, state) or not self.finishes(state):
                break
            if depth < len(self.graph.blocks) and (self.steps[depth][state] != state).any():
                break
            found = depth, state
        return found

    @cached_property
    def total(self) -> tuple[Array, Array]:
        """`streams` of all orders together, kept for further targets."""
        return self.streams(by_order=False)

    @cached_property
    def total_by_order(self) -> tuple[Array, Array]:
        """`streams` by order, kept for further targets."""
        return self.streams(by_order=True)

    def arrivals(self, depth: int) -> Iterator[tuple[int, int, Array]]:
        """What sources bring to the stream at a depth: (state, order so far, value)."""
        for source, labels, state, order in self._arriving(depth):
            operator = source.into[labels[0]] if labels else source.write
            yield state, order, start_value(source.start, operator)

    def _arriving(self, depth: int) -> Iterator[tuple[Source, Word, int, int]]:
        for source, state in self.starts():
            for labels, entry, after, order in self.entries(source, state):
                if entry == depth and self.completions.leads(depth, after):
                    yield source, labels, after, order

    @cached_property
    def live(self) -> tuple[frozenset[int], ...]:
        """By depth, the states in which a beginning arrives and from which an ending leads to the sink."""
        found: list[frozenset[int]] = []
        states: set[int] = set()
        for depth in range(len(self.completions)):
            if depth:
                rows = self.steps[depth - 1][sorted(states)]
                states |= {int(after) for after in np.unique(rows) if after >= 0}
            states |= {state for _, _, state, _ in self._arriving(depth)}
            states = {state for state in states if self.completions.leads(depth, state)}
            found.append(frozenset(states))
        return tuple(found)

    def cross(
        self, depth: int, block: BlockKernel, live: Mapping[int, Array], by_order: bool
    ) -> dict[int, Array]:
        """One block: every live state keeps its skip and hands its components' outputs to the next states."""
        after: dict[int, Array] = {}
        for state, x in live.items():
            if self.completions.leads(depth + 1, state):
                stream_at(after, state, x.shape)[:] += block.through_skip(x)
            groups = self.onward_by_state(depth, state)
            used = _orders_in_use(x, depth) if by_order else len(x)
            for target, total in zip(groups, block.sums(x[:used], list(groups.values())), strict=True):
                into = stream_at(after, target, x.shape)
                if by_order:
                    into[1 : used + 1] += total[: len(into) - 1]
                else:
                    into += total
        return after

    def onward_by_state(self, depth: int, state: int) -> dict[int, Indices]:
        """Return the block's components by the state they lead to, hopeless ones left out."""
        steps = self.steps[depth][state]
        targets = [int(t) for t in np.unique(steps) if t >= 0 and self.completions.leads(depth + 1, t)]
        return {target: np.flatnonzero(steps == target) for target in targets}

    @cached_property
    def straight_sum(self) -> Array:
        """What constants bring straight to the sink, past the stream, (position, d_out)."""
        n, _, d_out = self.graph.sizes
        total = np.zeros((n, d_out))
        for source, state in self.starts():
            if self.straight(source, state):
                total += start_value(source.start, source.into[self.graph.sink.label])
        return total

    def logits(self) -> Array:
        """The exact sum of all accepted paths at the sink, shape (position, d_out)."""
        stream, direct = self.total
        return push(self.graph.sink.operator, stream[0]) + direct

    @cached_property
    def straight_total(self) -> tuple[Array, Array]:
        """What the accepted paths of order 0 bring to the sink, as `streams`: past all components. No block is computed."""
        n, d, _ = self.graph.sizes
        live: dict[int, Array] = {}
        for depth in range(len(self.graph.blocks) + 1):
            for state, order, value in self.arrivals(depth):
                if order == 0:
                    stream_at(live, state, (1, n, d))[0] += value
            if depth < len(self.graph.blocks) and self.graph.blocks[depth].skip:
                block = self.graph.kernels[depth]
                live = {state: block.through_skip(x) for state, x in live.items()}
        finals = [stream for state, stream in live.items() if self.finishes(state)]
        return sum(finals, np.zeros((1, n, d))), self.straight_sum

    @cached_property
    def logits_with_and_without(self) -> Array:
        """The exact sums at the sink of the accepted paths past all components, and of all others: (2, position, d_out).

        One pass for all orders together, where `logits_by_order` takes as many as there are orders; kept, for the score of
        every query.
        """
        (stream, direct), (whole, _) = self.straight_total, self.total
        totals = push(self.graph.sink.operator, np.concatenate([stream, whole - stream]))
        totals[0] += direct
        totals.setflags(write=False)
        return totals

    def logits_by_order(self) -> Array:
        """The exact sums by order at the sink, shape (blocks + 1, position, d_out)."""
        stream, direct = self.total_by_order
        totals = push(self.graph.sink.operator, stream)
        totals[0] += direct
        return totals


_LISTED_AT_ONCE = 4096


def stream_at(live: dict[int, Array], state: int, shape: tuple[int, ...]) -> Array:
    """Return the stream of a state, zero if it was not live yet."""
    if state not in live:
        live[state] = np.zeros(shape)
    return live[state]


def _orders_in_use(x: Array, depth: int) -> int:
    """At depth b no path has used more than b components."""
    return min(len(x), depth + 1)

"""A prediction as a tree of exact sums: children add up to their parent, whatever the depth."""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar, Literal, TypeAlias

from ...answer import Answer, Check, Facts, Note, Part
from ...errors import PathexpError
from ...graph import Contrast, Query, Walk, positions_needed
from ...model import Target
from ...model.points import LOGITS
from ..header import amount, counted, matching, run_facts, shown_target
from ..path import Path
from ..search import interrupts
from ..targets import on_stream
from ..values import straight_values
from .balance import balance
from .drawing import by_source, drawn, flame, signed, table
from .frontier import ROOT
from .growth import Growth
from .limits import Limits, Progress, reporter
from .node import TreeNode
from .numbers import Numbers
from .opening import Opening
from .pulled import PulledBack
from .pushed import PushedForward
from .shown import BRANCHES, ROWS, largest_branches
from .spots import Spot, Word

Direction: TypeAlias = Literal["back", "forward"]

_SHARED = {"back": "endings", "forward": "beginnings"}
_SAID = {"nodes": "", "complete": "; complete", "interrupted": "; interrupted, this is what there was"}


@dataclass(frozen=True, eq=False, repr=False)
class Tree(Answer):
    """Bundles of paths, each an exact sum; the leaves are an exact partition of all paths.

    A node is an ending of paths (in a tree of direction "forward", a beginning), its value what all paths that end
    so add to the target, its children the endings one component longer and what sets out right there from a source.
    Iterating goes through all nodes, the largest branches first.

    Parameters
    ----------
    value, count: of all paths together.
    stopped: why it grew no further: "nodes", "seconds", "share", "complete" or "interrupted".
    positions: whether the branches that are shown are also split by source position.

    >>> import pathexp as px
    >>> trace = px.random_model(layers=2, heads=2, seed=1).run([1, 2, 3])
    >>> tree = px.expand(trace).tree(trace.logit(4), nodes=3)
    >>> sum(not node.children for node in tree), abs(sum(leaf.value for leaf in tree.leaves()) - tree.value) < 1e-12
    (10, True)
    """

    live: ClassVar[frozenset[str]] = frozenset({"growth"})

    growth: Growth
    target: Target
    direction: Direction
    value: float
    count: int
    stopped: str
    positions: bool = False

    @property
    def root(self) -> TreeNode:
        """The node of all paths."""
        return TreeNode(self, ROOT)

    @property
    def nodes(self) -> int:
        """How many nodes were opened."""
        return len(self.growth.openings)

    def __iter__(self) -> Iterator[TreeNode]:
        """Iterate over all nodes, the largest branches first."""
        return self.root.walk()

    def __len__(self) -> int:
        return 1 + sum(map(len, self.growth.openings))

    def leaves(self) -> Iterator[TreeNode]:
        """Iterate over the nodes that were not opened: an exact partition of all paths."""
        return (node for node in self if not node.opened)

    def finds(self, k: int) -> tuple[Path, ...]:
        """Return the k largest leaves that are single paths, or as many as there are, by |value|."""
        if self.root.path is not None:
            return (self.root.path,)[:k]
        waiting = ((opening.single_ranks, number) for number, opening in enumerate(self.growth.openings))
        leaves = ((number, int(rank)) for ranks, number in waiting for rank in ranks[:k])
        nodes = heapq.nsmallest(
            k, (TreeNode(self, leaf) for leaf in leaves), key=lambda node: -abs(node.value)
        )
        return tuple(node.path for node in nodes if node.path is not None)

    @cached_property
    def finished(self) -> float:
        """What the leaves that are single paths add together."""
        return self.value if self.count == 1 else sum(opening.finished for opening in self.growth.openings)

    @property
    def share(self) -> float:
        """The part of the value that the leaves which are single paths add; above 1 where the others take off."""
        return self.finished / self.value if self.value else 0.0

    @cached_property
    def balance(self) -> Check:
        """Whether children add up to their parents, with the tolerance that rounding explains."""
        return balance(self.growth, self.value)

    # As an answer --------------------------------------------------------------------------------------

    def headline(self) -> str:
        """Return the target, the number of paths and how far the tree has grown."""
        verb = " differs by" if isinstance(self.growth.numbers.graph, Contrast) else ":"
        said = _SAID.get(self.stopped, f"; stopped by {self.stopped}")
        return (
            f"{self.target.label} at position {self.target.position}{verb} {signed(self.value)} = the sum of "
            f"{amount(self.count)} {'path' if self.count == 1 else 'paths'}{matching(self.query)}, "
            f"by {_SHARED[self.direction]} ({counted(self.nodes, 'node')} opened{said})"
        )

    @property
    def query(self) -> Query:
        """The query that all paths of the tree match."""
        return self.growth.numbers.walk.query

    def parts(self) -> Iterator[Part]:
        """Yield the largest branches as text, what single paths add, the check, all as a table, and a picture."""
        yield from self._facts()
        shown = largest_branches(self.root, BRANCHES)
        yield Note(drawn(shown[0]))
        yield Note(self._finished_line())
        if self.positions:
            yield by_source(shown, self.growth.numbers.graph.trace)
        branches = largest_branches(self.root, ROWS)
        unit = "logits" if self.target.at == LOGITS else ""
        yield table(branches, unit, len(self))
        yield self.balance
        yield flame(branches, self.headline(), unit)

    @property
    def complete(self) -> bool:
        """Whether it grew to the limits that were asked for; False if it was interrupted."""
        return self.stopped != "interrupted"

    def _facts(self) -> Iterator[Facts]:
        graph = self.growth.numbers.graph
        if graph.trace is not None:
            yield run_facts(graph.trace, shown_target(graph, self.target))
        yield Facts({"query": str(self.query), "direction": self.direction, "opened": self.nodes,
                     "paths": self.count, "value": self.value, "finished": self.finished, "stopped": self.stopped})  # fmt: skip

    @property
    def _largest(self) -> float:
        return max(abs(self.value), abs(self.finished))

    def _finished_line(self) -> str:
        lone = self.count < 2  # then the root itself is that path, or there is none
        single = self.count if lone else sum(map(Opening.singles, self.growth.openings))
        left = 0 if lone else len(self) - self.nodes - single
        rest = f"{counted(left, 'unopened bundle')} of paths {_add(left)} {signed(self.value - self.finished, self._largest)}"
        return (
            f"{counted(single, 'single path')} in the tree {_add(single)} {signed(self.finished, self._largest)}; "
            f"{rest if left else 'no bundle of paths is left unopened'}"
        )

    # Growing -------------------------------------------------------------------------------------------

    def grow(
        self,
        nodes: int | None = None,
        *,
        seconds: float | None = None,
        share: float | None = None,
        progress: Progress | bool = False,
    ) -> Tree:
        """Return a tree that goes on where this one stopped; this one stays as it is.

        `nodes` counts nodes to open in addition; the other limits are those of `Expansion.tree`.
        """
        limits = Limits(nodes, seconds, share)
        more = None if limits.nodes is None else self.nodes + limits.nodes
        return grown(self, Limits(more, seconds, share), reporter(progress))

    def open(self, node: TreeNode) -> Tree:
        """Return the tree with one more node opened, whichever it is.

        Raises PathexpError if it is not a leaf of this tree that holds more than one path.
        """
        growth = self.growth.copy()
        if node.tree.growth.numbers is not growth.numbers or node.leaf in growth.at or node.count < 2:
            raise PathexpError(
                f"{node!r} is not to be opened here: give a leaf of this tree that holds more than one path"
            )
        growth.open(node.leaf)
        return self._with(growth, self.stopped)

    def _with(self, growth: Growth, stopped: str) -> Tree:
        return replace(self, growth=growth, stopped=stopped)

    def completed(self, spot: Spot) -> Word:
        """The labels of the only path that there is at a spot."""
        words = self.growth.numbers.words
        while True:
            extras, span = words.extras(spot), words.span(spot)
            child = extras[0] if extras else words.child(spot, span.start)
            if child.spot is None:
                return words.word(spot, child.label)
            spot = child.spot


def _add(number: int) -> str:
    return "adds" if number == 1 else "add"


def numbers_of(walk: Walk, target: Target, direction: Direction) -> Numbers:
    """Return the numbers of a tree of a walk's paths toward a target."""
    field = on_stream(target, walk.graph)
    reading = field[: positions_needed(walk, field)]
    straight = {word[0]: value for value, word in straight_values(walk, target)}
    return (PulledBack if direction == "back" else PushedForward)(walk, reading, straight)


def tree_of(
    walk: Walk,
    target: Target,
    value: float,
    direction: Direction,
    limits: Limits,
    progress: Progress | None = None,
    numbers: Numbers | None = None,
) -> Tree:
    """Return the tree of a walk's paths toward a target, grown to its limits; `value` is what they add in all.

    `numbers` are those of the target and direction, if they are there already.
    """
    numbers = numbers or numbers_of(walk, target, direction)
    growth = Growth(numbers)
    return grown(Tree(growth, target, direction, value, numbers.words.count, ""), limits, progress)


def grown(tree: Tree, limits: Limits, progress: Progress | None) -> Tree:
    """Return a tree that was grown further until a limit is reached."""
    growth, finished = tree.growth.copy(), tree.finished
    with interrupts() as interrupted:
        while not (stopped := limits.reached(len(growth.openings), tree.value, finished)):
            if interrupted() or not growth.grow(limits.most - len(growth.openings)):
                stopped = "interrupted" if interrupted() else "complete"
                break
            finished += growth.openings[-1].finished
            if progress is not None:
                progress(len(growth.openings))
    return tree._with(growth, stopped)

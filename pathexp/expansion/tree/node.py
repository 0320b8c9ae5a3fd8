"""One node of a tree: a bundle of paths with its query, its exact number of paths and its exact value."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

from ...graph import Array
from ...model import Target
from ..path import Path
from .frontier import ROOT, Leaf
from .growth import Growth
from .opening import Opening
from .positions import by_position
from .spots import Child, Spot, Word


class Grown(Protocol):
    """What a node asks of the tree that it stands in."""

    @property
    def growth(self) -> Growth:
        """All openings."""

    @property
    def target(self) -> Target:
        """What is explained."""

    @property
    def value(self) -> float:
        """Of all paths together."""

    @property
    def count(self) -> int:
        """How many paths there are."""

    def completed(self, spot: Spot) -> Word:
        """The labels of the only path that there is at a spot."""


@dataclass(frozen=True, repr=False)
class TreeNode:
    """All paths with one ending (or beginning), summed; `leaf` says where in the tree it stands.

    >>> import pathexp as px
    >>> trace = px.random_model(layers=2, heads=2, seed=1).run([1, 2, 3])
    >>> node = px.expand(trace).tree(trace.logit(4), nodes=2).root.children[0]
    >>> node.count == px.expand(trace).where(node.query).count()
    True
    """

    tree: Grown
    leaf: Leaf

    @property
    def _parent(self) -> Opening:
        return self.tree.growth.openings[self.leaf[0]]

    @property
    def _number(self) -> int:
        return int(self._parent.order[self.leaf[1]])

    @property
    def _child(self) -> Child:
        return self._parent.child(self._number)

    @property
    def value(self) -> float:
        """What all of its paths together add to the target, exactly."""
        return self.tree.value if self.leaf == ROOT else float(self._parent.values[self._number])

    @property
    def count(self) -> int:
        """How many paths there are, exactly."""
        return self.tree.count if self.leaf == ROOT else self._child.count

    @property
    def label(self) -> str:
        """The label by which it is longer than its parent; of the root, none."""
        return "" if self.leaf == ROOT else self._child.label

    @property
    def word(self) -> Word:
        """The labels that its paths share at their end (in a tree of beginnings, at their start).

        Of a single path, all labels.
        """
        words = self.tree.growth.numbers.words
        spot = words.root if self.leaf == ROOT else self._child.spot
        if spot is None:
            return words.word(self._parent.spot, self.label)
        return self.tree.completed(spot) if self.count == 1 else spot.word

    @property
    def query(self) -> str:
        """The query that matches these paths and no others, such as `S .* L23H4 L29M U`; a path's is itself."""
        words = self.tree.growth.numbers.words
        if self.count == 1:
            return " ".join(self.word)
        return words.text(self.spot)

    @property
    def spot(self) -> Spot:
        """Where it stands: its word, the depth at which it meets the stream, the automaton's states."""
        found = self.tree.growth.numbers.words.root if self.leaf == ROOT else self._child.spot
        assert found is not None, "a complete path stands nowhere"
        return found

    @property
    def path(self) -> Path | None:
        """The path, where there is a single one; else None."""
        return Path(self.word) if self.count == 1 else None

    @property
    def opened(self) -> bool:
        """Whether it has been opened, so that it has children."""
        return self.leaf in self.tree.growth.at

    @property
    def opening(self) -> Opening | None:
        """The arrays of its children; None for a leaf."""
        number = self.tree.growth.at.get(self.leaf)
        return None if number is None else self.tree.growth.openings[number]

    @property
    def children(self) -> tuple[TreeNode, ...]:
        """The nodes that it was opened into, the largest |value| first; none for a leaf."""
        opening = self.opening
        return () if opening is None else tuple(self.nth(rank) for rank in range(len(opening)))

    def nth(self, rank: int) -> TreeNode:
        """The child of a rank by |value|, from 0."""
        return TreeNode(self.tree, (self.tree.growth.at[self.leaf], rank))

    def by_position(self) -> Array:
        """Split its value by source position: what its paths bring from each token, (positions,), exactly.

        What constants add that only the sink reads is put at the target's position. One backward pass at most.
        """
        where = self.word if self.count == 1 else self.spot
        return by_position(self.tree.growth.numbers, where, self.tree.target.position)

    def walk(self) -> Iterator[TreeNode]:
        """Iterate over the node and all below it, the largest branches first."""
        pending = [self]
        while pending:
            node = pending.pop()
            yield node
            pending.extend(reversed(node.children))

    def __repr__(self) -> str:
        return f"<TreeNode {self.query!r}: {self.value:+.6g}, {self.count:,} paths>"

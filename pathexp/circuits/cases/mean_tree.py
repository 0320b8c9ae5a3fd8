"""The mean of many trees is one tree: the same bundles of paths in every case, opened by |mean|.

The tree grows in waves: the root, four nodes, then each time as many as are open by then. A wave costs a run of every case and one product a node, and
nothing but sums is kept between waves, so memory does not grow with the number of cases.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ...answer import Check, Note
from ...arguments import expect, one_of, whole
from ...errors import PathexpError
from ...expansion import expand
from ...expansion.header import counted, matching
from ...expansion.tree.balance import BLIND, root_deviation
from ...expansion.tree.limits import Limits
from ...expansion.tree.noise import allowed
from ...expansion.tree.opening import Opening, opened
from ...expansion.tree.spots import Child, Spot
from ...expansion.tree.tree import Tree, tree_of
from ...graph import Array, contrast, with_every_choice
from ...model import Model
from .case import Case
from .journal import Journal
from .mean_branches import Branch, drawn, flame, table
from .measured import Ask, corrupted_tokens
from .moments import Moments
from .steps import Form, Step, packed, unpacked
from .sums import Averaged
from .workers import Workers

NODES = 100
FIRST, WAVE = 4, 64
"""How many nodes are opened together at least, behind the root, and at most."""
OPTIONS = ("query", "nodes", "direction")


@dataclass(frozen=True)
class Place:
    """Where a node stands: its spot, and of which opened spot it is which child; the root is nobody's."""

    spot: Spot
    parent: Spot | None = None
    number: int = 0


@dataclass(frozen=True)
class Opened:
    """What the nodes of a wave were opened into in one case."""

    value: float
    values: tuple[Array, ...]
    worst: tuple[float, float, float]
    """Error, tolerance and size where children miss their parent most."""


@dataclass(frozen=True)
class OpenPlaces:
    """Open nodes in one case."""

    ask: Ask
    places: tuple[Place, ...]

    def __call__(self, model: Model, case: Case) -> Opened:
        start = unopened(self.ask, model, case, whole=any(place.parent is None for place in self.places))
        numbers = start.growth.numbers
        made = opened(numbers, [place.spot for place in self.places])
        parents = [place.parent for place in self.places if place.parent is not None]
        before = dict(zip(parents, opened(numbers, parents), strict=True)) if parents else {}
        balances = [
            _balance(start, place, opening, before) for place, opening in zip(self.places, made, strict=True)
        ]
        worst = max(balances, key=lambda each: each[0] / max(each[1], 1e-300))
        return Opened(start.value, tuple(opening.values for opening in made), worst)


def unopened(ask: Ask, model: Model, case: Case, *, whole: bool = True) -> Tree:
    """Return the tree of a case, of which nothing is opened; its value is left at 0 unless the `whole` is asked for."""
    trace = model.run(case.tokens)
    what = with_every_choice(contrast(trace, model.run(corrupted_tokens(case)))) if ask.contrast else trace
    options = ask.options_of(model, case)
    terms = expand(what, options["query"]) if "query" in options else expand(what)
    target = case.target(trace)
    value = terms.value(target) if whole else 0.0
    return tree_of(terms.walk, target, value, options.get("direction", "back"), Limits(nodes=0))


def _balance(
    tree: Tree, place: Place, opening: Opening, before: Mapping[Spot, Opening]
) -> tuple[float, float, float]:
    if place.parent is None:
        value, own = tree.value, root_deviation(tree.growth.numbers)
    else:
        parent = before[place.parent]
        value, own = float(parent.values[place.number]), float(parent.noise[place.number])
    size = float(np.abs(opening.values).max(initial=abs(value)))
    return abs(float(opening.values.sum()) - value), allowed(own, opening.noise, opening.values), size


@dataclass
class _Node:
    """A node of the mean tree: where it stands (None for a single path), its sums, and its children once opened."""

    place: Place | None
    child: Child | None
    moments: Moments = field(default_factory=Moments)
    children: list[_Node] = field(default_factory=list)

    @property
    def mean(self) -> float:
        return self.moments.mean or 0.0


class _Growing:
    """A mean tree on its way: labels and counts from one case, sums over all."""

    def __init__(
        self, ask: Ask, model: Model, cases: Sequence[Case], workers: Workers, journal: Journal | None = None
    ) -> None:
        self.ask, self.model, self.cases, self.workers, self.journal = ask, model, cases, workers, journal
        self.shape = unopened(ask, model, cases[0])
        self.words = self.shape.growth.numbers.words
        self.root = _Node(Place(self.words.root), None)
        self.leaves, self.opened = [self.root], 0
        self.worst = (0.0, 0.0, 0.0)

    def wave(self, most: int) -> bool:
        """Open the largest leaves; False if there are none."""
        able = sorted(
            (leaf for leaf in self.leaves if leaf.place is not None), key=lambda leaf: -abs(leaf.mean)
        )
        chosen = able[: min(most, WAVE, max(FIRST, self.opened))]
        if not chosen:
            return False
        places = tuple(leaf.place for leaf in chosen if leaf.place is not None)
        for leaf in chosen:
            leaf.children = list(self._children(leaf))
        kept = None if self.journal is None else Step(self.journal, OPENED, _step(places))
        for found in self.workers.over(OpenPlaces(self.ask, places), self.model, self.cases, kept):
            self._add(chosen, found)
        taken = {id(leaf) for leaf in chosen}
        self.leaves = [leaf for leaf in self.leaves if id(leaf) not in taken]
        self.leaves += [child for leaf in chosen for child in leaf.children]
        self.opened += len(chosen)
        return True

    def _children(self, leaf: _Node) -> Iterator[_Node]:
        assert leaf.place is not None, "what is opened stands somewhere"
        spot = leaf.place.spot
        extras, span = self.words.extras(spot), self.words.span(spot)
        every = [*extras, *(self.words.child(spot, place) for place in range(span.start, span.stop))]
        for number, child in enumerate(every):
            bundle = child.spot is not None and child.count > 1
            yield _Node(Place(child.spot, spot, number) if bundle and child.spot is not None else None, child)

    def _add(self, chosen: Sequence[_Node], found: Opened) -> None:
        if self.opened == 0:
            self.root.moments.add(found.value)
        for leaf, values in zip(chosen, found.values, strict=True):
            if len(values) != len(leaf.children):
                raise PathexpError("its paths have other labels than those of the first case")
            for child, value in zip(leaf.children, values.tolist(), strict=True):
                child.moments.add(value)
        if found.worst[0] / max(found.worst[1], 1e-300) >= self.worst[0] / max(self.worst[1], 1e-300):
            self.worst = found.worst

    def branch(self, node: _Node, parent: _Node | None = None) -> Branch:
        """Return a node as what is printed of it."""
        children = sorted(node.children, key=lambda child: -abs(child.mean))
        label, query, count = self._said(node, parent)
        return Branch(
            query,
            label,
            count,
            node.mean,
            node.moments.error,
            [self.branch(child, node) for child in children],
        )

    def _said(self, node: _Node, parent: _Node | None) -> tuple[str, str, int]:
        """The label, the query and the number of paths of a node."""
        if node.child is None or parent is None or parent.place is None:
            return "", self.words.text(self.words.root), self.shape.count
        child = node.child
        if child.spot is None:
            return child.label, " ".join(self.words.word(parent.place.spot, child.label)), 1
        if child.count == 1:
            return child.label, " ".join(self.shape.completed(child.spot)), 1
        return child.label, self.words.text(child.spot), child.count


def _step(places: Sequence[Place]) -> str:
    """The name of a wave in a journal: which nodes are opened together."""
    words = [[list(place.spot.word), place.spot.depth] for place in places]
    return f"wave-{hashlib.sha256(json.dumps(words).encode()).hexdigest()[:16]}-"


def _plain(found: Opened) -> Any:
    return [found.value, [packed(values) for values in found.values], found.worst]


def _opened(plain: Any) -> Opened:
    value, values, worst = plain
    error, tolerance, size = map(float, worst)
    return Opened(float(value), tuple(map(unpacked, values)), (error, tolerance, size))


OPENED: Form[Opened] = Form(_plain, _opened)


def mean_tree(
    ask: Ask, model: Model, cases: tuple[Case, ...], workers: Workers, quantiles: tuple[float, ...],
    journal: Journal | None = None,
) -> Averaged:  # fmt: skip
    """Return the mean tree over cases; see `average`. Raises PathexpError for options it does not have."""
    refused = [name for name in ask.options if name not in OPTIONS] + ["quantiles"] * bool(quantiles)
    if refused:
        raise PathexpError(
            f"the mean of trees takes {', '.join(OPTIONS)}; {', '.join(refused)} belong to the tree of one run"
        )
    nodes: Any = ask.options.get("nodes", NODES)
    expect(
        "tree",
        nodes=(nodes, whole(1)),
        direction=(ask.options.get("direction", "back"), one_of("back", "forward")),
    )
    growing = _Growing(ask, model, cases, workers, journal)
    while growing.opened < nodes and growing.wave(nodes - growing.opened):
        pass
    return _averaged(growing)


def _narrowed(growing: _Growing) -> Iterator[Note]:
    """What the paths are narrowed to, without which a part would read as the whole."""
    if chosen := matching(growing.shape.query):
        yield Note(f"paths{chosen}")


def _averaged(growing: _Growing) -> Averaged:
    root = growing.branch(growing.root)
    error, tolerance, size = growing.worst
    blind = f"the tolerance {tolerance:.2e} is not small beside the children (largest {size:.3g})"
    check = Check(
        f"children add up to their parents at {counted(growing.opened, 'opened node')}, in the worst of "
        f"{counted(len(growing.cases), 'case')}", error, tolerance, "rounding of both sides, 10 standard deviations",
        reason=blind if tolerance > BLIND * size and error > 0 else "", name="balance",
    )  # fmt: skip
    return Averaged(
        len(growing.cases),
        growing.root.moments,
        (table(root),),
        (check,),
        more=(*_narrowed(growing), drawn(root), flame(root)),
    )

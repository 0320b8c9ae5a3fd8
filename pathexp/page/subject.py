"""What a view is about, computed once: the run, its graph, the target, and the trees that were grown so far."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from threading import Lock

from ..circuits.attribution.flow import Flow, flow
from ..circuits.heads.heads import Heads
from ..errors import PathexpError, SizeError, TokenError
from ..expansion.expansion import Expansion, expand
from ..expansion.tree import Direction, Tree, TreeNode
from ..expansion.tree.frontier import Leaf
from ..graph import Contrast, ResidualGraph, contrast, freeze
from ..model import Model, Target, Trace
from .measured import Measured
from .view import View

FLOWS = 4
"""How many flows of a view are kept."""

ASKED = 8
"""How many queries of a view are kept, with their sums."""

NODES = 24
"""How many nodes of a tree are opened before anybody clicks."""


@dataclass(eq=False)
class Subject:
    """A run of a model with a target, and with a second text the contrast of both runs.

    >>> import pathexp as px
    >>> subject = Subject(px.load("attn-2l"), View("To be, or not to be"))
    >>> subject.terms.count(), subject.target.position == len(subject.trace) - 1
    (81, True)
    """

    model: Model
    view: View
    given: Trace | None = None
    measured: Measured | None = None
    _trees: dict[Direction, GrownTree] = field(default_factory=dict)
    _flows: dict[str, Flow] = field(default_factory=dict)
    _asked: dict[str, AskedPaths] = field(default_factory=dict)
    _lock: Lock = field(default_factory=Lock)

    @cached_property
    def trace(self) -> Trace:
        """The run of the first text."""
        return self.given or run(self.model, self.view.text)

    @cached_property
    def other(self) -> Trace | None:
        """The run of the second text, if there is one."""
        return run(self.model, self.view.other) if self.view.other else None

    @property
    def runs(self) -> tuple[Trace, ...]:
        """The run, or both, where they can be compared."""
        return self.graph.runs if isinstance(self.graph, Contrast) else (self.trace,)

    @cached_property
    def graph(self) -> ResidualGraph:
        """The residual graph: of the run, or of the difference of both."""
        return freeze(self.trace) if self.other is None else contrast(self.trace, self.other)

    @cached_property
    def terms(self) -> Expansion:
        """All paths."""
        return expand(self.graph)

    @cached_property
    def target(self) -> Target:
        """The logit, or the difference of two, that is explained."""
        return self.target_on(self.trace)

    def target_on(self, trace: Trace) -> Target:
        """Return the target on one of the runs; where none is chosen, it is what the first run predicts."""
        position = self.view.position
        wanted = self.trace.top_token(position) if self.view.target is None else self.view.target
        if self.view.versus is None:
            return trace.logit(wanted, position=position)
        return trace.logit_difference(wanted, self.view.versus, position=position)

    def head_types(self) -> Heads:
        """Return what every head does on random repeats, and whether it copies; a session measures it once."""
        return (self.measured or Measured(self.model)).heads()

    @cached_property
    def value(self) -> float:
        """What all paths together add to the target."""
        return self.terms.value(self.target)

    def asked(self, query: str) -> AskedPaths:
        """Return the paths of a query; the last few are kept, since several panels ask about one query in a row.

        Raises QueryError for a query that cannot be read.
        """
        with self._lock:
            found = self._asked.pop(query, None)
            if found is None:
                found = AskedPaths(self.terms.where(query), self.target)
                self._asked = dict(list(self._asked.items())[1 - ASKED :])
            self._asked[query] = found
            return found

    def flow(self, query: str) -> Flow:
        """Return the flow of the paths of a query, all without one; the last few are kept for the slider."""
        with self._lock:
            if query not in self._flows:
                self._flows = dict(list(self._flows.items())[1 - FLOWS :])
                self._flows[query] = flow(self.graph, self.target, query=query or None)
            return self._flows[query]

    def tree(self, direction: Direction, opened: Sequence[str] = ()) -> Tree:
        """Return the tree of all paths with the nodes of some queries opened, besides the largest."""
        with self._lock:
            grown = self._trees.get(direction)
            if grown is None:
                first = self.terms.tree(self.target, nodes=NODES, direction=direction)
                if not first.complete:
                    raise PathexpError("the tree was stopped before it was grown: ask again")
                grown = self._trees[direction] = GrownTree(first)
            for query in opened:
                grown.open(query)
            return grown.tree


@dataclass(frozen=True, eq=False)
class AskedPaths:
    """The paths of a query, and what they add to the target of a view, computed once."""

    terms: Expansion
    target: Target

    @cached_property
    def value(self) -> float:
        """Their exact sum."""
        return self.terms.value(self.target)


@dataclass(eq=False)
class GrownTree:
    """A tree that grows with every click, and where in it each query stands."""

    tree: Tree
    leaves: dict[str, Leaf] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._learn(self.tree.root)

    def _learn(self, node: TreeNode) -> None:
        for each in node.walk():
            self.leaves[each.query] = each.leaf

    def open(self, query: str) -> None:
        """Open the node of a query; nothing happens where it is open or a single path.

        Raises PathexpError where the tree has no such node.
        """
        if query not in self.leaves:
            raise PathexpError(f"no branch {query!r:.80} in this tree: its parents are to be opened first")
        node = TreeNode(self.tree, self.leaves[query])
        if node.opened or node.count < 2:
            return
        self.tree = self.tree.open(node)
        self._learn(TreeNode(self.tree, node.leaf))


def run(model: Model, text: str) -> Trace:
    """Run a model on a text; a model without a tokenizer on token ids, such as "3 14 15".

    Raises TokenError for what the model cannot take.
    """
    ids = tokens(model, text)
    _check_size(model, len(ids))
    return model.run(ids)


def tokens(model: Model, text: str) -> list[int]:
    """Return the token ids of a text, or those that it names where the model has no tokenizer."""
    if model.tokenizer is not None:
        return model.encode(text)
    try:
        return [int(word) for word in text.replace(",", " ").split()]
    except ValueError:
        raise TokenError(
            f"{model!r} has no tokenizer: expected token ids such as 3 14 15, got {text!r:.60}"
        ) from None


MOST_BYTES = 1_000_000_000
"""How many bytes the attention patterns and scores of one run may take on a page."""


def _check_size(model: Model, length: int) -> None:
    """Raise SizeError for a text whose attention patterns would fill the memory of the machine that serves the page."""
    each = 2 * 8 * model.config.n_layers * model.config.n_heads
    if each * length**2 > MOST_BYTES:
        most = int((MOST_BYTES / each) ** 0.5)
        raise SizeError(
            f"the text has {length:,} tokens, and the attention of this model to them takes {each * length**2 / 1e9:.1f} GB; "
            f"a page takes up to {most:,} tokens: shorten it, or use Python"
        )

"""A lazy expansion: the paths of a graph that a query accepts, counted, listed, summed and proven."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import islice
from typing import TYPE_CHECKING

from ..arguments import AMOUNT, TEXT, TRUTH, expect, instance, one_of
from ..errors import PathError, PathexpError, SizeError
from ..graph import (
    Array,
    Contrast,
    Query,
    ResidualGraph,
    Walk,
    check_paths,
    contrast_to,
    everything,
    graph_to,
)
from ..graph import query as parsed
from ..model import Target, Trace
from . import symbolic
from .header import matching
from .notebook import COMPLETIONS, FIRST, shown
from .path import Path, parse_path
from .ranking import Ranking, rank
from .search import MEMORY, Budget
from .target_totals import TargetTotals
from .term import Term, terms_of
from .tree import Direction, Limits, Progress, Tree, numbers_of, prepare, reporter, tree_of
from .values import path_values
from .verdict import Verdict, verify_walk

if TYPE_CHECKING:
    import sympy as sp

SYMBOLIC_LIMIT = 100_000
"""How many terms `Expansion.expr` writes into one sum before it refuses."""


@dataclass(frozen=True, repr=False)
class Expansion:
    """All paths from the sources to the sink that a query accepts, as terms.

    Nothing is listed until asked: counts and sums are recurrences over the graph, iteration streams.
    Terms come in a fixed order: by order, then source, then blocks and places (Elhage et al. 2021,
    "Path Expansion of Logits", lists them so).

    >>> import pathexp as px
    >>> terms = px.expand(px.ResidualGraph.attention_only(layers=2, heads=2))
    >>> terms.count(), terms.count_by_order()
    (9, (1, 4, 4))
    >>> [str(term.path) for term in terms.where("E L0 L1H1 U")]
    ['E L0H0 L1H1 U', 'E L0H1 L1H1 U']
    """

    graph: ResidualGraph
    query: Query = everything

    def __repr__(self) -> str:
        return f"<Expansion: {self.count():,} terms{matching(self.query)}>"

    def _repr_html_(self) -> str:
        return shown(self.graph, self.query, self.count_by_order(), islice(self, FIRST)).to_html()

    def _ipython_key_completions_(self) -> list[str]:
        """Return paths that complete `terms["` in notebooks: the first of them, in their order."""
        return [str(path) for path in islice(self.paths(), COMPLETIONS)]

    @cached_property
    def walk(self) -> Walk:
        """The recurrences over graph and query."""
        return Walk(self.graph, self.query)

    @cached_property
    def _totals(self) -> TargetTotals:
        return TargetTotals(self.walk)

    # Counting and listing ------------------------------------------------------------------------------

    def count(self) -> int:
        """How many terms there are, exactly. O(blocks × automaton states × components)."""
        return sum(self.count_by_order())

    def count_by_order(self) -> tuple[int, ...]:
        """How many terms there are of each order, from 0 to the number of blocks."""
        return self.walk.count_by_order

    def __iter__(self) -> Iterator[Term]:
        """Stream the terms in their fixed order."""
        return terms_of(self.walk)

    def paths(self) -> Iterator[Path]:
        """Stream the paths alone, in the order of the terms; the cheapest listing."""
        return map(Path, self.walk.words())

    def __getitem__(self, path: str | Path | Term) -> Term:
        """Return the term of one path, such as terms["E L0H1 L1H0 U"].

        Raises PathError if the graph has no such path, or the query does not accept it.
        """
        found = parse_path(path.path if isinstance(path, Term) else path, self.graph)
        if not self.walk.automaton.accepts(found):
            raise PathError(
                f"path {str(found)!r} exists, but is not among the {self.count():,} terms "
                f"that match {str(self.query)!r}"
            )
        return Term(self.graph, found)

    def __contains__(self, path: object) -> bool:
        """Whether a path, text or term is among these terms."""
        try:
            self[path]  # type: ignore[index]
        except PathError:
            return False
        return True

    def where(self, condition: str | Query) -> Expansion:
        """Return the terms that also match a query, as an expansion of its own.

        Raises QueryError if the query cannot be read or names what the graph does not have.
        """
        chosen = parsed(condition)
        check_paths(chosen, self.graph.alphabet)
        both = chosen if self.query == everything else self.query & chosen
        return Expansion(self.graph, both)

    def rest(self) -> Expansion:
        """Return all other paths of the graph: the complement of these terms."""
        return Expansion(self.graph, ~self.query)

    # Formulas ------------------------------------------------------------------------------------------

    @cached_property
    def _one_space(self) -> bool:
        """Whether all terms start in one space, so that their sum is an operator."""
        starts = {source.label for source, _ in self.walk.starts()}
        return len(starts) <= 1

    def expr(self) -> sp.MatrixExpr:
        """Return the sum of all terms as one sympy expression.

        If all paths start at one source the sum is the operator itself, shape (n · d_vocab, n · d_vocab).
        If there are more sources (positions, biases) each operator is applied to its source's vector: `t`,
        the one-hot tokens, for E, and `p` for P; the sum is then the logits, shape (n · d_vocab, 1).
        Raises SizeError above 100,000 terms.
        """
        if self.count() > SYMBOLIC_LIMIT:
            raise SizeError(
                f"{self.count():,} terms are too many for one formula (limit {SYMBOLIC_LIMIT:,}); "
                "narrow them with where(), or take terms one by one"
            )
        rows = symbolic.flat_size(self.graph.positions, self.graph.d_out)
        if self._one_space:
            return symbolic.total((term.expr for term in self), (rows, rows))
        return symbolic.total(
            (symbolic.applied(term.operator, term.source, self.graph) for term in self), (rows, 1)
        )

    def arrays(self) -> dict[str, Array]:
        """Return the dense arrays behind the symbols of `expr()`, by name, for substitution."""
        arrays: dict[str, Array] = {}
        for term in self:
            arrays |= symbolic.arrays_of(term.operator) | symbolic.start_array(term.source.start)
        return arrays

    # Sums ----------------------------------------------------------------------------------------------

    def logits(self) -> Array:
        """Return the exact sum of all terms, (position, d_vocab), without listing them.

        Costs about one forward pass per live state of the query's automaton, at any number of paths.
        """
        return self.walk.logits()

    def by_order(self) -> Array:
        """Return the exact sums by order, (orders, position, d_vocab), without listing."""
        return self.walk.logits_by_order()

    def value(self, target: Target) -> float:
        """Return what all terms together add to a target, without listing them.

        From the back where that is cheaper: one pass per live state of the query over the positions up to the
        target's, without unembedding. Else from the front: a forward pass, kept, and an inner product a target.
        """
        return self._totals.total(target)

    def value_by_order(self, target: Target) -> tuple[float, ...]:
        """Return what the terms of each order together add to a target, without listing them.

        >>> import pathexp as px
        >>> trace = px.random_model(layers=2, heads=2, seed=1).run([1, 2, 3])
        >>> parts = px.expand(trace).value_by_order(trace.logit(4))
        >>> len(parts), abs(sum(parts) - trace.logit(4).value) < 1e-12
        (3, True)
        """
        return tuple(self._totals.by_order(target).tolist())

    def values(self, target: Target) -> Array:
        """Return the value of every term toward a target, aligned with iteration.

        Beginnings are evaluated once for all paths that share them. Raises SizeError if the terms are too
        many to list.
        """
        return path_values(self.walk, target)

    def top(
        self,
        k: int,
        target: Target,
        *,
        seconds: float | None = None,
        nodes: int | None = None,
        memory: int | None = None,
        progress: bool | Callable[[str], None] = False,
        tree: Tree | None = None,
    ) -> Ranking:
        """Return the k terms of largest absolute value toward a target, exactly.

        The ranking carries the terms, their signed values and sum, and the exact remainder of the target. Few
        terms are all evaluated; where nobody could list them, a search with bounds finds the largest and proves
        that nothing larger is left (best-first search as in branch and bound; the bounds are ellipsoids that hold
        every vector a path can bring to a place). The bounds depend on run and query only and are kept for the
        next target. The result is the same every time, unless a limit on time cuts it off.

        Parameters
        ----------
        seconds, nodes, memory: limits on time, on endings of paths kept, and on the bytes they take (2 GiB unless
            told otherwise). A search that reaches one returns the best it has, `exact` False, and as `bound` how
            large anything missed can be (by lengths alone, and far too large, if no sets were made). So does one that is interrupted
            from the keyboard.
        progress: say on stderr about what the search will cost, and how far it is, or call a function with it.
        tree: a tree of these terms. The search starts from the largest single paths in it: the k-th of them is the first
            threshold. They are valued again by the search; the answer is the same.

        >>> import pathexp as px
        >>> trace = px.random_model(layers=12, heads=12, d_model=32, d_head=4, d_vocab=20, seed=1).run([1, 2, 3])
        >>> best = px.expand(trace).top(2, trace.logit(5))
        >>> best.exact, best.count, abs(best.value + best.remainder - best.target.value) < 1e-9
        (True, 46596170244962, True)
        """
        expect("top", k=(k, AMOUNT), tree=(tree, instance(Tree, "a tree of these terms").or_none))
        limits = Budget(seconds, nodes, MEMORY if memory is None else memory, progress)
        found = () if tree is None else tree.finds(k)
        known = [tuple(path) for path in found if path in self]
        return rank(self.walk, k, target, self.value(target), limits, known)

    def tree(
        self,
        target: Target,
        *,
        nodes: int | None = None,
        seconds: float | None = None,
        share: float | None = None,
        direction: Direction = "back",
        positions: bool = False,
        progress: Progress | bool = False,
    ) -> Tree:
        """Return these terms as a tree of exact sums toward a target, whatever their number.

        A node is a bundle of paths: all that end alike ("back", from the target to the sources), or that begin alike
        ("forward"). Its value is the exact sum over the bundle; its children add up to it. The leaf of largest
        |value| is opened next, until a limit is reached (100 nodes unless another limit is given).

        Parameters
        ----------
        nodes: how many nodes to open. seconds: for how long. Ctrl-C ends it too; a tree is whole at any moment.
        share: until the leaves that are single paths add this share of the value.
        positions: whether the branches that are shown are also split by source position, as a matrix; this costs a
            backward pass a branch.
        progress: called after every opening with the number of nodes opened; True reports it on stderr.

        A node costs one pull-back through a component and one product with what all components wrote.
        Raises PathexpError for a limit or a direction that is none, TargetError for a target of another run.

        >>> import pathexp as px
        >>> model = px.random_model(layers=12, heads=12, d_model=32, d_head=4, d_vocab=20, seed=1)
        >>> trace = model.run([1, 2, 3])
        >>> tree = px.expand(trace).tree(trace.logit(5), nodes=10)
        >>> tree.root.query, f"{tree.root.count:,}", abs(tree.root.value - trace.logit(5).value) < 1e-9
        ('S .* U', '46,596,170,244,962', True)
        """
        expect("tree", direction=(direction, one_of("back", "forward")), positions=(positions, TRUTH))
        limits = Limits(nodes, seconds, share)
        numbers = numbers_of(self.walk, target, direction)
        prepare(numbers)
        found = tree_of(self.walk, target, self.value(target), direction, limits, reporter(progress), numbers)
        return replace(found, positions=bool(positions))

    # Proof ---------------------------------------------------------------------------------------------

    def verify(self, reference: Array | None = None) -> Verdict:
        """Compare the sum of all terms with the forward pass, or with logits that are given.

        A narrowed expansion is compared together with the rest, so the verdict is on the whole sum.
        Raises PathexpError if there is nothing to compare with.
        """
        if reference is None:
            reference = self._reference()
        return verify_walk(self.walk, reference)

    def _reference(self) -> Array:
        expected, changed = self.graph.expected, self.graph.changed
        if expected is None or changed:
            what = "; ".join(changed) or "it was not made from a run"
            raise PathexpError(
                f"nothing to compare this graph with ({what}); give the expected logits: verify(reference)"
            )
        return expected


def expand(
    what: Trace | ResidualGraph, query: str | Query = everything, *, at: str = "", start: str = ""
) -> Expansion:
    """Return the path expansion of a run or of a residual graph.

    A trace is frozen first (`px.freeze(trace)`). Elhage et al. 2021, "The Path Expansion Trick". Nothing is listed yet.

    Parameters
    ----------
    at: where paths end, instead of at the logits: "embed", "L5.mid", "L5.out", "final" (before the final norm),
        "final_out" (behind it), what a branch or a component adds, "L5.attn_out", "L5.mlp_out", "L3H2" or "L3M", or a
        head's query or key, "L3H2.Q"; in a contrast also a head's scores, "L3H2.score". The sink carries that name.
    start: where they begin, instead of at the embedding: what stands on the stream there is one source of that name.

    Raises GraphError for a point that is not there, PathexpError for what is no run, or a graph that is to be cut.

    >>> import pathexp as px
    >>> trace = px.load("attn-2l").run("To be, or not to be")
    >>> terms = px.expand(trace)
    >>> terms.count(), terms.verify().ok
    (81, True)
    >>> inside = px.expand(trace, at="L0.out")
    >>> inside.count(), str(next(inside.paths())), inside.verify().ok
    (9, 'E L0.out', True)
    """
    expect("expand", at=(at, TEXT), start=(start, TEXT))
    graph = _graph_of(what, at, start)
    if not isinstance(graph, ResidualGraph):
        raise PathexpError(
            f"expand() takes a trace or a residual graph, not {type(what).__name__}; "
            "run a model first: px.expand(model.run(text))"
        )
    whole = Expansion(graph)
    return whole if parsed(query) == everything else whole.where(query)


def _graph_of(what: object, at: str, start: str) -> object:
    """The graph whose paths are asked for."""
    if isinstance(what, Contrast) and not start:
        return contrast_to(what, at)
    if isinstance(what, Contrast):
        raise PathexpError(
            f"paths of a contrast start at what the runs differ by, not at {start!r:.40}; `at` says where they end"
        )
    if isinstance(what, ResidualGraph) and (at or start):
        raise PathexpError("a graph is cut where a run is frozen: px.freeze(trace, at=..., start=...)")
    return graph_to(what, at, start) if isinstance(what, Trace) else what

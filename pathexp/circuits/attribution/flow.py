"""Flows: how much of a target passes along every edge of the residual graph, over all paths, exactly."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from functools import cached_property
from numbers import Integral, Real
from typing import TYPE_CHECKING, ClassVar

from ...answer import Answer, Check, Facts, Figure, Note, Part, Table, columns
from ...answer.parts import Value
from ...arguments import TRUTH, expect
from ...errors import GraphError, PathexpError
from ...expansion import expand
from ...expansion.header import counted, run_facts, shown_target
from ...expansion.mlp_paths import MlpPaths, frozen_as
from ...expansion.targets import on_stream
from ...expansion.tolerance import ROUNDING, following, target_tolerance
from ...graph import Query, ResidualGraph, Walk, empty_multigraph, everything
from ...model import Target, Trace
from .flow_edges import FlowEdge, FlowNode, Totals, edges_of, nodes_of
from .flow_sweep import FlowSweep
from .prune import Pruning
from .wires import Wires

if TYPE_CHECKING:
    import networkx as nx


@dataclass(frozen=True, eq=False, repr=False)
class Flow(Answer):
    """The exact signed flow of a target along every edge that a path takes; conserved at every node.

    `edges` have the strongest first, `nodes` the order of the graph; edges that no path takes are left out, so without
    paths there are none. `value` is what all its paths add to the target, `expected` the same computed another way.
    A pruned flow holds paths along its own edges alone: `whole` is what it was pruned from, `share` what was asked
    for, `taken` how many of the strongest edges that took, dead ends included.
    """

    live: ClassVar[frozenset[str]] = frozenset({"walk"})

    walk: Walk
    target: Target
    nodes: tuple[FlowNode, ...]
    edges: tuple[FlowEdge, ...]
    value: float
    expected: float
    per_position: bool = False
    whole: Flow | None = None
    share: float | None = None
    taken: int | None = None

    # Questions -----------------------------------------------------------------------------------------

    def __getitem__(self, ends: tuple[str, str]) -> float:
        """Return what flows from a writer to a reader. Raises GraphError if no path takes that edge.

        >>> import pathexp as px
        >>> trace = px.load("attn-2l").run("Macbeth shall sleep no more. Macbeth shall")
        >>> round(px.flow(trace, trace.logit(" sleep"))["E", "L1H0"], 2)
        4.03
        """
        found = [edge.flow for edge in self.edges if (edge.writer, edge.reader) == ends]
        if not found:
            raise GraphError(f"no edge {ends!r:.80} in this flow; edges are pairs such as ('E', 'U')")
        return sum(found)

    def node_flow(self, name: str) -> float:
        """Return what passes through a node: its inflow, or for a source its outflow.

        Raises GraphError for a node that no path meets.
        """
        for node in self.nodes:
            if node.name == name:
                return node.flow
        raise GraphError(
            f"no node {name!r:.40} in this flow; it has {', '.join(n.name for n in self.nodes[:9])} …"
        )

    @cached_property
    def totals(self) -> Totals:
        """What flows into and out of every node."""
        return Totals(self.edges)

    @property
    def remainder(self) -> float:
        """What the paths that were pruned add; 0 where nothing was."""
        return 0.0 if self.whole is None else self.whole.value - self.value

    def split(self, block: int) -> dict[str, float]:
        """Return how the flow divides at one block: what passes through each component, and "past" all of them.

        Every path takes at most one component of a block, so the parts add up to the whole flow exactly. "past" is
        the sum over the edges that pass the block by; sources that begin later are in it.
        Raises GraphError if the graph has no such block.
        """
        blocks = self.walk.graph.blocks
        if not isinstance(block, Integral) or isinstance(block, bool) or not 0 <= block < len(blocks):
            raise GraphError(
                f"no block {block!r:.40} to split a flow at; this graph has {len(blocks)}, counted from 0"
            )
        parts = {component.label: 0.0 for component in blocks[block].components} | {"past": 0.0}
        places = {node.name: node for node in self.nodes}
        for edge in self.edges:
            if places[edge.reader].block == block:
                parts[places[edge.reader].label] += edge.flow
            elif places[edge.writer].block < block < places[edge.reader].block:
                parts["past"] += edge.flow
        return parts

    def inflow_shares(self) -> dict[tuple[str, str, str], float]:
        """Return for every edge (writer, reader, kind) its share of the absolute inflow of its reader.

        Shares into one node sum to 1; where nothing flows into it they are undefined (NaN), not zero.
        """
        totals: dict[str, float] = {}
        for edge in self.edges:
            totals[edge.reader] = totals.get(edge.reader, 0.0) + abs(edge.flow)
        return {
            edge.ends: abs(edge.flow) / totals[edge.reader] if totals[edge.reader] else float("nan")
            for edge in self.edges
        }

    def prune(self, share: float = 0.9) -> Flow:
        """Return the strongest edges, as few as keep a share of the target, and what they leave over.

        Edges are taken in the order of |flow|. Kept is what all paths along kept edges alone add, computed exactly
        and not estimated from the flows; it must come within (1 - share) · |value| of the value. The number of edges
        is found by doubling and bisection, so that without its weakest edge the share is not kept: the smallest such
        beginning that the search met, not the smallest of all subgraphs. Edges without a whole path are dropped.

        Costs O(log edges) evaluations, each about one backward and one forward pass with an input of its own for every
        node. Raises PathexpError if the share is not above 0 and at most 1.

        >>> import pathexp as px
        >>> trace = px.random_model(layers=2, heads=3, seed=1).run([1, 2, 3])
        >>> whole = px.flow(trace, trace.logit(4))
        >>> small = whole.prune(0.8)
        >>> len(small.edges) < len(whole.edges), abs(small.remainder) <= 0.2 * abs(whole.value)
        (True, True)
        """
        if not isinstance(share, Real) or isinstance(share, bool) or not 0.0 < share <= 1.0:
            raise PathexpError(f"expected a share above 0 and at most 1, got {share!r:.40}")
        search = Pruning(
            Wires(self.walk, self.per_position), self.target, self.edges, self.value, float(share)
        )
        taken = search.fewest()
        sweep = search.sweep(taken)
        edges = edges_of(sweep)
        return Flow(
            self.walk, self.target, nodes_of(sweep, edges), edges, sweep.value, sweep.value,
            self.per_position, self, float(share), taken,
        )  # fmt: skip

    def to_networkx(self) -> nx.MultiDiGraph:
        """Return the flow as a MultiDiGraph whose attributes are plain numbers and words.

        Edges carry `flow` and `kind`, which is also their key; nodes `label`, `kind`, `layer`, `block`, `flow`, and
        `head` and `position` where they have one; the graph `value` and `target`.
        """
        graph = empty_multigraph(value=self.value, target=self.target.label)
        for node in self.nodes:
            known = {name: value for name, value in asdict(node).items() if value is not None}
            graph.add_node(known.pop("name"), **known)
        graph.add_edges_from(
            (edge.writer, edge.reader, edge.kind, {"kind": edge.kind, "flow": edge.flow})
            for edge in self.edges
        )
        return graph

    # The answer ----------------------------------------------------------------------------------------

    @property
    def _shown(self) -> Target:
        return shown_target(self.walk.graph, self.target)

    def headline(self) -> str:
        """Return whose flow it is."""
        return f"flow of {self._shown.label} at position {self.target.position}: {self.value:+.4f}"

    def parts(self) -> Iterator[Part]:
        """Yield the edges, the nodes, what pruning left over, that nothing is lost, and a picture."""
        yield self._facts()
        yield Note(
            f"{counted(len(self.nodes), 'node')}, {counted(len(self.edges), 'edge')}; "
            f"the flow along an edge is the sum over all {'kept ' if self.whole else ''}paths that take it"
        )
        yield self._edges()
        yield Table(
            (columns.text("node"), columns.text("kind"), columns.count("layer"), columns.number("flow", unit=self._unit)),
            [(n.name, n.kind, n.layer, n.flow) for n in sorted(self.nodes, key=lambda node: -abs(node.flow))],
            name="nodes", key=("node", "kind", "layer"), value="flow", absent="zero",
        )  # fmt: skip
        if self.whole is not None:
            yield Note(
                f"pruned to {counted(len(self.edges), 'edge')} of {len(self.whole.edges):,}: their paths add "
                f"{self.value:+.4f}, all others {self.remainder:+.4f} (requested share {self.share:g})"
            )
        yield self.check()
        yield self._figure()

    @property
    def _unit(self) -> str:
        return "logits" if self.target.space == "logits" else ""

    def _facts(self) -> Facts:
        found: dict[str, Value] = {"query": str(self.walk.query), "value": self.value}
        if self.whole is not None:
            found |= {"share": self.share, "remainder": self.remainder, "taken": self.taken,
                      "whole": self.whole.value, "whole_edges": len(self.whole.edges)}  # fmt: skip
        trace = self.walk.graph.trace
        about: dict[str, Value] = {"target": self._shown.label, "position": self.target.position}
        if trace is not None:
            about = dict(run_facts(trace, self._shown).values)
        return Facts(about | found)

    def _edges(self) -> Table:
        before = {} if self.whole is None else {edge.ends: edge.flow for edge in self.whole.edges}
        more = [columns.number("whole", "flow unpruned", self._unit)] if self.whole else []
        rows = [(*edge.ends, edge.flow, *([before[edge.ends]] if before else [])) for edge in self.edges]
        return Table(
            (columns.text("writer"), columns.text("reader"), columns.text("kind"),
             columns.number("flow", unit=self._unit), *more),
            rows, name="edges", key=("writer", "reader", "kind"), value="flow", absent="zero",
        )  # fmt: skip

    def check(self) -> Check:
        """Return whether inflow equals outflow at every node and the sources add up to what the paths add."""
        totals = self.totals
        ends = abs(totals.started - self.expected), abs(self.value - self.expected)
        flows = [edge.flow for edge in self.edges]
        return Check(
            "inflow equals outflow at every node and the sources add up to the target",
            max(totals.imbalance, *ends), target_tolerance(self.walk.graph, self.target, flows), ROUNDING,
            name="conserved",
        )  # fmt: skip

    def _figure(self) -> Figure:
        return Figure(
            "flow", "flow",
            {"nodes": [{"label": n.name, "column": n.block + 1, "value": n.flow} for n in self.nodes],
             "edges": [{"source": e.writer, "target": e.reader, "flow": e.flow} for e in self.edges]},
            f"{self._shown.label}, position {self.target.position}", self._unit,
        )  # fmt: skip


def flow(
    what: Trace | ResidualGraph, target: Target, *, query: str | Query | None = None,
    per_position: bool = False, share: float | None = None, mlp: MlpPaths = "gate",
) -> Flow:  # fmt: skip
    """Return the exact signed flow of a target along every edge, over all paths at once.

    The flow of an edge a -> b is the sum, in the target's units, of all paths that take the edge: the target
    pulled back to b's input, met with a's output carried over the skips. It is conserved: at every component
    inflow equals outflow, the sources' outflows and the sink's inflow each add up to the target.

    Parameters
    ----------
    what: a trace or a residual graph.
    query: the paths that flow, such as "E .* L1H3 U"; all by default.
    per_position: make one node per component and position: `L0H1@3` is what the head writes at position 3.
    share: prune the flow to this share of the target; see `Flow.prune`.
    mlp: "gate", paths pass through MLPs; "source", they start at them; "neurons", they pass through single neurons.

    Cost: one backward and one forward pass per live state of the query, and O(edges · positions · d_model).
    Raises SizeError if the pulled-back fields do not fit in memory, TargetError for a target of another run, QueryError
    for a bad query. Elhage et al. 2021, "The Path Expansion Trick"; per position as in Ferrando & Voita 2024,
    "Information Flow Routes", but signed, exact and by virtual paths.

    >>> import pathexp as px
    >>> trace = px.random_model(layers=2, heads=2, seed=1).run([1, 2, 3])
    >>> found = px.flow(trace, trace.logit(4))
    >>> sorted(found.to_networkx().successors("L0H1")), found.ok
    (['L1H0', 'L1H1', 'U'], True)
    """
    expect("flow", per_position=(per_position, TRUTH))
    graph = frozen_as(what, mlp)
    terms = expand(graph) if query is None else expand(graph, query)
    on_stream(target, terms.walk.graph)  # refuses what is no target of this graph
    sweep = FlowSweep(Wires(terms.walk, per_position), target)
    if terms.walk.query == everything:  # the check's pass gives the sum as well
        sweep.go_forward(following(terms.walk))
    edges = edges_of(sweep)
    found = Flow(
        terms.walk, target, nodes_of(sweep, edges), edges, sweep.value, terms.value(target), per_position
    )
    return found if share is None else found.prune(share)

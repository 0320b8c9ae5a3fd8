"""Where information moves: a target's flow from position to position, block by block, weighted by attention.

The flow from (depth, j) to (depth + 1, i) is what all paths that go so add to the target: the pattern's weights times
what heads make of the stream at j, met with the target pulled back to i. What stays in place (the skip edge, MLPs) is on
the diagonal. Signed and exact; the norm-based cousin is Ferrando & Voita 2024, "Information Flow Routes".
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ...answer import Answer, Check, Facts, Figure, Part, Table, columns
from ...expansion import expand
from ...expansion.header import run_facts
from ...expansion.tolerance import ROUNDING, target_tolerance
from ...expansion.values import straight_values
from ...graph import Array, Block, Operator, Step, freeze, pull, push, word_map
from ...model import Target, Trace
from ...model.trace import check_trace
from .attribution import pulled_back, stream_before

EMBEDDING = "embedding"


@dataclass(frozen=True, eq=False, repr=False)
class PositionFlow(Answer):
    """Flows of a target between positions: per block `edges[b]` (to, from), in the target's units.

    `blocks` are the names of the blocks, such as "L0 attention". `arriving[b]` (n) is what the stream at depth b adds by
    all paths, position by position; `constants[b]` what enters at depth b + 1 from biases; `straight` what constants add
    that only the unembedding reads. `edges[b]` summed over `to` is `arriving[b]`; summed over `from`, with constants,
    `arriving[b + 1]`.
    """

    live: ClassVar[frozenset[str]] = frozenset({"trace"})

    trace: Trace
    target: Target
    blocks: tuple[str, ...]
    edges: tuple[Array, ...]
    constants: tuple[Array, ...]
    arriving: tuple[Array, ...]
    straight: float

    def moves(self) -> list[tuple[str, int, int, float]]:
        """Return the moves between different positions, the largest first: (block, from, to, flow)."""
        found = [
            (name, int(origin), int(to), float(edges[to, origin]))
            for name, edges in zip(self.blocks, self.edges, strict=True)
            for to, origin in np.argwhere(edges != 0)
            if to != origin
        ]
        return sorted(found, key=lambda move: -abs(move[3]))

    def headline(self) -> str:
        """Return whose flow it is."""
        place, value = self.target.position, self.target.value
        return f"flow of {self.target.label} at position {place} between positions: {value:+.4f}"

    def parts(self) -> Iterator[Part]:
        """Yield the moves, what each block does in all and at each position, the check, and arcs."""
        yield run_facts(self.trace, self.target)
        yield Facts({"straight": self.straight})
        yield self._moves()
        yield self._blocks()
        yield self._positions()
        yield self.check()
        yield Figure("arcs", "position_flow", {"tokens": list(self.trace.token_strings), "edges": self._arcs()},
                     f"{self.target.label} at position {self.target.position}", "logits")  # fmt: skip

    def _moves(self) -> Table:
        tokens = self.trace.token_strings
        return Table(
            (columns.text("block"), columns.count("source"), columns.token("source_token"),
             columns.count("destination"), columns.token("destination_token"), columns.number("flow", unit="logits")),
            [(name, i, tokens[i], j, tokens[j], value) for name, i, j, value in self.moves()],
            name="moves", key=("block", "source", "destination"), value="flow", additive=True, absent="zero", shown=8,
        )  # fmt: skip

    def _blocks(self) -> Table:
        rows = [
            (name, np.trace(edges), edges.sum() - np.trace(edges), constants.sum(), arriving.sum())
            for name, edges, constants, arriving in zip(
                self.blocks, self.edges, self.constants, self.arriving[1:], strict=True
            )
        ]
        numbers = [columns.number(name, unit="logits") for name in ("stays", "moves", "constants", "arrives")]
        return Table(
            (columns.text("block"), *numbers), rows, name="blocks", key=("block",), value="moves", shown=None
        )

    def _positions(self) -> Table:
        tokens, n = self.trace.token_strings, len(self.trace)
        rows = [(EMBEDDING, i, tokens[i], None, None, self.arriving[0][i]) for i in range(n)]
        for b, name in enumerate(self.blocks):
            stays, constants, arrives = self.edges[b].diagonal(), self.constants[b], self.arriving[b + 1]
            rows += [(name, i, tokens[i], stays[i], constants[i], arrives[i]) for i in range(n)]
        numbers = [columns.number(name, unit="logits") for name in ("stays", "constants", "arrives")]
        return Table(
            (columns.text("block"), columns.count("position"), columns.token("token"), *numbers),
            sorted(rows, key=lambda row: -abs(row[-1])), name="positions", shown=4,
            key=("block", "position"), value="arrives",
        )  # fmt: skip

    def _arcs(self) -> list[dict[str, str | int | float]]:
        return [{"block": name, "source": int(origin), "target": int(to), "flow": float(edges[to, origin])}
                for name, edges in zip(self.blocks, self.edges, strict=True)
                for to, origin in np.argwhere(edges != 0)]  # fmt: skip

    def check(self) -> Check:
        """Return whether what arrives on the final stream, with constants of the unembedding, is the target."""
        moved = np.concatenate([np.zeros(0), *(edges.reshape(-1) for edges in self.edges)])
        arrived = float(self.arriving[-1].sum()) + self.straight
        return Check(
            "what arrives adds up to the target", abs(arrived - self.target.value),
            target_tolerance(freeze(self.trace), self.target, moved), ROUNDING,
        )  # fmt: skip


def position_flow(trace: Trace, target: Target) -> PositionFlow:
    """Follow a target's flow from position to position through every block of a run, in its units.

    Elhage et al. 2021, "Attention Heads as Information Movement". Costs one backward pass and O(heads · n · d_model
    · d_head + n²) a block. Raises TargetError for a target of another run.

    >>> import pathexp as px
    >>> trace = px.load("attn-2l").run("To be, or not to be")
    >>> found = px.position_flow(trace, trace.logit(" the"))
    >>> found.blocks, found.ok
    (('L0 attention', 'L1 attention'), True)
    """
    check_trace(trace, "position_flow")
    fields = pulled_back(trace, target)
    streams = [stream_before(trace, place) for place in range(len(fields))]
    blocks = freeze(trace).blocks
    edges = tuple(_moved(block, fields[place + 1], streams[place]) for place, block in enumerate(blocks))
    arriving = tuple(np.sum(field * stream, axis=-1) for field, stream in zip(fields, streams, strict=True))
    constants = tuple(arriving[place + 1] - edge.sum(axis=1) for place, edge in enumerate(edges))
    straight = sum(value for value, _ in straight_values(expand(trace).walk, target))
    return PositionFlow(trace, target, tuple(map(_name, blocks)), edges, constants, arriving, straight)


def _name(block: Block) -> str:
    """The name of a block, by what is in it."""
    heads = {component.head is not None for component in block.components}
    layer = f"L{block.components[0].layer}"
    return layer if len(heads) == 2 else f"{layer} attention" if True in heads else f"{layer} MLP"


def _moved(block: Block, field: Array, stream: Array) -> Array:
    """(to, from) of one block: the skip edge and every component."""
    total = np.diag(np.sum(pull(block.skip, field) * stream, axis=-1))
    for component in block.components:
        total = total + _through(component.operator, field, stream)
    return total


def _through(operator: Operator, field: Array, stream: Array) -> Array:
    """(to, from) of one operator that moves between positions in at most one of its steps."""
    at = next((k for k, part in enumerate(operator) if isinstance(part, Step) and part.position), None)
    if at is None:
        return np.diag(np.sum(pull(operator, field) * stream, axis=-1))
    step = operator[at]
    assert isinstance(step, Step)
    pattern = word_map(step.position)
    assert pattern is not None
    read, written = pull(operator[:at], field), push((Step((), step.feature), *operator[at + 1 :]), stream)
    moved: Array = pattern.dense() * (read @ written.T)
    return moved

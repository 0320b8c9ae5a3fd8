"""Where information moves: a target's flow from position to position, block by block, weighted by attention.

The flow from (depth, j) to (depth + 1, i) is what all paths that go so add to the target: the pattern's weights times
what heads make of the stream at j, met with the target pulled back to i. What stays in place (the skip edge, MLPs) is on
the diagonal. Signed and exact; the norm-based cousin is Ferrando & Voita 2024, "Information Flow Routes".
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..graph import Array, Block, Operator, Step, freeze, pull, push, word_map
from ..model import Target, Trace
from ..model.trace import check_trace
from .attribution.attribution import pulled_back, stream_before


@dataclass(frozen=True, eq=False)
class Information:
    """Flows of a target between positions: per block `edges[b]` (to, from), in the target's units.

    `arriving[b]` (n) is what the stream at depth b adds by all paths, position by position; `constants[b]` what enters
    at depth b + 1 from biases. edges[b].sum over `to` is arriving[b]; over `from`, with constants, arriving[b + 1].
    """

    target: Target
    edges: tuple[Array, ...]
    constants: tuple[Array, ...]
    arriving: tuple[Array, ...]


def information(trace: Trace, target: Target) -> Information:
    """Follow a target's flow from position to position through every block of a run, in nats of its logit.

    Elhage et al. 2021, "Attention Heads as Information Movement". Costs one backward pass and O(heads · n · d_model
    · d_head + n²) a block. Raises TargetError for a target of another run.

    >>> import pathexp as px
    >>> trace = px.load("attn-2l").run("To be, or not to be")
    >>> moves = information(trace, trace.logit(" the"))
    >>> len(moves.edges), bool(abs(moves.arriving[-1].sum() - trace.logit(" the").value) < 1e-9)
    (2, True)
    """
    check_trace(trace, "information")
    fields = pulled_back(trace, target)
    streams = [stream_before(trace, place) for place in range(len(fields))]
    blocks = freeze(trace).blocks
    edges = tuple(_moved(block, fields[place + 1], streams[place]) for place, block in enumerate(blocks))
    arriving = tuple(np.sum(field * stream, axis=-1) for field, stream in zip(fields, streams, strict=True))
    constants = tuple(arriving[place + 1] - edge.sum(axis=1) for place, edge in enumerate(edges))
    return Information(target, edges, constants, arriving)


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

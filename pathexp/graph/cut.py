"""Where paths end and begin: a graph cut at a point of the stream, which becomes its sink or its source.

Points go by the names of `Trace.residuals`: "embed", "L3.mid" (between attention and MLP), "L3.out", "final_in" (or
"final": the final stream, before its norm), "final_out" (behind it). Paths can also end at what a branch or a component
adds to the stream: "L3.attn_out", "L3.mlp_out", "L3H2", "L3M".
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

from ..errors import GraphError
from ..model.points import canonical
from .nodes import Block, Component, Sink, Source, Values
from .operators import IDENTITY, Array, Operator, Parallel


@dataclass(frozen=True)
class Point:
    """A point of the stream: how many blocks come before it, and how many of the sources."""

    blocks: int
    sources: int


Points = Mapping[str, Point]


@dataclass(frozen=True)
class Output:
    """What some components of a block add to the stream, with constants that are written beside them."""

    block: int
    components: tuple[Component, ...]
    constants: frozenset[str] = frozenset()


Outputs = Mapping[str, Output]


@dataclass(frozen=True)
class Laid:
    """Sources, blocks and sink, in the order of the forward pass."""

    sources: tuple[Source, ...]
    blocks: tuple[Block, ...]
    sink: Sink


def ended(laid: Laid, points: Points, outputs: Outputs, at: str) -> Laid:
    """Return what comes before a point, with the point as the sink; it carries the name that was given.

    Raises GraphError if there is no such point.
    """
    if at in outputs:
        return _written(laid, outputs[at], at)
    point = found(points, at, outputs)
    return Laid(laid.sources[: point.sources], laid.blocks[: point.blocks], Sink(at, ()))


def _written(laid: Laid, output: Output, at: str) -> Laid:
    """What components read, with what they write as the sink; constants that they write go straight there."""
    known = {c.label for block in laid.blocks[: output.block] for c in block.components}
    sources = (_given(source, output, known, at) for source in laid.sources)
    sink = Sink(at, _together(at, [component.operator for component in output.components]))
    return Laid(tuple(source for source in sources if source), laid.blocks[: output.block], sink)


def _given(source: Source, output: Output, known: set[str], at: str) -> Source | None:
    """A source as far as it reaches the stream before an output, or is part of it."""
    before = part_before(source, output.block, known)
    labels = {component.label for component in output.components}
    straight = [operator for label, operator in source.into.items() if label in labels]
    straight += [source.write] if source.label in output.constants else []
    if not straight:
        return before
    into = {**({} if before is None else before.into), at: _together(f"{source.label}_{at}", straight)}
    return replace(source, write=IDENTITY, depth=None, into=MappingProxyType(into))


def _together(name: str, operators: Sequence[Operator]) -> Operator:
    return operators[0] if len(operators) == 1 else (Parallel(name, tuple(operators)),)


def part_before(source: Source, b: int, known: set[str]) -> Source | None:
    """Return the part of a source that reaches the stream before block b, whose components are `known`; or None."""
    if source.depth is not None:
        return source if source.depth <= b else None
    into = {to: operator for to, operator in source.into.items() if to in known}
    return replace(source, into=MappingProxyType(into)) if into else None


def begun(laid: Laid, points: Points, start: str, stream: Array | None, width: int | str) -> Laid:
    """Return what comes behind a point, with what stands there, (n, d), as the first source, under that name.

    Raises GraphError if there is no such point, or if it lies behind the end.
    """
    point = found(points, start)
    if point.blocks > len(laid.blocks) or point.sources > len(laid.sources):
        raise GraphError(f"paths cannot begin at {start} and end at {laid.sink.label}, which comes before it")
    if start == laid.sink.label:
        raise GraphError(f"paths cannot begin and end at {start}: give an end that comes after it")
    first = Source(start, "stream", Values(f"x_{start.replace('.', '_')}", width, stream))
    later = (_moved(source, point.blocks) for source in laid.sources[point.sources :])
    return Laid((first, *later), laid.blocks[point.blocks :], laid.sink)


def _moved(source: Source, blocks: int) -> Source:
    return source if source.depth is None else replace(source, depth=source.depth - blocks)


def found(points: Points, name: str, outputs: Outputs = MappingProxyType({})) -> Point:
    """Return a point by its name; GraphError names the points there are, and examples of outputs."""
    point = points.get(canonical(name)) if isinstance(name, str) else None
    if point is None:
        raise GraphError(
            f"no point {name!r} at which paths end or begin; choose from: {', '.join(points)}; to end at, also "
            f"{_examples(outputs)}a head's query or key (L0H0.Q)"
        )
    return point


def _examples(outputs: Outputs) -> str:
    """The outputs of the first layer, the heads but one left out."""
    names = [name for name in outputs if re.fullmatch(r"L0(H0|M|\.\w+)", name)]
    if names:
        return f"what a branch or a component adds ({', '.join(names)}), or "
    return "(what a branch or a component adds is no end here: a norm stands on the sum behind it, or it is a source) "

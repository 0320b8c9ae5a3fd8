"""Where paths end and begin: a graph cut at a point of the stream, which becomes its sink or its source.

Points go by the names of `Trace.residuals`: "embed", "L3.mid" (between attention and MLP), "L3.out", "final_in" (or
"final": the final stream, before its norm), "final_out" (behind it).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from ..errors import GraphError
from ..model.points import canonical
from .nodes import Block, Sink, Source, Values
from .operators import Array


@dataclass(frozen=True)
class Point:
    """A point of the stream: how many blocks come before it, and how many of the sources."""

    blocks: int
    sources: int


Points = Mapping[str, Point]


@dataclass(frozen=True)
class Laid:
    """Sources, blocks and sink, in the order of the forward pass."""

    sources: tuple[Source, ...]
    blocks: tuple[Block, ...]
    sink: Sink


def ended(laid: Laid, points: Points, at: str) -> Laid:
    """Return what comes before a point, with the point as the sink; it carries the name that was given.

    Raises GraphError if there is no such point.
    """
    point = found(points, at)
    return Laid(laid.sources[: point.sources], laid.blocks[: point.blocks], Sink(at, ()))


def begun(laid: Laid, points: Points, start: str, stream: Array | None, width: int | str) -> Laid:
    """Return what comes behind a point, with what stands there, (n, d), as the first source, under that name.

    Raises GraphError if there is no such point, or if it lies behind the end.
    """
    point = found(points, start)
    if point.blocks > len(laid.blocks) or point.sources > len(laid.sources):
        raise GraphError(f"paths cannot begin at {start} and end at {laid.sink.label}, which comes before it")
    first = Source(start, "stream", Values(f"x_{start.replace('.', '_')}", width, stream))
    later = (_moved(source, point.blocks) for source in laid.sources[point.sources :])
    return Laid((first, *later), laid.blocks[point.blocks :], laid.sink)


def _moved(source: Source, blocks: int) -> Source:
    return source if source.depth is None else replace(source, depth=source.depth - blocks)


def found(points: Points, name: str) -> Point:
    """Return a point by its name."""
    point = points.get(canonical(name)) if isinstance(name, str) else None
    if point is None:
        raise GraphError(
            f"no point {name!r} at which paths end or begin; choose from: {', '.join(points)}, or a head's query or "
            "key to end at, such as L0H0.Q"
        )
    return point

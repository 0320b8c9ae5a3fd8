"""What a residual graph is made of: sources, components in blocks, and a sink. Plain values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from ..errors import GraphError
from .operators import IDENTITY, Array, Dim, Operator, Step, doubles, gather, push


@dataclass(frozen=True, eq=False)
class OneHot:
    """A source's start: one-hot rows, such as the tokens of a text (name `t`) or positions (`p`)."""

    name: str
    size: Dim
    indices: NDArray[np.int64] | None = None


@dataclass(frozen=True, eq=False)
class Difference:
    """A source's start: one-hot rows minus others, such as the tokens of one text minus those of another."""

    name: str
    size: Dim
    indices: NDArray[np.int64]
    others: NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Values:
    """A source's start: given numbers of shape (position, feature)."""

    name: str
    size: Dim
    array: Array | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "array", doubles(self.array))


@dataclass(frozen=True)
class One:
    """A source's start: the number 1, for constants whose value stands in their operator."""


Start: TypeAlias = OneHot | Difference | Values | One


@dataclass(frozen=True, eq=False)
class Source:
    """Something that starts paths: the embedding, positions, a constant, a steering vector.

    `depth` is the index of the first block that can read it from the stream; None means that it never
    enters the stream. `into` names the components (or the sink) that read it directly, each with the
    operator from the source's start to that component's output: a value bias enters inside its head.
    """

    label: str
    kind: str
    start: Start
    write: Operator = IDENTITY
    depth: int | None = 0
    into: Mapping[str, Operator] = field(default_factory=dict)
    layer: int = -1

    def value(self) -> Array:
        """What the source writes to the stream, shape (position, d_model)."""
        return start_value(self.start, self.write)


@dataclass(frozen=True, eq=False)
class Component:
    """Something that reads the stream, applies a linear map, and adds the result back.

    `port` says through which of its inputs a head or an MLP reads, where that is kept apart: V, K, Q; value, gate.
    """

    label: str
    kind: str
    operator: Operator
    layer: int
    head: int | None = None
    port: str = ""


@dataclass(frozen=True, eq=False)
class Block:
    """Components that read the same stream and write in parallel; `skip` is the map on the skip edge."""

    components: tuple[Component, ...]
    skip: Operator = IDENTITY


@dataclass(frozen=True, eq=False)
class Sink:
    """What reads the final stream; for a language model the unembedding `U`."""

    label: str
    operator: Operator


def has_start(start: Start) -> bool:
    """Return whether a start carries numbers."""
    match start:
        case OneHot(indices=indices):
            return indices is not None
        case Values(array=array):
            return array is not None
        case Difference() | One():
            return True


def start_value(start: Start, operator: Operator) -> Array:
    """Return operator(start), shape (position, feature); one-hot starts gather columns, never multiply."""
    match start:
        case Values(array=array) if array is not None:
            return push(operator, array)
        case OneHot(indices=indices) if indices is not None:
            return _gathered(operator, indices)
        case Difference(indices=indices, others=others):
            return _gathered(operator, indices, others)
        case One():
            return push(operator, np.ones((1, 1)))
    raise GraphError(f"{start.name} has no numbers: this graph was made from sizes alone")


def _gathered(
    operator: Operator, indices: NDArray[np.int64], others: NDArray[np.int64] | None = None
) -> Array:
    last = operator[-1]
    if not isinstance(last, Step) or not last.feature:
        raise GraphError("a one-hot source needs an embedding matrix as its last factor")
    columns = gather(last.feature, indices)
    columns = columns if others is None else columns - gather(last.feature, others)
    return push((*operator[:-1], Step(last.position)), columns)

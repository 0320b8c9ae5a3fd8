"""Graphs by hand: nodes from arrays (steering vectors, rank-one and low-rank components), put in and taken out."""

from __future__ import annotations

from collections.abc import Set
from dataclasses import replace
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from ..algebra import Dense, Diagonal, LinearMap, Space, compose
from ..errors import GraphError
from .nodes import Block, Component, Sink, Source, Values
from .operators import Array, Dim, Factor, Operator, Step

Sources: TypeAlias = tuple[Source, ...]
Blocks: TypeAlias = tuple[Block, ...]
Weight: TypeAlias = LinearMap | ArrayLike | tuple[ArrayLike, ArrayLike]
"""A map on the stream: a linear map, a (rows, columns) array, or a pair (left, right) standing for left @ right."""


def steering_source(label: str, values: ArrayLike, depth: int, positions: int, d_model: int) -> Source:
    """Return a source that writes given vectors: (d_model,) at every position, or (positions, d_model)."""
    array = np.array(values, dtype=np.float64)
    if array.shape == (d_model,):
        array = np.tile(array, (positions, 1))
    if array.shape != (positions, d_model):
        raise GraphError(
            f"source {label}: expected values of shape ({d_model},) or ({positions}, {d_model}), found {array.shape}"
        )
    if not np.isfinite(array).all():
        raise GraphError(f"source {label}: its values hold NaN or infinity")
    return Source(label, "steering", Values(f"x_{label}", d_model, array), depth=depth)


def hand_component(
    label: str, weight: Weight, pattern: tuple[Factor, ...], d_model: Dim, layer: int, kind: str
) -> Component:
    """Return a component that moves by a position word and maps by a weight."""
    operator: Operator = (Step(pattern, (weight_factor(f"W_{label}", weight, d_model, d_model),)),)
    return Component(label, kind, operator, layer)


def pattern_factor(label: str, pattern: ArrayLike, positions: Dim) -> Factor:
    """Return a position factor from an (n, n) pattern or from (n,) activations, one per position."""
    array = np.array(pattern, dtype=np.float64)
    if array.shape not in ((positions, positions), (positions,)):
        raise GraphError(
            f"component {label}: expected a pattern ({positions}, {positions}) or activations ({positions},), "
            f"found {array.shape}"
        )
    space = Space("position", len(array))
    return Factor(
        f"A_{label}",
        positions,
        positions,
        Diagonal(array, space) if array.ndim == 1 else Dense(array, space, space),
    )


def shared_pattern(label: str, of: Source | Component | Sink) -> tuple[Factor, ...]:
    """Return the position word of another component, for one that looks where that one looks."""
    match of:
        case Component(operator=(Step() as step,)):
            return step.position
    raise GraphError(f"component {label}: {of.label} has no single pattern to share")


def joined(blocks: Blocks, b: int, component: Component) -> Blocks:
    """Return blocks with a component beside those of block b."""
    grown = replace(blocks[b], components=(*blocks[b].components, component))
    return (*blocks[:b], grown, *blocks[b + 1 :])


def inserted(sources: Sources, blocks: Blocks, b: int, component: Component) -> tuple[Sources, Blocks]:
    """Return sources and blocks with a block of its own for a component, before block b."""
    moved = tuple(
        replace(source, depth=source.depth + 1) if source.depth is not None and source.depth > b else source
        for source in sources
    )
    return moved, (*blocks[:b], Block((component,)), *blocks[b:])


def removed_from(sources: Sources, blocks: Blocks, gone: Set[str]) -> tuple[Sources, Blocks]:
    """Return sources and blocks without some of them, and without sources that fed nothing else."""
    left = tuple(
        replace(source, into={to: op for to, op in source.into.items() if to not in gone})
        for source in sources
        if source.label not in gone and not (source.into and set(source.into) <= gone)
    )
    return left, tuple(
        replace(block, components=tuple(c for c in block.components if c.label not in gone))
        for block in blocks
    )


def weight_factor(name: str, weight: Weight, rows: Dim, columns: Dim) -> Factor:
    """Return a named factor from any form of weight, checked against the sizes it must have."""
    found = weight if isinstance(weight, LinearMap) else _map(weight)
    if found.shape != (rows, columns):
        raise GraphError(f"{name}: expected a map of shape ({rows}, {columns}), found {found.shape}")
    return Factor(name, rows, columns, found)


def _map(weight: ArrayLike | tuple[ArrayLike, ArrayLike]) -> LinearMap:
    if not isinstance(weight, tuple):
        return _dense(_numbers(weight))
    left, right = map(_numbers, weight)
    left = left[:, None] if left.ndim == 1 else left
    right = right[None] if right.ndim == 1 else right
    if left.shape[-1] != right.shape[0]:
        raise GraphError(f"a weight's two factors do not meet: {left.shape} and {right.shape}")
    return compose(_dense(left, source="waist"), _dense(right, target="waist"))


def _numbers(weight: ArrayLike) -> Array:
    try:
        return np.array(weight, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise GraphError(
            f"a weight is an array of numbers, not {type(weight).__name__} {weight!r:.60}"
        ) from error


def _dense(array: Array, target: str = "model", source: str = "model") -> Dense:
    if array.ndim != 2:
        raise GraphError(
            f"a weight must be a matrix or a pair of factors, found an array of shape {array.shape}"
        )
    return Dense(array, Space(target, array.shape[0]), Space(source, array.shape[1]))

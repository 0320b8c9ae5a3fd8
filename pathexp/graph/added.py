"""What was added to a base's weights, an adapter or fine-tuning, as components of its own beside those of the base.

Where a run's model has W_O = W_O⁰ + ΔW_O and W_V = W_V⁰ + ΔW_V, its head is A ⊗ W_O⁰ W_V⁰, `L0H2.base`, plus
A ⊗ (ΔW_O W_V + W_O⁰ ΔW_V), `L0H2.added`: a second map beside the first, at twice the waist. MLPs and experts likewise, by W_in and
W_out at the run's gates. Patterns, scales and gates are the run's.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterator
from dataclasses import fields, replace
from types import MappingProxyType

import numpy as np

from ..algebra import LinearMap, compose
from ..errors import FreezeError
from ..model import Model
from .build import Pieces
from .named import table
from .nodes import Block, Component, Source
from .operators import Array, Factor, Gate, Operator, Part, Step

BASE, ADDED = "base", "added"
_SPLIT = {
    "W_V", "W_UV", "W_DKV", "g_kv_latent", "W_O", *(f"W_{side}{of}" for side in ("in", "out") for of in ("", "_experts", "_shared")),
}  # fmt: skip
_MAP = re.compile(r"W_(?:OV|O|UV|in|out)_")
_FROZEN = {
    "W_Q", "W_K", "W_DQ", "W_UQ", "W_KR", "W_UK", "b_DQ", "b_KR", "g_q_latent", "b_Q", "b_K", "g_q", "g_k", "b_q", "b_k", "sinks", "W_router", "b_router", "b_choice", "W_shared_gate",
    "b_shared_gate", *(f"{kind}_gate{of}" for kind in "Wb" for of in ("", "_experts", "_shared")),
}  # fmt: skip
"""Weights of which frozen patterns and gates are made: a difference in them is in what is held fixed."""


def check_base(base: Model, adapted: Model) -> None:
    """Raise FreezeError for a base that differs from a model in more than what components do to the stream."""
    here, there = adapted.config, base.config
    if apart := [each.name for each in fields(here) if getattr(here, each.name) != getattr(there, each.name)]:
        found = "; ".join(
            f"{name}: {getattr(there, name)!r:.40} and {getattr(here, name)!r:.40}" for name in apart
        )
        raise FreezeError(f"base must have the run's shape and switches; base and run differ in {found}")
    if others := sorted(set(changed(base, adapted)) - _SPLIT - _FROZEN):
        raise FreezeError(
            f"base and the run's model differ in {', '.join(others)}, which are no part of what a head or an MLP does to "
            "the stream. px.contrast(run, base.run(tokens)) has a source for every weight that differs"
        )


def changed(base: Model, adapted: Model) -> Iterator[str]:
    """Yield the names of the arrays in which two models differ."""
    ours, theirs = adapted.weights.arrays(), base.weights.arrays()
    for name in sorted({*ours, *theirs}):
        one, two = ours.get(name), theirs.get(name)
        if one is not two and (one is None or two is None or not _same(one, two)):
            yield name


def _same(one: Array, two: Array) -> bool:
    """Whether two arrays are equal; stacked matrices are raised to double precision one layer at a time."""
    if one.ndim < 3 or one.shape != two.shape:
        return bool(np.array_equal(one, two))
    return all(np.array_equal(one[layer], two[layer]) for layer in range(len(one)))


def apart(laid: Pieces, below: Pieces) -> Pieces:
    """Return a run's pieces, laid out by its own weights and by its base's, with components that differ as two.

    What enters inside such a component enters both parts.
    """
    blocks = tuple(
        replace(block, components=tuple(_components(block, other)))
        for block, other in zip(laid["blocks"], below["blocks"], strict=True)
    )
    found = {c.label.rpartition(".")[0] for block in blocks for c in block.components if c.port}
    pairs = zip(laid["sources"], below["sources"], strict=True)
    return {**laid, "blocks": blocks, "sources": tuple(_source(*pair, found) for pair in pairs)}


def _components(block: Block, other: Block) -> Iterator[Component]:
    """The components of a block; whole where nothing was added."""
    for here, there in zip(block.components, other.components, strict=True):
        if not _differs(here.operator, there.operator):
            yield here
            continue
        operators = {BASE: there.operator, ADDED: added(here.operator, there.operator)}
        for port, operator in operators.items():
            yield replace(here, label=f"{here.label}.{port}", operator=operator, port=port)


def _source(here: Source, there: Source, found: Container[str]) -> Source:
    """A source, entering both parts of what it enters."""
    into: dict[str, Operator] = {}
    for label, operator in here.into.items():
        if label in found:
            into[f"{label}.{BASE}"] = there.into[label]
            if any(_maps(operator, there.into[label])):  # what passes no map is the base's alone
                into[f"{label}.{ADDED}"] = added(operator, there.into[label])
        else:
            into[label] = operator
    return replace(here, into=MappingProxyType(into)) if into else here


def _differs(here: Operator, there: Operator) -> bool:
    """Whether an operator's maps are not those of the base."""
    return any(
        not np.array_equal(*pair)
        for factors in _maps(here, there)
        for pair in zip(*map(_arrays, factors), strict=True)
    )


def added(here: Operator, there: Operator) -> Operator:
    """Return what an operator does that the base's does not, its two maps in a row at twice the waist."""
    through = any(factor.name.startswith(("W_in_", "W_UV_")) for factor, _ in _maps(here, there))
    return tuple(_part(*pair, through) for pair in zip(here, there, strict=True))


def _part(here: Part, there: Part, through: bool) -> Part:
    if isinstance(here, Gate) and through:
        values = None if here.values is None else np.tile(here.values, (1, 2))
        return Gate(f"{here.name}_{ADDED}", here.positions, 2 * int(here.features), values)
    if not isinstance(here, Step) or not isinstance(there, Step):
        return here
    pairs = zip(here.feature, there.feature, strict=True)
    return Step(here.position, tuple(_factor(*pair, through) for pair in pairs))


def _factor(here: Factor, there: Factor, through: bool) -> Factor:
    """One factor of what was added: with d the difference, [d W_O, W_O⁰] and [W_V; d W_V], of a map alone d."""
    name, rows, columns = f"{here.name}_{ADDED}", int(here.rows), int(here.columns)
    if not _MAP.match(here.name):
        return here
    if here.name.startswith("W_OV_"):
        return Factor(
            name, rows, columns, lambda: compose(_writing(here, there, 0), _reading(here, there, 1))
        )
    if through and here.name.startswith(("W_in_", "W_UV_")):
        return Factor(name, 2 * rows, columns, lambda: _reading(here, there, 0))
    if through:
        return Factor(name, rows, 2 * columns, lambda: _writing(here, there, 0))
    return Factor(f"Δ{here.name}", rows, columns, lambda: _difference(here, there))


def _writing(here: Factor, there: Factor, place: int) -> LinearMap:
    ours, theirs = _arrays(here)[place], _arrays(there)[place]
    return table(np.hstack([ours - theirs, theirs]), "model", "twice", f"{here.name}_{ADDED}")


def _reading(here: Factor, there: Factor, place: int) -> LinearMap:
    ours, theirs = _arrays(here)[place], _arrays(there)[place]
    read = here.numbers().source.name
    return table(np.vstack([ours, ours - theirs]), "twice", read, f"{here.name}_{ADDED}")


def _difference(here: Factor, there: Factor) -> LinearMap:
    (ours,), (theirs,) = _arrays(here), _arrays(there)
    found = here.numbers()
    return table(ours - theirs, found.target.name, found.source.name, f"Δ{here.name}")


def _arrays(factor: Factor) -> tuple[Array, ...]:
    """The matrices of a map: of W_OV those of W_O and W_V, which may be a product through a latent."""
    word = factor.numbers().word
    parts = (word[:1], word[1:]) if factor.name.startswith("W_OV_") else (word,)
    return tuple(compose(*part).dense() for part in parts)


def _maps(here: Operator, there: Operator) -> Iterator[tuple[Factor, Factor]]:
    """The maps of weights in an operator, beside those of the base."""
    for part, other in zip(here, there, strict=True):
        if isinstance(part, Step) and isinstance(other, Step):
            for factor, below in zip(part.feature, other.feature, strict=True):
                if _MAP.match(factor.name):
                    yield factor, below

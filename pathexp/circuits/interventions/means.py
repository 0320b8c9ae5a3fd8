"""What stands in place of what is cut: the mean over runs of the same length, or over cases, aligned by slot."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from ...errors import PathexpError
from ...expansion.header import counted
from ...graph import Array, Component, Walk, freeze
from ...model import Trace
from ...model.parts import embedding_parts, head_outputs, mlp_output
from .cuts import Cut
from .frozen_paths import FrozenPaths
from .kept_paths import Reading, read_by


class Means(ABC):
    """The mean of what components write, of what enters, and of what a cut takes from the logits."""

    @property
    @abstractmethod
    def runs(self) -> tuple[Trace, ...]:
        """The runs that it is the mean of, position by position; none where it is aligned otherwise."""

    @abstractmethod
    def said(self) -> str:
        """Return what the mean is over, in words."""

    @abstractmethod
    def embedding(self, label: str) -> Array:
        """Return what a source of the embedding brings, (n, d)."""

    @abstractmethod
    def output(self, component: Component, sides: str, clean: Array) -> Array:
        """Return what a component gives, (n, d); inputs that are not among `sides` read `clean`, (n, d)."""

    @abstractmethod
    def removed(self, cut: Cut, inputs: str) -> Array:
        """Return what cutting paths, frozen, takes from the logits, (n, V)."""


@dataclass(frozen=True, eq=False)
class RunMeans(Means):
    """The mean over runs of the same model and length, position by position."""

    given: tuple[Trace, ...]
    _outputs: dict[tuple[str, str], Array] = field(default_factory=dict)

    @property
    def runs(self) -> tuple[Trace, ...]:
        """These runs."""
        return self.given

    def said(self) -> str:
        return f"their mean over {counted(len(self.given), 'run')}"

    def embedding(self, label: str) -> Array:
        found: Array = np.mean([embedding_parts(run.model, run.tokens)[label] for run in self.runs], axis=0)
        return found

    def output(self, component: Component, sides: str, clean: Array) -> Array:
        key = component.label, sides
        if key not in self._outputs:
            self._outputs[key] = np.mean([given(component, run, sides, clean) for run in self.runs], axis=0)
        return self._outputs[key]

    def removed(self, cut: Cut, inputs: str) -> Array:
        found: Array = np.mean([removed(run, cut, inputs) for run in self.runs], axis=0)
        return found


@dataclass(frozen=True, eq=False)
class CaseMeans(Means):
    """The mean over cases that need not have equal lengths: positions that share a slot are averaged together.

    `slots` names the slot of every position of this run: its role, or its number where all cases have one length, or
    one slot for all that have no role. `by_slot` holds the means by what they are of, then by slot.
    """

    slots: tuple[str, ...]
    by_slot: Mapping[str, Mapping[str, Array]]
    cases: int

    @property
    def runs(self) -> tuple[Trace, ...]:
        """None: the mean need not be position by position."""
        return ()

    def said(self) -> str:
        return f"their mean over {counted(self.cases, 'case')}"

    def embedding(self, label: str) -> Array:
        return self.of(label)

    def output(self, component: Component, sides: str, clean: Array) -> Array:
        every = "m" if component.head is None else "qkv"
        if not set(every) <= set(sides):
            raise PathexpError(
                f"the mean over cases of what {component.label} writes needs all of its inputs along paths, "
                f"{every!r}, got {sides!r}: leave out inputs and ports, or take means of runs of one length"
            )
        return self.of(component.label)

    def removed(self, cut: Cut, inputs: str) -> Array:
        return self.of(cut_name(cut, inputs))

    def of(self, name: str) -> Array:
        """Return the mean of something at every position of this run. Raises PathexpError if it was not measured."""
        if name not in self.by_slot:
            raise PathexpError(
                f"the mean over cases of {name} was not measured; there are {', '.join(self.by_slot)}"
            )
        return np.array([self.by_slot[name][slot] for slot in self.slots])


def cut_name(cut: Cut, inputs: str) -> str:
    """Return by what name the mean of a cut is kept."""
    return f"cut {cut}, inputs {inputs}"


def given(component: Component, run: Trace, sides: str, clean: Array) -> Array:
    """Return what a component of a run gives, (n, d), where inputs that are not among `sides` read `clean`."""
    there = read_by(run, component)
    if component.head is None:
        return mlp_output(run.model, component.label, there if "m" in sides else clean)
    query, key, value = (there if side in sides else clean for side in "qkv")
    found: Array = head_outputs(run.model, component.layer, (query, key, value))[component.head]
    return found


def removed(run: Trace, cut: Cut, inputs: str) -> Array:
    """Return what cutting paths, frozen, takes from the logits of a run, (n, V)."""
    kept = FrozenPaths(run, Walk(freeze(run), ~cut.query), None, Reading(inputs, cut.ports))
    found: Array = run.logits - kept.logits()
    return found

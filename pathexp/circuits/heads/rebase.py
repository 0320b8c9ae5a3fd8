"""A head's queries, keys and values in another basis: they change, and nothing that the model computes does."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import ArrayLike

from ...answer import Answer, Check, Facts, Part, Table, columns
from ...arguments import SEED, TEXT, expect, one_of
from ...expansion.header import run_facts
from ...graph import Array
from ...model import Model, Trace
from ...model.rewrite.difference import between
from ...model.rounding import MEASURED, run_tolerance
from ...model.trace import check_trace
from .head import Head, head_of
from .head_edits import rebase_ov, rebase_qk

MAPS = {"OV": ("W_V", "W_O", "OV"), "QK": ("W_Q", "W_K", "QK")}


@dataclass(frozen=True, eq=False, repr=False)
class Rebase(Answer):
    """A run before and after a head's inner space took another basis; `model` is the changed model."""

    live: ClassVar[frozenset[str]] = frozenset({"before", "after"})

    head: str
    circuits: tuple[str, ...]
    before: Trace
    after: Trace

    @property
    def model(self) -> Model:
        """The model with the head in another basis."""
        return self.after.model

    def headline(self) -> str:
        """Return what is in another basis."""
        return f"{' and '.join(self.circuits)} of {self.head} in another basis"

    def parts(self) -> Iterator[Part]:
        """Yield the largest entry of each map of the head with its largest change, and that the logits stay."""
        yield run_facts(self.before)
        yield Facts({"head": self.head, "circuits": " ".join(self.circuits)})
        yield Table(
            (
                columns.text("map"), columns.number("largest", "largest entry", digits=3, signed=False),
                columns.number("change", "largest change", digits=-2, signed=False),
            ),
            self._maps(), "maps", key=("map",), value="change",
        )  # fmt: skip
        yield self._check()

    def _maps(self) -> Iterator[tuple[str, float, float]]:
        one, other = (head_of(trace.model, self.head) for trace in (self.before, self.after))
        for name in (name for circuit in self.circuits for name in MAPS[circuit]):
            first, second = _dense(one, name), _dense(other, name)
            yield name, _size(first), _size(second - first)

    def _check(self) -> Check:
        before = self.before if not self.before.edited else self.before.model.run(self.before.tokens)
        logits = before.logits_before_cap, self.after.logits_before_cap
        found = between(*logits, run_tolerance(before, self.after))
        return Check("the logits stay", found.raw, found.tolerance, MEASURED, reason=found.reason)


def _dense(owner: Head, name: str) -> Array:
    return np.asarray(getattr(owner, name).dense(), dtype=np.float64)


def _size(array: Array) -> float:
    return float(np.abs(array).max(initial=0.0))


def rebase(
    trace: Trace,
    head: str,
    *,
    circuit: Literal["OV", "QK"] | None = None,
    basis: ArrayLike | None = None,
    seed: int = 0,
) -> Rebase:
    """Run a text again with a head's queries and keys (QK), its values (OV), or both in another basis.

    `basis` is an invertible matrix, (d_head, d_head); by default a random one from `seed`. Queries, keys and values are
    by-products: a change of basis inside a head alters them but not the model's output. Elhage et al. 2021,
    "Attention Heads as Information Movement". See `rebase_ov` and `rebase_qk` for what is refused.

    >>> import pathexp as px
    >>> px.rebase(px.random_model().run([1, 2, 3]), "L0H1").ok
    True
    """
    check_trace(trace, "rebase")
    expect("rebase", head=(head, TEXT), circuit=(circuit, one_of("OV", "QK").or_none), seed=(seed, SEED))
    size = trace.config.d_head if circuit == "QK" else trace.config.d_value
    matrix = np.random.default_rng(seed).standard_normal((size, size)) if basis is None else basis
    circuits = ("OV", "QK") if circuit is None else (circuit,)
    changed = trace.model
    for each in reversed(circuits):  # what QK refuses is refused before anything is computed
        changed = (rebase_ov if each == "OV" else rebase_qk)(changed, head, matrix)
    return Rebase(head, circuits, trace, changed.run(trace.tokens))

"""Permutation equivariance: whether permuted tokens give the same logits, permuted."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from ...answer import Answer, Facts, Figure, Note, Part, Table, columns, visible
from ...arguments import SEED, expect, instance
from ...errors import PathexpError
from ...expansion.header import model_facts
from ...model import Config, Model, Trace
from ...model.rewrite.difference import between
from ...model.rounding import run_tolerance

_LENGTH = 8


@dataclass(frozen=True, eq=False, repr=False)
class Equivariance(Answer):
    """Whether permuting the tokens permutes the output, and by what a model could tell order.

    ``equivariant`` is false, and ``reason`` says why, where rounding leaves nothing to tell. ``changes``: at each place of the permuted text, the largest difference between the logits that its token had and
    has; ``gives_order``: the switches by which order enters.
    """

    live: ClassVar[frozenset[str]] = frozenset({"model"})

    model: Model
    equivariant: bool
    changes: tuple[float, ...]
    tolerance: float
    tokens: tuple[int, ...]
    permutation: tuple[int, ...]
    gives_order: tuple[str, ...]
    reason: str = ""

    @property
    def change(self) -> float:
        """The largest of the changes."""
        return max(self.changes)

    def headline(self) -> str:
        """Return whether the model tells order, and the largest change beside the tolerance."""
        if self.reason:
            return (
                f"cannot tell whether permuting {len(self.tokens)} tokens permutes the output: {self.reason}"
            )
        found = "equivariant" if self.equivariant else "not equivariant"
        does = "permutes the output" if self.equivariant else "does more than permute the output"
        sign = "≤" if self.equivariant else ">"
        return (
            f"{found}: permuting {len(self.tokens)} tokens {does} "
            f"(largest change of a logit {self.change:.2e} {sign} {self.tolerance:.2e})"
        )

    def parts(self) -> Iterator[Part]:
        """Yield the change at each place of the permuted text, what gives order, and bars."""
        words = [self.model.token_string(token) for token in self.tokens]
        yield model_facts(self.model)
        yield Facts({
            "tokens": " ".join(map(str, self.tokens)), "permutation": " ".join(map(str, self.permutation)),
            "equivariant": self.equivariant, "change": self.change, "tolerance": self.tolerance,
            "gives_order": "; ".join(self.gives_order),
        })  # fmt: skip
        rows = list(enumerate(zip(self.permutation, self.changes, strict=True)))
        yield Table(
            (columns.count("place"), columns.count("before", "place before"), columns.token("token"),
             columns.number("change", digits=-3, signed=False)),
            [(place, before, words[before], change) for place, (before, change) in rows],
            "places", "the permuted text", key=("place",), value="change", shown=20,
        )  # fmt: skip
        yield Note(f"gives order: {'; '.join(self.gives_order) or 'no positions, no causal mask, no window'}")
        yield Figure(
            "bars", "changes",
            {
                "rows": [f"{visible(words[before])} {before} → {place}" for place, (before, _) in rows],
                "values": [[change] for change in self.changes],
            },
            "largest change of a logit at each place of the permuted text", "logits",
        )  # fmt: skip


def equivariance(what: Model | Trace, *, seed: int = 0) -> Equivariance:
    """Permute the tokens of a text and see whether the output is permuted alike, and no more.

    Attention is a weighted mean over a set: without positions and without a causal mask a transformer sees its
    text as a bag (Vaswani et al. 2017, section 3.5). Costs six runs.

    Parameters
    ----------
    what: a run, whose tokens are permuted, at least two of them different; or a model, which is run on up to 8
        random tokens.
    seed: of the tokens and of the permutation.

    Raises PathexpError if there are no two different tokens to permute.

    >>> import pathexp as px
    >>> px.equivariance(px.random_model(positions="none", causal=False)).equivariant
    True
    >>> px.equivariance(px.random_model(positions="learned", causal=False)).gives_order
    ("positions='learned'",)
    """
    expect("equivariance", what=(what, instance((Model, Trace), "a model or a trace")), seed=(seed, SEED))
    model = what if isinstance(what, Model) else what.model
    rng = np.random.default_rng(seed)
    ids = _drawn(model.config, rng) if isinstance(what, Model) else what.tokens
    if len(set(ids.tolist())) < 2:
        raise PathexpError(
            f"order can be told only between different tokens; found {ids.tolist()!r:.60}: give at least two"
        )
    order = _moving(ids, rng)
    first = what if isinstance(what, Trace) and not what.edited else model.run(ids)
    runs = first, model.run(ids[order])
    before, after = runs[0].logits_before_cap[order], runs[1].logits_before_cap
    changes = tuple(np.abs(before - after).max(axis=-1).tolist())
    found = between(before, after, run_tolerance(*runs))
    chosen = tuple(int(token) for token in ids), tuple(int(place) for place in order)
    return Equivariance(
        model, found.equal, changes, found.tolerance, *chosen, _gives_order(model.config), found.reason
    )


def _drawn(config: Config, rng: np.random.Generator) -> npt.NDArray[np.int64]:
    """Different tokens, as many as vocabulary and context have room for, up to 8."""
    return rng.permutation(config.d_vocab)[: min(_LENGTH, config.n_ctx)].astype(np.int64)


def _moving(ids: npt.NDArray[np.int64], rng: np.random.Generator) -> npt.NDArray[np.int64]:
    """A permutation after which the text is another."""
    while True:
        order = rng.permutation(len(ids))
        if not np.array_equal(ids, ids[order]):
            return order


def _gives_order(config: Config) -> tuple[str, ...]:
    found = []
    if config.positions != "none":
        found.append(f"positions={config.positions!r}")
    if config.causal:
        found.append("causal=True")
    if config.windows is not None and any(width is not None for width in config.windows):
        found.append(f"windows={config.windows!r}")
    return tuple(found)

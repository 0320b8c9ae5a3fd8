"""What each head of a model attends to on repeated tokens: its attention type.

On such a text the token before, the earlier copy of the current token, and the token after that copy are at known
places. Texts have several lengths: an induction head attends to the token after the earlier copy at every one of them, a
head that attends by a fixed offset at one alone. Elhage et al. 2021, "Induction Heads", "Primarily Positional Attention
Heads"; Olsson et al. 2022, "In-context Learning and Induction Heads", "Key Concepts".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from ...answer import Figure
from ...errors import PathexpError
from ...graph import Array
from ...labels import head_label
from ...model import Model
from ...model.model import check_model
from ..corpus.accumulate import accumulate
from ..corpus.corpus import SHORT, Source
from ..corpus.limits import NO_LIMITS, Limits
from ..corpus.tally import Tally
from .losses import CopyLosses
from .repeated_measures import measure
from .repeated_tokens import INDUCTION, TYPES, Length, RepeatedTokens, checked_runs

FIXED_OFFSET, POSITIONAL, NO_TYPE = "fixed offset", "positional", "-"
EVERY_TYPE = (*TYPES, FIXED_OFFSET, POSITIONAL, NO_TYPE)
THRESHOLD = 0.4
"""Mean attention from which a head is of a type."""
NAMED = 0.1
"""Mean attention from which an offset is named."""


@dataclass(frozen=True)
class HeadType:
    """The mean attention of one head from the second copy of repeated tokens, by where it attends.

    `by_length` holds it for every length, `attention` the least over the lengths: what holds at all of them. `offsets`
    are the distances that get `NAMED` or more at every length, whatever the tokens, and their least attention.
    `previous_at_keys` is the attention from the induction positions, the keys that induction heads read, to the
    position before. `copied` is the share of queries at which the head raises the next token most of all tokens of the
    copy; None where what heads write is not read at the logits straight.
    """

    label: str
    by_length: Mapping[int, Mapping[str, float]]
    offsets: Mapping[int, float]
    previous_at_keys: float
    copied: float | None

    @property
    def attention(self) -> dict[str, float]:
        """The attention that each type gets at every length: the least of them."""
        return {name: min(found[name] for found in self.by_length.values()) for name in TYPES}

    @property
    def strongest(self) -> float:
        """The most attention that any type gets at every length."""
        return max(self.attention.values())

    @property
    def type(self) -> str:
        """The type with most attention, if that is at least `THRESHOLD`; else whether it attends by position, else "-".

        "fixed offset": one distance from 2 up gets as much at every length. "positional": the named distances do so
        together.
        """
        attention = self.attention
        best = max(attention, key=lambda name: attention[name])
        if attention[best] >= THRESHOLD:
            return best
        if any(share >= THRESHOLD for offset, share in self.offsets.items() if offset > 1):
            return FIXED_OFFSET
        return POSITIONAL if sum(self.offsets.values()) >= THRESHOLD else NO_TYPE

    @property
    def only_at(self) -> tuple[int, ...]:
        """The lengths at which it attends to the induction position, where that is not so at all of them."""
        if self.attention[INDUCTION] >= THRESHOLD:
            return ()
        return tuple(n for n, found in self.by_length.items() if found[INDUCTION] >= THRESHOLD)

    @property
    def remark(self) -> str:
        """What the type leaves out: distances, and induction at some lengths only."""
        words = [f"{offset} back {share:.2f}" for offset, share in self.offsets.items()]
        shown = words if self.type in (FIXED_OFFSET, POSITIONAL) else []
        if self.only_at:
            shown.append(f"induction at length {' and '.join(map(str, self.only_at))} only")
        return ", ".join(shown)


@dataclass(frozen=True)
class HeadTypes:
    """The attention types of all heads of a model, and how much better it predicts repeated tokens.

    `losses` by length, longest first; empty where a next-token loss means nothing. `tally` holds the sums over texts,
    to save and to resume from.
    """

    heads: tuple[HeadType, ...]
    losses: tuple[CopyLosses, ...]
    lengths: tuple[int, ...]
    tally: Tally

    @property
    def runs(self) -> int:
        """How many texts of each length."""
        return self.tally.windows

    @property
    def length(self) -> int:
        """How many tokens the longest copy has."""
        return self.lengths[0]

    @property
    def first_loss(self) -> float | None:
        """The loss of the first copy at the longest length, in nats per token; None where it means nothing."""
        return self.losses[0].first if self.losses else None

    @property
    def second_loss(self) -> float | None:
        """The loss of the second copy at the longest length, in nats per token; None where it means nothing."""
        return self.losses[0].second if self.losses else None

    def of_type(self, type: str) -> tuple[str, ...]:
        """Return the labels of the heads of a type. Raises PathexpError for an unknown one."""
        if type not in EVERY_TYPE:
            raise PathexpError(f"unknown attention type {type!r}; choose from: {', '.join(EVERY_TYPE[:-1])}")
        return tuple(head.label for head in self.heads if head.type == type)

    def ranked(self) -> tuple[HeadType, ...]:
        """Return the heads of a type, type by type, then all others, those with most attention first."""
        return tuple(sorted(self.heads, key=lambda head: (EVERY_TYPE.index(head.type), -head.strongest)))

    def __getitem__(self, label: str) -> HeadType:
        """Return the row of one head. Raises PathexpError if there is none."""
        for head in self.heads:
            if head.label == label:
                return head
        raise PathexpError(f"no head {label!r} among the {len(self.heads)} heads")

    def figure(self) -> Figure:
        """Return the mean attention of every head to where each type attends, as a heat map."""
        values = [[head.attention[name] for name in TYPES] for head in self.heads]
        data = {"rows": [head.label for head in self.heads], "columns": TYPES, "values": values}
        return Figure("heatmap", "attention", data, "attention on repeated tokens")


def head_types(
    model: Model,
    *,
    corpus: Source | None = None,
    length: Length = None,
    runs: int = 8,
    prefix: Sequence[int] = (),
    seed: int = 0,
    limits: Limits = NO_LIMITS,
) -> HeadTypes:
    """Return the attention type of every head on repeated tokens: random ones, or the windows of a corpus.

    Mean attention (a share, 0 to 1) and losses in nats per token, over the second copies of `runs` texts of each
    length, to the token before, to the token after the earlier copy (induction), to the earlier copy (duplicate), to
    the token itself and to position 0. `length`: tokens per copy, or several; by default two coprime ones, since one
    alone cannot tell a fixed offset from induction. Other arguments as in `repeated_runs`, and `limits`.
    Olsson et al. 2022, "In-context Learning and Induction Heads", "Key Concepts". Cost: `runs` forward passes a length,
    one trace held at a time.

    >>> import pathexp as px
    >>> found = head_types(px.induction_model())
    >>> [(head.label, head.type) for head in found.heads]
    [('L0H0', 'previous token'), ('L1H0', 'induction')]
    >>> found.lengths, found.second_loss < 0.01 < found.first_loss
    ((8, 5), True)
    """
    check_model(model, "head_types")
    texts, runs = RepeatedTokens(model, length, prefix, seed), checked_runs(runs)
    found = accumulate(
        texts.random() if corpus is None else texts.of(corpus, runs),
        partial(measure, texts),
        texts.question(f"attention types, {f'random seed {seed}' if corpus is None else 'a corpus'},"),
        most=runs,
        limits=limits,
        together=2 * texts.copy <= SHORT,
    )
    return HeadTypes(_heads(found, texts), _losses(found, texts), texts.lengths, found)


def _heads(found: Tally, texts: RepeatedTokens) -> tuple[HeadType, ...]:
    attention = {n: found.mean(f"{n} attention") for n in texts.lengths}
    offsets = np.min([found.mean(f"{n} offsets") for n in texts.lengths], axis=0)
    keys = np.min([found.mean(f"{n} previous at keys") for n in texts.lengths], axis=0)
    measured = f"{texts.copy} copied" in found.sums
    copied = np.min([found.mean(f"{n} copied") for n in texts.lengths], axis=0) if measured else None
    return tuple(
        HeadType(
            head_label(*place),
            {n: dict(zip(TYPES, array[place].tolist(), strict=True)) for n, array in attention.items()},
            _named(offsets[place], texts.lengths),
            float(keys[place]),
            None if copied is None else float(copied[place]),
        )
        for place in np.ndindex(keys.shape)
    )


def _named(offsets: Array, lengths: Sequence[int]) -> dict[int, float]:
    """The distances with much attention, the most first; at one length those of the copies are left out."""
    hidden = {lengths[0] - 1, lengths[0]} if len(lengths) == 1 else set()
    order = np.argsort(-offsets, kind="stable")
    return {int(k): float(offsets[k]) for k in order if offsets[k] >= NAMED and int(k) not in hidden}


def _losses(found: Tally, texts: RepeatedTokens) -> tuple[CopyLosses, ...]:
    names = {n: f"{n} losses" for n in texts.lengths}
    means = {n: found.mean(name).tolist() for n, name in names.items() if name in found.sums}
    return tuple(
        CopyLosses(n, first, second, square, found.windows) for n, (first, second, square) in means.items()
    )

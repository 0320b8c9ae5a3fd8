"""What each head of a model attends to on repeated tokens: its attention type.

On such a text the token before, the earlier copy of the current token, and the token after that copy are at known
places. Elhage et al. 2021, "Induction Heads"; Olsson et al. 2022, "In-context Learning and Induction Heads",
"Key Concepts".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ...answer import Figure
from ...errors import PathexpError
from ...labels import head_label
from ...model import Model
from ...model.model import check_model
from ..corpus.accumulate import accumulate
from ..corpus.corpus import Source
from ..corpus.limits import NO_LIMITS, Limits
from ..corpus.tally import Tally
from .repeated_tokens import TYPES, RepeatedRun, RepeatedTokens, checked_runs

NO_TYPE = "-"
THRESHOLD = 0.4
"""Mean attention from which a head is of a type."""


@dataclass(frozen=True)
class HeadType:
    """The mean attention of one head from the second copy of repeated tokens, by where it attends."""

    label: str
    attention: dict[str, float]

    @property
    def strongest(self) -> float:
        """The most attention that any type gets."""
        return max(self.attention.values())

    @property
    def type(self) -> str:
        """The type with most attention, if that is at least `THRESHOLD`; else "-"."""
        best = max(self.attention, key=lambda name: self.attention[name])
        return best if self.attention[best] >= THRESHOLD else NO_TYPE


@dataclass(frozen=True)
class HeadTypes:
    """The attention types of all heads of a model, and how much better it predicts repeated tokens.

    Losses are means in nats per token: `first_loss` of the first copy, `second_loss` of the second; `length`
    tokens per copy. `tally` holds the sums over texts, to save and to resume from.
    """

    heads: tuple[HeadType, ...]
    first_loss: float
    second_loss: float
    length: int
    tally: Tally

    @property
    def runs(self) -> int:
        """How many texts."""
        return self.tally.windows

    def of_type(self, type: str) -> tuple[str, ...]:
        """Return the labels of the heads of a type. Raises PathexpError for an unknown one."""
        if type not in (*TYPES, NO_TYPE):
            raise PathexpError(f"unknown attention type {type!r}; choose from: {', '.join(TYPES)}")
        return tuple(head.label for head in self.heads if head.type == type)

    def ranked(self) -> tuple[HeadType, ...]:
        """Return the heads of a type, type by type, then all others, those with most attention first."""
        order = (*TYPES, NO_TYPE)
        return tuple(sorted(self.heads, key=lambda head: (order.index(head.type), -head.strongest)))

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
    length: int | None = None,
    runs: int = 8,
    prefix: Sequence[int] = (),
    seed: int = 0,
    limits: Limits = NO_LIMITS,
) -> HeadTypes:
    """Return the attention type of every head on repeated tokens: random ones, or the windows of a corpus.

    Mean attention (a share, 0 to 1) and losses in nats per token, over the second copies of `runs` texts, to the
    token before, to the token after the earlier copy (induction), to the earlier copy (duplicate), to the token
    itself and to position 0. Arguments as in `repeated_runs`, and `limits`.
    Olsson et al. 2022, "In-context Learning and Induction Heads", "Key Concepts". Cost: `runs` forward passes, one
    trace held at a
    time.

    >>> import pathexp as px
    >>> found = head_types(px.induction_model())
    >>> [(head.label, head.type) for head in found.heads]
    [('L0H0', 'previous token'), ('L1H0', 'induction')]
    >>> found.second_loss < 0.01 < found.first_loss
    True
    """
    check_model(model, "head_types")
    texts = RepeatedTokens(model, length, prefix, seed)
    found = accumulate(
        texts.random() if corpus is None else texts.of(corpus),
        lambda tokens: _measured(texts.run(tokens)),
        texts.question(f"attention types, {f'random seed {seed}' if corpus is None else 'a corpus'},"),
        most=checked_runs(runs),
        limits=limits,
    )
    attention, losses = found.mean("attention"), found.mean("losses")
    heads = tuple(
        HeadType(head_label(layer, head), dict(zip(TYPES, attention[layer, head].tolist(), strict=True)))
        for layer, head in np.ndindex(attention.shape[:2])
    )
    return HeadTypes(heads, float(losses[0]), float(losses[1]), texts.copy, found)


def _measured(text: RepeatedRun) -> Mapping[str, np.ndarray]:
    """Every head's mean attention by type, (L, H, types), and the losses of both copies."""
    attention = np.stack([_mean_attention(text, name) for name in TYPES], axis=-1)
    return {"attention": attention, "losses": np.array(text.losses())}


def _mean_attention(text: RepeatedRun, name: str) -> np.ndarray:
    """The mean attention of every head (L, H) from the second copy to where a type attends."""
    queries = np.array(text.second)
    factor, offset = text.attended()[name]
    return np.asarray(text.trace.patterns[:, :, queries, factor * queries + offset].mean(axis=-1))

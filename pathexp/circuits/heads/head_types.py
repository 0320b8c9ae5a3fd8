"""What each head of a model does on random tokens said twice: a table of kinds, from attention alone.

On such a text the token before, the earlier copy of the present token, and the token after that copy stand at
known places. Elhage et al. 2021, "Induction Heads"; Olsson et al. 2022, "In-context Learning and Induction
Heads", section "Definition".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ...errors import PathexpError
from ...model import Model
from ...model.model import check_model
from ..corpus import Corpus
from ..running import Tally, tally
from .repeated_tokens import KINDS, Repeated, Said, checked_runs

NO_KIND = "-"
THRESHOLD = 0.4
"""Mean attention from which a head is said to be of a kind."""


@dataclass(frozen=True)
class HeadKind:
    """The mean attention of one head from the second copy of repeated random tokens, by where it looks."""

    label: str
    layer: int
    head: int
    attention: dict[str, float]

    @property
    def kind(self) -> str:
        """The kind with most attention, if that is at least `THRESHOLD`; else "-"."""
        best = max(self.attention, key=lambda kind: self.attention[kind])
        return best if self.attention[best] >= THRESHOLD else NO_KIND


@dataclass(frozen=True)
class HeadKinds:
    """The kinds of all heads of a model, and how much better it says random tokens the second time.

    Losses are means in nats a token: `first_loss` of the first copy, `second_loss` of the second; `length`
    tokens a copy. `tally` holds the running sums over texts, to save and to go on from.
    """

    heads: tuple[HeadKind, ...]
    first_loss: float
    second_loss: float
    length: int
    tally: Tally

    @property
    def runs(self) -> int:
        """How many texts."""
        return self.tally.windows

    def of_kind(self, kind: str) -> tuple[str, ...]:
        """The labels of the heads of a kind. Raises PathexpError for a kind that is not known."""
        if kind not in (*KINDS, NO_KIND):
            raise PathexpError(f"no kind of head is called {kind!r}; known: {', '.join(KINDS)}")
        return tuple(head.label for head in self.heads if head.kind == kind)

    def __getitem__(self, label: str) -> HeadKind:
        """Return the row of one head. Raises PathexpError if there is none."""
        for head in self.heads:
            if head.label == label:
                return head
        raise PathexpError(f"no head {label!r} among the {len(self.heads)} heads")


def head_kinds(
    model: Model,
    texts: Corpus | None = None,
    *,
    length: int | None = None,
    runs: int = 8,
    prefix: Sequence[int] = (),
    seed: int = 0,
    start: Tally | None = None,
    seconds: float | None = None,
    progress: bool = False,
) -> HeadKinds:
    """Return what every head does on tokens said twice: random ones, or the windows of a corpus.

    Mean attention (a share, 0 to 1) and losses in nats a token, over the second copies of `runs` texts, to the
    token before, to the token after the earlier copy (induction), to the earlier copy (duplicate), to the token
    itself and to position 0. Arguments as in `repeated_runs`, and `start`, `seconds`, `progress` as for `tally`.
    Olsson et al. 2022, "In-context Learning and Induction Heads". Cost: `runs` forward passes, one trace held at a
    time.

    >>> import pathexp as px
    >>> kinds = head_kinds(px.induction_model())
    >>> [(head.label, head.kind) for head in kinds.heads]
    [('L0H0', 'previous token'), ('L1H0', 'induction')]
    >>> kinds.second_loss < 0.01 < kinds.first_loss
    True
    """
    check_model(model, "head_kinds")
    said = Said(model, length, prefix, seed)
    found = tally(
        said.random() if texts is None else said.of(texts),
        lambda tokens: _looks(said.run(tokens)),
        said.question(f"kinds of heads, {f'random seed {seed}' if texts is None else 'a corpus'},"),
        start=start,
        limit=checked_runs(runs),
        seconds=seconds,
        progress=progress,
    )
    attention, losses = found.mean("attention"), found.mean("losses")
    heads = tuple(
        HeadKind(
            f"L{layer}H{head}", layer, head, dict(zip(KINDS, attention[layer, head].tolist(), strict=True))
        )
        for layer, head in np.ndindex(attention.shape[:2])
    )
    return HeadKinds(heads, float(losses[0]), float(losses[1]), said.copy, found)


def _looks(text: Repeated) -> Mapping[str, np.ndarray]:
    """Every head's mean attention by kind, (L, H, kinds), and the losses of both copies."""
    attention = np.stack([_mean_attention(text, kind) for kind in KINDS], axis=-1)
    return {"attention": attention, "losses": np.array(text.losses())}


def _mean_attention(text: Repeated, kind: str) -> np.ndarray:
    """The mean attention of every head (L, H) from the second copy to where a kind looks."""
    queries = np.array(text.second)
    factor, offset = text.looks()[kind]
    return np.asarray(text.trace.patterns[:, :, queries, factor * queries + offset].mean(axis=-1))

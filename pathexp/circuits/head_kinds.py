"""What each head of a model does on random tokens said twice: a table of kinds, from attention alone.

On such a text the token before, the earlier copy of the present token, and the token after that copy stand at
known places. Elhage et al. 2021, "Induction Heads"; Olsson et al. 2022, "In-context Learning and Induction
Heads", section "Definition".
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from ..errors import PathexpError
from ..model import Model, Trace
from ..model.model import check_model

PREVIOUS, INDUCTION, DUPLICATE, CURRENT, FIRST = (
    "previous token",
    "induction",
    "duplicate token",
    "current token",
    "first token",
)
KINDS = (PREVIOUS, INDUCTION, DUPLICATE, CURRENT, FIRST)
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
    tokens a copy, `runs` texts.
    """

    heads: tuple[HeadKind, ...]
    first_loss: float
    second_loss: float
    length: int
    runs: int

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


@dataclass(frozen=True)
class Repeated:
    """A run of random tokens said twice, after a prefix: copies begin at `start` and `start + length`."""

    trace: Trace
    start: int
    length: int

    @property
    def second(self) -> range:
        """The positions of the second copy."""
        return range(self.start + self.length, self.start + 2 * self.length)

    def key(self, query: int) -> int:
        """The induction position of a query in the second copy: after its token's earlier copy."""
        return query - self.length + 1

    def losses(self) -> tuple[float, float]:
        """The mean loss within the first copy and within the second, each from its second token on."""
        n = len(self.trace)
        each = -self.trace.log_probs[np.arange(n - 1), self.trace.tokens[1:]]
        middle = self.start + self.length
        return float(each[self.start : middle - 1].mean()), float(each[middle : n - 1].mean())

    def looks(self) -> dict[str, tuple[int, int]]:
        """Where the kinds look from a query, as (multiple of the query, offset)."""
        return {
            PREVIOUS: (1, -1),
            INDUCTION: (1, 1 - self.length),
            DUPLICATE: (1, -self.length),
            CURRENT: (1, 0),
            FIRST: (0, 0),
        }


def repeated_runs(
    model: Model, *, length: int | None = None, runs: int = 8, prefix: Sequence[int] = (), seed: int = 0
) -> Iterator[Repeated]:
    """Run a model on random tokens said twice, all different within a copy.

    `length` tokens a copy, by default 50 or as many as fit; `prefix` goes before, such as a begin token.
    Raises PathexpError if fewer than 3 tokens a copy fit into the context or the vocabulary.
    """
    room = min((model.config.n_ctx - len(prefix)) // 2, model.config.d_vocab)
    length = min(50, room) if length is None else length
    if not 3 <= length <= room or runs < 1:
        raise PathexpError(
            f"random tokens said twice need from 3 to {room} tokens a copy in this model (n_ctx "
            f"{model.config.n_ctx}, {model.config.d_vocab} tokens) and at least 1 run; asked {length} and {runs}"
        )
    rng = np.random.default_rng(seed)
    for _ in range(runs):
        copy = rng.permutation(model.config.d_vocab)[:length]
        tokens = np.concatenate([np.array(prefix, dtype=np.int64), copy, copy])
        yield Repeated(model.run(tokens), len(prefix), length)


def head_kinds(
    model: Model, *, length: int | None = None, runs: int = 8, prefix: Sequence[int] = (), seed: int = 0
) -> HeadKinds:
    """Return what every head does on random tokens said twice.

    Mean attention, over the second copies of `runs` texts, to the token before, to the token after the earlier
    copy (induction), to the earlier copy (duplicate), to the token itself and to position 0. Arguments as in
    `repeated_runs`. Olsson et al. 2022, "In-context Learning and Induction Heads". Cost: `runs` forward passes.

    >>> import pathexp as px
    >>> kinds = head_kinds(px.induction_model())
    >>> [(head.label, head.kind) for head in kinds.heads]
    [('L0H0', 'previous token'), ('L1H0', 'induction')]
    >>> kinds.second_loss < 0.01 < kinds.first_loss
    True
    """
    check_model(model, "head_kinds")
    texts = list(repeated_runs(model, length=length, runs=runs, prefix=prefix, seed=seed))
    shape = (model.config.n_layers, model.config.n_heads)
    attention = {kind: np.mean([_mean_attention(text, kind) for text in texts], axis=0) for kind in KINDS}
    losses = np.mean([text.losses() for text in texts], axis=0)
    heads = tuple(
        HeadKind(
            f"L{layer}H{head}", layer, head, {kind: float(attention[kind][layer, head]) for kind in KINDS}
        )
        for layer, head in np.ndindex(shape)
    )
    return HeadKinds(heads, float(losses[0]), float(losses[1]), texts[0].length, runs)


def _mean_attention(text: Repeated, kind: str) -> np.ndarray:
    """The mean attention of every head (L, H) from the second copy to where a kind looks."""
    queries = np.array(text.second)
    factor, offset = text.looks()[kind]
    return np.asarray(text.trace.patterns[:, :, queries, factor * queries + offset].mean(axis=-1))

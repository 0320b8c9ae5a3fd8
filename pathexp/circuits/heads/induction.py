"""Induction heads: found from the weights, confirmed on repeated random tokens, explained by their scores."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

from ...answer import Answer, Facts, Note, Part, Table, columns
from ...arguments import expect, whole
from ...expansion.header import model_facts
from ...model import Model
from ...model.model import check_model
from ..corpus.limits import NO_LIMITS, Limits
from ..corpus.tally import Tally
from .copying import spectrum_columns, spectrum_row
from .head_types import HeadTypes, head_types
from .heads import loss_parts
from .induction_pairs import InductionPair, induction_pairs
from .induction_score import InductionScore, induction_score
from .repeated_tokens import INDUCTION


@dataclass(frozen=True, eq=False, repr=False)
class Induction(Answer):
    """The induction heads of a model: by its weights, by its attention, and why they attend where they do.

    `pairs` are all heads with all earlier ones, `types` the attention types on repeated random tokens, `scores` the
    expanded scores of the heads that are induction heads by attention.
    """

    live: ClassVar[frozenset[str]] = frozenset({"model", "pairs"})

    model: Model
    pairs: tuple[InductionPair, ...]
    types: HeadTypes
    scores: tuple[InductionScore, ...] = ()

    @property
    def tally(self) -> Tally:
        """The sums over texts, to save and to resume from."""
        return self.types.tally

    @property
    def from_weights(self) -> tuple[str, ...]:
        """The heads that some earlier head makes an induction head by the weights."""
        return tuple(dict.fromkeys(pair.head for pair in self.pairs if pair.is_induction))

    @property
    def from_attention(self) -> tuple[str, ...]:
        """The heads that attend to the induction position of repeated random tokens."""
        return self.types.of_type(INDUCTION)

    @property
    def agree(self) -> bool | None:
        """Whether both lists hold the same heads; None where both are empty and there is nothing to agree on."""
        found = set(self.from_weights), set(self.from_attention)
        return found[0] == found[1] if any(found) else None

    def strongest_pair(self, head: str) -> InductionPair | None:
        """Return the strongest pair of a head with an earlier one, or None in the first layer.

        Raises PathexpError if there is no such head.
        """
        _ = self.types[head]
        return strongest([pair for pair in self.pairs if pair.head == head])

    def headline(self) -> str:
        """Return the induction heads by attention."""
        return f"induction heads by attention: {_names(self.from_attention)}"

    def parts(self) -> Iterator[Part]:
        """Yield both lists, the strongest pair of every head, the expanded scores, and the attention of all heads."""
        yield model_facts(self.model)
        yield Facts(
            {
                "from_weights": " ".join(self.from_weights),
                "from_attention": " ".join(self.from_attention),
                "agree": self.agree,
            }
        )
        yield Note(f"induction heads by the weights: {_names(self.from_weights)}{_AGREE[self.agree]}")
        yield from loss_parts(self.types)
        yield self._pairs()
        if self.scores:
            yield scores_table(self.scores)
        yield self.types.figure()

    def _pairs(self) -> Table:
        """The strongest pair of every head that has an earlier one; heads that are induction heads first."""
        found = [pair for head in self.types.heads if (pair := self.strongest_pair(head.label))]
        found.sort(key=lambda pair: (not pair.is_induction, -self.types[pair.head].attention[INDUCTION]))
        head = (
            columns.text("head"), columns.flag("induction"),
            columns.number("attention", "prefix-matching score", digits=3, signed=False),
            columns.text("previous_head", "previous-token head"),
            columns.number("previous", "previous-token attention", digits=3, signed=False),
            *spectrum_columns("matching", "QK matching score"),
            columns.number("on_diagonal", "top-1 self-match", digits=3, signed=False),
            *spectrum_columns("copying", "OV copying score"),
        )  # fmt: skip
        return Table(
            head, map(self._row, found), "pairs", "by the weights: every head and the earlier head it reads best",
            key=("head",), value="attention", shown=16,
        )  # fmt: skip

    def _row(self, pair: InductionPair) -> tuple[object, ...]:
        return (
            pair.head, pair.is_induction, self.types[pair.head].attention[INDUCTION], pair.previous_head,
            pair.previous, *spectrum_row(pair.matching), pair.on_diagonal, *spectrum_row(pair.copying),
        )  # fmt: skip


_AGREE = {True: "\nboth lists are the same", False: "\nthe lists differ", None: ""}


def _names(labels: Sequence[str]) -> str:
    return ", ".join(labels) or "none"


def strongest(pairs: Sequence[InductionPair]) -> InductionPair | None:
    """Return the pair of largest strength, the first of equals; most matchings are never computed."""
    best: InductionPair | None = None
    for pair in sorted(pairs, key=lambda pair: -pair.most):
        if best is not None and best.strength >= pair.most:
            break
        best = pair if best is None or pair.strength > best.strength else best
    return best


def scores_table(scores: Sequence[InductionScore]) -> Table:
    """Return expanded scores as one row a head: advantage, part through the earlier head, and by kind of term."""
    kinds = list(scores[0].by_kind)
    head = (
        columns.text("head"), columns.text("previous_head", "previous head"),
        columns.number("advantage", digits=2), columns.number("through", "via its keys", digits=2),
        columns.share("share"), *(columns.number(_column(kind), kind, digits=2) for kind in kinds),
        columns.hidden("queries"),
    )  # fmt: skip
    rows = [
        (s.head, s.previous_head, s.advantage, s.through, s.share, *s.by_kind.values(), s.queries)
        for s in scores
    ]
    title = "score of the induction position above the mean of the other keys, by pairs of paths"
    return Table(head, rows, "scores", title, key=("head",), value="share", shown=16)


def _column(kind: str) -> str:
    return kind.lower().replace("-", "_").replace(" ", "_")


def induction(
    model: Model,
    *,
    length: int | None = None,
    runs: int = 8,
    prefix: Sequence[int] = (),
    seed: int = 0,
    score_runs: int = 2,
    limits: Limits = NO_LIMITS,
) -> Induction:
    """Return a model's induction heads, from its weights and from repeated random tokens, and explain their scores.

    Arguments as in `heads`; `score_runs` texts are used to expand the scores of each head that attends to the
    induction position (0: none). An empty list means that no head passes the thresholds,
    `induction_pairs.SHARE` and `head_types.THRESHOLD`. Elhage et al. 2021, "Induction Heads". Raises PathexpError for
    post-norm models.

    >>> import pathexp as px
    >>> found = induction(px.load("attn-2l"), score_runs=0)
    >>> found.from_weights
    ('L1H0', 'L1H2', 'L1H3', 'L1H5', 'L1H7')
    >>> found.agree
    True
    """
    check_model(model, "induction")
    expect("induction", score_runs=(score_runs, whole(0)))
    types = head_types(model, length=length, runs=runs, prefix=prefix, seed=seed, limits=limits)
    found = Induction(model, induction_pairs(model), types)
    chosen = (
        [pair for label in found.from_attention if (pair := found.strongest_pair(label))]
        if score_runs
        else []
    )
    scores = [
        induction_score(
            model, pair.head, pair.previous_head, length=length, runs=score_runs, prefix=prefix, seed=seed,
            limits=Limits(limits.seconds, limits.progress)
        )
        for pair in chosen
    ]  # fmt: skip
    return Induction(model, found.pairs, types, tuple(scores))

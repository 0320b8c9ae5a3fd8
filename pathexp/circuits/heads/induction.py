"""Induction heads: found from the weights, confirmed on repeated random tokens, explained by their scores."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

from ...answer import Answer, Facts, Note, Part, Table, columns
from ...arguments import expect, whole
from ...expansion.header import model_facts
from ...labels import read_label
from ...model import Model
from ...model.model import check_model
from ..corpus.limits import NO_LIMITS, Limits
from ..corpus.tally import Tally
from .copying import spectrum_columns, spectrum_row
from .head_types import HeadType, HeadTypes, head_types
from .heads import loss_parts
from .induction_pairs import SHARE, InductionPair, induction_pairs
from .induction_score import InductionScore, Makers, induction_scores
from .induction_verdict import UNDECIDED, YES, HeadVerdict, copies, head_verdict, model_verdict
from .pointer_pairs import PointerPair, pointer_pairs
from .removal import Removal, removals
from .repeated_tokens import DUPLICATE, INDUCTION, Length, RepeatedTokens, predicts_next


@dataclass(frozen=True, eq=False, repr=False)
class Induction(Answer):
    """The induction heads of a model: by its weights, by its attention, and why they attend where they do.

    `pairs` are all heads with all earlier ones (K-composition), `pointers` the same by Q-composition, `types` the
    attention types on repeated random tokens, `scores` the expanded scores of the heads that are induction heads by
    attention, `removals` what removing those of them costs that do not copy straight to the logits.
    """

    live: ClassVar[frozenset[str]] = frozenset({"model", "pairs", "pairs_by_head"})

    model: Model
    pairs: tuple[InductionPair, ...]
    pointers: tuple[PointerPair, ...]
    types: HeadTypes
    scores: tuple[InductionScore, ...] = ()
    removals: tuple[Removal, ...] = ()

    @property
    def tally(self) -> Tally:
        """The sums over texts, to save and to resume from."""
        return self.types.tally

    @cached_property
    def from_weights(self) -> tuple[str, ...]:
        """The heads that some earlier head makes an induction head by the weights, through keys or through queries."""
        found = {pair.head for pair in self.pairs if pair.is_induction}
        found |= {pair.head for pair in self.pointers if pair.is_induction}
        return tuple(head.label for head in self.types.heads if head.label in found)

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
        return strongest(self.pairs_by_head.get(head, ()))

    @cached_property
    def pairs_by_head(self) -> Mapping[str, Sequence[InductionPair]]:
        """The pairs of every later head, in their order: there are as many as heads squared."""
        found: dict[str, list[InductionPair]] = {}
        for pair in self.pairs:
            found.setdefault(pair.head, []).append(pair)
        return found

    @property
    def verdicts(self) -> tuple[HeadVerdict, ...]:
        """Whether each head is an induction head, and why."""
        by_weights = set(self.from_weights)
        removed = {each.head: each for each in self.removals}
        return tuple(
            head_verdict(head, self.types, head.label in by_weights, removed.get(head.label))
            for head in self.types.heads
        )

    @property
    def verdict(self) -> str:
        """Whether the model has induction heads: "induction", "none" or "undecided"."""
        return self._verdict()[0]

    def _verdict(self) -> tuple[str, str]:
        return model_verdict(self.verdicts, self.types.losses, self.from_weights)

    def headline(self) -> str:
        """Return the induction heads, or that there are none, or that it is undecided."""
        heads = [each.head for each in self.verdicts if each.verdict == YES]
        return f"induction heads: {', '.join(heads) or self.verdict}"

    def parts(self) -> Iterator[Part]:
        """Yield both lists, verdicts, the pairs of every head, the expanded scores, and the attention of all heads."""
        yield model_facts(self.model)
        yield Facts(
            {
                "verdict": self.verdict,
                "from_weights": " ".join(self.from_weights),
                "from_attention": " ".join(self.from_attention),
                "agree": self.agree,
            }
        )
        yield Note(
            f"{self._verdict()[1]}\nby attention: {_names(self.from_attention)}\nby the weights: {_names(self.from_weights)}{_AGREE[self.agree]}"
        )
        yield from loss_parts(self.types)
        yield self._pairs()
        yield from self._left_out()
        yield from self._why()
        if pointing := [pair for pair in self.pointers if pair.is_induction]:
            yield _pointers_table(pointing)
        if self.scores:
            yield scores_table(self.scores)
        yield self.types.figure()

    def _strongest(self) -> list[InductionPair]:
        """The strongest pair of every head that has an earlier one."""
        return [pair for head in self.types.heads if (pair := self.strongest_pair(head.label))]

    def _left_out(self) -> Iterator[Part]:
        """How many rows have no share of tokens that match themselves best, and why, if any has none."""
        found = self._strongest()
        if left := sum(pair.shown_on_diagonal is None for pair in found):
            yield Note(
                f"top-1 self-match: not computed for {left} of {len(found)} heads ({self.model.config.d_vocab:,} tokens), "
                "which are no induction heads by these weights\nwhatever it is: attention, matching or copying is below "
                f"{SHARE}"
            )

    def _why(self) -> Iterator[Part]:
        """Why each head that is one, or may be one, is."""
        rows = [each for each in self.verdicts if each.verdict in (YES, UNDECIDED)]
        if rows:
            head = (columns.text("head"), columns.text("verdict"), columns.hidden("because"))
            found = [(each.head, each.verdict, each.because) for each in rows]
            yield Table(head, found, "verdicts", "verdicts", key=("head",), value="verdict", shown=24)
            yield Note("\n".join(f"{each.head}: {each.because}" for each in rows), "because")

    def _pairs(self) -> Table:
        """The same, heads that are induction heads first."""
        found = self._strongest()
        found.sort(key=lambda pair: (not pair.is_induction, -self.types[pair.head].attention[INDUCTION]))
        head = (
            columns.text("head"), columns.flag("induction"),
            columns.number("attention", "prefix-matching score", digits=3, signed=False),
            columns.text("previous_head", "previous-token head"),
            columns.number("previous", "previous-token attention", digits=3, signed=False),
            columns.number("previous_at_keys", "at the keys read", digits=3, signed=False),
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
            pair.previous, self.types[pair.previous_head].previous_at_keys, *spectrum_row(pair.matching), pair.shown_on_diagonal, *spectrum_row(pair.copying),
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


def _pointers_table(pairs: Sequence[PointerPair]) -> Table:
    head = (
        columns.text("head"), columns.text("query_head", "earlier copy found by"),
        columns.number("matching", "matches itself", digits=3, signed=False),
        columns.number("pointing", "asks for the next place", digits=3, signed=False),
        columns.number("copying", "OV copying score", digits=3),
    )  # fmt: skip
    rows = [(pair.head, pair.query_head, pair.matching, pair.pointing, pair.copying) for pair in pairs]
    title = "by the weights, through queries: an earlier head writes where the token stood"
    return Table(head, rows, "pointers", title, key=("head", "query_head"), value="pointing", shown=16)


def scores_table(scores: Sequence[InductionScore]) -> Table:
    """Return expanded scores as one row a head: advantage, parts by who made keys and queries, and by kind of term."""
    kinds = list(scores[0].by_kind)
    head = (
        columns.text("head"), columns.number("advantage", digits=2),
        columns.text("previous_head", "keys made by"), columns.number("through", "through them", digits=2),
        columns.share("share"),
        columns.text("query_head", "queries made by"), columns.number("through_queries", "through them", digits=2),
        columns.share("query_share", "share"), columns.number("through_both", "both", digits=2),
        *(columns.number(_column(kind), kind, digits=2) for kind in kinds), columns.hidden("queries"),
    )  # fmt: skip
    rows = [
        (
            s.head, s.advantage, s.previous_head, s.through, s.share, s.query_head, s.through_queries, s.query_share,
            s.through_both, *s.by_kind.values(), s.queries,
        )
        for s in scores
    ]  # fmt: skip
    title = "score of the induction position above the mean of the other keys, by pairs of paths"
    return Table(head, rows, "scores", title, key=("head",), value="share", shown=16)


def _column(kind: str) -> str:
    return kind.lower().replace("-", "_").replace(" ", "_")


def induction(
    model: Model,
    *,
    length: Length = None,
    runs: int = 8,
    prefix: Sequence[int] = (),
    seed: int = 0,
    score_runs: int = 2,
    limits: Limits = NO_LIMITS,
) -> Induction:
    """Return a model's induction heads, from its weights and from repeated random tokens, and explain their scores.

    Arguments as in `heads`; `score_runs` texts are used to expand the scores of each head that attends to the
    induction position (0: none): the part through keys of the earlier head that attends one back most where keys are
    read, and through queries of the one that attends to the earlier copy most. On as many, heads that do not copy straight
    to the logits are removed, to see whether they do so through later layers. An empty list means that no head passes
    the thresholds, `induction_pairs.SHARE` and `head_types.THRESHOLD`; "undecided" that the evidence does not
    agree, or that the loss falls without a head. Elhage et al. 2021, "Checking the Mechanistic Theory"; Olsson et al.
    2022, "Key Concepts". Raises PathexpError for post-norm models.

    >>> import pathexp as px
    >>> found = induction(px.load("attn-2l"), score_runs=0)
    >>> found.from_weights
    ('L1H0', 'L1H2', 'L1H3', 'L1H5', 'L1H7')
    >>> found.agree, found.verdict
    (True, 'induction')
    """
    check_model(model, "induction")
    expect("induction", score_runs=(score_runs, whole(0)))
    types = head_types(model, length=length, runs=runs, prefix=prefix, seed=seed, limits=limits)
    found = Induction(model, induction_pairs(model), pointer_pairs(model), types)
    texts = RepeatedTokens(model, length, prefix, seed)
    chosen = [label for label in found.from_attention if read_label(label).layer] if score_runs else []
    makers = [Makers(label, _makes(types, label, _keys), _makes(types, label, _queries)) for label in chosen]
    scores = induction_scores(texts, makers, score_runs, limits=Limits(limits.seconds, limits.progress))
    indirect = [label for label in found.from_attention if not copies(types[label], types)]
    removed = removals(texts, indirect if predicts_next(model) else (), score_runs)
    return Induction(model, found.pairs, found.pointers, types, scores, removed)


def _makes(types: HeadTypes, label: str, by: Callable[[HeadType], float]) -> str:
    """The earlier head that makes keys, or queries, by a measure."""
    layers = [read_label(head.label).layer or 0 for head in types.heads]
    here = read_label(label).layer or 0
    earlier = (head for head, layer in zip(types.heads, layers, strict=True) if layer < here)
    return max(earlier, key=by).label


def _keys(head: HeadType) -> float:
    return head.previous_at_keys


def _queries(head: HeadType) -> float:
    return head.attention[DUPLICATE]

"""Every head of a model: what it attends to on repeated tokens and on given cases, and whether it copies."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

from ...answer import Answer, Facts, Note, Part, Table, columns
from ...expansion.header import counted, model_facts
from ...graph.from_weights import has_token_space
from ...model import Model
from ...model.model import check_model
from ..cases.checked_cases import Cases
from ..corpus.corpus import Source
from ..corpus.limits import NO_LIMITS, Limits
from ..corpus.tally import Tally
from .copying import HeadCopying, copying, copying_notes, spectra_figure, spectrum_columns, spectrum_row
from .diagonal import DiagonalShare, diagonal_shares
from .head_types import EVERY_TYPE, HeadType, HeadTypes, head_types
from .repeated_tokens import TYPES, Length
from .role_attention import RoleAttention, role_attention


@dataclass(frozen=True, eq=False, repr=False)
class Heads(Answer):
    """Attention types and copying scores of all heads; no copying scores for post-norm models.

    >>> import pathexp as px
    >>> found = px.heads(px.induction_model())
    >>> found.of_type("induction"), found["L1H0"].type, found.records()[0]["head"]
    (('L1H0',), 'induction', 'L0H0')
    """

    live: ClassVar[frozenset[str]] = frozenset({"model"})

    model: Model
    types: HeadTypes
    copying: tuple[HeadCopying, ...]
    diagonal: DiagonalShare | None = None
    roles: RoleAttention | None = None

    @property
    def tally(self) -> Tally:
        """The sums over texts, to save and to resume from."""
        return self.types.tally

    def of_type(self, type: str) -> tuple[str, ...]:
        """Return the labels of the heads of a type. Raises PathexpError for an unknown one."""
        return self.types.of_type(type)

    def __getitem__(self, label: str) -> HeadType:
        """Return the attention of one head. Raises PathexpError if there is none."""
        return self.types[label]

    def headline(self) -> str:
        """Return on which texts the heads were seen."""
        texts = counted(self.types.runs, "text")
        return (
            f"mean attention from the second copy of {_lengths(self.types)} repeated tokens ({texts}"
            f"{' of each length' if len(self.types.lengths) > 1 else ''}), and copying scores"
        )

    def parts(self) -> Iterator[Part]:
        """Yield the losses, one row a head, heads of a type first, the heads of each type, and pictures."""
        yield model_facts(self.model)
        yield from loss_parts(self.types)
        yield self._table()
        names = [(name, self.of_type(name)) for name in EVERY_TYPE[:-1]]
        yield Note(
            "\n".join(f"{name}: {', '.join(found)}" for name, found in names if found) or "none",
            "heads by type",
        )
        yield from _remarks(self.types)
        if self.roles is not None:
            yield from self.roles.parts()
        if self.diagonal is not None:
            yield self.diagonal.note()
        yield from copying_notes(self.copying)
        if self.copying:
            yield spectra_figure(self.copying)
        yield self.types.figure()

    def _table(self) -> Table:
        spectra = (*spectrum_columns("ov", "OV copying"), *spectrum_columns("qk", "QK matching"))
        head = (
            columns.text("head"), columns.text("type"),
            *(columns.number(name.replace(" ", "_"), name.split()[0], digits=3, signed=False) for name in TYPES),
            columns.number("copied", digits=2, signed=False), columns.hidden("remark"), columns.hidden("previous_at_keys"),
        )  # fmt: skip
        on_diagonal = columns.number("ov_diagonal", "diagonal", digits=2, signed=False)
        extra = (on_diagonal, *spectra) if self.copying else ()
        rows = [(*_row(each), *self._circuits(each.label)) for each in self.types.ranked()]
        return Table((*head, *extra), rows, "heads", key=("head",), value="induction", shown=24)

    def _circuits(self, label: str) -> tuple[float | str | None, ...]:
        for each in self.copying:
            if each.label == label:
                share = None if self.diagonal is None else self.diagonal.shares[label]
                return share, *spectrum_row(each.ov), *spectrum_row(each.qk)
        return ()


def _row(each: HeadType) -> tuple[float | str | None, ...]:
    attention = (each.attention[name] for name in TYPES)
    return each.label, each.type, *attention, each.copied, each.remark, each.previous_at_keys


def _lengths(types: HeadTypes) -> str:
    return " and ".join(map(str, types.lengths))


def _remarks(types: HeadTypes) -> Iterator[Note]:
    """Yield what columns are, and the heads whose type needs more words."""
    least = (
        "the least over the lengths"
        if len(types.lengths) > 1
        else "at one length, so a fixed offset may look like induction"
    )
    yield Note(
        f"attention: {least}; copied: the share of queries at which the head raises the next token most of the "
        f"copy's, {1 / types.length:.2f} by chance"
    )  # fmt: skip
    if remarks := [f"  {each.label}: {each.remark}" for each in types.ranked() if each.remark]:
        yield Note("\n".join(remarks), "by position, and at one length only")


def loss_parts(types: HeadTypes) -> Iterator[Part]:
    """Yield the losses of both copies at every length, for people and for machines, or why there are none."""
    yield Facts(
        {
            "length": types.length,
            "lengths": " ".join(map(str, types.lengths)),
            "runs": types.runs,
            "first_loss": types.first_loss,
            "second_loss": types.second_loss,
            **{f"loss_fall_{each.length}": each.fall for each in types.losses},
            **{f"loss_fall_error_{each.length}": each.standard_error for each in types.losses},
        }
    )
    lines = [each.said() for each in types.losses]
    yield Note("\n".join(lines) or "no losses: this model predicts no next token from those before it")


def heads(
    model: Model,
    *,
    corpus: Source | None = None,
    length: Length = None,
    runs: int = 8,
    prefix: Sequence[int] = (),
    seed: int = 0,
    cases: Cases | None = None,
    limits: Limits = NO_LIMITS,
) -> Heads:
    """Return for every head its attention type on repeated tokens and whether it copies; with cases, by their roles too.

    Parameters
    ----------
    corpus: a text file or texts whose windows are repeated; random tokens by default.
    length: tokens per copy, or several; by default 50 and 33, or as many as fit. runs: how many texts of each length.
    prefix: token ids that go before, such as a begin token. seed: of the random tokens.
    cases: prompts with roles (`px.Case`, or a file of them): the attention from the position of the answer to each role.
    limits: when to stop, whether to report progress, and sums to resume from.

    Raises PathexpError if fewer than 3 tokens per copy fit. Olsson et al. 2022, "In-context Learning and Induction
    Heads", "Key Concepts"; Elhage et al. 2021, "Detecting Copying Behavior". Cost: `runs` forward passes a length, one
    a case, O(d_vocab d_model²), and for the diagonals O(d_vocab² d_head) a head, sampled for large vocabularies.
    """
    check_model(model, "heads")
    roles = None if cases is None else role_attention(model, cases)
    found = head_types(
        model, corpus=corpus, length=length, runs=runs, prefix=prefix, seed=seed, limits=limits
    )  # fmt: skip
    if not (model.config.predicts_tokens and has_token_space(model.config)):
        return Heads(model, found, (), roles=roles)
    return Heads(model, found, copying(model).heads, diagonal_shares(model), roles)

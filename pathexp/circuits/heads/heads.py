"""Every head of a model: what it attends to on repeated tokens, and whether it copies."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

from ...answer import Answer, Facts, Note, Part, Table, columns
from ...expansion.header import counted, model_facts
from ...graph.from_weights import has_token_space
from ...model import Model
from ...model.model import check_model
from ..corpus.corpus import Source
from ..corpus.limits import NO_LIMITS, Limits
from ..corpus.tally import Tally
from .copying import HeadCopying, copying, copying_notes, spectra_figure, spectrum_columns, spectrum_row
from .head_types import HeadType, HeadTypes, head_types
from .repeated_tokens import TYPES


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
            f"mean attention from the second copy of {self.types.length} repeated tokens ({texts}), "
            "and copying scores"
        )

    def parts(self) -> Iterator[Part]:
        """Yield the losses, one row a head, heads of a type first, the heads of each type, and pictures."""
        yield model_facts(self.model)
        yield from loss_parts(self.types)
        yield self._table()
        names = [(name, self.of_type(name)) for name in TYPES]
        yield Note(
            "\n".join(f"{name}: {', '.join(found)}" for name, found in names if found) or "none",
            "heads by type",
        )
        yield from copying_notes(self.copying)
        if self.copying:
            yield spectra_figure(self.copying)
        yield self.types.figure()

    def _table(self) -> Table:
        spectra = (*spectrum_columns("ov", "OV copying"), *spectrum_columns("qk", "QK matching"))
        head = (
            columns.text("head"), columns.text("type"),
            *(columns.number(name.replace(" ", "_"), name.split()[0], digits=3, signed=False) for name in TYPES),
        )  # fmt: skip
        copies = {each.label: each for each in self.copying}
        rows = [
            (
                each.label,
                each.type,
                *(each.attention[name] for name in TYPES),
                *_spectra(copies.get(each.label)),
            )
            for each in self.types.ranked()
        ]
        if not copies:
            rows = [row[: len(head)] for row in rows]
        return Table(
            (*head, *(spectra if copies else ())), rows, "heads", key=("head",), value="induction", shown=24
        )


def _spectra(found: HeadCopying | None) -> tuple[float | str | None, ...]:
    return () if found is None else (*spectrum_row(found.ov), *spectrum_row(found.qk))


def loss_parts(types: HeadTypes) -> Iterator[Part]:
    """Yield the losses of both copies, for people and for machines."""
    yield Facts(
        {
            "length": types.length,
            "runs": types.runs,
            "first_loss": types.first_loss,
            "second_loss": types.second_loss,
        }
    )
    yield Note(
        f"loss {types.first_loss:.3f} nats per token in the first copy of {types.length} tokens, "
        f"{types.second_loss:.3f} in the second"
    )


def heads(
    model: Model,
    *,
    corpus: Source | None = None,
    length: int | None = None,
    runs: int = 8,
    prefix: Sequence[int] = (),
    seed: int = 0,
    limits: Limits = NO_LIMITS,
) -> Heads:
    """Return for every head its attention type on repeated tokens and whether it copies.

    Parameters
    ----------
    corpus: a text file or texts whose windows are repeated; random tokens by default.
    length: tokens per copy, by default 50 or as many as fit. runs: how many texts.
    prefix: token ids that go before, such as a begin token. seed: of the random tokens.
    limits: when to stop, whether to report progress, and sums to resume from.

    Raises PathexpError if fewer than 3 tokens per copy fit. Olsson et al. 2022, "In-context Learning and Induction
    Heads"; Elhage et al. 2021, "Detecting Copying Behavior". Cost: `runs` forward passes, O(d_vocab d_model²).
    """
    check_model(model, "heads")
    found = head_types(
        model, corpus=corpus, length=length, runs=runs, prefix=prefix, seed=seed, limits=limits
    )  # fmt: skip
    return Heads(model, found, copying(model).heads if has_token_space(model.config) else ())

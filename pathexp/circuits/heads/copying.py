"""Does a head copy? The eigenvalues of its token tables, and the sign of their sum.

Elhage et al. 2021, "Detecting Copying Behavior": a head that raises the logits of the tokens it attends to has an OV
circuit W_U W_OV W_E with positive eigenvalues. They are strong evidence and no proof: a matrix with positive
eigenvalues alone can lower some tokens' own logits. "Checking the Mechanistic Theory": a head whose queries match its
own token has a QK circuit with positive eigenvalues.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, overload

import numpy as np

from ...algebra.operations import wide
from ...answer import Answer, Column, Figure, Note, Part, Table, columns
from ...arguments import expect, instance
from ...errors import PathexpError
from ...expansion.header import model_facts
from ...graph.rescaled import rescaled, scales
from ...model import Model
from ...model.model import check_model
from ...workers import in_turn, own_workers
from .diagonal import share_on_diagonal
from .head import Head, every_head
from .spectrum import Spectrum, turned_spectrum
from .token_grams import token_grams


def ov_spectrum(head: Head) -> Spectrum:
    """Return the spectrum of a head's full OV circuit, W_U W_OV W_E. O(d_model² d_head) after the model's first.

    Elhage et al. 2021, "Detecting Copying Behavior": eigenvalues, in nats per unit of attention, whose
    real parts are positive copy. Raises PathexpError for a model that has no token tables (post-norm).

    >>> import pathexp as px
    >>> round(ov_spectrum(px.head(px.induction_model(), "L1H0")).score, 6)
    1.0
    """
    expect("ov_spectrum", head=(head, instance(Head, "a head, as px.head(model, label) gives it")))
    head, exponent = _rescaled(head, _ON_THE_WAY_OV)
    grams, read, write = token_grams(head.model), wide(head.reads("V")), wide(head.writes)
    scale = grams.in_size * grams.out_size * float(np.linalg.norm(read) * np.linalg.norm(write))
    found = turned_spectrum(read @ grams.copying @ write, scale, head.model.config.d_vocab)
    return replace(found, exponent=exponent)


_ON_THE_WAY_OV = (
    "W_E",
    "g_embed",
    "g_attn",
    "W_V",
    "W_DKV",
    "g_kv_latent",
    "W_UV",
    "W_O",
    "g_attn_post",
    "g_final",
    "W_U",
)
_ON_THE_WAY_QK = ("W_E", "g_embed", "g_attn", "W_Q", "W_K", "g_attn", "g_embed", "W_E")


def _rescaled(head: Head, names: tuple[str, ...]) -> tuple[Head, int]:
    """The head with weights of extreme size brought near one, and by which power of two their product shrank."""
    model = rescaled(head.model)
    if model is head.model:
        return head, 0
    layer, query, key = (
        (head.layer,),
        (head.layer, head.index),
        (head.layer, model.config.kv_head(head.index)),
    )
    place = {"g_attn": layer, "g_attn_post": layer, "W_Q": query, "W_O": query, "W_K": key, "W_V": key}
    place |= {"W_DKV": layer, "g_kv_latent": layer, "W_UV": query}
    found = scales(head.model)
    shrunk = sum(int(found[name][place.get(name, ())].sum()) for name in names if name in found)
    return replace(head, model=model), shrunk


def qk_spectrum(head: Head, distance: int | None = None) -> Spectrum:
    """Return the spectrum of a head's full QK circuit, W_Eᵀ W_QK W_E, under rotary at a distance. Cost as above.

    Elhage et al. 2021, "Checking the Mechanistic Theory": the same measure of matching, an entry times the scale is a
    score. Raises FreezeError under rotary positions without a distance.
    """
    expect("qk_spectrum", head=(head, instance(Head, "a head, as px.head(model, label) gives it")))
    if distance is None:
        _ = head.QK  # which refuses rotary positions
    head, exponent = _rescaled(head, _ON_THE_WAY_QK)
    grams, query, key = token_grams(head.model), wide(head.reads("Q")), wide(head.reads("K"))
    turn = None if distance is None else head.form.rotation(distance)
    key = key if turn is None else turn.numbers().dense() @ key
    scale = grams.in_size**2 * float(np.linalg.norm(query) * np.linalg.norm(key))
    found = turned_spectrum(key @ grams.matching @ query.T, scale, head.model.config.d_vocab)
    return replace(found, exponent=exponent)


@dataclass(frozen=True)
class HeadCopying:
    """The spectra of a head's two circuits; QK is None under rotary positions, where there is one per distance."""

    label: str
    ov: Spectrum
    qk: Spectrum | None


@dataclass(frozen=True, eq=False, repr=False)
class Copying(Answer):
    """The spectra of every head of a model, as a sequence.

    >>> import pathexp as px
    >>> found = copying(px.induction_model())
    >>> len(found), found[1].label, found.on_diagonal("L1H0")
    (2, 'L1H0', 1.0)
    """

    live: ClassVar[frozenset[str]] = frozenset({"model"})

    model: Model
    heads: tuple[HeadCopying, ...]

    def __len__(self) -> int:
        return len(self.heads)

    @overload
    def __getitem__(self, index: int) -> HeadCopying: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[HeadCopying, ...]: ...
    def __getitem__(self, index: int | slice) -> HeadCopying | tuple[HeadCopying, ...]:
        return self.heads[index]

    def __iter__(self) -> Iterator[HeadCopying]:
        return iter(self.heads)

    def on_diagonal(self, label: str) -> float:
        """Return for which share of tokens attending to a token raises that token's own logit most; a tie does not count.

        The maximum of a column of W_U W_OV W_E, (output, source); `heads` shows the same share as "diagonal".
        Raises PathexpError if there is no such head. O(d_vocab² d_head): minutes for a large vocabulary.
        """
        for head in every_head(self.model):
            if head.label == label:
                return share_on_diagonal(head)
        raise PathexpError(f"no head {label!r} among the {len(self.heads)} heads of {self.model!r}")

    def headline(self) -> str:
        """Return what the scores are."""
        return (
            "copying scores Σλ/Σ|λ|: +1 raises the tokens attended to (OV) or matches a token with itself (QK), "
            "-1 lowers or avoids them"
        )

    def parts(self) -> Iterator[Part]:
        """Yield one row a head, the largest OV score first, and the eigenvalues of the OV and QK tables."""
        yield model_facts(self.model)
        ranked = sorted(self.heads, key=lambda each: -2.0 if each.ov.score is None else -each.ov.score)
        head = (
            columns.text("head"),
            *spectrum_columns("ov", "OV copying score"),
            *spectrum_columns("qk", "QK matching score"),
        )
        rows = [(each.label, *spectrum_row(each.ov), *spectrum_row(each.qk)) for each in ranked]
        yield Table(head, rows, "heads", key=("head",), value="ov", shown=24)
        yield from copying_notes(self.heads)
        yield spectra_figure(self.heads)


def spectrum_columns(name: str, title: str) -> tuple[Column, ...]:
    """Return the columns of a spectrum in a table of heads; all but the score are for machines."""
    hidden = (columns.hidden(f"{name}_{what}") for what in ("positive", "reason", "size"))
    return columns.number(name, title, digits=3), *hidden


def spectrum_row(found: Spectrum | None) -> tuple[float | str | None, ...]:
    """Return the values under `spectrum_columns`."""
    return (None,) * 4 if found is None else (found.score, found.positive, found.reason, found.size)


def copying_notes(heads: Sequence[HeadCopying]) -> Iterator[Note]:
    """Yield why some scores are undefined, if any are."""
    if any(each.qk is None for each in heads):
        yield Note(
            "Under rotary positions there is one QK spectrum per distance, qk_spectrum(head, distance); of latent attention "
            "there is none."
        )
    if reasons := {s.reason for each in heads for s in (each.ov, each.qk) if s is not None and s.reason}:
        yield Note(f"Undefined scores: {', '.join(sorted(reasons))}.")


def spectra_figure(heads: Sequence[HeadCopying]) -> Figure:
    """Return the eigenvalues of every head's OV table."""
    series = {each.label: each.ov.eigenvalues for each in heads}
    return Figure("spectra", "ov_spectra", {"series": series}, "eigenvalues of W_U W_OV W_E")


def copying(model: Model) -> Copying:
    """Return the spectra of every head of a model.

    Elhage et al. 2021, "Detecting Copying Behavior". Raises PathexpError for post-norm models.
    O(d_vocab d_model²) once, O(d_model² d_head) a head.

    >>> import pathexp as px
    >>> [(each.label, each.ov.score) for each in copying(px.induction_model())]
    [('L0H0', None), ('L1H0', 1.0)]
    """
    check_model(model, "copying")
    with own_workers():  # spectra of d_head numbers
        return Copying(model, tuple(found for _, found in in_turn(_copying, every_head(model))))


def has_qk(head: Head) -> bool:
    """Return whether a head has one QK circuit of weights alone: not under rotary positions, nor of a latent."""
    return not head.form.by_distance and head.model.config.latent is None


def _copying(each: Head) -> HeadCopying:
    return HeadCopying(each.label, ov_spectrum(each), qk_spectrum(each) if has_qk(each) else None)

"""Two layers: heads that read what heads wrote act as heads of their own, with a pattern and an OV circuit.

A virtual head B ∘ A has the pattern A_B A_A and the circuit W_OV_B W_OV_A (V-composition). There are many, and in
small models they do little: how little is measured as loss. Elhage et al. 2021, "Virtual Attention Heads".
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, pairwise
from math import prod
from typing import ClassVar

import numpy as np

from ...algebra import LinearMap, compose
from ...answer import Answer, Facts, Figure, Part, Table, columns
from ...arguments import expect, index_of, one_of, whole
from ...errors import SizeError
from ...expansion import Term, expand
from ...expansion.header import counted, model_facts
from ...graph import Array
from ...graph.from_weights import embedding, has_token_space, reading, unembedding, writing
from ...graph.ports import Ports
from ...graph.rescaled import rescaled
from ...model import Model, Trace
from ...model.model import check_model
from ...model.trace import check_trace
from ..composition.gram import meet
from ..composition.head_sides import HeadSides
from ..corpus.corpus import Corpus, Source
from ..corpus.limits import NO_LIMITS, Limits
from ..corpus.tally import Tally
from ..corpus.zero_points import ZEROS
from ..heads.head import Head, every_head
from ..heads.spectrum import Spectrum, spectrum
from .virtual_share import VirtualShare, share_parts, virtual_share


@dataclass(frozen=True, eq=False)
class VirtualHead:
    """Heads of different layers in a row, the earliest first, as one head.

    >>> import pathexp as px
    >>> virtual = px.virtual_heads(px.random_model(layers=2, heads=2))[0]
    >>> virtual.label, virtual.OV
    ('L0H0 L1H0', W_O_L1H0 · W_V_L1H0 · W_O_L0H0 · W_V_L0H0 : model(24) -> model(24), rank <= 5)
    """

    heads: tuple[Head, ...]

    @property
    def label(self) -> str:
        """Such as "L0H1 L1H3", in the order of a path."""
        return " ".join(head.label for head in self.heads)

    @property
    def OV(self) -> LinearMap:
        """The product of the heads' W_OV on the stream, gains of the norms between included, scales not."""
        model = self.heads[0].model
        words: list[LinearMap] = [self.heads[0].OV]
        for before, after in pairwise(self.heads):
            words = [after.OV, *reading(model, after.layer), *writing(model, before.layer), *words]
        return compose(*words)

    @property
    def ov_table(self) -> LinearMap:
        """What attending to a token through all of them adds to each logit, (output token, source token)."""
        first, last = self.heads[0], self.heads[-1]
        out, read = (
            (unembedding(first.model), *writing(first.model, last.layer)),
            reading(first.model, first.layer),
        )
        return compose(*out, self.OV, *read, embedding(first.model))

    @property
    def composition(self) -> float | None:
        """The V-composition score ‖product‖ / product of the heads' ‖W_OV‖, as `path_composition`, in [0, 1].

        Gains and centerings are folded into the heads that read or write through them, so that the sizes of weights
        and gains make no difference. None for a head of zeros.
        """
        parts = list(self._parts())
        sizes = prod(part.norm() for part in parts)
        return compose(*reversed(parts)).norm() / sizes if sizes else None

    def _parts(self) -> Iterator[LinearMap]:
        """The heads' W_OV with the gains around them, the earliest first; extreme sizes brought near one."""
        model = rescaled(self.heads[0].model)
        for head in self.heads:
            read, write = reading(model, head.layer), writing(model, head.layer)
            yield compose(*write, replace(head, model=model).OV, *read)

    @property
    def copying(self) -> Spectrum:
        """The spectrum of the token table."""
        return spectrum(self.ov_table)

    def term(self, trace: Trace) -> Term:
        """Its path from the tokens to the logits in a run: pattern, weight, logits."""
        check_trace(trace, "term")
        return expand(trace)[f"E {self.label} U"]

    def pattern(self, trace: Trace) -> Array:
        """Where it attends in a run, (query, key): the product of the heads' patterns; rows sum to 1."""
        check_trace(trace, "pattern")
        product = np.eye(len(trace))
        for head in self.heads:
            product = trace.patterns[head.layer, head.index] @ product
        return product


@dataclass(frozen=True, eq=False, repr=False)
class VirtualHeads(Answer):
    """The virtual heads of a model, a sequence in the order of its layers; `strongest` (rows) are those listed.

    `compositions` (heads): their V-composition scores, NaN for a head of zeros. `share`: how much they reduce the loss,
    if a corpus was given.
    """

    live: ClassVar[frozenset[str]] = frozenset({"model", "heads"})

    model: Model
    heads: tuple[VirtualHead, ...]
    compositions: Array
    strongest: Table
    share: VirtualShare | None

    @property
    def tally(self) -> Tally | None:
        """The running sums behind the share; None without a corpus."""
        return None if self.share is None else self.share.tally

    def __len__(self) -> int:
        return len(self.heads)

    def __iter__(self) -> Iterator[VirtualHead]:
        return iter(self.heads)

    def __getitem__(self, index: int) -> VirtualHead:
        """Return one virtual head. Raises PathexpError if there is none of that number."""
        expect("__getitem__", index=(index, index_of(self.heads)))
        return self.heads[index]

    def headline(self) -> str:
        """Return how many there are."""
        return f"{counted(len(self), 'virtual head')} of {self.model.name or 'model'}"

    def parts(self) -> Iterator[Part]:
        """Yield the strongest, the losses, and a heat map of V-composition."""
        yield model_facts(self.model)
        yield Facts({"virtual_heads": len(self), "listed": len(self.strongest.rows)})
        yield self.strongest
        if self.share is not None:
            yield from share_parts(self.share)
        yield self._heat_map()

    def _heat_map(self) -> Figure:
        names = [
            (each.heads[0].label, " ".join(later.label for later in each.heads[1:])) for each in self.heads
        ]
        rows, outputs = (
            (list(dict.fromkeys(side)) for side in zip(*names, strict=True)) if names else ([], [])
        )
        values = np.full((len(rows), len(outputs)), np.nan)
        for (first, later), score in zip(names, self.compositions, strict=True):
            values[rows.index(first), outputs.index(later)] = score
        return Figure(
            "heatmap", "composition", {"rows": rows, "columns": outputs, "values": values}, "V-composition"
        )


def virtual_heads(
    model: Model,
    corpus: Corpus | Source | None = None,
    *,
    order: int = 2,
    k: int = 12,
    zero: str = "mean",
    limits: Limits = NO_LIMITS,
) -> VirtualHeads:
    """Return the virtual heads of `order` heads in a row, and with a corpus how much all of them reduce the loss.

    Two layers of H heads have H² of order 2. For the loss, paths through two or more heads are left out of the logits,
    all patterns and norm scales as they were in the whole run: ablated is V-composition alone, while Q- and
    K-composition stay in the patterns. Elhage et al. 2021, "Virtual Attention Heads", "Term Importance Analysis".

    Parameters
    ----------
    corpus: a file, texts, or a `Corpus`, which also says the windows.
    order: how many heads a virtual head is made of.
    k: how many to list with norms and copying scores, those of largest V-composition.
    zero: what stands in place of the paths: "mean", their mean over all positions of all windows, so that what is constant
        is not counted as theirs (one more pass); "resample", what they were in the next window; or "zero".
    limits: when to stop, and the sums to go on from.

    Raises PathexpError for an order below 2, and with a corpus for a model with MLPs, or without one whole window.

    >>> import pathexp as px
    >>> corpus = px.Corpus(["To be, or not to be, that is the question"], length=6)
    >>> found = px.virtual_heads(px.load("attn-2l"), corpus, k=1)
    >>> len(found), found.tally.windows, found.share.tokens, found.share.counts
    (64, 2, 10, (1, 16, 64))
    """
    check_model(model, "virtual_heads")
    expect("virtual_heads", order=(order, whole(2)), k=(k, whole(0)), zero=(zero, one_of(*ZEROS)))
    share = None if corpus is None else virtual_share(model, Corpus.of(corpus, model), zero, limits)
    every = tuple(_in_rows(model, order))
    scores = _scores(model, every, order)
    best = np.argsort(-np.nan_to_num(scores), kind="stable")[:k]
    return VirtualHeads(model, every, scores, _listed([(every[i], float(scores[i])) for i in best]), share)


def _scores(model: Model, every: Sequence[VirtualHead], order: int) -> Array:
    """The V-composition of every virtual head, NaN for one of zeros: those of two heads all at once."""
    if order == 2 and every and has_token_space(model.config):
        sides = HeadSides(Ports(rescaled(model)))
        layers = np.array([head.layer for head in every_head(model)])
        found = meet([sides.reader("V")], [sides.writer()], layers[:, None] > layers[None, :]).score
        place = {label: at for at, label in enumerate(sides.names)}
        return np.array(
            [found[place[late.label], place[early.label]] for early, late in (v.heads for v in every)]
        )
    return np.array([np.nan if each.composition is None else each.composition for each in every], dtype=float)


def _in_rows(model: Model, order: int) -> Iterator[VirtualHead]:
    """Heads of ascending layers in a row."""
    if order <= model.config.n_layers:
        for row in combinations(every_head(model), order):
            if all(before.layer < after.layer for before, after in pairwise(row)):
                yield VirtualHead(row)


def _listed(chosen: list[tuple[VirtualHead, float]]) -> Table:
    return Table(
        (
            columns.path("virtual_head"), columns.number("composition", "V-composition", signed=False),
            columns.count("rank_bound", "rank at most"), columns.number("norm", "norm of OV", signed=False),
            columns.number("copying", "copying score", digits=3), columns.share("positive", "positive eigenvalues"),
        ),
        [(head.label, score, head.OV.rank_bound, *_sizes(head)) for head, score in chosen],
        "virtual_heads", f"the {len(chosen)} of largest V-composition", ("virtual_head",), "composition", shown=None,
    )  # fmt: skip


def _sizes(head: VirtualHead) -> tuple[float | None, float | None, float | None]:
    """The norm and the copying scores; None where there are no eigenvalues, or numbers out of floating point's range."""
    try:
        with np.errstate(over="ignore", invalid="ignore"):
            return head.OV.norm(), head.copying.score, head.copying.positive
    except SizeError:
        return None, None, None

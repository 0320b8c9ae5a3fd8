"""Two layers: heads that read what heads wrote act as heads of their own, with a pattern and an OV circuit.

A virtual head B ∘ A has the pattern A_B A_A and the circuit W_OV_B W_OV_A (V-composition). There are many, and in
small models they do little: how little is measured as loss. Elhage et al. 2021, "Virtual Attention Heads".
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import combinations, pairwise
from math import prod

import numpy as np

from ..algebra import LinearMap, compose
from ..arguments import expect, whole
from ..errors import PathexpError
from ..expansion import Term, expand
from ..graph import Array
from ..model import Model, Trace
from ..model.model import check_model
from ..model.softmax import next_token_loss
from ..model.trace import check_trace
from .corpus import Corpus, Tokens, windows
from .evened import evened
from .heads.copying import Spectrum, heads, spectrum
from .heads.head import Head
from .running import Tally, asked, tally
from .token_space import embedding, reading, unembedding, writing


@dataclass(frozen=True, eq=False)
class VirtualHead:
    """Heads of different layers in a row, the earliest first, as one head.

    >>> import pathexp as px
    >>> virtual = virtual_heads(px.random_model(layers=2, heads=2))[0]
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
        model = evened(self.heads[0].model)
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
        """Where it looks in a run, (query, key): the product of the heads' patterns; rows sum to 1."""
        check_trace(trace, "pattern")
        product = np.eye(len(trace))
        for head in self.heads:
            product = trace.patterns[head.layer, head.index] @ product
        return product


def virtual_heads(model: Model, order: int = 2) -> tuple[VirtualHead, ...]:
    """Return all virtual heads of `order` heads in a row; two layers of H heads have H² of order 2.

    Elhage et al. 2021, "Virtual Attention Heads". Raises PathexpError for an order below 2.
    """
    check_model(model, "virtual_heads")
    expect("virtual_heads", order=(order, whole()))
    if order < 2:
        raise PathexpError(f"a virtual head is made of 2 or more heads in a row, asked {order}")
    if order > model.config.n_layers:
        return ()
    every = list(heads(model))
    rows = combinations(every, order)
    return tuple(VirtualHead(row) for row in rows if _in_a_row(row))


def _in_a_row(row: tuple[Head, ...]) -> bool:
    return all(before.layer < after.layer for before, after in pairwise(row))


@dataclass(frozen=True)
class VirtualShare:
    """What virtual heads are worth as loss, patterns frozen; losses are means in nats a token.

    `whole` of the model; `without` of all paths but those through two heads or more; `direct` of the direct path
    (and constants) alone. `counts` are the numbers of paths by order; `tally` holds the running sums, to save and to
    go on from.
    """

    whole: float
    without: float
    direct: float
    counts: tuple[int, ...]
    tally: Tally

    @property
    def tokens(self) -> int:
        """How many tokens were predicted."""
        return self.tally.tokens - self.tally.windows

    @property
    def worth(self) -> float:
        """How much loss the virtual heads save, in nats a token."""
        return self.without - self.whole

    @property
    def share(self) -> float | None:
        """Their share of all that the heads save over the direct path; None where that is nothing."""
        saved = self.direct - self.whole
        return self.worth / saved if saved else None


def virtual_share(
    model: Model,
    corpus: Corpus,
    *,
    length: int | None = None,
    limit: int | None = None,
    start: Tally | None = None,
    seconds: float | None = None,
    progress: bool = False,
) -> VirtualShare:
    """Return what the virtual heads of an attention-only model save in loss on a corpus.

    Paths through two or more heads are left out of the logits, all patterns and norm scales as they were in the
    whole run: what goes is V-composition alone, while Q- and K-composition stay in the patterns. `corpus`, a file
    or texts, is cut into windows of `length` tokens, at most `limit`; `start`, `seconds`, `progress` as for `tally`.
    Elhage et al. 2021, "Term Importance Analysis".

    Raises PathexpError for a model with MLPs, or a corpus without one whole window.

    >>> import pathexp as px
    >>> found = virtual_share(px.load("attn-2l"), ["To be, or not to be, that is the question"], length=6)
    >>> found.tally.windows, found.tokens, found.counts
    (2, 10, (1, 16, 64))
    """
    check_model(model, "virtual_share")
    if model.config.d_mlp:
        raise PathexpError(
            "virtual heads are weighed in attention-only models; this one has MLPs between heads"
        )

    def measured(window: Tokens) -> Mapping[str, Array]:
        orders = expand(model.run(window)).by_order()
        return {"losses": np.array([next_token_loss(logits, window) for logits in _kept(orders)])}

    found = tally(
        windows(model, corpus, length),
        measured,
        asked("worth of virtual heads", model, length),
        start=start,
        limit=limit,
        seconds=seconds,
        progress=progress,
    )
    whole, without, direct = (float(loss) for loss in found.mean("losses"))
    return VirtualShare(whole, without, direct, expand(model.run([0])).count_by_order(), found)


def _kept(orders: Array) -> Iterator[Array]:
    """The logits of all paths, of those through one head at most, and of those through none."""
    yield orders.sum(axis=0)
    yield orders[:2].sum(axis=0)
    yield orders[0]

"""Importance by order: the loss of a model that keeps only its short paths, and what each order and term is worth.

Patterns (and norm scales and gates) are frozen as they were in the whole run: what is taken away is what paths *move*,
not where heads look. Elhage et al. 2021, "Term Importance Analysis".
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

import numpy as np

from ..arguments import expect, whole
from ..errors import SizeError
from ..expansion import Expansion, expand
from ..graph import Array
from ..model import Model
from ..model.model import check_model
from .corpus import Corpus, Tokens, windows
from .running import Tally, asked, tally

MAX_TERMS = 20_000
"""How many single terms are weighed before `order_importance` refuses; ask for a smaller `terms_to`."""


@dataclass(frozen=True, eq=False)
class OrderImportance:
    """Losses in nats a token, means over windows of a corpus, patterns frozen.

    `up_to` (orders): all paths up to order k kept; the last is the model's loss. `without` (orders): all but order k.
    `terms`: single paths by name, and `without_term` (terms): all but that path. `counts`: paths by order.
    `tally` holds the running sums, to save and to go on from.
    """

    up_to: Array
    without: Array
    terms: tuple[str, ...]
    without_term: Array
    counts: tuple[int, ...]
    tally: Tally

    @property
    def loss(self) -> float:
        """The model's own loss."""
        return float(self.up_to[-1])

    @property
    def marginal(self) -> Array:
        """What each order saves when all below it are kept, (orders - 1): up_to[k - 1] - up_to[k]."""
        found: Array = self.up_to[:-1] - self.up_to[1:]
        return found

    @property
    def worth(self) -> Array:
        """What each order saves when all others are kept, (orders)."""
        return self.without - self.loss

    def term_worth(self) -> list[tuple[str, float]]:
        """What each single term saves when all others are kept, the largest first."""
        worth = self.without_term - self.loss
        return [(self.terms[row], float(worth[row])) for row in np.argsort(-worth, kind="stable")]


def order_importance(
    model: Model,
    corpus: Corpus,
    *,
    length: int | None = None,
    limit: int | None = None,
    terms_to: int = 2,
    start: Tally | None = None,
    seconds: float | None = None,
    progress: bool = False,
) -> OrderImportance:
    """Weigh the orders of a model's path expansion, and every single term up to order `terms_to`, by loss in nats a token.

    Patterns are frozen. Elhage et al. 2021, "Term Importance Analysis".

    Parameters
    ----------
    corpus: a file or texts, cut into windows of `length` tokens (by default n_ctx), at most `limit` of them.
    terms_to: single terms up to this order are weighed; -1 for none.
    start, seconds, progress: as for `tally`: go on from saved sums, stop, say how far it is.

    Costs a few forward passes per window, and one sum over paths per single term. Raises PathexpError for a corpus
    without one whole window, SizeError for more than 20,000 single terms.

    >>> import pathexp as px
    >>> found = order_importance(px.load("attn-1l"), ["To be, or not to be, that is the question"], length=8)
    >>> found.counts, len(found.terms), bool(found.up_to[1] < found.up_to[0])
    ((1, 8), 9, True)
    """
    expect("order_importance", terms_to=(terms_to, whole(-1)))
    check_model(model, "order_importance")
    blank = expand(model.run([0]))
    counts = blank.count_by_order()
    names = _names(blank, counts, terms_to)
    question = asked(f"importance by order, terms of order <= {terms_to},", model, length)
    found = tally(
        windows(model, corpus, length),
        partial(_measured, model, names),
        question,
        start=start,
        limit=limit,
        seconds=seconds,
        progress=progress,
    )
    return OrderImportance(
        found.mean("up_to"), found.mean("without"), names, found.mean("terms"), counts, found
    )


def _names(terms: Expansion, counts: tuple[int, ...], order: int) -> tuple[str, ...]:
    amount = sum(counts[: order + 1])
    if amount > MAX_TERMS:
        raise SizeError(
            f"{amount:,} single terms up to order {order} are too many to weigh (limit {MAX_TERMS:,}); "
            "give a smaller terms_to, or -1 for orders alone"
        )
    walk = terms.walk
    return tuple(
        " ".join(word) for k in range(min(order + 1, len(counts))) for word in walk.words_of_order(k)
    )


def _measured(model: Model, names: tuple[str, ...], window: Tokens) -> Mapping[str, Array]:
    return _losses(expand(model.run(window)), names, window)


def _losses(terms: Expansion, names: tuple[str, ...], window: Tokens) -> Mapping[str, Array]:
    orders = terms.by_order()
    whole = orders.sum(axis=0)
    return {
        "up_to": np.array([loss_of(kept, window) for kept in np.cumsum(orders, axis=0)]),
        "without": np.array([loss_of(whole - order, window) for order in orders]),
        "terms": np.array([loss_of(whole - terms[name].logits(), window) for name in names]),
    }


def loss_of(logits: Array, tokens: Tokens) -> float:
    """The mean loss of each token given those before it, in nats.

    >>> round(loss_of(np.zeros((3, 4)), np.array([0, 1, 2])), 4) == round(float(np.log(4)), 4)
    True
    """
    shifted = logits[:-1] - logits[:-1].max(axis=-1, keepdims=True)
    picked = shifted[np.arange(len(tokens) - 1), tokens[1:]]
    return float((np.log(np.exp(shifted).sum(axis=-1)) - picked).mean())

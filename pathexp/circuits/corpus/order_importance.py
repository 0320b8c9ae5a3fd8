"""Importance by order: the loss of a model that keeps only its short paths, and what each order and term is worth.

Removed paths are set to zero, or replaced by their mean, or by what they were in another window.

Patterns (and norm scales and gates) are frozen as they were in the whole run: ablated is what paths move, not where
heads attend. Elhage et al. 2021, "Term Importance Analysis".
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import ClassVar

import numpy as np

from ...answer import Answer, Column, Facts, Figure, Part, Table, columns
from ...arguments import expect, one_of, whole
from ...errors import SizeError
from ...expansion import Expansion, expand
from ...expansion.header import counted, model_facts
from ...graph import Array
from ...model import Model
from ...model.model import check_model
from ...model.softmax import next_token_loss
from .corpus import Corpus, Source
from .limits import NO_LIMITS, Limits
from .tally import Sums, Tally, Tokens
from .zero_points import ZEROS, ZeroPoint, windows_of, zero_point

MAX_TERMS = 20_000
"""How many single terms are weighed before `order_importance` refuses; ask for a smaller `max_order`."""
UNIT = "nats per token"


@dataclass(frozen=True, eq=False, repr=False)
class OrderImportance(Answer):
    """Losses in nats per token, means over windows of a corpus, patterns frozen.

    `up_to` (orders): with all paths up to order k; the last is the model's loss. `without` (orders): with all but
    order k. `terms`: single paths by name, and `without_term` (terms): all but that path. `counts`: paths by order.
    `errors`: standard errors over windows of "marginal", "increase" and "terms"; empty for one window. `zero`: what
    stands in place of removed paths, in words. `tally` holds the running sums, to save and to go on from.
    """

    live: ClassVar[frozenset[str]] = frozenset({"model"})

    model: Model
    up_to: Array
    without: Array
    terms: tuple[str, ...]
    without_term: Array
    counts: tuple[int, ...]
    errors: Mapping[str, Array]
    zero: str
    tally: Tally

    @property
    def loss(self) -> float:
        """The model's own loss."""
        return float(self.up_to[-1])

    @property
    def marginal(self) -> Array:
        """How much each order reduces the loss when all below it are kept, (orders - 1): up_to[k - 1] - up_to[k]."""
        found: Array = self.up_to[:-1] - self.up_to[1:]
        return found

    @property
    def increase(self) -> Array:
        """How much the loss increases if an order is removed and all others are kept, (orders)."""
        return self.without - self.loss

    def term_increase(self) -> list[tuple[str, float]]:
        """Return how much the loss increases if a single term is removed, the largest first."""
        increase = self.without_term - self.loss
        return [(self.terms[row], float(increase[row])) for row in self._by_increase()]

    def _by_increase(self) -> Iterator[int]:
        return map(int, np.argsort(self.loss - self.without_term, kind="stable"))

    def headline(self) -> str:
        """Return what was measured, and on how much."""
        return (
            f"importance by order: loss {self.loss:.4f} {UNIT} over {counted(self.tally.windows, 'window')}{self.tally.drawn}, "
            f"{counted(self.tally.tokens, 'token')}; patterns frozen, removed paths {self.zero}"
        )

    def parts(self) -> Iterator[Part]:
        """Yield the orders, the single terms, and bars of both."""
        yield model_facts(self.model)
        yield Facts(
            {"loss": self.loss, "windows": self.tally.windows, "tokens": self.tally.tokens, "zero": self.zero}
        )
        none = [None] * len(self.counts)
        marginal = self.errors.get("marginal", none[1:])
        increase = self.errors.get("increase", none)
        yield Table(
            (
                columns.count("order"), columns.count("paths"),
                columns.number("loss_up_to", unit=UNIT, signed=False),
                columns.number("marginal", "marginal loss reduction", UNIT), _error("marginal_error"),
                columns.number("increase", "loss increase if removed", UNIT), _error("increase_error"),
            ),
            zip(
                range(len(self.counts)), self.counts, self.up_to, [None, *self.marginal], [None, *marginal],
                self.increase, increase, strict=True,
            ),
            name="orders", key=("order",), value="increase", shown=None,
        )  # fmt: skip
        if self.terms:
            yield Table(
                (
                    columns.path("term"), columns.number("increase", "loss increase if removed", UNIT),
                    _error("increase_error"),
                ),
                self._term_rows(), name="terms", key=("term",), value="increase",
            )  # fmt: skip
        yield self._bars()

    def _term_rows(self) -> Iterator[tuple[str, float, float | None]]:
        errors = self.errors.get("terms", [None] * len(self.terms))
        for row, (name, increase) in zip(self._by_increase(), self.term_increase(), strict=True):
            yield name, increase, errors[row]

    def _bars(self) -> Figure:
        orders = [f"order {order} ({count:,})" for order, count in enumerate(self.counts)]
        rows = [*zip(orders, self.increase, strict=True), *self.term_increase()]
        return Figure(
            "bars", "increase", {"rows": [name for name, _ in rows], "values": [[value] for _, value in rows]},
            f"loss increase if removed, of {self.loss:.4f} {UNIT}; patterns frozen", UNIT,
        )  # fmt: skip


def _error(name: str) -> Column:
    return columns.number(name, "±", UNIT, signed=False)


def order_importance(
    model: Model,
    corpus: Corpus | Source,
    *,
    max_order: int = 1,
    zero: str = "zero",
    limits: Limits = NO_LIMITS,
) -> OrderImportance:
    """Weigh the orders of a model's path expansion, and single terms up to an order, by loss in nats per token.

    Patterns are frozen. Elhage et al. 2021, "Term Importance Analysis".

    Parameters
    ----------
    corpus: a file, texts, or a `Corpus`, which also says the windows.
    max_order: single terms up to this order are weighed; -1 for none.
    zero: what stands in place of removed paths: "zero"; "mean", their mean over all positions of all windows, so that what
        is constant is not counted as theirs (one more pass); "resample", what they were in the next window.
    limits: when to stop, and the sums to go on from.

    Costs a few forward passes per window, and one sum over paths per single term. Raises PathexpError for a corpus
    without one whole window, SizeError for more than 20,000 single terms.

    >>> import pathexp as px
    >>> text = "To be, or not to be, that is the question"
    >>> found = px.order_importance(px.load("attn-1l"), px.Corpus([text], length=8))
    >>> found.counts, len(found.terms), bool(found.up_to[1] < found.up_to[0])
    ((1, 8), 9, True)
    """
    expect("order_importance", max_order=(max_order, whole(-1)), zero=(zero, one_of(*ZEROS)))
    check_model(model, "order_importance")
    terms = expand(model.run([0]))
    counts = terms.count_by_order()
    names = _names(terms, counts, max_order)
    measured = _Measured(model, names)
    chosen = Corpus.of(corpus, model)
    windows = windows_of(chosen, model) if zero != "zero" else []
    point = zero_point(zero, measured, windows)
    what = f"importance by order, terms of order <= {max_order}, removed paths {point.said()},"
    found = chosen.accumulate(
        model, lambda window: _losses(point, len(counts), window), what, limits, taken=windows
    )
    means = (found.mean(name) for name in ("up_to", "without", "terms"))
    up_to, without, without_term = means
    errors = {name: found.error(f"{name} change") for name in ("marginal", "increase", "terms")}
    kept = {name: error for name, error in errors.items() if error is not None}
    return OrderImportance(model, up_to, without, names, without_term, counts, kept, point.said(), found)


def _names(terms: Expansion, counts: tuple[int, ...], order: int) -> tuple[str, ...]:
    amount = sum(counts[: order + 1])
    if amount > MAX_TERMS:
        raise SizeError(
            f"{amount:,} single terms up to order {order} are too many to weigh (limit {MAX_TERMS:,}); "
            "give a smaller max_order, or -1 for orders alone"
        )
    walk, orders = terms.walk, range(min(order + 1, len(counts)))
    return tuple(" ".join(word) for k in orders for word in walk.words_of_order(k))


@dataclass(frozen=True, eq=False)
class _Measured:
    """What each order, and then each single term, adds to the logits of a window."""

    model: Model
    names: tuple[str, ...]

    def __call__(self, window: Tokens) -> Iterator[tuple[str, Array]]:
        terms = expand(self.model.run(window))
        yield from ((f"order {k}", order) for k, order in enumerate(terms.by_order()))
        yield from ((name, terms[name].logits()) for name in self.names)


def _losses(point: ZeroPoint, orders: int, window: Tokens) -> Sums:
    """Losses with parts removed: what stands in their place is added where they are taken out."""
    pairs = point.pairs(window)
    removed = [(part, np.broadcast_to(instead, part.shape)) for part, instead in islice(pairs, orders)]
    parts, instead = (np.array(side) for side in zip(*removed, strict=True))
    whole, beyond = parts.sum(axis=0), instead.sum(axis=0) - np.cumsum(instead, axis=0)
    kept = np.cumsum(parts, axis=0) + beyond
    found = {
        "up_to": [next_token_loss(logits, window) for logits in kept],
        "without": [next_token_loss(whole - part + put, window) for part, put in removed],
        "terms": [next_token_loss(whole - part + put, window) for part, put in pairs],
    }
    losses = {name: np.array(values) for name, values in found.items()}
    loss = losses["up_to"][-1]
    changes = {
        "marginal change": losses["up_to"][:-1] - losses["up_to"][1:],
        "increase change": losses["without"] - loss,
        "terms change": losses["terms"] - loss,
    }
    return losses | changes | {f"{name}²": value**2 for name, value in changes.items()}

"""The pairs of paths that add most to a score, found without forming all of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

from ..expansion import Expansion
from ..path import Path
from ..term import Term
from .pair import Pair
from .products import Product, Vectors, largest_products, path_vectors
from .term import ScoreTerm


@dataclass(frozen=True, eq=False)
class LargestPairs:
    """Some terms, their values, how far each may be off, what bounds all others, and how many were formed.

    Values are those of the search, whose errors are known: a term by itself multiplies its factors in another order.
    """

    terms: tuple[ScoreTerm, ...]
    values: tuple[float, ...]
    errors: tuple[float, ...]
    beyond: float
    examined: int


def largest_pairs(
    pair: Pair, queries: Expansion, keys: Expansion, counts: Sequence[Sequence[int]], k: int
) -> LargestPairs:
    """Return the k largest terms of every cell (query order, key order) that counts."""
    query_vectors = path_vectors(queries.walk, pair.query).split(queries.walk.count_by_order)
    key_vectors = _met(pair, path_vectors(keys.walk, pair.key)).split(keys.walk.count_by_order)
    terms, products = list[ScoreTerm](), list[Product]()
    beyond, examined = 0.0, 0
    for a, row in enumerate(counts):
        for b in (b for b, amount in enumerate(row) if amount):
            best, others, formed = largest_products(query_vectors[a], key_vectors[b], k)
            examined, beyond = examined + formed, max(beyond, others)
            left = _picked(terms_of_order(queries, a), {product.left for product in best})
            right = _picked(terms_of_order(keys, b), {product.right for product in best})
            terms += [ScoreTerm(pair, left[product.left], right[product.right]) for product in best]
            products += best
    values, errors = (tuple(getattr(each, name) for each in products) for name in ("value", "error"))
    return LargestPairs(tuple(terms), values, errors, beyond, examined)


def terms_of_order(side: Expansion, order: int) -> Iterator[Term]:
    """Stream the terms of one side through so many components."""
    return (Term(side.graph, Path(word)) for word in side.walk.words_of_order(order))


def _met(pair: Pair, keys: Vectors) -> Vectors:
    """Key vectors, turned and scaled as the query meets them."""
    turn = pair.form.rotation(pair.query - pair.key)
    return keys.turned(None if turn is None else turn.numbers().dense(), pair.scale)


def _picked(terms: Iterator[Term], places: set[int]) -> dict[int, Term]:
    """The terms at given places of a stream."""
    stop = max(places, default=-1) + 1
    return {place: term for place, term in enumerate(islice(terms, stop)) if place in places}

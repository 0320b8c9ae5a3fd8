"""The pairs of paths that add most to a score, found without forming all of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice

from ...graph import Array
from ..expansion import Expansion
from ..path import Path
from ..term import Term
from .pair import Pair
from .products import largest_products, path_vectors
from .term import ScoreTerm


def largest_pairs(
    pair: Pair, queries: Expansion, keys: Expansion, counts: Sequence[Sequence[int]], k: int
) -> tuple[list[ScoreTerm], int]:
    """Return the k largest terms of every cell (query order, key order) that counts, and how many were formed."""
    query_vectors = path_vectors(queries.walk, pair.query)
    key_vectors = _met(pair, path_vectors(keys.walk, pair.key))
    found: list[ScoreTerm] = []
    examined = 0
    for a, row in enumerate(counts):
        for b in (b for b, amount in enumerate(row) if amount):
            best, formed = largest_products(query_vectors[a], key_vectors[b], k)
            examined += formed
            left = _picked(terms_of_order(queries, a), {product.left for product in best})
            right = _picked(terms_of_order(keys, b), {product.right for product in best})
            found += [ScoreTerm(pair, left[product.left], right[product.right]) for product in best]
    return found, examined


def terms_of_order(side: Expansion, order: int) -> Iterator[Term]:
    """Stream the terms of one side through so many components."""
    return (Term(side.graph, Path(word)) for word in side.walk.words_of_order(order))


def _met(pair: Pair, vectors: list[Array]) -> list[Array]:
    """Key vectors by order, turned and scaled as the query meets them."""
    turn = pair.form.rotation(pair.query - pair.key)
    turned = vectors if turn is None else [turn.numbers().apply(part) for part in vectors]
    return [pair.scale * part for part in turned]


def _picked(terms: Iterator[Term], places: set[int]) -> dict[int, Term]:
    """The terms at given places of a stream."""
    stop = max(places, default=-1) + 1
    return {place: term for place, term in enumerate(islice(terms, stop)) if place in places}

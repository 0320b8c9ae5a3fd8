"""How maps combine: products, sums, scalars and Kronecker products, simplified but never multiplied out."""

from __future__ import annotations

from . import operations
from .composites import Chain, Kron, Scaled, Sum, chained, finite, parallel
from .maps import Diagonal, Identity, LinearMap, Zero


def scale(factor: float, map: LinearMap) -> LinearMap:
    """Return factor times map, with factors merged: 2·(3·M) is 6·M, 1·M is M, 0·M is Zero.

    Raises WeightsError for a factor that is not a finite real number.
    """
    number = finite(factor)
    if isinstance(map, Scaled):
        return scale(number * map.factor, map.map)
    if isinstance(map, Zero) or number == 1.0:
        return map
    return Scaled(number, map) if number else Zero(map.target, map.source)


def compose(*maps: LinearMap) -> LinearMap:
    """Return the product of maps, the leftmost applied last, flat and never multiplied out.

    Chains are opened, identities dropped, scalars pulled out in front, Zero absorbs, neighboring diagonals
    are multiplied, and neighboring Kronecker products merge by `mixed_product` where that rule holds.
    Raises SpaceError where two neighbors do not meet.

    >>> import numpy as np
    >>> from pathexp.algebra import Dense, Space
    >>> vocab, model = Space("vocab", 5), Space("model", 3)
    >>> W_U = Dense(np.ones((5, 3)), vocab, model, name="W_U")
    >>> compose(W_U, Identity(model), 2 * W_U.T)
    2 · W_U · W_Uᵀ : vocab(5) -> vocab(5), rank <= 3
    """
    factors, number = _opened(chained(maps))
    if number == 0.0 or any(isinstance(factor, Zero) for factor in factors):
        return Zero(maps[0].target, maps[-1].source)
    merged = _merged([factor for factor in factors if not isinstance(factor, Identity)])
    if not merged:
        return scale(number, Identity(maps[0].target))
    if any(isinstance(factor, Identity | Scaled | Zero) for factor in merged):
        return scale(number, compose(*merged))
    return scale(number, merged[0] if len(merged) == 1 else Chain(merged))


def add(*maps: LinearMap) -> LinearMap:
    """Return the sum of maps between the same spaces, flat, with zeros dropped.

    Raises SpaceError where spaces differ.

    >>> from pathexp.algebra import Space
    >>> stream = Space("model", 3)
    >>> add(Identity(stream), Zero(stream, stream), 2 * Identity(stream))
    I + 2 · I : model(3) -> model(3), rank <= 3
    """
    terms: list[LinearMap] = []
    for map in parallel(maps):
        terms.extend(map.terms if isinstance(map, Sum) else (map,))
    kept = [term for term in terms if not isinstance(term, Zero)] or terms[:1]
    return kept[0] if len(kept) == 1 else Sum(kept)


def tensor(left: LinearMap, right: LinearMap) -> LinearMap:
    """Return left ⊗ right, with scalars pulled out, Zero absorbing, and I ⊗ I the identity."""
    if isinstance(left, Scaled):
        return scale(left.factor, tensor(left.map, right))
    if isinstance(right, Scaled):
        return scale(right.factor, tensor(left, right.map))
    if isinstance(left, Zero) or isinstance(right, Zero):
        return Zero(left.target * right.target, left.source * right.source)
    if isinstance(left, Identity) and isinstance(right, Identity):
        return Identity(left.space * right.space)
    return Kron(left, right)


def mixed_product(first: Kron, second: Kron) -> LinearMap:
    """Return (A ⊗ B)(C ⊗ D) as AC ⊗ BD if A meets C and B meets D, and as an unmerged Chain otherwise.

    The product spaces can agree although those of the parts do not, as with u ⊗ (v·w) and (u·v) ⊗ w; the
    law does not hold then. Raises SpaceError if not even the product spaces meet.
    """
    if first.left.source == second.left.target and first.right.source == second.right.target:
        return tensor(compose(first.left, second.left), compose(first.right, second.right))
    return Chain((first, second))


@operations.composed.register
def _(left: LinearMap, right: LinearMap) -> LinearMap:
    return compose(left, right)


@operations.added.register
def _(left: LinearMap, right: LinearMap) -> LinearMap:
    return add(left, right)


@operations.scaled.register
def _(map: LinearMap, factor: float) -> LinearMap:
    return scale(factor, map)


def _opened(maps: tuple[LinearMap, ...]) -> tuple[list[LinearMap], float]:
    """Open chains and scalars to any depth: the flat factors, and the product of the scalars."""
    factors: list[LinearMap] = []
    number = 1.0
    for map in maps:
        match map:
            case Scaled():
                inner, inner_number = _opened((map.map,))
                factors, number = factors + inner, number * map.factor * inner_number
            case Chain():
                inner, inner_number = _opened(map.factors)
                factors, number = factors + inner, number * inner_number
            case _:
                factors.append(map)
    return factors, number


def _merged(factors: list[LinearMap]) -> list[LinearMap]:
    """Merge neighbors that have a closed product: diagonals, and Kronecker products that meet."""
    done: list[LinearMap] = []
    for factor in factors:
        product = _closed(done[-1], factor) if done else None
        if product is None:
            done.append(factor)
        else:
            done[-1] = product
    return done


def _closed(left: LinearMap, right: LinearMap) -> LinearMap | None:
    match left, right:
        case Diagonal(), Diagonal():
            name = f"{left.name}·{right.name}" if left.name and right.name else None
            return Diagonal(left.values * right.values, left.space, name)
        case Kron(), Kron():
            product = mixed_product(left, right)
            return None if isinstance(product, Chain) else product
    return None

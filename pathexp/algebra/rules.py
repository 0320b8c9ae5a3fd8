"""What each kind of map knows better than the general algorithm, operation by operation."""

from __future__ import annotations

import numpy as np

from ..errors import SizeError
from . import operations
from .arrays import Array, frobenius, within_range
from .combine import compose, scale
from .composites import Chain, Kron, Scaled, Sum
from .maps import Dense, Diagonal, Identity, LinearMap, Zero
from .operations import MAX_ENTRIES, MAX_WAIST
from .plan import Tree, plan
from .spaces import Space
from .spectra import Eigenvalues, Svd, descending, signed


@operations.dense.register
def _(map: Dense, max_entries: int = MAX_ENTRIES) -> Array:
    return map.array


@operations.dense.register
def _(map: Diagonal, max_entries: int = MAX_ENTRIES) -> Array:
    operations.guard(map, max_entries)
    return np.asarray(np.diag(map.values))


@operations.dense.register
def _(map: Zero, max_entries: int = MAX_ENTRIES) -> Array:
    operations.guard(map, max_entries)
    return np.zeros(map.shape)


@operations.dense.register
def _(map: Scaled, max_entries: int = MAX_ENTRIES) -> Array:
    operations.guard(map, max_entries)
    return map.factor * operations.dense(map.map, max_entries)


@operations.dense.register
def _(map: Sum, max_entries: int = MAX_ENTRIES) -> Array:
    operations.guard(map, max_entries)
    total = np.zeros(map.shape)
    for term in map.terms:
        total += operations.dense(term, max_entries)
    return total


@operations.dense.register
def _(map: Kron, max_entries: int = MAX_ENTRIES) -> Array:
    operations.guard(map, max_entries)
    parts = operations.dense(map.left, max_entries), operations.dense(map.right, max_entries)
    return np.asarray(np.kron(*parts), dtype=np.float64)


@operations.dense.register
def _(map: Chain, max_entries: int = MAX_ENTRIES) -> Array:
    operations.guard(map, max_entries)
    with within_range(map.formula):
        made = _multiplied(map, plan(map, columns=None).tree)
    return made if isinstance(made, np.ndarray) else operations.dense(made, max_entries)


def _multiplied(map: Chain, tree: Tree) -> Array | LinearMap:
    """Multiply a chain in the order of a tree; a factor that is no array is applied as it is."""
    if isinstance(tree, int):
        factor = map.factors[tree]
        return operations.wide(factor) if isinstance(factor, Dense) else factor
    left: Array | LinearMap = _multiplied(map, tree[0])
    right: Array | LinearMap = _multiplied(map, tree[1])
    if isinstance(left, LinearMap) and isinstance(right, LinearMap):
        right_smaller = right.shape[1] <= left.shape[0]
        return left @ operations.wide(right) if right_smaller else operations.wide(left) @ right
    return np.asarray(left @ right)


@operations.halves.register
def _(map: Dense | Diagonal | Identity) -> tuple[LinearMap, LinearMap]:
    return _beside_identity(map)


@operations.halves.register
def _(map: Zero) -> tuple[LinearMap, LinearMap]:
    nothing = Space("nothing", 0)
    return Zero(map.target, nothing), Zero(nothing, map.source)


@operations.halves.register
def _(map: Scaled) -> tuple[LinearMap, LinearMap]:
    left, right = operations.halves(map.map)
    return scale(map.factor, left), right


@operations.halves.register
def _(map: Chain) -> tuple[LinearMap, LinearMap]:
    at = min(range(len(map.factors)), key=lambda i: map.factors[i].rank_bound)
    left, right = operations.halves(map.factors[at])
    return compose(*map.factors[:at], left), compose(right, *map.factors[at + 1 :])


@operations.halves.register
def _(map: Sum) -> tuple[LinearMap, LinearMap]:
    """[L1 L2][R1; R2], where that is narrower than the sum itself."""
    if map.rank_bound == min(map.shape):
        return _beside_identity(map)
    sides = [operations.waist(term) for term in map.terms]
    between = Space("waists", sum(left.shape[1] for left, _ in sides))
    left = Dense(np.hstack([left for left, _ in sides]), map.target, between)
    return left, Dense(np.vstack([right for _, right in sides]), between, map.source)


@operations.halves.register
def _(map: Kron) -> tuple[LinearMap, LinearMap]:
    (a, b), (c, d) = operations.halves(map.left), operations.halves(map.right)
    return Kron(a, c), Kron(b, d)


def _beside_identity(map: LinearMap) -> tuple[LinearMap, LinearMap]:
    """Cut a map that has no waist: an identity on its smaller side."""
    if map.target.size < map.source.size:
        return Identity(map.target), map
    return map, Identity(map.source)


@operations.norm.register
def _(map: Dense) -> float:
    return frobenius(map.array)


@operations.norm.register
def _(map: Diagonal) -> float:
    return frobenius(map.values)


@operations.norm.register
def _(map: Identity) -> float:
    return float(np.sqrt(map.space.size))


@operations.norm.register
def _(map: Zero) -> float:
    return 0.0


@operations.norm.register
def _(map: Scaled) -> float:
    return abs(map.factor) * operations.norm(map.map)


@operations.norm.register
def _(map: Kron) -> float:
    return operations.norm(map.left) * operations.norm(map.right)


@operations.norm.register
def _(map: Sum) -> float:
    """Through stacked waists or the dense form; if both are too large, through inner products of terms."""
    if operations.is_narrow(map) or map.shape[0] * map.shape[1] <= MAX_ENTRIES:
        return frobenius(operations.reduced(map))
    pairs = ((a, b) for a in map.terms for b in map.terms)
    return float(np.sqrt(max(0.0, sum(operations.trace(a.T @ b) for a, b in pairs))))


@operations.trace.register
def _(map: Sum) -> float:
    operations.endomorphism(map, "trace")
    return sum(operations.trace(term) for term in map.terms)


@operations.trace.register
def _(map: Dense) -> float:
    operations.endomorphism(map, "trace")
    return float(np.trace(map.array, dtype=np.float64))


@operations.trace.register
def _(map: Diagonal) -> float:
    return float(np.sum(map.values, dtype=np.float64))


@operations.trace.register
def _(map: Identity) -> float:
    return float(map.space.size)


@operations.trace.register
def _(map: Scaled) -> float:
    return map.factor * operations.trace(map.map)


@operations.trace.register
def _(map: Kron) -> float:
    operations.endomorphism(map, "trace")
    if map.left.target == map.left.source:
        return operations.trace(map.left) * operations.trace(map.right)
    return float(np.trace(operations.turned(map)))


@operations.singular_values.register
def _(map: Diagonal) -> Array:
    return np.sort(np.abs(map.values.astype(np.float64, copy=False)))[::-1]


@operations.singular_values.register
def _(map: Identity) -> Array:
    return np.ones(map.space.size)


@operations.singular_values.register
def _(map: Scaled) -> Array:
    return abs(map.factor) * operations.singular_values(map.map)


@operations.singular_values.register
def _(map: Kron) -> Array:
    parts = operations.singular_values(map.left), operations.singular_values(map.right)
    return np.sort(np.outer(*parts).ravel())[::-1]


@operations.svd.register
def _(map: Kron) -> Svd:
    """Every pair of the parts' singular vectors."""
    _guard_waist(map)
    left, right = operations.svd(map.left), operations.svd(map.right)
    values = np.outer(left.S, right.S).ravel()
    order = np.argsort(-values, kind="stable")
    U, Vh = np.kron(left.U, right.U)[:, order], np.kron(left.Vh, right.Vh)[order]
    return signed(U, values[order], Vh)


@operations.eigenvalues.register
def _(map: Diagonal) -> Eigenvalues:
    return Eigenvalues(descending(map.values), map.space.size)


@operations.eigenvalues.register
def _(map: Identity) -> Eigenvalues:
    return Eigenvalues(np.ones(map.space.size, dtype=np.complex128), map.space.size)


@operations.eigenvalues.register
def _(map: Scaled) -> Eigenvalues:
    inner = operations.eigenvalues(map.map)
    return Eigenvalues(descending(map.factor * inner.values), inner.size)


@operations.eigenvalues.register
def _(map: Kron) -> Eigenvalues:
    operations.endomorphism(map, "eigenvalues")
    if map.left.target != map.left.source:
        return Eigenvalues(descending(np.linalg.eigvals(operations.turned(map))), map.target.size)
    left, right = operations.eigenvalues(map.left), operations.eigenvalues(map.right)
    return Eigenvalues(descending(np.outer(left.values, right.values).ravel()), map.target.size)


def _guard_waist(map: LinearMap) -> None:
    rows, columns = max(map.shape), map.rank_bound
    if rows * columns > MAX_WAIST:
        raise SizeError(
            f"singular vectors of {map.formula} are {rows:,} × {columns:,} = {rows * columns:,} entries, "
            f"the limit is {MAX_WAIST:,}; take those of its two parts"
        )

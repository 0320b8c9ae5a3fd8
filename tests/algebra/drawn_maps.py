"""Maps of every kind, nested to any depth, each beside the dense array it must equal (built by numpy alone)."""

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from hypothesis import strategies as st

from pathexp.algebra import (
    Chain,
    Dense,
    Diagonal,
    Identity,
    Kron,
    LinearMap,
    Scaled,
    Space,
    Sum,
    Zero,
    add,
    compose,
    scale,
    tensor,
)

ONE, TWO, THREE, FIVE = Space("one", 1), Space("two", 2), Space("three", 3), Space("five", 5)
PLAIN = (ONE, TWO, THREE, FIVE)
SPACES = (*PLAIN, TWO * THREE, THREE * TWO, TWO * FIVE)


@dataclass(frozen=True)
class Made:
    """A map, the array it must equal, and how large the numbers are that went into it."""

    map: LinearMap
    array: np.ndarray
    size: float

    def __repr__(self):
        return f"{type(self.map).__name__}: {self.map!r}"

    @property
    def tolerance(self):
        return 1e-12 * max(self.size, 1e-300)


def dense(rng, target, source):
    array = rng.normal(size=(target.size, source.size)) * 10.0 ** rng.integers(-2, 3)
    return Made(Dense(array, target, source), array, np.linalg.norm(array))


def diagonal(rng, space):
    values = rng.normal(size=space.size)
    return Made(Diagonal(values, space), np.diag(values), np.linalg.norm(values))


def identity(rng, space):
    return Made(Identity(space), np.eye(space.size), np.sqrt(space.size))


def zero(rng, target, source):
    return Made(Zero(target, source), np.zeros((target.size, source.size)), 0.0)


def chain(make, *parts):
    array = parts[0].array
    for part in parts[1:]:
        array = array @ part.array
    return Made(make(part.map for part in parts), array, float(np.prod([part.size for part in parts])))


def total(make, *parts):
    return Made(make(p.map for p in parts), sum(p.array for p in parts), sum(p.size for p in parts))


def scaled(make, factor, part):
    return Made(make(factor, part.map), factor * part.array, abs(factor) * part.size)


def kron(make, left, right):
    return Made(make(left.map, right.map), np.kron(left.array, right.array), left.size * right.size)


CHAINS = (Chain, lambda maps: compose(*maps))
SUMS = (Sum, lambda maps: add(*maps))
SCALES = (Scaled, scale)
KRONS = (Kron, tensor)


@st.composite
def made_maps(draw, target=None, source=None, depth=3, endo=False):
    """Draw a map between the given spaces (any, if None), with at most `depth` levels of composites."""
    target = target or draw(st.sampled_from(SPACES))
    source = target if endo else source or draw(st.sampled_from(SPACES))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    kinds = ["dense", "dense", "zero"]
    if target == source:
        kinds += ["diagonal", "identity"]
    if depth:
        kinds += ["chain", "chain", "sum", "scaled"]
        kinds += ["kron", "kron"] if target.factors and source.factors else []

    def part(target, source):
        return draw(made_maps(target, source, depth - 1))

    match draw(st.sampled_from(kinds)):
        case "dense":
            return dense(rng, target, source)
        case "zero":
            return zero(rng, target, source)
        case "diagonal":
            return diagonal(rng, target)
        case "identity":
            return identity(rng, target)
        case "chain":
            middle = draw(st.lists(st.sampled_from(SPACES), min_size=1, max_size=2))
            stops = [target, *middle, source]
            parts = [part(a, b) for a, b in pairwise(stops)]
            return chain(draw(st.sampled_from(CHAINS)), *parts)
        case "sum":
            parts = [part(target, source) for _ in range(draw(st.integers(1, 3)))]
            return total(draw(st.sampled_from(SUMS)), *parts)
        case "scaled":
            factor = draw(st.sampled_from([0.0, 1.0, -1.0, 2.5, -0.125]))
            return scaled(draw(st.sampled_from(SCALES)), factor, part(target, source))
        case "kron":
            (a, b), (c, d) = target.factors, source.factors
            return kron(draw(st.sampled_from(KRONS)), part(a, c), part(b, d))


def _zoo():
    """One of every kind and of every nesting that has a rule of its own, the same each time."""
    rng = np.random.default_rng(7)
    pair, riap = TWO * THREE, THREE * TWO
    left, right = dense(rng, FIVE, TWO), dense(rng, TWO, FIVE)
    thin = chain(Chain, left, right)
    twin = np.repeat(rng.normal(size=(5, 1)), 2, axis=1)
    return {
        "dense": dense(rng, FIVE, THREE),
        "wide dense": dense(rng, THREE, FIVE),
        "square dense": dense(rng, FIVE, FIVE),
        "dense on products": dense(rng, pair, TWO * FIVE),
        "diagonal": diagonal(rng, FIVE),
        "identity": identity(rng, FIVE),
        "zero": zero(rng, FIVE, THREE),
        "square zero": zero(rng, FIVE, FIVE),
        "negative": scaled(Scaled, -2.0, dense(rng, FIVE, FIVE)),
        "negative identity": scaled(Scaled, -1.0, identity(rng, FIVE)),
        "negative chain": scaled(Scaled, -3.0, thin),
        "nothing of a chain": scaled(Scaled, 0.0, thin),
        "chain of one": chain(Chain, left),
        "thin chain": thin,
        "thick chain": chain(Chain, dense(rng, TWO, FIVE), dense(rng, FIVE, TWO)),
        "chain with no left end": chain(Chain, dense(rng, TWO, FIVE), dense(rng, FIVE, FIVE)),
        "scalars within scalars": chain(
            Chain, scaled(Scaled, 2.0, chain(Chain, scaled(Scaled, 3.0, left), right)), diagonal(rng, FIVE)
        ),
        "chain through a diagonal": chain(Chain, left, diagonal(rng, TWO), right),
        "chain of diagonals": chain(Chain, diagonal(rng, FIVE), diagonal(rng, FIVE)),
        "chain through zero": chain(Chain, left, zero(rng, TWO, TWO), right),
        "chain of chains": chain(Chain, thin, chain(Chain, dense(rng, FIVE, ONE), dense(rng, ONE, FIVE))),
        "repeated column": Made(
            Dense(twin, FIVE, TWO) @ right.map, twin @ right.array, np.linalg.norm(twin) * right.size
        ),
        "thin sum": total(
            Sum, chain(Chain, dense(rng, FIVE, ONE), dense(rng, ONE, FIVE)), scaled(Scaled, -1.0, thin)
        ),
        "thick sum": total(Sum, identity(rng, FIVE), thin),
        "sum of diagonals": total(Sum, diagonal(rng, FIVE), identity(rng, FIVE), diagonal(rng, FIVE)),
        "sum in a chain": chain(Chain, left, total(Sum, identity(rng, TWO), diagonal(rng, TWO)), right),
        "kron": kron(Kron, dense(rng, TWO, FIVE), dense(rng, THREE, TWO)),
        "square kron": kron(Kron, dense(rng, TWO, TWO), dense(rng, THREE, THREE)),
        "thin kron": kron(Kron, dense(rng, FIVE, FIVE), thin),
        "kron of scalars": kron(Kron, scaled(Scaled, -2.0, identity(rng, TWO)), diagonal(rng, THREE)),
        "kron with zero": kron(Kron, zero(rng, TWO, TWO), dense(rng, THREE, THREE)),
        "kron to itself of parts that are not": kron(
            Kron, dense(rng, TWO, pair), dense(rng, THREE * FIVE, FIVE)
        ),
        "krons that meet": chain(
            Chain,
            kron(Kron, dense(rng, FIVE, TWO), dense(rng, TWO, THREE)),
            kron(Kron, dense(rng, TWO, TWO), dense(rng, THREE, ONE)),
        ),
        "krons that do not": chain(
            Chain,
            kron(Kron, dense(rng, FIVE, TWO), dense(rng, ONE, riap)),
            kron(Kron, dense(rng, pair, ONE), dense(rng, TWO, TWO)),
        ),
        "kron and dense": chain(
            Chain, kron(Kron, dense(rng, TWO, TWO), dense(rng, THREE, THREE)), dense(rng, pair, TWO)
        ),
    }


ZOO = _zoo()

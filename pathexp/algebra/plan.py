"""In which order to multiply a chain: decided from shapes alone, before anything is multiplied."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from .spaces import Space

Tree: TypeAlias = "int | tuple[Tree, Tree]"


class Chained(Protocol):
    """A map as planning sees it: what it is a product of, its shape, and what it costs."""

    @property
    def word(self) -> tuple[Chained, ...]:
        """The factors, the leftmost applied last."""

    @property
    def source(self) -> Space:
        """The space that it reads."""

    @property
    def shape(self) -> tuple[int, int]:
        """(target size, source size)."""

    @property
    def formula(self) -> str:
        """How it is printed."""

    @property
    def apply_cost(self) -> int:
        """Multiply-adds on one vector."""


@dataclass(frozen=True)
class Operand:
    """What planning needs to know of a factor: its label, its shape, and its cost on one vector."""

    label: str
    rows: int
    columns: int
    cost: int


@dataclass(frozen=True)
class Product:
    """One multiplication: (rows × inner) by (inner × columns), at a cost in multiply-adds."""

    left: str
    right: str
    rows: int
    inner: int
    columns: int
    cost: int


@dataclass(frozen=True)
class Plan:
    """An association order of a chain, its products in the order they are made, and what they cost.

    `cost` is in multiply-adds, `largest` is the number of entries of the largest product that is formed,
    `left_to_right` the cost of the order in which the chain is printed.
    """

    tree: Tree
    products: tuple[Product, ...]
    cost: int
    largest: int
    left_to_right: int

    def __str__(self) -> str:
        head = ("product", "shape", "multiply-adds")
        rows = [
            (f"{p.left} · {p.right}", f"{p.rows} × {p.inner} × {p.columns}", f"{p.cost:,}")
            for p in self.products
        ]
        total = ("total", f"largest {self.largest:,}", f"{self.cost:,}")
        widths = [max(len(row[i]) for row in (head, *rows, total)) for i in range(3)]
        return "\n".join(
            f"{a:<{widths[0]}}  {b:<{widths[1]}}  {c:>{widths[2]}}".rstrip()
            for a, b, c in (head, *rows, total)
        )


@dataclass(frozen=True)
class _Best:
    """The cheapest way to make one stretch of the chain."""

    cost: int
    largest: int
    tree: Tree


def associate(operands: Sequence[Operand]) -> Plan:
    """Return the cheapest association of a chain of operands; ties go to the smaller largest product.

    Dynamic programming over stretches, cubic in the number of operands. An operand costs its own cost per
    vector when applied as it is (a diagonal is cheaper than a dense array); a product costs as a dense array.
    """
    best: dict[tuple[int, int], _Best] = {(i, i): _Best(0, 0, i) for i in range(len(operands))}
    for length in range(1, len(operands)):
        for i in range(len(operands) - length):
            best[i, i + length] = _cheapest(operands, best, i, i + length)
    found = best[0, len(operands) - 1]
    products = tuple(_products(operands, found.tree))
    return Plan(found.tree, products, found.cost, found.largest, _left_to_right(operands))


def plan(map: Chained, columns: int | None = 1) -> Plan:
    """Return the cheapest order in which to apply a map to `columns` vectors; None: to multiply it out.

    The cost counts multiply-adds and comes from shapes alone. Scalar factors are left out.
    """
    operands = [Operand(factor.formula, *factor.shape, factor.apply_cost) for factor in map.word]
    if columns is not None:
        operands.append(Operand("x", map.source.size, columns, map.source.size * columns))
    return associate(operands)


def _cheapest(operands: Sequence[Operand], best: dict[tuple[int, int], _Best], i: int, j: int) -> _Best:
    size = operands[i].rows * operands[j].columns
    choices = []
    for k in range(i, j):
        left, right = best[i, k], best[k + 1, j]
        cost = left.cost + right.cost + _cost(operands, left.tree, right.tree)
        choices.append((cost, max(left.largest, right.largest, size), k))
    cost, largest, k = min(choices)
    return _Best(cost, largest, (best[i, k].tree, best[k + 1, j].tree))


def _ends(tree: Tree) -> tuple[int, int]:
    if isinstance(tree, int):
        return tree, tree
    return _ends(tree[0])[0], _ends(tree[1])[1]


def _cost(operands: Sequence[Operand], left: Tree, right: Tree) -> int:
    first, last = operands[_ends(left)[0]], operands[_ends(right)[1]]
    costs = [first.rows * operands[_ends(left)[1]].columns * last.columns]
    if isinstance(left, int):
        costs.append(operands[left].cost * last.columns)
    if isinstance(right, int):
        costs.append(operands[right].cost * first.rows)
    return min(costs)


def _label(operands: Sequence[Operand], tree: Tree) -> str:
    if isinstance(tree, int):
        return operands[tree].label
    return f"({_label(operands, tree[0])} · {_label(operands, tree[1])})"


def _products(operands: Sequence[Operand], tree: Tree) -> list[Product]:
    if isinstance(tree, int):
        return []
    left, right = tree
    rows, inner = operands[_ends(left)[0]].rows, operands[_ends(left)[1]].columns
    made = Product(
        _label(operands, left),
        _label(operands, right),
        rows,
        inner,
        operands[_ends(right)[1]].columns,
        _cost(operands, left, right),
    )
    return [*_products(operands, left), *_products(operands, right), made]


def _left_to_right(operands: Sequence[Operand]) -> int:
    tree: Tree = 0
    cost = 0
    for i in range(1, len(operands)):
        cost += _cost(operands, tree, i)
        tree = (tree, i)
    return cost

"""The order of a product: the cheapest there is, decided by shapes, printed as a table."""

from itertools import pairwise

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from pathexp.algebra import Dense, Diagonal, Identity, Kron, Space, compose, plan
from pathexp.algebra.operations import halves
from pathexp.algebra.plan import Operand, associate


def factors(*sizes):
    spaces = [Space(f"s{i}", size) for i, size in enumerate(sizes)]
    return [
        Dense(np.zeros((a.size, b.size)), a, b, name=f"M{i}") for i, (a, b) in enumerate(pairwise(spaces))
    ]


def operands(sizes):
    return [Operand(f"M{i}", m, n, m * n) for i, (m, n) in enumerate(pairwise(sizes))]


def cheapest(sizes):
    """Every association, tried."""
    if len(sizes) == 2:
        return 0
    return min(
        cheapest(sizes[: k + 1]) + cheapest(sizes[k:]) + sizes[0] * sizes[k] * sizes[-1]
        for k in range(1, len(sizes) - 1)
    )


def test_textbook_chain():
    """Cormen, Leiserson, Rivest, Stein, 'Matrix-chain multiplication': 15,125 and ((1 (2 3)) ((4 5) 6))."""
    found = plan(compose(*factors(30, 35, 15, 5, 10, 20, 25)), columns=None)
    assert found.cost == 15_125
    assert found.tree == ((0, (1, 2)), ((3, 4), 5))
    assert found.left_to_right == 40_500


@settings(max_examples=80, deadline=None)
@given(st.lists(st.integers(1, 50), min_size=2, max_size=7))
def test_no_association_is_cheaper(sizes):
    found = associate(operands(sizes))
    assert found.cost == cheapest(sizes)
    assert found.largest == max((p.rows * p.columns for p in found.products), default=0)


def test_columns_decide_the_order():
    """One vector is best passed through; many are best met by the small product of the two maps."""
    chain = compose(*factors(8, 64, 8))
    assert plan(chain, columns=1).tree == (0, (1, 2))
    assert plan(chain, columns=1000).tree == ((0, 1), 2)
    assert chain.plan().cost == 2 * 8 * 64


def test_a_diagonal_costs_its_size():
    left, right = factors(5, 6, 7)
    middle = Diagonal(np.ones(6), left.source, name="G")
    found = plan(compose(left, middle, right), columns=None)
    assert found.cost == 5 * 6 + 5 * 6 * 7


def test_a_kronecker_factor_is_applied_not_formed():
    position, model = Space("position", 9), Space("model", 8)
    kron = Kron(Dense(np.ones((9, 9)), position, position), Dense(np.ones((8, 8)), model, model))
    found = plan(kron, columns=1)
    assert found.cost == 9 * 8 * 8 + 8 * 9 * 9 < (9 * 8) ** 2


def test_table_of_one_step_a_line():
    assert str(plan(compose(*factors(50, 4, 2, 4)), columns=None)) == (
        "product         shape        multiply-adds\n"
        "M0 · M1         50 × 4 × 2             400\n"
        "(M0 · M1) · M2  50 × 2 × 4             400\n"
        "total           largest 200            800"
    )


def test_a_single_map_needs_no_product():
    one = plan(factors(3, 4)[0], columns=None)
    assert one.products == () and one.cost == one.largest == one.left_to_right == 0


def test_scalars_and_identities_leave_no_step():
    left, right = factors(3, 4, 5)
    found = plan(2 * compose(left, Identity(left.source), right), columns=None)
    assert [(p.left, p.right) for p in found.products] == [("M0", "M1")]


def test_sides_of_a_waist_form_nothing_larger_than_themselves():
    vocab, model, head = 50_000, 128, 16
    left, right = halves(compose(*factors(vocab, model, head, model, head, model, vocab)))
    for side in (left, right):
        assert plan(side, columns=None).largest <= vocab * head

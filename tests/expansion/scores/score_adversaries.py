"""Scores that are made to break a ranking of pairs of paths, and the check of one against the exact oracle."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

import pathexp as px
from pathexp.answer import Check
from pathexp.errors import PathexpError
from pathexp.expansion import Expansion
from pathexp.expansion.proof import Listed, Side, check_pairs
from pathexp.expansion.scores.largest import largest_pairs
from pathexp.expansion.scores.pair import Pair
from pathexp.expansion.scores.results import ScoreRanking, ranked
from pathexp.expansion.scores.term import PositionBias, ScoreTerm
from pathexp.graph.form import ScoreForm
from pathexp.model import Target
from pathexp.model.rotary import Rotary
from tests.expansion.adversaries import LARGEST, Dice, adversarial_run, drawn_graph
from tests.expansion.exact import Oracle

Word = tuple[str, ...]


@dataclass(frozen=True, eq=False)
class ScoreCase:
    """One ranking of pairs: of one score, how many, and what distance adds."""

    pair: Pair
    queries: Expansion
    keys: Expansion
    k: int
    bias: PositionBias | None = None

    @property
    def count(self) -> int:
        return self.queries.count() * self.keys.count() + (self.bias is not None)

    def ranking(self) -> ScoreRanking:
        """What the library says of it."""
        orders = [[a * b for b in self.keys.count_by_order()] for a in self.queries.count_by_order()]
        found = largest_pairs(self.pair, self.queries, self.keys, orders, self.k + 1)
        return ranked(found, self.bias, self.k, 0.0, self.count)


def drawn_score(dice: Dice) -> ScoreCase | None:
    """A score of a graph by hand, or of a run of a model; None where the draw has no run or too many paths."""
    case = by_hand(dice) if dice.pick(True, True, False) else of_a_model(dice)
    return case if case is not None and 0 < case.count <= LARGEST else None


def by_hand(dice: Dice) -> ScoreCase:
    """Any paths into a query, any others into a key."""
    queries = drawn_graph(dice)
    keys = drawn_graph(dice)
    while keys.d_out != queries.d_out:
        keys = drawn_graph(dice)
    d = int(queries.d_out)
    rotary = Rotary(dims=2 * (d // 2)) if d > 1 and dice.pick(True, False) else None
    form = ScoreForm(d, dice.pick(1.0, d**-0.5, 1e-150, 3e80, 5e-324), rotary)
    n = int(keys.positions)
    query, key = dice.number(0, int(queries.positions) - 1), dice.number(0, n - 1)
    pair = Pair("L9H0", query, key, form, np.ones(n, dtype=bool), np.ones(n))
    return ScoreCase(pair, Expansion(queries), Expansion(keys), dice.number(1, 8))


def of_a_model(dice: Dice) -> ScoreCase | None:
    """A score of a head of the last layer."""
    run = adversarial_run(dice, ("W_Q", "W_K", "W_V", "W_O", "W_E", "W_in"))
    if run is None:
        return None
    query = dice.number(0, len(run) - 1)
    try:
        with np.errstate(all="ignore"):
            terms = px.score(
                run, f"L{run.config.n_layers - 1}H0", query=query, key=dice.number(0, query),
                graph=px.freeze(run, mlp=dice.pick("gate", "source")),
            )  # fmt: skip
    except PathexpError:
        return None
    return ScoreCase(terms.pair, terms.queries, terms.keys, dice.number(1, 8), terms.position_bias)


def exact_values(case: ScoreCase) -> dict[str, Fraction]:
    """The exact value of every pair of paths, and of what distance adds, by what they are called."""
    pair, turn = case.pair, case.pair.form.rotation(case.pair.query - case.pair.key)
    queries = vectors(case.queries, pair.query)
    keys = vectors(case.keys, pair.key)
    if turn is not None:
        matrix = [[Fraction(float(x)) for x in row] for row in turn.numbers().dense()]
        keys = {word: [sum(map(product, row, key)) for row in matrix] for word, key in keys.items()}
    scale = Fraction(pair.scale)
    found = {
        f"{' '.join(q)} × {' '.join(k)}": scale * sum(map(product, query, key))
        for q, query in queries.items()
        for k, key in keys.items()
    }
    bias = (
        {} if case.bias is None else {str(case.bias): Fraction(-pair.form.slope) * abs(pair.query - pair.key)}
    )
    return found | bias


def product(a: Fraction, b: Fraction) -> Fraction:
    return a * b


def vectors(side: Expansion, position: int) -> dict[Word, list[Fraction]]:
    """What every path brings, coordinate by coordinate, without rounding."""
    width = int(side.graph.d_out)
    oracles = [Oracle(side.graph, Target(position, unit, "logits", "", 0.0)) for unit in np.eye(width)]
    return {word: [oracle.value(word) for oracle in oracles] for word in side.walk.words()}


def judged_score(case: ScoreCase | None) -> bool | None:
    """Rank, and assert that every claim holds of the exact values of all pairs; whether the ranking is proven."""
    if case is None:
        return None
    try:
        with np.errstate(all="ignore"):
            found = case.ranking()
    except PathexpError:
        return None
    check_pairs_of(found, exact_values(case), case.k)
    return found.exact


def check_pairs_of(found: ScoreRanking, every: dict[str, Fraction], k: int) -> None:
    """What a ranking of pairs says of itself holds."""
    names = [str(term) for term in found.terms]
    assert len(set(names)) == len(names) == len(found.errors)
    for name, value, error in zip(names, found.values, found.errors, strict=True):
        if np.isfinite(value) and np.isfinite(error):
            assert abs(Fraction(value) - every[name]) <= Fraction(error), (name, value, error)
    left = {name: abs(value) for name, value in every.items() if name not in set(names)}
    if np.isfinite(found.bound) and left:
        worst = max(left, key=left.__getitem__)
        assert left[worst] <= Fraction(found.bound), (worst, str(left[worst])[:40], found.bound)
    if found.exact:
        assert len(names) == min(k, len(every))
        assert np.isfinite([found.bound, found.margin, *found.values]).all()
        least = min(map(abs, found.values))
        assert found.bound <= least + found.margin * (1 + 1e-12), (found.bound, least, found.margin)


def checked_score(case: ScoreCase | None) -> list[Check]:
    """What the checker says of a ranking that is true."""
    if case is None:
        return []
    pair = case.pair
    turn = pair.form.rotation(pair.query - pair.key)
    keys = Side(case.keys.walk, pair.key, None if turn is None else turn.numbers().dense())
    try:
        with np.errstate(all="ignore"):
            found = case.ranking()
            listed = {
                (tuple(term.query_term.path), tuple(term.key_term.path)): value
                for term, value in zip(found.terms, found.values, strict=True)
                if isinstance(term, ScoreTerm)
            }
            if not np.isfinite([found.bound, *found.values]).all():
                return []
            return check_pairs(
                Side(case.queries.walk, pair.query), keys, pair.scale, Listed(listed, found.bound), []
            )
    except PathexpError:
        return []

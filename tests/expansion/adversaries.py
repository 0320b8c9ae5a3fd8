"""Small graphs and models that are made to break a proof, and the check of one search against the exact oracle.

Everything is drawn through a `Dice`, so that hypothesis and a plain random generator draw the same adversaries.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, Protocol

import numpy as np

import pathexp as px
from pathexp.algebra import Dense, Diagonal, Space
from pathexp.errors import PathexpError
from pathexp.expansion.ranking import enumerated, searched
from pathexp.expansion.search import Budget
from pathexp.graph import (
    Block,
    Component,
    Difference,
    Factor,
    Gate,
    One,
    Operator,
    Parallel,
    ResidualGraph,
    Sink,
    Source,
    Step,
)
from pathexp.graph import Values as Given
from pathexp.graph.actions import Dyad
from pathexp.graph.contrast.turning import Turn
from pathexp.graph.contrast.weighing import ByKeys, ByQueries, Weighing
from pathexp.model import Model, Target, Trace
from tests.expansion.exact import Oracle


class Dice(Protocol):
    """What draws: one of some options, or a whole number within limits."""

    def pick(self, *options: Any) -> Any: ...

    def number(self, low: int, high: int) -> int: ...


@dataclass(frozen=True, eq=False)
class RandomDice:
    """Dice of a random generator."""

    rng: np.random.Generator

    def pick(self, *options):
        return options[int(self.rng.integers(len(options)))]

    def number(self, low, high):
        return int(self.rng.integers(low, high + 1))


KINDS = ("plain", "plain", "small", "cancelling", "huge", "tiny", "denormal", "tied", "zero", "twice", "wide")


def numbers(dice: Dice, rows: int, columns: int, kind: str | None = None) -> np.ndarray:
    """A matrix of one of the kinds that rounding, range or ties make hard."""
    kind = kind or dice.pick(*KINDS)
    rng = np.random.default_rng(dice.number(0, 2**31 - 1))
    base = rng.standard_normal((rows, columns))
    match kind:
        case "small":
            return rng.integers(-3, 4, (rows, columns)) / 2.0
        case "cancelling":
            size = 2.0 ** dice.pick(30, 15, -30, 60)
            pair = np.where(np.arange(rows) % 2, -(1 - 2.0 ** -dice.number(10, 52)), 1.0)
            return size * pair[:, None] * np.sign(base[:1]) + dice.pick(0.0, 1.0) * base
        case "huge":
            return base * dice.pick(1e10, 1e40, 1e75, 1e150)
        case "tiny":
            return base * dice.pick(1e-10, 1e-40, 1e-75, 1e-150)
        case "denormal":
            return np.round(base * 3) * 5e-324
        case "tied":
            return np.sign(base) * dice.pick(1.0, 0.1, 1 / 3)
        case "zero":
            return np.zeros((rows, columns))
        case "twice":
            return np.repeat(base[:, :1], columns, axis=1)
        case "wide":
            return base * 2.0 ** rng.integers(-60, 60, (rows, columns))
    return base


def pattern(dice: Dice, n: int) -> np.ndarray:
    """Attention: sharp, hard, denormal, even, zero or anything."""
    rng = np.random.default_rng(dice.number(0, 2**31 - 1))
    kind = dice.pick("soft", "sharp", "sharper", "hard", "even", "zero", "any")
    if kind == "any":
        return numbers(dice, n, n)
    if kind == "zero":
        return np.zeros((n, n))
    scores = rng.standard_normal((n, n)) * {"soft": 1, "sharp": 100, "sharper": 400}.get(kind, 0)
    if kind == "hard":
        return np.eye(n)[rng.integers(0, n, n)]
    weights = np.where(np.tri(n) > 0, np.exp(scores - scores.max(axis=1, keepdims=True)), 0.0)
    return weights / np.maximum(weights.sum(axis=1, keepdims=True), 5e-324)


def matrix(name: str, array: np.ndarray, target: str, source: str) -> Factor:
    rows, columns = array.shape
    return Factor(name, rows, columns, Dense(array, Space(target, rows), Space(source, columns), name))


def diagonal(name: str, values: np.ndarray, space: str) -> Factor:
    return Factor(name, len(values), len(values), Diagonal(values, Space(space, len(values)), name))


def component(dice: Dice, label: str, n: int, d: int) -> Component:
    """A head, a head behind a frozen norm, a feature, an MLP with frozen gates, or a part of a contrast."""
    kind = dice.pick("head", "head", "head", "normed", "mlp", "map", "secant")
    r = dice.number(1, d + 1)
    write = matrix(f"W_O_{label}", numbers(dice, d, r), "model", "inner")
    read = matrix(f"W_V_{label}", numbers(dice, r, d), "inner", "model")
    if kind == "mlp":
        gate = Gate(f"D_{label}", n, r, numbers(dice, n, r))
        return Component(label, "mlp", (Step((), (write,)), gate, Step((), (read,))), 0)
    if kind == "secant":
        return Component(label, "component", secant(dice, label, n, d), 0)
    if kind == "map":
        return Component(label, "component", (Step((), (write, read)),), 0)
    words = [matrix(f"A_{label}", pattern(dice, n), "position", "position")]
    features = [write, read]
    if kind == "normed":
        words.append(diagonal(f"S_{label}", np.abs(numbers(dice, n, 1)[:, 0]), "position"))
        features.append(diagonal(f"G_{label}", numbers(dice, d, 1)[:, 0], "model"))
    return Component(label, "head", (Step(tuple(words), tuple(features)),), 0)


def secant(dice: Dice, label: str, n: int, d: int) -> Operator:
    """What contrasts are made of: changes along one direction, turned keys, changes of weights, several side by side."""
    dyad = Dyad(f"N_{label}", numbers(dice, n, d), numbers(dice, n, d))
    r = 2 * dice.number(1, 2)
    write = Step((), (matrix(f"W_O_{label}", numbers(dice, d, dice.number(1, 3)), "model", "inner"),))
    read = Step((), (matrix(f"W_K_{label}", numbers(dice, r, d), "key", "model"),))
    slopes = np.where(np.tri(n) > 0, numbers(dice, n, n), 0.0)
    sides = numbers(dice, n, r), numbers(dice, n, r), numbers(dice, n, write.feature[0].columns)
    weighing = Weighing(np.abs(pattern(dice, n)) * (np.tri(n) > 0), slopes, *sides, np.zeros((n, 1)))
    angles = numbers(dice, n, r // 2, dice.pick("plain", "small", "zero"))
    pairs = (np.arange(r // 2), np.arange(r // 2, r))
    size = dice.pick(1.0, 1.0, 0.7)
    turn = Turn(f"R_{label}", r, np.cos(angles) * size, np.sin(angles) * size, pairs)
    scores = dice.pick(ByKeys, ByQueries)(f"A_{label}", weighing)
    match dice.pick("dyad", "norm", "scores", "scores"):
        case "dyad":
            return (dyad,)
        case "norm":
            scales = diagonal(f"S_{label}", np.abs(numbers(dice, n, 1)[:, 0]), "position")
            return (Parallel(f"N_{label}", ((Step((scales,)),), (dyad,))),)
    return (write, scores, *dice.pick((), (turn,)), read, *dice.pick((), (dyad,)))


def skip(dice: Dice, n: int, d: int) -> tuple:
    """Nothing, or the norm that a post-norm model has on its stream."""
    if dice.pick(True, True, False):
        return ()
    scales = diagonal("S_post", np.abs(numbers(dice, n, 1)[:, 0]), "position")
    return (Step((scales,), (diagonal("G_post", numbers(dice, d, 1)[:, 0], "model"),)),)


def drawn_graph(dice: Dice) -> ResidualGraph:
    """A graph by hand with adversarial numbers everywhere."""
    n, d, out = dice.number(1, 3), dice.number(1, 4), dice.number(1, 3)
    blocks, labels = [], []
    for b in range(dice.number(1, 4)):
        here = [f"L{b}H{c}" for c in range(dice.number(1, 3))]
        labels += here
        parts = tuple(component(dice, label, n, d) for label in here)
        if len(parts) > 1 and dice.pick(True, False, False):  # the same twice
            parts = (*parts[:-1], replace(parts[0], label=parts[-1].label))
        blocks.append(Block(parts, skip(dice, n, d)))
    read = matrix("W_U", numbers(dice, out, d), "vocab", "model")
    sources = [dice.pick(embedding, embedding, difference)(dice, n, d)]
    if dice.pick(True, False):
        depth = dice.number(0, len(blocks))
        sources.append(Source("P", "positions", Given("p", d, numbers(dice, n, d)), depth=depth))
    if dice.pick(True, False):
        into = {dice.pick(*labels): constant(dice, n, d), "U": constant(dice, n, out)}
        sources.append(Source("b", "bias", One(), depth=None, into=into))
    return ResidualGraph(n, d, out, tuple(sources), tuple(blocks), Sink("U", (Step((), (read,)),)))


def embedding(dice: Dice, n: int, d: int) -> Source:
    return Source("E", "embedding", Given("x", d, numbers(dice, n, d)))


def difference(dice: Dice, n: int, d: int) -> Source:
    """The tokens of one text minus those of another."""
    rng, size = np.random.default_rng(dice.number(0, 2**31 - 1)), dice.number(1, 4)
    start = Difference("t", size, rng.integers(0, size, n), rng.integers(0, size, n))
    return Source(
        "E", "embedding", start, (Step((), (matrix("W_E", numbers(dice, d, size), "model", "t"),)),)
    )


def constant(dice: Dice, n: int, d: int) -> tuple:
    ones = matrix("ones", np.ones((n, 1)), "position", "one")
    return (Step((ones,), (matrix("b", numbers(dice, d, 1), "model", "one"),)),)


def adversarial_run(dice: Dice, arrays: tuple[str, ...]) -> Trace | None:
    """A run of a small model with any switches and some adversarial weights; None where numbers leave the range."""
    norm = dice.pick(None, "layernorm", "rmsnorm")
    positions = dice.pick("none", "learned", "qk", "rotary", "alibi")
    model = px.random_model(
        layers=dice.number(1, 2), heads=dice.pick(1, 2), d_model=dice.number(2, 4),
        d_head=2, d_vocab=dice.number(2, 3), n_ctx=6, norm=norm, positions=positions,
        norm_placement=dice.pick("pre", "post", "sandwich") if norm else "pre",
        d_mlp=dice.pick(0, 2, 3), gated=False, biases=dice.pick(True, False), seed=dice.number(0, 2**31 - 1),
    )  # fmt: skip
    changed: dict[str, np.ndarray] = {}
    for name in arrays:
        array = getattr(model.weights, name)
        if array is not None and dice.pick(True, False):
            flat = numbers(dice, array.shape[-2], int(np.prod(array.shape)) // array.shape[-2])
            changed[name] = np.ascontiguousarray(flat.reshape(array.shape))
    tokens = [dice.number(0, model.config.d_vocab - 1) for _ in range(dice.number(1, 3))]
    try:
        with np.errstate(all="ignore"):
            return Model(model.config, replace(model.weights, **changed)).run(tokens)
    except PathexpError:
        return None


def drawn_model_graph(dice: Dice) -> ResidualGraph | None:
    """A frozen run, or a contrast of two, of a model with any switches and adversarial weights; None without a run."""
    run = adversarial_run(dice, ("W_Q", "W_V", "W_O", "W_in", "W_out", "W_U", "W_E"))
    if run is None:
        return None
    others = [dice.number(0, run.config.d_vocab - 1) for _ in run.tokens]
    try:
        with np.errstate(all="ignore"):
            if dice.pick(True, False):
                return px.contrast(run, run.model.run(others), mlp_ports=dice.pick(True, False))
            return px.freeze(run, mlp=dice.pick("gate", "source"))
    except PathexpError:
        return None


QUERIES = (
    None,
    None,
    None,
    "S .* U",
    "S . .* U",
    "S (. .)* U",
    "S .? U",
    "~(S .* U)",
    "S L0H0 .* U",
    "S .* L0H0 .* U | S U",
)


@dataclass(frozen=True, eq=False)
class Case:
    """One search: of which paths, toward what, how many, within which limits."""

    terms: Any
    target: Target
    k: int
    budget: Budget


def drawn_case(dice: Dice) -> Case | None:
    """A search that was made to be hard; None where the draw has no run or no paths."""
    graph = drawn_graph(dice) if dice.pick(True, True, False) else drawn_model_graph(dice)
    if graph is None:
        return None
    text = dice.pick(*QUERIES)
    try:
        terms = px.expand(graph) if text is None else px.expand(graph).where(text)
    except PathexpError:
        return None
    n, d, out = graph.sizes
    space = dice.pick("logits", "logits", "residual")
    width = out if space == "logits" else d
    direction = (
        numbers(dice, 1, width)[0] if dice.pick(True, False) else np.eye(width)[dice.number(0, width - 1)]
    )
    position = dice.number(0, n - 1)
    target = Target(position, direction, space, "a direction", value_of(graph, direction, position, space))
    nodes = dice.pick(None, None, None, 0, 2, 10)
    return Case(terms, target, dice.number(1, 12), Budget(nodes=nodes))


def value_of(graph: ResidualGraph, direction: np.ndarray, position: int, space: str) -> float:
    if graph.trace is None and not graph.runs:
        return 0.0
    trace = graph.trace or graph.runs[0]
    stream = trace.logits if space == "logits" else trace.residuals["final_in"]
    with np.errstate(all="ignore"):
        return float(stream[position] @ direction)


@dataclass(frozen=True)
class Outcome:
    """What a search claimed: whether it was proven, of how many paths, and how its margin compares to its largest."""

    exact: bool
    count: int
    margin: float


LARGEST = 600
"""Graphs of more paths are left to others: the oracle evaluates every one without rounding."""


Values = dict[tuple[str, ...], Fraction]


def true_values(case: Case) -> Values:
    """The exact values of all paths of a case."""
    oracle = Oracle(case.terms.graph, case.target)
    return {word: oracle.value(word) for word in case.terms.walk.words()}


def judged(case: Case | None, enumerate_all: bool = False, every: Values | None = None) -> Outcome | None:
    """Search, and assert that every claim holds of the exact values of all paths, which may be given."""
    if case is None or not 0 < case.terms.count() <= LARGEST:
        return None
    walk, target = case.terms.walk, case.target
    try:
        with np.errstate(all="ignore"):
            found = (
                enumerated(walk, case.k, target, 0.0)
                if enumerate_all
                else searched(walk, case.k, target, 0.0, case.budget)
            )
    except PathexpError as error:
        assert "contradicts" not in str(error), error
        return None
    every = true_values(case) if every is None else every
    check_claims(found, every, case.k)
    top = max((abs(value) for value in found.values), default=0.0)
    return Outcome(found.exact, len(every), found.margin / top if found.margin else 0.0)


def judged_twice(case: Case | None) -> list[Outcome | None]:
    """The same for the search with bounds and for the enumeration, beside one evaluation without rounding."""
    if case is None or not 0 < case.terms.count() <= LARGEST:
        return [None, None]
    every = true_values(case)
    return [judged(case, enumerate_all, every) for enumerate_all in (False, True)]


def check_claims(found: Any, every: dict[tuple[str, ...], Fraction], k: int) -> None:
    """What a ranking says of itself holds: values within errors, others within the bound, proofs complete."""
    words = [tuple(term.path) for term in found.terms]
    assert len(set(words)) == len(words)
    for word, value, error in zip(words, found.values, found.errors, strict=True):
        if np.isfinite(value) and np.isfinite(error):
            assert abs(Fraction(value) - every[word]) <= Fraction(error), (word, value, error)
    left = {word: abs(value) for word, value in every.items() if word not in set(words)}
    if np.isfinite(found.bound):
        worst = max(left, key=left.__getitem__, default=None)
        assert worst is None or left[worst] <= Fraction(found.bound), (
            worst,
            str(left[worst])[:40],
            found.bound,
        )
    if found.exact:
        assert len(words) == min(k, len(every))
        assert np.isfinite([found.bound, found.margin, *found.values]).all()
        least = min(abs(value) for value in found.values)
        assert found.bound <= least + found.margin * (1 + 1e-12), (found.bound, least, found.margin)

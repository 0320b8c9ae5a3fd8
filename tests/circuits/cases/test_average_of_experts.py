"""Means over contrasts of mixtures of experts: cases whose routers chose otherwise have other sources, and one row each."""

import numpy as np
import pytest

import pathexp as px
from pathexp.graph import Contrast, with_every_choice
from pathexp.model import Experts, Target

MODEL = px.random_model(
    layers=2, heads=2, d_model=10, d_vocab=13, norm="rmsnorm", gated=True, activation="silu", biases=True, seed=6,
    experts=Experts(count=4, chosen=2, width=5, normalized=True),
)  # fmt: skip


def drawn(amount: int = 4) -> list[px.Case]:
    rng, cases = np.random.default_rng(1), []
    for number in range(amount):
        prompt = rng.integers(0, 13, 5 + number)
        other = prompt.copy()
        other[1 + number % 2] = (other[1 + number % 2] + 1) % 13
        cases.append(px.Case(prompt.tolist(), int(rng.integers(13)), corrupted=other.tolist()))
    return cases


CASES = drawn()


def one_by_one() -> list[tuple[Contrast, Target]]:
    found = []
    for case in CASES:
        here, there = MODEL.run(case.prompt), MODEL.run(case.corrupted)
        found.append((px.contrast(here, there), here.logit(case.answer)))
    return found


def test_cases_have_choices_of_their_own_and_one_alphabet():
    graphs = [graph for graph, _ in one_by_one()]
    chosen = [tuple(source.label for source in graph.sources) for graph in graphs]
    assert len(set(chosen)) > 1
    every = [with_every_choice(graph) for graph in graphs]
    assert len({graph.alphabet.labels for graph in every}) == 1 and len(every[0].sources) == 9
    for graph, whole in zip(graphs, every, strict=True):
        assert px.expand(whole).verify().ok
        np.testing.assert_array_equal(px.expand(whole).logits(), px.expand(graph).logits())


def test_a_mean_is_that_of_each_label_zero_where_a_case_has_none():
    label = "dchoice_L1E2"
    values = [
        float(px.expand(graph)[f"{label} U"].value(target)) if graph.alphabet.meaning(label) else 0.0
        for graph, target in one_by_one()
    ]
    assert any(values) and not all(values)
    tree = px.average(px.tree, MODEL, CASES, contrast=True, nodes=3).to_dict()
    rows = {row["query"]: row for row in tree["tables"]["nodes"]["rows"]}
    assert rows[f"{label} U"]["mean"] == pytest.approx(np.mean(values), abs=1e-12)
    found = px.average(px.attribution, MODEL, CASES, contrast=True, by="source").to_dict()
    means = {row["name"]: row["mean"] for row in found["tables"]["contributions"]["rows"]}
    totals = [px.attribution(graph, target, by="source") for graph, target in one_by_one()]
    expected = [dict(zip(each.names, each.values, strict=True)).get(label, 0.0) for each in totals]
    assert means[label] == pytest.approx(np.mean(expected), abs=1e-12)

"""The checker of proofs: accepts what is true, and rejects every kind of tampering."""

from __future__ import annotations

import importlib
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

import pathexp as px
from pathexp.algebra import Dense, Diagonal, Identity, Space, Zero, compose, scale
from pathexp.expansion.proof.beginnings import Beginnings
from pathexp.expansion.proof.certificate import Certificate
from pathexp.expansion.proof.checker import _field, _value
from pathexp.expansion.proof.evaluation import Sure, map_growth, map_roundings, pushed, roundings
from pathexp.expansion.ranking import searched
from pathexp.expansion.search import Budget, constant_lost
from pathexp.graph import Factor, Gate, Step
from pathexp.model import Model
from tests.expansion.adversaries import RandomDice, drawn_case, numbers
from tests.expansion.exact import Oracle
from tests.expansion.test_contrast import EVERY, two_runs
from tests.shared_models import shared_file
from tests.zoo import FAMILIES, ZOO

MODELS = {**ZOO, **FAMILIES}


def run(model, length=4):
    length = min(length, model.config.n_ctx)
    return model.run(np.random.default_rng(0).integers(0, model.config.d_vocab, length))


@pytest.mark.sampled(8)
@pytest.mark.parametrize("mode", ["gate", "source"])
@pytest.mark.parametrize("name", sorted(MODELS))
def test_every_true_ranking_of_the_zoo_is_accepted(name, mode):
    trace = run(MODELS[name]())
    terms, target = px.expand(px.freeze(trace, mlp=mode)), trace.logit(1)
    found = terms.top(5, target)
    check = found.check()
    assert check.ok, str(check)
    assert check.paths == len(found)
    total = terms.value(target)
    assert searched(terms.walk, 5, target, total, Budget()).check().ok


@pytest.mark.sampled(8)
@pytest.mark.parametrize("ports", [False, True])
@pytest.mark.parametrize("name", sorted(EVERY))
def test_rankings_of_contrasts_are_accepted(name, ports):
    here, there = two_runs(EVERY[name](), length=4)
    terms, target = px.expand(px.contrast(here, there, mlp_ports=ports)), here.logit(1)
    for found in (terms.top(5, target), searched(terms.walk, 5, target, terms.value(target), Budget())):
        assert found.exact
        assert found.check().ok, str(found.check())


@pytest.mark.parametrize("at", ["final", "final_out", "L1.out", "L1H0.Q"])
def test_rankings_that_end_inside_a_model_are_accepted(at):
    trace = run(MODELS["3L-layernorm"]())
    terms = px.expand(trace, at=at)
    target = trace.direction(np.arange(terms.graph.sizes[2]) - 1.0, at=at)
    assert searched(terms.walk, 3, target, terms.value(target), Budget()).check().ok
    assert terms.top(3, target).check().ok


@pytest.mark.sampled(4)
@pytest.mark.parametrize("text", ["S .* U", "S .* L1 U", "S (. .)* U", "S .* U & ~(S .* L0 .* U)"])
@pytest.mark.parametrize("name", ["3L-layernorm", "gpt2", "original"])
def test_rankings_inside_queries_are_accepted(name, text):
    trace = run(MODELS[name]())
    assert px.expand(trace).where(text).top(4, trace.logit_difference(0, 2)).check().ok


def test_a_bounded_ranking_that_is_not_proven_is_checked_as_what_it_is():
    trace = run(MODELS["gpt2"]())
    terms, target = px.expand(trace), trace.logit(1)
    found = searched(terms.walk, 5, target, terms.value(target), Budget(nodes=0))
    assert not found.exact and np.isfinite(found.bound)
    assert found.check().ok


def test_a_trained_model_is_checked():
    trace = px.load(shared_file("stories260K.bin")).run("Once upon a time")
    found = px.expand(trace).top(10, trace.logit(trace.top_token()))
    check = found.check()
    assert found.exact and found.count > 1_000_000
    assert check.ok, str(check)
    assert check.opened >= 1 and check.cut > 20 and check.sets > 300
    assert "checked without the search" in str(check)


@pytest.fixture(scope="module")
def ranked():
    trace = run(MODELS["gpt2"]())
    found = px.expand(trace).top(6, trace.logit(1))
    return found, found.certificate()


def shrunk(certificate):
    sets = [dict(states) for states in certificate.sets]
    sets[-1] = {state: 0.5 * triangle for state, triangle in sets[-1].items()}
    return replace(certificate, sets=tuple(sets))


def at_one_position(certificate):
    sets = [{state: np.array(triangle) for state, triangle in states.items()} for states in certificate.sets]
    next(iter(sets[2].values()))[1] *= 0.9
    return replace(certificate, sets=tuple(sets))


def moved(certificate):
    sets = [dict(states) for states in certificate.sets]
    sets[-1], sets[-3] = sets[-3], sets[-1]
    return replace(certificate, sets=tuple(sets))


def lost(certificate):
    return replace(certificate, sets=(*certificate.sets[:-1], {}))


def not_a_number(certificate):
    sets = [{state: triangle * np.nan for state, triangle in states.items()} for states in certificate.sets]
    return replace(certificate, sets=tuple(sets))


def forgotten(certificate):
    entries = [*certificate.entries[:1], *(known - {("E",)} for known in certificate.entries[1:])]
    sets = [{state: 1e-6 * triangle for state, triangle in states.items()} for states in certificate.sets]
    return replace(certificate, entries=tuple(entries), sets=tuple(sets))


def invented(certificate):
    return replace(certificate, entries=(*certificate.entries[:-1], frozenset({("E", "L9H9")})))


TAMPERED = {
    "all sets at the sink shrunk": shrunk,
    "one ellipsoid shrunk": at_one_position,
    "sets of other depths": moved,
    "a set left out": lost,
    "sets that are no numbers": not_a_number,
    "a beginning forgotten": forgotten,
    "a beginning invented": invented,
}


@pytest.mark.parametrize("kind", TAMPERED)
def test_a_certificate_that_was_tampered_with_is_rejected(ranked, kind):
    found, certificate = ranked
    assert found.check(certificate).ok
    assert not found.check(TAMPERED[kind](certificate)).ok


def test_a_cut_ending_that_was_opened_is_missed(ranked):
    """Without any of the endings that were opened, an ending that was cut is above the bound."""
    trace = run(MODELS["llama"]())
    found = px.expand(trace).top(30, trace.logit(1))
    certificate = found.certificate()
    assert certificate.opened
    rejected = [
        not found.check(replace(certificate, opened=certificate.opened - {ending})).ok
        for ending in certificate.opened
    ]
    assert any(rejected)
    assert not found.check(replace(certificate, opened=frozenset())).ok


CLAIMS = {
    "a value changed": lambda r: replace(r, values=(r.values[0] * (1 + 1e-9), *r.values[1:])),
    "a sign turned": lambda r: replace(r, values=(-r.values[0], *r.values[1:])),
    "a bound lowered": lambda r: replace(r, bound=r.bound * 0.99),
    "a bound of nothing": lambda r: replace(r, bound=0.0),
    "a path dropped": lambda r: replace(r, terms=r.terms[1:], values=r.values[1:], errors=r.errors[1:]),
    "a path twice": lambda r: replace(
        r, terms=(r.terms[0], *r.terms[:-1]), values=(r.values[0], *r.values[:-1])
    ),
    "two paths exchanged": lambda r: replace(r, terms=(r.terms[1], r.terms[0], *r.terms[2:])),
    "another order": lambda r: replace(r, terms=r.terms[::-1], values=r.values[::-1], errors=r.errors[::-1]),
    "another count": lambda r: replace(r, count=r.count - 1),
    "another target": lambda r: replace(r, target=replace(r.target, direction=r.target.direction * 1.001)),
    "paths of elsewhere": lambda r: replace(r, walk=px.expand(r.walk.graph).where("S L0 U").walk),
}


@pytest.mark.parametrize("kind", CLAIMS)
def test_a_claim_that_was_tampered_with_is_rejected(ranked, kind):
    found, certificate = ranked
    assert not CLAIMS[kind](found).check(certificate).ok


@pytest.mark.parametrize("where", ["endings", "checker"])
def test_a_value_whose_rounding_has_no_bound_is_not_called_checked(ranked, monkeypatch, where):
    """It used to be passed over: infinitely much room for rounding refutes nothing, and proves nothing either."""
    module = importlib.import_module(f"pathexp.expansion.proof.{where}")
    dot = module.dot
    monkeypatch.setattr(
        module, "dot", lambda fields, streams: (dot(fields, streams)[0], np.inf * dot(fields, streams)[1])
    )
    check = ranked[0].check(ranked[1])
    assert not check.ok
    told = [each.reason for each in check.checks if each.outcome == "undecided"]
    assert told and all("no bound on the rounding" in reason for reason in told)


def test_there_is_nothing_to_check_without_a_bound(ranked):
    found, _ = ranked
    with pytest.raises(px.PathexpError, match="nothing bounds"):
        replace(found, bound=float("inf")).check()
    with pytest.raises(px.PathexpError, match="a copy without its graph"):
        replace(found, walk=None).check()


def test_a_list_that_ends_in_exact_zeros_is_proven():
    """Whatever no chain of numbers without a zero leads through adds nothing, and does not round."""
    model = px.random_model(layers=2, heads=3, d_model=8, d_head=2, d_vocab=7, norm=None, seed=4)
    W_O = np.array(model.weights.W_O)
    W_O[1, 1:] = 0.0
    W_V = np.array(model.weights.W_V)
    W_O[0, 0, 4:], W_V[1, 0, :, :4] = 0.0, 0.0  # what L0H0 writes is not what L1H0 reads
    trace = replace(model, weights=replace(model.weights, W_O=W_O, W_V=W_V)).run([1, 2, 3])
    terms, target = px.expand(trace), trace.logit(2)
    nothing = [path for path, value in zip(terms.paths(), terms.values(target), strict=True) if value == 0]
    assert "E L0H0 L1H0 U" in set(map(str, nothing))
    for k in (terms.count() - len(nothing), terms.count() - 1, terms.count()):
        best = terms.top(k, target)
        assert best.exact and best.bound == 0.0 and best.check().ok
    one = terms.where("E L0H1 L1H1 U | E L1H2 U").top(1, target)
    assert one.exact and one.values == (0.0,) and one.errors == (0.0,) and one.bound == 0.0


def test_what_underflows_is_no_exact_zero():
    model = px.random_model(layers=2, heads=2, d_model=4, d_head=2, d_vocab=5, norm=None, seed=4)
    trace = replace(model, weights=replace(model.weights, W_O=model.weights.W_O * 1e-170)).run([1, 2])
    terms, target = px.expand(trace), trace.logit(2)
    assert not terms.values(target)[-1]
    best = terms.top(terms.count() - 1, target)
    assert best.bound > 0.0


@pytest.mark.parametrize("seed", [1281, 5293, 6308, 6522, 7456, 7627])
def test_what_underflows_on_the_way_is_in_the_errors_of_the_check(seed):
    """Products that underflow before a large factor, or beside a large direction, are off by more than rounding."""
    case = drawn_case(RandomDice(np.random.default_rng(seed)))
    walk, oracle = case.terms.walk, Oracle(case.terms.graph, case.target)
    with np.errstate(all="ignore"):
        beginnings, field = Beginnings(walk, Certificate((), (), frozenset())), _field(walk, case.target)
        found = {word: _value(beginnings, field, case.target, word) for word in walk.words()}
    sure = {word: both for word, both in found.items() if np.isfinite(both).all()}
    assert sure
    for word, (value, off) in sure.items():
        assert abs(Fraction(value) - oracle.value(word)) <= Fraction(off), word


def test_a_bound_far_above_a_tiny_target_is_checked_all_the_same():
    """In units of the target it leaves the range of floating point: nothing exceeds it, so nothing has to be opened."""
    trace = run(ZOO["3L-layernorm"]())
    target = 1e-12 * trace.logit(1)
    found = replace(px.expand(trace).top(5, target), bound=1e300, exact=False)
    assert found.check().ok


@pytest.mark.parametrize("seed", [20135, 20188, 20298])
def test_a_true_bound_below_what_squares_can_hold_is_not_refuted(seed):
    case = drawn_case(RandomDice(np.random.default_rng(seed)))
    with np.errstate(all="ignore"):
        check = searched(case.terms.walk, case.k, case.target, 0.0, case.budget).check()
    assert {each.outcome for each in check.checks} == {"holds", "undecided"}
    assert "could not be checked" in check.headline()


def test_a_number_is_rounded_once_for_each_product_and_sum_on_its_way():
    """Through an m × n map an inner product of n numbers; the larger of both sides, for the transpose as well."""
    rng = np.random.default_rng(0)
    a, b, c = Space("a", 3), Space("b", 7), Space("c", 5)
    wide, tall = Dense(rng.standard_normal((3, 7)), a, b), Dense(rng.standard_normal((7, 5)), b, c)
    assert map_roundings(wide) == 8 and map_roundings(tall) == 8 and map_roundings(wide.T) == 8
    assert map_roundings(scale(0.5, wide)) == 9
    assert map_roundings(compose(wide, tall)) >= 8 + 8
    assert roundings((Step((), (Factor("W", 3, 7, wide),)),)) == 1 + 8
    assert roundings((Gate("g", 2, 3, np.ones((2, 3))),)) == 1 + 1


@pytest.mark.parametrize("kind", ["plain", "cancelling", "wide"])
def test_what_is_lost_of_a_stream_is_bounded_number_by_number(kind):
    dice = RandomDice(np.random.default_rng(5))
    x, matrix = numbers(dice, 4, 6, kind), numbers(dice, 5, 6, kind)
    map = Dense(matrix, Space("to", 5), Space("from", 6))
    operator = (Step((), (Factor("W", 5, 6, map),)),)
    found = pushed(operator, Sure.exactly(x))
    for row, values, off in zip(x, found.value, found.off, strict=True):
        for weights, value, error in zip(matrix, values, off, strict=True):
            wanted = sum(Fraction(a) * Fraction(b) for a, b in zip(weights, row, strict=True))
            assert abs(Fraction(value) - wanted) <= Fraction(error)


def test_a_copy_without_its_graph_has_no_certificate():
    trace = run(ZOO["2L-plain"]())
    ranking = px.expand(trace).top(3, trace.logit(1))
    with pytest.raises(px.errors.PathexpError, match="nothing to check"):
        replace(ranking, walk=None).certificate()
    with pytest.raises(px.errors.PathexpError, match="nothing to check"):
        replace(ranking, bound=float("inf")).certificate()


def test_what_underflowed_grows_by_numbers_above_one_alone():
    a, b = Space("a", 3), Space("b", 2)
    small, large = (
        Dense(np.full((2, 3), 1e-3), b, a),
        Dense(np.array([[1.0, -40.0, 0.0], [2.0, 0.0, 3.0]]), b, a),
    )
    assert map_growth(Identity(a)) == map_growth(Zero(a, b)) == map_growth(small) == 1.0
    assert (
        map_growth(Diagonal(np.array([0.5, -7.0, 1.0]), a)) == 7.0
        and map_growth(Diagonal(np.ones(3), a)) == 1.0
    )
    assert map_growth(large) == map_growth(large.T) == 120.0, "three numbers of at most forty"
    assert map_growth(scale(0.5, large)) == 120.0 and map_growth(scale(-2.0, large)) == 240.0
    assert map_growth(compose(large.T, large)) == 120.0**2
    assert map_growth(large + small) == 121.0


@pytest.mark.parametrize("name", ["3L-layernorm", "gpt2"])
def test_constants_that_miss_the_stream_are_checked_as_zeros_toward_it(name):
    """What goes straight into the logits adds nothing to a direction of the final stream."""
    model = MODELS[name]()
    model = Model(model.config, replace(model.weights, b_U=np.ones(model.config.d_out)))
    trace = run(model, 2)
    target = trace.direction(np.arange(1.0, model.config.d_model + 1), at="final")
    terms = px.expand(trace).where("S .? U")
    best = terms.top(terms.count(), target)
    assert any(len(term.path) == 2 and value == 0 for term, value in zip(best, best.values, strict=True))
    assert best.check().ok, str(best.check())


def test_what_a_constant_may_lose_is_at_least_the_roundings_of_its_product():
    rng = np.random.default_rng(0)
    model = px.random_model(layers=1, heads=1, d_vocab=50, norm=None, positions="none", biases=True, seed=1)
    model = Model(model.config, replace(model.weights, b_U=rng.standard_normal(50)))
    trace = model.run([1, 2])
    graph = px.freeze(trace)
    (source,) = (source for source in graph.sources if graph.sink.label in source.into)
    target = trace.direction(rng.standard_normal(50))
    exact = sum(Fraction(a) * Fraction(b) for a, b in zip(target.direction, model.weights.b_U, strict=True))
    met = float(np.abs(target.direction) @ np.abs(model.weights.b_U))
    lost = constant_lost(source, graph, target)
    assert abs(Fraction(float(target.direction @ model.weights.b_U)) - exact) <= Fraction(lost)
    assert 50 * 2.0**-53 * met <= lost < 1e-12 * met

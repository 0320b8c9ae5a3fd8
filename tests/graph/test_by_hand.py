"""Graphs that a user builds or adds to, with answers known on paper or by plain numpy."""

from itertools import pairwise

import networkx as nx
import numpy as np
import pytest

import pathexp as px
from pathexp.algebra import Dense, Space
from pathexp.graph import Factor, Step
from pathexp.graph.kernel import bundled
from pathexp.graph.ports import Ports
from tests.zoo import ZOO


@pytest.fixture
def trace():
    model = ZOO["2L-gqa"]()
    return model.run(np.random.default_rng(1).integers(0, model.config.d_vocab, 6))


def test_two_scalar_components_on_paper():
    """d = 1, gains 2 and 3 in sequence: paths 1, 2, 3, 6; in parallel: 1, 2, 3."""
    start = px.ResidualGraph.by_hand(1, 1, [[1.0]]).with_source("x", [[1.0]])
    a = start.with_component("a", weight=[[2.0]])
    sequential = px.expand(a.with_component("m", weight=[[3.0]]))
    assert [float(t.logits()[0, 0]) for t in sequential] == [1, 2, 3, 6]
    assert float(sequential.logits()[0, 0]) == 12
    parallel = px.expand(a.with_component("m", weight=[[3.0]], beside="a"))
    assert [float(t.logits()[0, 0]) for t in parallel] == [1, 2, 3]
    assert float(parallel.logits()[0, 0]) == 6


def test_identity_weights_give_powers_not_collapsed_symbols():
    """(I + A)(I + A) has the terms I, A, A, AA: equal neighbors are never merged."""
    rng = np.random.default_rng(0)
    a, x = rng.normal(size=(3, 3)), rng.normal(size=(2, 3))
    graph = px.ResidualGraph.by_hand(2, 3, np.eye(3)).with_source("x", x)
    graph = graph.with_component("first", weight=a).with_component("second", weight=a)
    terms = px.expand(graph)
    assert terms.count_by_order() == (1, 2, 1)
    np.testing.assert_allclose(terms.logits(), x @ (np.eye(3) + 2 * a + a @ a).T, atol=1e-12)
    np.testing.assert_allclose(
        px.evaluate(terms.expr(), terms.arrays()) @ x.reshape(-1, 1),
        terms.logits().reshape(-1, 1),
        atol=1e-12,
    )


def test_a_steering_vector_is_a_source_with_its_own_paths(trace):
    rng = np.random.default_rng(2)
    vector = rng.normal(size=trace.config.d_model)
    steered = px.expand(px.freeze(trace).with_source("steer", vector, depth=1))
    own = steered.where("steer .* U")
    assert own.count() == 1 + trace.config.n_heads
    np.testing.assert_allclose(steered.logits() - own.logits(), trace.logits, atol=1e-9)
    np.testing.assert_allclose(own.logits(), sum(t.logits() for t in own), atol=1e-10)


def test_a_rank_one_component(trace):
    rng = np.random.default_rng(3)
    write, read = rng.normal(size=(2, trace.config.d_model))
    activations = rng.normal(size=len(trace.tokens))
    graph = px.freeze(trace).with_component("feature", weight=(write, read), pattern=activations, at=1)
    term = px.expand(graph)["E feature U"]
    x = trace.model.weights.W_E[:, trace.tokens].T
    expected = activations[:, None] * (x @ read)[:, None] * write
    np.testing.assert_allclose(term.stream(), expected, atol=1e-12)
    assert term.weight.rank_bound == 1


def test_a_low_rank_update_beside_a_head_shares_its_pattern(trace):
    rng = np.random.default_rng(4)
    left, right = rng.normal(size=(trace.config.d_model, 2)), rng.normal(size=(2, trace.config.d_model))
    graph = px.freeze(trace).with_component("lora", weight=(left, right), pattern="L1H2", beside="L1H2")
    terms = px.expand(graph)
    term = terms["E lora U"]
    np.testing.assert_allclose(term.pattern, terms["E L1H2 U"].pattern, atol=1e-15)
    assert terms.where("E .* lora U").count() == 1 + trace.config.n_heads
    with pytest.raises(px.PathexpError, match="out of order"):
        terms["E L1H2 lora U"]


def test_inserting_a_block_moves_no_source(trace):
    graph = px.freeze(trace).with_component("zero", weight=np.zeros((14, 14)), at=1)
    np.testing.assert_allclose(px.expand(graph).logits(), trace.logits, atol=1e-9)


def test_without_takes_exactly_the_paths_of_a_component(trace):
    terms = px.expand(trace)
    removed = px.expand(px.freeze(trace).without("L0H1"))
    through = terms.where("S .* L0H1 .* U")
    expected = sum((t.logits() for t in terms if "L0H1" not in t.path), np.zeros_like(trace.logits))
    np.testing.assert_allclose(removed.logits(), expected, atol=1e-10)
    assert removed.count() == sum("L0H1" not in t.path for t in terms)
    assert through.count() + removed.count() == terms.count()
    np.testing.assert_allclose(through.logits(), trace.logits - expected, atol=1e-9)


def test_a_graph_needs_a_kind_word_for_what_is_wrong(trace):
    graph, d = px.freeze(trace), trace.config.d_model
    for make, text in [
        (lambda: graph.with_source("E", np.ones(d)), "more than once: E"),
        (lambda: graph.with_source("L0", np.ones(d)), "cannot be a label"),
        (lambda: graph.with_source("a b", np.ones(d)), "cannot be a label"),
        (lambda: graph.with_source("s", np.ones(d + 1)), r"\(14,\).*found \(15,\)"),
        (lambda: graph.with_source("s", np.full(d, np.nan)), "NaN"),
        (lambda: graph.with_source("s", np.ones(d), depth=9), "depths 0 to 2"),
        (
            lambda: graph.with_component("c", weight=np.ones((d, d + 1))),
            r"expected a map of shape \(14, 14\)",
        ),
        (lambda: graph.with_component("c", weight=np.eye(d), pattern=np.eye(5)), r"\(6, 6\).*found \(5, 5\)"),
        (lambda: graph.with_component("c", weight=np.eye(d), pattern="L7H0"), "no component 'L7H0'"),
        (lambda: graph.with_component("c", weight=np.eye(d), at=7), "2 blocks"),
        (lambda: graph.with_component("c", weight=np.eye(d), at=0, beside="L0H0"), "not both"),
        (lambda: graph.with_component("c", weight=(np.ones((d, 2)), np.ones((3, d)))), "do not meet"),
        (lambda: graph.without("nobody"), "no such source or component"),
        (lambda: graph.without("U"), "no such source or component"),
        (lambda: px.ResidualGraph.attention_only(1, 1).with_source("s", np.ones(3)), "sizes alone"),
    ]:
        with pytest.raises(px.PathexpError, match=text):
            make()


def test_networkx_view(trace):
    graph = px.freeze(trace).to_networkx()
    assert isinstance(graph, nx.MultiDiGraph) and nx.is_directed_acyclic_graph(graph)
    assert graph.nodes["L1H2"] == {"label": "L1H2", "kind": "head", "layer": 1, "head": 2}
    assert graph.nodes["U"]["layer"] == 2 and graph.nodes["E"]["layer"] == -1
    assert graph.has_edge("E", "U") and graph.has_edge("L0H0", "L1H3")
    assert not graph.has_edge("L0H0", "L0H1"), "heads of one layer read the same stream"
    assert not graph.has_edge("L1H0", "L0H0")
    assert graph.has_edge("b_V_L0H1", "L0H1", key="direct") and graph.out_degree("b_V_L0H1") == 1


def test_node_paths_of_networkx_are_the_paths_of_the_expansion(trace):
    graph = px.freeze(trace).to_networkx()
    simple = {
        " ".join(path)
        for source in px.freeze(trace).sources
        for path in nx.all_simple_paths(graph, source.label, "U")
    }
    assert simple == {str(path) for path in px.expand(trace).paths()}


@pytest.mark.parametrize("sizes", [("a", 2), (None, None), (2, "a"), (2.5, 2), (True, 2), (-1, 2), (2, 0)])
def test_layers_and_heads_are_whole_numbers(sizes):
    with pytest.raises(px.errors.ConfigError, match="expected an integer ≥"):
        px.ResidualGraph.attention_only(*sizes)


def test_a_graph_counts_its_nodes_in_words():
    assert "<ResidualGraph: 1 source, " in repr(px.ResidualGraph.attention_only(layers=2, heads=2))
    assert "0 sources, 0 components in 0 blocks" in repr(px.ResidualGraph.by_hand(1, 1, [[1.0]]))


def test_two_components_that_read_through_the_same_are_bundled():
    """Shared parts are applied once, and the results are those of each by itself."""
    rng = np.random.default_rng(0)

    def part(name, rows, columns):
        array = rng.standard_normal((rows, columns))
        return Step(
            (), (Factor(name, rows, columns, Dense(array, Space("to", rows), Space("from", columns))),)
        )

    shared, alone = part("N", 4, 4), part("M", 4, 4)
    operators = [(part("a", 4, 4), shared), (part("b", 4, 4), alone), (part("c", 4, 4), shared)]
    (bundle,) = bundled(list(enumerate(operators)), 3, backward=False)
    assert bundle.members.tolist() == [0, 2]
    assert not list(bundled(list(enumerate(operators[:2])), 3, backward=False))


@pytest.mark.parametrize("layers", [1, 3])
def test_places_are_in_the_order_of_the_stream(layers):
    """Sources write first and the unembedding reads last; in between attention, then the MLP, layer by layer."""
    ports = Ports(px.random_model(layers=layers, heads=2, d_mlp=6), "raw")
    labels = ["E", *(f"L{layer}{part}" for layer in range(layers) for part in ("H0", "M")), "U"]
    places = [ports.place(label) for label in labels]
    assert all(before.writes <= after.reads for before, after in pairwise(places))
    assert all(place.reads < place.writes for place in places)
    assert places[-1].reads == 2 * layers and places[-1].writes == 2 * layers + 1

"""Virtual weights: the factored map equals the plain product, on any route between any two nodes."""

import json
import subprocess
import sys

import numpy as np
import pytest

from pathexp import expand, freeze, load, random_model, virtual_weight
from pathexp.algebra import norm, top_entries
from pathexp.circuits.composition.virtual_weight import largest_entries
from pathexp.cli import main
from pathexp.errors import GraphError, PathError, PathexpError
from pathexp.graph import push
from pathexp.graph.reading import reading_graph
from tests.circuits.attribution.test_flow import PUBLISHED, by_hand
from tests.peak import PEAK
from tests.zoo import FAMILIES

SIZES = {
    "layers": 3,
    "heads": 4,
    "kv_heads": 2,
    "d_model": 14,
    "d_head": 3,
    "d_vocab": 11,
    "biases": True,
    "seed": 2,
}
MODEL = random_model(**SIZES, positions="learned")
NORMED = random_model(**SIZES, norm="layernorm", positions="learned", d_mlp=9, gated=True)
W = MODEL.weights


def ov(model, layer, head):
    return model.weights.W_O[layer, head] @ model.weights.W_V[layer, head // 2]


def folded(model, site, layer=None):
    gain = getattr(model.weights, f"g_{site}")
    d = model.config.d_model
    return np.diag(gain if layer is None else gain[layer]) @ (np.eye(d) - 1 / d)


def test_direct_routes_of_every_kind():
    pairs = {
        ("E", "U"): W.W_U @ W.W_E,
        ("P", "U"): W.W_U @ W.W_pos,
        ("E", "L1H3.Q"): W.W_Q[1, 3] @ W.W_E,
        ("P", "L0H2.K"): W.W_K[0, 1] @ W.W_pos,
        ("L0H1.O", "L1H3.V"): W.W_V[1, 1] @ W.W_O[0, 1],
        ("L0H1", "L2H3.K"): W.W_K[2, 1] @ ov(MODEL, 0, 1),
        ("L1H2", "U"): W.W_U @ ov(MODEL, 1, 2),
        ("L0H1", "L1H2"): ov(MODEL, 1, 2) @ ov(MODEL, 0, 1),
    }
    for (writer, reader), expected in pairs.items():
        found = virtual_weight(MODEL, writer, reader)
        np.testing.assert_allclose(found.dense(), expected, atol=1e-13, err_msg=f"{writer} -> {reader}")


def test_a_path_through_heads_by_text_or_by_labels():
    expected = W.W_U @ ov(MODEL, 2, 0) @ ov(MODEL, 0, 3) @ W.W_E
    for through in ("L0H3 L2H0", ("L0H3", "L2H0")):
        found = virtual_weight(MODEL, "E", "U", through=through)
        np.testing.assert_allclose(found.dense(), expected, atol=1e-13)
        assert found.rank_bound == 3


def test_all_routes_are_a_product_of_sums():
    layers = [np.eye(14) + sum(ov(MODEL, layer, head) for head in range(4)) for layer in range(3)]
    found = virtual_weight(MODEL, "E", "U", through="all")
    np.testing.assert_allclose(found.dense(), W.W_U @ layers[2] @ layers[1] @ layers[0] @ W.W_E, atol=1e-12)
    between = virtual_weight(MODEL, "L0H1", "L2H0.Q", through="all")
    np.testing.assert_allclose(between.dense(), W.W_Q[2, 0] @ layers[1] @ ov(MODEL, 0, 1), atol=1e-12)


def test_norms_are_folded_into_readers_or_left_raw():
    w = NORMED.weights
    raw = virtual_weight(NORMED, "E", "L1H3.Q", norms="raw").dense()
    np.testing.assert_allclose(raw, w.W_Q[1, 3] @ w.W_E, atol=1e-13)
    found = virtual_weight(NORMED, "E", "L1H3.Q").dense()
    np.testing.assert_allclose(found, w.W_Q[1, 3] @ folded(NORMED, "attn", 1) @ w.W_E, atol=1e-13)
    found = virtual_weight(NORMED, "E", "U", through="L1H3").dense()
    chain = w.W_U @ folded(NORMED, "final") @ ov(NORMED, 1, 3) @ folded(NORMED, "attn", 1) @ w.W_E
    np.testing.assert_allclose(found, chain, atol=1e-13)


def test_mlps_read_and_write():
    w = NORMED.weights
    found = virtual_weight(NORMED, "L0H1.O", "L0M").dense()
    np.testing.assert_allclose(found, w.W_in[0] @ folded(NORMED, "mlp", 0) @ w.W_O[0, 1], atol=1e-13)
    found = virtual_weight(NORMED, "L0M", "L1M.gate", norms="raw").dense()
    np.testing.assert_allclose(found, w.W_gate[1] @ w.W_out[0], atol=1e-13)
    with pytest.raises(PathError, match=r"L0M cannot read L0M"):
        virtual_weight(NORMED, "L0M", "L0M")


def test_single_neurons_read_and_write():
    w = NORMED.weights
    found = virtual_weight(NORMED, "L0H1.O", "L1N4")
    np.testing.assert_allclose(
        found.dense(), w.W_in[1][4:5] @ folded(NORMED, "mlp", 1) @ w.W_O[0, 1], atol=1e-13
    )
    assert found.target.name == "neuron" and "w_in_L1N4" in found.formula
    found = virtual_weight(NORMED, "L0N8", "L1N0.gate", norms="raw").dense()
    np.testing.assert_allclose(found, w.W_gate[1][:1] @ w.W_out[0][:, 8:], atol=1e-13)
    whole = virtual_weight(NORMED, "L0M", "U").dense()
    for neuron in range(9):
        one = virtual_weight(NORMED, f"L0N{neuron}", "U").dense()
        np.testing.assert_allclose(one[:, 0], whole[:, neuron], atol=1e-13)


def test_a_post_norm_model_cannot_be_folded():
    model = random_model(layers=1, heads=2, norm="layernorm", norm_placement="post")
    with pytest.raises(PathexpError, match="cannot be folded"):
        virtual_weight(model, "E", "U")
    raw = virtual_weight(model, "E", "U", norms="raw").dense()
    np.testing.assert_allclose(raw, model.weights.W_U @ model.weights.W_E, atol=1e-13)


def test_an_unembedding_behind_an_activation_is_no_linear_map():
    model = random_model(
        layers=1, heads=2, norm="layernorm", norm_placement="post", final_norm=True, transform=True
    )
    with pytest.raises(PathexpError, match="dense layer with an activation"):
        virtual_weight(model, "E", "U", norms="raw")
    assert virtual_weight(model, "E", "L0H0.Q", norms="raw").shape == (5, 11)


@pytest.mark.parametrize(
    ("writer", "reader", "through", "error", "match"),
    [
        ("L1H0", "L1H1", "direct", PathError, "L1H1 cannot read L1H0"),
        ("E", "U", "L1H0 L0H0", PathError, "L0H0 cannot read L1H0"),
        ("L2H0", "L0H0.Q", "all", PathError, "L0H0.Q cannot read L2H0"),
        ("E", "U", "L0H9", GraphError, "L0H9"),
        ("E", "X", "direct", GraphError, "'X'"),
        ("E", "E", "direct", GraphError, "E does not read the stream"),
        ("U", "U", "direct", GraphError, "U does not write"),
        ("L0H0.Q", "U", "direct", GraphError, "L0H0.Q does not write"),
        ("E", "U", "L0M", GraphError, "no MLPs"),
        ("E", "L0H0.O", "direct", GraphError, "L0H0.O does not read"),
        ("E", "U", "E", GraphError, "passes through heads"),
        ("X", "U", "direct", GraphError, "'X' names nothing"),
        ("e", "U", "direct", GraphError, "'e' names nothing"),
        ("E", "L0N3", "direct", GraphError, "'L0N3' names nothing .*no MLPs"),
        ("E", "L00H1", "direct", GraphError, "'L00H1' names nothing that reads"),
        ("E", "L0H\u0661", "direct", GraphError, "names nothing"),
        (None, "U", "direct", GraphError, "None names nothing"),
        ("E", 3, "direct", GraphError, "3 names nothing"),
        ("E", "U", None, PathError, "not None"),
        ("E", "U", 5, PathError, "not 5"),
        ("E", "U", b"L0H1", PathError, "not b'L0H1'"),
        ("E", "U", ["L0H1", None], PathError, "None"),
    ],
)
def test_routes_that_do_not_exist_are_refused(writer, reader, through, error, match):
    with pytest.raises(error, match=match):
        virtual_weight(MODEL, writer, reader, through=through)


@pytest.mark.parametrize("label", ["L3M", "L0N9", "L00M", "L0N07", "L0N-1", "L0N", "L0N1.Q", "L0MM"])
def test_mlps_and_neurons_that_are_not_there_are_refused(label):
    with pytest.raises(GraphError, match=r"names nothing .*9 neurons"):
        virtual_weight(NORMED, "E", label)


@pytest.mark.parametrize("what", [None, "model", 3, expand(MODEL.run([1]))])
def test_only_models_runs_and_graphs_have_virtual_weights(what):
    with pytest.raises(PathexpError, match="takes a model, a trace or a residual graph"):
        virtual_weight(what, "E", "U")


def test_norms_that_are_not_known_are_refused():
    with pytest.raises(PathexpError, match="'folded' into what reads them or left 'raw', not 'fold'"):
        virtual_weight(MODEL, "E", "U", norms="fold")


# Frozen runs -------------------------------------------------------------------------------------------


def one_hot(trace):
    found = np.zeros((len(trace.tokens), trace.config.d_vocab))
    found[np.arange(len(trace.tokens)), trace.tokens] = 1.0
    return found.ravel()


@pytest.mark.parametrize("norm_kind", [None, "layernorm", "rmsnorm"])
def test_all_routes_of_a_run_are_all_its_paths(norm_kind):
    trace = random_model(**SIZES, norm=norm_kind).run([1, 5, 2, 2])
    found = virtual_weight(trace, "E", "U", through="all")
    logits = found.apply(one_hot(trace)).reshape(4, -1)
    np.testing.assert_allclose(logits, expand(trace, "E .* U").logits(), atol=1e-12)


@pytest.mark.parametrize("mlp", ["gate", "source"])
@pytest.mark.parametrize("family", PUBLISHED)
def test_all_routes_through_mlps_and_norms_on_the_stream(family, mlp):
    trace = random_model(layers=2, heads=3, biases=True, seed=2, **PUBLISHED[family]).run([1, 2, 3, 4])
    graph = freeze(trace, mlp=mlp)
    found = virtual_weight(graph, "E", "U", through="all").apply(one_hot(trace)).reshape(4, -1)
    np.testing.assert_allclose(found, expand(graph, "E .* U").logits(), atol=1e-12)
    if mlp == "gate":
        read = virtual_weight(graph, "E", "U", through="L0M L1H2").apply(one_hot(trace)).reshape(4, -1)
        terms = expand(graph, "E L0M L1H2 U")
        np.testing.assert_allclose(read, terms.logits(), atol=1e-13)


@pytest.mark.parametrize("norm_kind", [None, "layernorm"])
def test_a_route_of_a_run_is_its_term(norm_kind):
    trace = random_model(**SIZES, norm=norm_kind).run([1, 5, 2, 2])
    found = virtual_weight(trace, "E", "U", through="L0H3 L2H0")
    logits = found.apply(one_hot(trace)).reshape(4, -1)
    np.testing.assert_allclose(logits, expand(trace, "E L0H3 L2H0 U").logits(), atol=1e-13)
    assert "A_L2H0" in found.formula


@pytest.mark.parametrize("through", ["direct", "a", "c", "b d", "all"])
def test_routes_over_skip_maps_and_gates(through):
    graph = by_hand()
    query = "x .* U" if through == "all" else f"x {'' if through == 'direct' else through} U"
    found = virtual_weight(graph, "x", "U", through=through)
    x = graph.by_label["x"].value()
    np.testing.assert_allclose(
        found.apply(x.ravel()).reshape(4, -1), expand(graph, query).logits(), atol=1e-11
    )


def test_between_two_components_everything_on_the_way_is_in_the_map():
    graph = by_hand()
    x = graph.by_label["x"].value()
    written = virtual_weight(graph, "a", "m").apply(x.ravel()).reshape(4, 5)
    logits = push(graph.sink.operator, written)
    np.testing.assert_allclose(logits, expand(graph, "x a m U").logits(), atol=1e-11)


@pytest.mark.parametrize("side", ["Q", "K"])
@pytest.mark.parametrize("norm_kind", [None, "layernorm"])
def test_queries_and_keys_of_a_run(side, norm_kind):
    trace = random_model(**SIZES, norm=norm_kind).run([1, 5, 2, 2])
    read = reading_graph(trace, "L1H2", side)
    for through, query in (("all", f"E .* {side}"), ("direct", f"E {side}"), ("L0H1", f"E L0H1 {side}")):
        found = virtual_weight(trace, "E", f"L1H2.{side}", through=through).apply(one_hot(trace))
        np.testing.assert_allclose(found.reshape(4, 3), expand(read, query).logits(), atol=1e-13)


def test_what_a_graph_does_not_have_is_refused():
    trace = random_model(**SIZES).run([1, 2])
    with pytest.raises(GraphError, match="does not write to the stream of this graph"):
        virtual_weight(trace, "b_V_L0H0", "U")
    with pytest.raises(GraphError, match="does not read the stream"):
        virtual_weight(trace, "E", "nobody")
    with pytest.raises(PathError, match="L0H1 cannot read L1H0"):
        virtual_weight(trace, "L1H0", "L0H1")
    with pytest.raises(GraphError, match="read off a trace"):
        virtual_weight(freeze(trace), "E", "L0H0.Q")
    with pytest.raises(GraphError, match="no component 'L9H9'"):
        virtual_weight(trace, "E", "U", through="L9H9")

    for writer, reader in ((None, "U"), ("E", None), ("E", 3)):
        with pytest.raises(GraphError, match="of this graph"):
            virtual_weight(trace, writer, reader)


@pytest.mark.parametrize("mlp", ["gate", "source"])
@pytest.mark.parametrize("name", FAMILIES)
def test_between_any_two_components_of_every_family(name, mlp):
    """Every writer and reader of a frozen run, directly and by all routes, beside a plain walk over the blocks."""
    trace = FAMILIES[name]().run([1, 4, 2, 0])
    graph = freeze(trace, mlp=mlp)
    rng = np.random.default_rng(0)
    for writer in graph.alphabet.components[:-1:2]:
        x = rng.standard_normal(graph.sizes[:2])
        written, start = push(graph.by_label[writer].operator, x), graph.places[writer] + 1
        for reader in (*graph.alphabet.components[-2:], "U"):
            end = graph.places.get(reader, len(graph.blocks))
            if end < start:
                continue
            read = graph.by_label[reader].operator
            for through in ("direct", "all"):
                expected = push(read, carried(graph, written, start, end, through == "all"))
                found = virtual_weight(graph, writer, reader, through=through).apply(x.ravel())
                np.testing.assert_allclose(found, expected.ravel(), atol=1e-10)


def carried(graph, x, start, end, everything):
    for block in graph.blocks[start:end]:
        added = [push(component.operator, x) for component in block.components] if everything else []
        x = push(block.skip, x) + sum(added)
    return x


def test_a_token_table_is_never_formed_and_still_answers():
    """Frobenius norm, trace, spectrum and top entries of a 500 × 500 table against the dense one."""
    model = random_model(layers=1, heads=2, d_model=32, d_head=8, d_vocab=500, seed=5)
    table = virtual_weight(model, "E", "U", through="L0H1")
    dense = model.weights.W_U @ model.weights.W_O[0, 1] @ model.weights.W_V[0, 1] @ model.weights.W_E
    assert norm(table) == pytest.approx(np.linalg.norm(dense))
    assert table.trace() == pytest.approx(np.trace(dense))
    np.testing.assert_allclose(table.svd().S, np.linalg.svd(dense, compute_uv=False)[:8], rtol=1e-10)
    nonzero = table.eigenvalues().values
    largest = np.linalg.eigvals(dense)
    largest = largest[np.argsort(-np.abs(largest))][:8]
    np.testing.assert_allclose(np.sort(np.abs(nonzero)), np.sort(np.abs(largest)), rtol=1e-8)
    best = top_entries(table, 20)
    order = np.argsort(-np.abs(dense), axis=None)[:20]
    np.testing.assert_allclose(best.values, dense.ravel()[order], rtol=1e-12)


LARGE = """
import numpy as np
from pathexp.algebra import norm, top_entries
from pathexp import Config, Model, Weights, virtual_weight

rng = np.random.default_rng(0)
shapes = {"W_E": (64, 50_000), "W_U": (50_000, 64), "W_O": (1, 1, 64, 8)}
shapes |= {name: (1, 1, 8, 64) for name in ("W_Q", "W_K", "W_V")}
config = Config(n_layers=1, n_heads=1, d_model=64, d_head=8, d_vocab=50_000, n_ctx=4)
model = Model(config, Weights(**{name: rng.standard_normal(shape) for name, shape in shapes.items()}))
table = virtual_weight(model, "E", "U", through="L0H0")
assert table.shape == (50_000, 50_000) and norm(table) > 0 and np.isfinite(table.trace())
assert len(table.eigenvalues().values) == 8 and len(top_entries(table, 20).values) == 20
print(peak_bytes() / 1e6)
"""


@pytest.mark.slow
def test_a_table_of_fifty_thousand_tokens_stays_below_500_megabytes():
    done = subprocess.run([sys.executable, "-c", PEAK + LARGE], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert float(done.stdout) < 500


@pytest.fixture
def model_file(tmp_path):
    random_model(layers=2, heads=2, d_vocab=9, norm="layernorm", biases=True, seed=1).save(
        tmp_path / "tiny.npz"
    )
    return str(tmp_path / "tiny.npz")


def test_the_command_lists_the_largest_entries(capsys, model_file):
    asked = ["virtual-weight", model_file, "--through", "L0H1", "--top", "4"]
    assert main([*asked, "--json"]) == 0
    data, model = json.loads(capsys.readouterr().out), load(model_file)
    assert data == json.loads(largest_entries(model, through="L0H1", k=4).to_json())
    dense = virtual_weight(model, "E", "U", through="L0H1").dense()
    rows = data["tables"]["entries"]["rows"]
    best = np.sort(np.abs(dense), axis=None)[::-1][:4]
    np.testing.assert_allclose(np.abs([row["weight"] for row in rows]), best)
    assert dense[rows[0]["to_index"], rows[0]["from_index"]] == pytest.approx(rows[0]["weight"])
    assert data["norm"] == pytest.approx(np.linalg.norm(dense))
    values = [row["singular_value"] for row in data["tables"]["singular_values"]["rows"]]
    np.testing.assert_allclose(values, np.linalg.svd(dense, compute_uv=False)[: len(values)], atol=1e-9)
    assert data["formulas"][0]["text"].startswith("W_U") and "mathrm{L0H1}" in data["formulas"][0]["latex"]
    assert main(asked) == 0
    assert "from E to U, through L0H1" in capsys.readouterr().out
    assert main(["virtual-weight", model_file, "--through", "L9H9"]) == 2


def test_the_command_writes_the_table(capsys, model_file, tmp_path):
    file = str(tmp_path / "t.npy")
    asked = ["virtual-weight", model_file, "--writer", "L0H1", "--reader", "L1H0.Q", "--table", file]
    assert main(asked) == 0
    assert "from L0H1 to L1H0.Q, direct" in capsys.readouterr().out
    assert main(["virtual-weight", model_file, "--table", str(tmp_path / "no" / "where.npy")]) == 2
    assert "expected a file in a folder that exists" in capsys.readouterr().err
    expected = virtual_weight(load(model_file), "L0H1", "L1H0.Q").dense()
    np.testing.assert_allclose(np.load(file, allow_pickle=False), expected, rtol=1e-6)

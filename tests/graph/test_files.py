"""Graphs in files of other programs keep every node, every key and every value, whatever the names."""

import json
import re
import xml.etree.ElementTree as ET

import networkx as nx
import numpy as np
import pytest

import pathexp as px
from pathexp.errors import GraphError
from pathexp.graph.files import dot, flattened, graph_json, graphml, save_graph

HOSTILE = ["a:b", "a", 'x"y', "λ→", "\n", "\\n", "<b>", "x\\", "a -> b", "\x1b", "]]>", ""]


def hostile():
    graph = nx.MultiDiGraph()
    for number, name in enumerate(HOSTILE):
        graph.add_node(name, label=name, layer=np.int64(number), head=np.int32(1), flow=np.float32(0.5))
    graph.add_edge(HOSTILE[0], HOSTILE[1], key="Q", flow=np.float32(1.5), causal=np.True_, none=None)
    graph.add_edge(
        HOSTILE[0], HOSTILE[1], key="K", eigenvalue=1 + 2j, pattern=np.ones((2, 3)), nan=float("nan")
    )
    return graph


def strings(text):
    """The quoted strings of a DOT text, by a small tokenizer of the language's own rule."""
    found = re.findall(r'"((?:[^"\\]|\\.)*)"', text, re.S)
    return [
        re.sub(r"\\(.)", lambda m: {"n": "\n", "r": "\r", "0": "\0"}.get(m[1], m[1]), part) for part in found
    ]


def test_dot_keeps_all_names_apart():
    text = dot(hostile())
    nodes = [line for line in text.split("\n") if line.startswith('  "') and "key=" not in line]
    names = [strings(line)[0] for line in nodes]
    assert names == HOSTILE
    assert text.count('key="Q"') == text.count('key="K"') == 1


def test_values_are_flattened():
    edges = flattened(hostile()).edges
    first, second = edges["a:b", "a", "Q"], edges["a:b", "a", "K"]
    assert first == {"flow": 1.5, "causal": True, "key": "Q"} and type(first["flow"]) is float
    assert second == {"eigenvalue_re": 1.0, "eigenvalue_im": 2.0, "pattern_shape": "2 × 3",
                      "pattern_norm": pytest.approx(6**0.5), "key": "K"}  # fmt: skip


def test_json_round_trip():
    back = nx.node_link_graph(json.loads(graph_json(hostile())), edges="edges")
    assert list(back) == HOSTILE and sorted(back["a:b"]["a"]) == ["K", "Q"]
    assert [back.nodes[name]["layer"] for name in HOSTILE] == list(range(len(HOSTILE)))


def test_graphml_round_trip():
    graph = px.flow(trace(), trace().logit(1)).to_networkx()
    text = graphml(graph)
    back = nx.parse_graphml(text, force_multigraph=True)
    assert set(back) == set(graph)
    found = {(a, b, data["key"]): data["flow"] for a, b, data in back.edges(data=True)}
    assert found == {(a, b, key): flow for a, b, key, flow in graph.edges(keys=True, data="flow")}
    assert back.nodes["L1H0"]["layer"] == 1 and back.nodes["L1H0"]["head"] == 0
    ids = [node.get("id") for node in ET.fromstring(text).iter() if node.get("id")]
    assert len(ids) == len(set(ids))


def test_graphml_of_names_that_xml_cannot_hold():
    graph = nx.MultiDiGraph()
    graph.add_node("a", token="\x1b[31m\n\0")
    assert nx.parse_graphml(graphml(graph)).nodes["a"]["token"] == "\\x1b[31m\\n\\x00"


def test_a_graph_of_sizes_alone_is_written_too():
    graph = px.ResidualGraph.attention_only(layers=2, heads=2).to_networkx()
    assert set(nx.parse_graphml(graphml(graph))) == {"E", "L0H0", "L0H1", "L1H0", "L1H1", "U"}
    assert dot(graph).count("->") == graph.number_of_edges()


def test_two_nodes_of_one_name_are_refused():
    graph = nx.MultiDiGraph([(1, "1")])
    with pytest.raises(GraphError, match="would both be called '1'"):
        flattened(graph)


def trace():
    return px.random_model(layers=2, heads=2, norm="layernorm", biases=True, seed=1).run([1, 2, 3])


def test_an_empty_flow_is_an_empty_graph(tmp_path):
    graph = px.flow(trace(), trace().logit(1), query="E L1H0 L0H0 U").to_networkx()
    assert dot(graph).startswith("digraph {")
    save_graph(graph, str(tmp_path / "empty.json"))
    assert len(nx.node_link_graph(json.loads((tmp_path / "empty.json").read_text()), edges="edges")) == 0


def test_files_that_cannot_be_written_are_refused(tmp_path):
    with pytest.raises(GraphError, match="cannot write the graph"):
        save_graph(hostile(), str(tmp_path / "no" / "x.dot"))
    with pytest.raises(GraphError, match=r"got .x\.svg."):
        save_graph(hostile(), "x.svg")


@pytest.mark.parametrize("ending", ["dot", "graphml", "json"])
def test_a_graph_that_cannot_be_written_whole_leaves_the_old_file(ending, tmp_path, monkeypatch):
    file = tmp_path / f"graph.{ending}"
    save_graph(hostile(), str(file))
    old = file.read_bytes()
    monkeypatch.setattr("os.fsync", no_room)
    with pytest.raises(GraphError, match="No space left"):
        save_graph(nx.MultiDiGraph(), str(file))
    assert file.read_bytes() == old and list(tmp_path.iterdir()) == [file]


def no_room(_file):
    raise OSError(28, "No space left on device")

"""Graphs in files of other programs keep every node, every key and every value, whatever the names."""

import json
import re
import xml.etree.ElementTree as ET

import networkx as nx
import numpy as np
import pytest

import pathexp as px
from pathexp.errors import GraphError, SizeError
from pathexp.report import sankey as sankey_room
from pathexp.report.dot import dot
from pathexp.report.graph_files import flattened, graph_json, graphml
from pathexp.report.sankey import sankey

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
    graph = px.flow(trace(), trace().logit(1))
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


@pytest.mark.parametrize("per_position", [False, True])
def test_a_sankey_diagram_shows_every_edge_and_node(per_position):
    graph = px.flow(trace(), trace().logit(1), per_position=per_position)
    root = ET.fromstring(sankey(graph, "a <flow>"))
    svg = "{http://www.w3.org/2000/svg}"
    said = [path.find(f"{svg}title").text for path in root.iter(f"{svg}path")]
    expected = {f"{a} → {b}: {flow:+.4g}" for a, b, flow in graph.edges(data="flow")}
    assert set(said) == expected and len(said) == graph.number_of_edges()
    assert {path.get("fill") for path in root.iter(f"{svg}path")} == {"#b2182b", "#2166ac"}


def test_an_empty_flow_is_an_empty_picture():
    graph = px.flow(px.expand(trace(), "E L1H0 L0H0 U"), trace().logit(1))
    assert ET.fromstring(sankey(graph)) is not None
    assert dot(graph).startswith("digraph {")


def test_too_many_bands_are_refused(monkeypatch):
    monkeypatch.setattr(sankey_room, "MAX_EDGES", 3)
    with pytest.raises(SizeError, match=r"beyond the limit of 3.*prune"):
        sankey(px.flow(trace(), trace().logit(1)))

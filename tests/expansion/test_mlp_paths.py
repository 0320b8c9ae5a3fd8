"""Trees and flows through MLPs, from them, and through their neurons."""

import numpy as np
import pytest

import pathexp as px
from pathexp.cli import main
from pathexp.errors import FreezeError, PathexpError


def run():
    return px.random_model(layers=2, heads=2, d_mlp=5, norm="layernorm", biases=True, d_vocab=9, seed=3).run(
        [1, 2, 3]
    )


@pytest.mark.parametrize("mlp", ["gate", "source", "neurons"])
def test_trees_and_flows_add_up_however_mlps_are_taken(mlp):
    trace = run()
    target = trace.logit(4)
    tree, flow = px.tree(trace, target, mlp=mlp), px.flow(trace, target, mlp=mlp)
    assert tree.root.value == pytest.approx(target.value, abs=1e-12) and tree.ok
    assert flow.value == pytest.approx(target.value, abs=1e-12) and flow.ok
    neurons = {node.label for node in flow.nodes if node.kind == "neuron"}
    assert len(neurons) == (10 if mlp == "neurons" else 0)


def test_neurons_divide_what_flows_through_their_mlp():
    trace = run()
    target = trace.logit(4)
    whole, apart = px.flow(trace, target), px.flow(trace, target, mlp="neurons")
    parts = [apart.node_flow(f"L1N{k}") for k in range(5)] + [apart.node_flow("L1M")]
    assert sum(parts) == pytest.approx(whole.node_flow("L1M"), abs=1e-12) and np.ptp(parts) > 1e-6


def test_inner_targets_end_the_tree_of_neurons():
    trace = run()
    inner = trace.direction(np.ones(trace.config.d_model), at="L1.mid")
    tree = px.tree(trace, inner, mlp="neurons")
    assert tree.root.query == "S .* L1.mid" and tree.root.value == pytest.approx(inner.value, abs=1e-12)
    assert any("L0N" in leaf.query for leaf in tree.leaves())


def test_what_cannot_be_taken_so_is_refused():
    trace = run()
    target = trace.logit(4)
    for ask in (px.tree, px.flow):
        with pytest.raises(PathexpError, match="is frozen already"):
            ask(px.freeze(trace), target, mlp="neurons")
        with pytest.raises(FreezeError, match="nerves"):
            ask(trace, target, mlp="nerves")
        with pytest.raises(PathexpError, match="no MLPs"):
            plain = px.random_model(layers=1, heads=1).run([1, 2])
            ask(plain, plain.logit(1), mlp="neurons")


@pytest.mark.parametrize("command", ["tree", "flow"])
def test_the_commands_take_neurons(capsys, tmp_path, command):
    px.random_model(layers=1, heads=1, d_mlp=3, d_vocab=9).save(tmp_path / "small.npz")
    asked = [command, str(tmp_path / "small.npz"), "--tokens", "1,2,3", "--mlp", "neurons"]
    assert main(asked) == 0
    assert "L0N" in capsys.readouterr().out
    assert main([command, "attn-1l", "the", "--mlp", "neurons"]) == 2
    assert "no MLPs" in capsys.readouterr().err

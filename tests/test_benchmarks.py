"""Benchmarks do not rot: every script runs at a tiny size, without peers, and is described."""

from __future__ import annotations

import importlib
import os
import sys
from pathlib import Path

import numpy as np
import pytest

import pathexp as px

ROOT = Path(__file__).parents[1]
HELPERS = {"alone", "contrast_edges", "live_patching", "warm_tests"}
SCRIPTS = sorted(path.stem for path in (ROOT / "benchmarks").glob("*.py") if path.stem not in HELPERS)

SHOWN = {
    "adversarial_searches": "0 false claims",
    "composition": "peak",
    "contrast_against_patching": "gradient at b",
    "every_command": "imports",
    "flow": "largest imbalance",
    "growth": "all flows",
    "large_models": "composition",
    "listing": "sympy",
    "mutants": "of 2 mutants killed",
    "peer_rust_circuit": "9 values",
    "peer_unpack": "path patching",
    "ranking": "proven: True",
    "totals": "largest difference",
    "tree": "children add up",
    "values": "largest difference",
    "virtual": "top 100 entries",
}
"""A part of what each prints when it came to its end."""


@pytest.fixture
def load(monkeypatch):
    """Import a script as it stands in its folder; processes it starts find the package too."""
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT), *filter(None, sys.path)]))
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    return importlib.import_module


def test_every_script_is_here():
    assert list(SHOWN) == SCRIPTS


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", SCRIPTS)
def test_it_runs(name, load, capsys):
    load(name).main(["--tiny"])
    printed = capsys.readouterr().out
    assert SHOWN[name] in printed, printed


@pytest.mark.parametrize("name", SCRIPTS)
def test_it_is_described(name, load):
    said = load(name).__doc__
    assert said.startswith("Claim: ") and f"python benchmarks/{name}.py" in said and "[--tiny]" in said
    assert f"benchmarks/{name}.py" in (ROOT / "docs" / "performance.md").read_text(encoding="utf-8")


def test_growth_finds_exponents_and_draws(load, tmp_path):
    growth = load("growth")
    square = [(size, 3e-6 * size**2) for size in (1, 2, 4, 8, 16)]
    assert growth.growth("all flows", "heads", [(1, 9.0), *square[1:]]) == "2.00", "the larger half alone"
    assert growth.growth("all flows", "heads", square[:1]) == "—"
    powers = [(size, 2e-6 * 9.0**size) for size in (1, 2, 3, 4)]
    assert growth.growth("listing all paths", "layers", powers) == "×9.0 each"
    (figure,) = growth.drawn("heads", {"all flows": square, "counting": square[:2]}).figures().values()
    assert figure.kind == "lines" and figure.data["log"] and figure.data["x"] == [1, 2, 4, 8, 16]
    assert figure.data["series"]["counting"][2:] == [None, None, None]


def test_rust_circuit_is_lined_up_by_path(load, capsys):
    peer = load("peer_rust_circuit")
    mine = {"listing": {"seconds": 1.0}, "values": {"seconds": 2.0}}
    values = {"E U": 0.5, "E L0H0 U": -1.0}
    theirs = {
        "listing": {"seconds": 10.0},
        "evaluate": {"seconds": 8.0, "values": dict(reversed(values.items()))},
    }
    peer.compare(mine, theirs, values)
    printed = capsys.readouterr().out
    assert "10 ×" in printed and "4 ×" in printed and "difference of all values 0.0e+00" in printed
    theirs["evaluate"]["values"]["E U"] = 0.6
    with pytest.raises(AssertionError):
        peer.compare(mine, theirs, values)


def pair_of_runs():
    model = px.random_model(
        layers=3, heads=2, kv_heads=1, d_mlp=12, gated=True, activation="silu", norm="rmsnorm", positions="rotary",
        d_head=4, d_vocab=30, seed=2,
    )  # fmt: skip
    return model.run([1, 2, 3, 4, 5]), model.run([1, 7, 3, 4, 5])


def test_unpack_is_lined_up_by_node(load, capsys):
    peer = load("peer_unpack")
    names = ("L0H0", "L0H1", "L0M")
    methods = ("contrast", "gradient", "path patching")
    row = {
        "live": [1.0, 2.0, 3.0], **{method: [1.0, 2.0, 4.0] for method in methods},
        "sums": dict.fromkeys(methods, 1.0), "seconds": dict.fromkeys((*methods, "live"), 0.5),
    }  # fmt: skip
    flow = {"mlp_0": 3.0, "attn_0_head_1": 2.0, "attn_0_head_0": 1.0, "embedding": 9.0}
    theirs = {"rows": [{"flows": [flow, {**flow, "mlp_0": 9.0}], "added": 0.9}], "seconds": 0.1}
    peer.report([row], names, {"kqv_aligned": theirs})
    printed = capsys.readouterr().out.splitlines()
    alone, apart = (next(line for line in printed if word in line) for word in ("kqv_aligned", "minus"))
    assert "1.000 ± 0.000" in alone and "0.900 ± 0.000" in alone and "-0.866" in apart


def test_edges_straight_to_the_logits_are_patched_one_by_one(load):
    peer, model = load("peer_unpack"), px.random_model(
        layers=2, heads=2, d_mlp=8, norm="layernorm", positions="learned", d_vocab=48, n_ctx=24, seed=2
    )  # fmt: skip
    text, twin, token = peer.prompts(1)[0]
    found = peer.measure(model, text, twin, token)
    here, there = model.run(text), model.run(twin)
    toward = np.full(48, -1 / 48)
    toward[token] += 1
    edge = px.intervene(px.contrast(here, there), here.direction(toward), edge=("L1H1", "U"))[0]
    assert abs(found["path patching"][4] - edge.live) < 1e-12
    node = px.intervene(px.contrast(here, there), here.direction(toward), node="L0H1")[0]
    assert abs(found["live"][1] - node.live) < 1e-12 and abs(found["contrast"][1] - node.exact) < 1e-12
    assert abs(found["gradient"][1] - node.gradient) < 1e-12 and abs(found["sums"]["contrast"] - 1) < 1e-12


def test_batched_patching_is_that_of_a_run_of_its_own(load):
    patching, (here, there) = load("live_patching"), pair_of_runs()
    target = here.logit_difference(3, 9)
    effects = patching.Patched(there, here).effects(target)
    alone = [patching.by_rerun(there, here, node, target) for node in patching.nodes(here.config)]
    np.testing.assert_allclose(effects, alone, atol=1e-12)
    some = patching.Patched(there, here, ("L0H1", "L2M"))
    np.testing.assert_allclose(some.effects(target), effects[[1, 8]], atol=1e-12)


def test_heads_patched_together_all_give_what_they_gave_in_the_other_run(load):
    patching, (here, there) = load("live_patching"), pair_of_runs()
    target = here.logit_difference(3, 9)
    together = patching.Patched(there, here, ("L0H0+L1H0+L1H1+L2H1", "L1H0"))
    edits, patched = {}, there
    for layer, heads in {
        0: [0],
        1: [0, 1],
        2: [1],
    }.items():  # one layer after the other, each head from where it is
        change = (here.head_results - patched.head_results)[layer, heads].sum(axis=0)
        edits[f"L{layer}.attn_out"] = lambda stream, change=change: stream + change
        patched = px.rerun(there, edits)
    alone = patching.by_rerun(there, here, "L1H0", target)
    live = (patched.logits[-1] - there.logits[-1]) @ target.direction
    np.testing.assert_allclose(together.effects(target), [live, alone], atol=1e-12)


def test_two_sweeps_find_the_flows_of_all_edges(load):
    here, there = pair_of_runs()
    target = here.logit_difference(3, 9)
    found = load("contrast_edges").measure(here, there, target)
    flow, row = px.flow(px.contrast(here, there), target), {label: i for i, label in enumerate(found.labels)}
    for edge in flow.edges:
        if edge.writer in row and edge.reader in row:
            assert abs(found.edges[row[edge.reader], row[edge.writer]] - edge.flow) < 1e-13
    assert all(abs(found.total[i] - flow.node_flow(label)) < 1e-13 for label, i in row.items())
    assert abs(found.sums_to - found.whole) < 1e-13

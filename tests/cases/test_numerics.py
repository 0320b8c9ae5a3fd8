"""Reports from the field on numerics (part G), each as a small test."""

from dataclasses import replace

import numpy as np

import pathexp as px


def test_n01_half_precision_is_summed_in_double():
    """4,096 paths that each add one: a sum in half precision stalls at 2,048, and 60,000 + 60,000 overflows."""
    one = np.ones((1, 1), dtype=np.float16)
    graph = px.ResidualGraph.by_hand(1, 1, one).with_source("x", one)
    for index in range(12):
        graph = graph.with_component(f"c{index}", weight=one)
    terms = px.expand(graph)
    assert terms.count() == 4096 and float(terms.logits()[0, 0]) == 4096
    assert float(sum(t.logits() for t in terms)[0, 0]) == 4096
    assert np.add.accumulate(np.ones(4096, dtype=np.float16))[-1] == 2048, "what naive half precision gives"

    model = px.random_model(layers=1, heads=1, d_model=2, d_head=1, d_vocab=2, n_ctx=2, positions="none")
    large = np.full((2, 2), 60000, dtype=np.float16)
    weights = replace(model.weights, W_E=large, W_U=np.ones((2, 2), dtype=np.float16))
    trace = replace(model, weights=weights).run([0])
    assert np.isfinite(trace.logits).all() and px.expand(trace)["E U"].logits()[0, 0] == 120000


def test_n06_memory_order_changes_only_last_bits():
    model = px.random_model(layers=2, heads=3, norm="layernorm", biases=True, seed=1)
    turned = {name: np.asfortranarray(array) for name, array in model.weights.arrays().items()}
    other = replace(model, weights=replace(model.weights, **turned))
    tokens = [1, 2, 3, 4]
    assert np.abs(model.run(tokens).logits - other.run(tokens).logits).max() <= 1e-12
    verdict = px.expand(other.run(tokens)).verify()
    assert verdict.ok and "tolerance" in str(verdict)

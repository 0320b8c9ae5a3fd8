"""The law of a block, read off weights alone, against what the forward pass recorded on a run."""

import numpy as np
import pytest

import pathexp as px
from pathexp.errors import GraphError
from pathexp.graph.factors import Factors
from pathexp.graph.from_weights import embedding, features, positions, reading, unembedding, writing
from pathexp.graph.named import center

MODELS = {
    "layer norms": {"norm": "layernorm", "d_mlp": 7},
    "one norm for both branches": {"norm": "layernorm", "d_mlp": 7, "parallel": "shared"},
    "two norms side by side": {"norm": "rmsnorm", "d_mlp": 7, "parallel": "separate"},
    "norms before and after": {"norm": "rmsnorm", "d_mlp": 7, "norm_placement": "sandwich"},
    "norms after": {"norm": "layernorm", "d_mlp": 7, "norm_placement": "branch"},
    "multipliers": {
        "norm": "rmsnorm", "d_mlp": 7, "residual_multiplier": 0.5, "embedding_multiplier": 3.0,
        "logit_multiplier": 0.25,
    },
    "a norm of the embedding": {"norm": "layernorm", "embed_norm": True},
    "no norms": {"d_mlp": 7},
}  # fmt: skip


@pytest.fixture(params=MODELS.values(), ids=MODELS)
def run(request):
    model = px.random_model(layers=2, heads=2, biases=True, seed=4, **request.param)
    return model.run([3, 1, 4, 1, 5])


def scaled(run, site, x):
    """What a norm makes of a stream but for its gain, centering and bias."""
    return x * run.norm_scales[site][:, None] if site in run.norm_scales else x


def bias(run, name, *layer):
    """The bias of a norm."""
    found = getattr(run.model.weights, f"b_{name}", None)
    return 0.0 if found is None else found[layer]


def applied(maps, x):
    for map in reversed(maps):
        x = map.apply(x)
    return x


def before(run, layer, branch):
    """The stream that a branch reads."""
    if branch == "mlp" and not run.config.parallel:
        return run.residuals[f"L{layer}.mid"]
    return run.residuals[f"L{layer - 1}.out" if layer else "embed"]


def branches(run):
    return [(layer, b) for layer in range(2) for b in (("attn", "mlp") if run.config.d_mlp else ("attn",))]


def test_what_a_branch_reads(run):
    for layer, branch in branches(run):
        norm = Factors.of_run(run).law.read_norm(layer, branch)
        maps = reading(run.model, layer, branch)
        x = applied(maps, scaled(run, f"L{layer}.{norm}", before(run, layer, branch)))
        expected = run.residuals[f"L{layer}.{branch}_in"]
        assert np.allclose(x + bias(run, norm, layer), expected, rtol=0, atol=1e-12)


def test_what_a_branch_writes(run):
    for layer, branch in branches(run):
        name = f"{branch}_post"
        maps = writing(run.model, layer, branch)
        x = applied(maps, scaled(run, f"L{layer}.{name}", run.residuals[f"L{layer}.{branch}_result"]))
        after = bias(run, name, layer) if name in run.config.block_norms else 0.0
        expected = run.residuals[f"L{layer}.{branch}_out"]
        assert np.allclose(x + run.config.residual_multiplier * after, expected, rtol=0, atol=1e-12)


def test_both_ends(run):
    x = embedding(run.model).dense()[:, run.tokens].T + positions(run.model).dense()[:, : len(run)].T
    after = bias(run, "embed") if run.config.embed_norm else 0.0
    assert np.allclose(scaled(run, "embed", x) + after, run.residuals["embed"], rtol=0, atol=1e-12)
    final = np.zeros(run.config.d_model) + (bias(run, "final") if run.config.final_norm else 0.0)
    weights, multiplier = run.model.weights, run.config.logit_multiplier
    constant = multiplier * (weights.W_U @ final + weights.b_U)
    logits = unembedding(run.model).apply(scaled(run, "final", run.residuals["final_in"])) + constant
    assert np.allclose(logits, run.logits, rtol=0, atol=1e-12)


def test_a_run_and_its_weights_have_the_same_features(run):
    here, there = Factors.of_run(run), Factors.of_weights(run.model)
    for layer, branch in branches(run):
        for each in ("read", "written"):
            a, b = (features(getattr(make.law, each)(layer, branch)) for make in (here, there))
            assert [map.formula for map in a] == [map.formula for map in b]
            assert all(np.array_equal(x.dense(), y.dense()) for x, y in zip(a, b, strict=True))


def test_centering_takes_the_mean_off():
    x = np.random.default_rng(0).normal(size=(3, 24))
    centered = center(px.algebra.Space("model", 24)).apply(x)
    assert np.allclose(centered, x - x.mean(axis=1, keepdims=True), rtol=0, atol=1e-14)


def test_gates_have_no_map_of_features_alone():
    make = Factors.of_weights(px.random_model(d_mlp=7))
    with pytest.raises(GraphError, match="elementwise"):
        features((make.gate(0),))

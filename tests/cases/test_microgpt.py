"""A small trained model built by hand as a residual graph, beside its own plain forward pass.

One layer, RMSNorm without gain right after the embedding, ReLU, no final norm: no builder of ours is used.
"""

import json

import numpy as np
import pytest

import pathexp as px
from tests.shared_models import shared_file

HEADS, WIDTH, EPS = 4, 4, 1e-5


@pytest.fixture(scope="module")
def weights():
    file = json.loads(shared_file("names_1l_microgpt.json").read_text())
    assert file["metadata"]["n_head"] == HEADS and file["metadata"]["head_dim"] == WIDTH
    return {name.removeprefix("layer0."): np.array(rows) for name, rows in file["weights"].items()}


def ids(name):
    """Begin, the letters, end."""
    return [26, *(ord(letter) - ord("a") for letter in name), 26]


def scale(x):
    return 1 / np.sqrt((x * x).mean(axis=-1, keepdims=True) + EPS)


class Run:
    """The forward pass, in numpy and nothing else; rows of a matrix are outputs, as the file has them."""

    def __init__(self, w, tokens):
        n = len(tokens)
        summed = w["wte"][tokens] + w["wpe"][:n]
        self.embed_scale = scale(summed)
        x = self.embed_scale * summed
        self.attn_scale = scale(x)
        read = self.attn_scale * x
        q, k, v = (
            (read @ w[f"attn_w{letter}"].T).reshape(n, HEADS, WIDTH).transpose(1, 0, 2) for letter in "qkv"
        )
        scores = q @ k.transpose(0, 2, 1) / np.sqrt(WIDTH)
        scores = np.where(np.tri(n, dtype=bool), scores, -np.inf)
        weighed = np.exp(scores - scores.max(-1, keepdims=True))
        self.patterns = weighed / weighed.sum(-1, keepdims=True)
        joined = (self.patterns @ v).transpose(1, 0, 2).reshape(n, HEADS * WIDTH)
        x = x + joined @ w["attn_wo"].T
        self.mlp_scale = scale(x)
        hidden = (self.mlp_scale * x) @ w["mlp_fc1"].T
        self.on = (hidden > 0).astype(float)
        self.logits = (x + np.maximum(hidden, 0) @ w["mlp_fc2"].T) @ w["lm_head"].T


def by_hand(w, run, tokens):
    """Sources behind the first norm, heads whose patterns hold the norm's scale, neurons of rank one."""
    n = len(tokens)
    graph = px.ResidualGraph.by_hand(n, 16, w["lm_head"])
    graph = graph.with_source("E", run.embed_scale * w["wte"][tokens])
    graph = graph.with_source("P", run.embed_scale * w["wpe"][:n])
    for head in range(HEADS):
        rows = slice(head * WIDTH, (head + 1) * WIDTH)
        graph = graph.with_component(
            f"head{head}",
            weight=(w["attn_wo"][:, rows], w["attn_wv"][rows]),
            pattern=run.patterns[head] * run.attn_scale.T,
            beside="head0" if head else None,
            kind="head",
        )
    for neuron in range(64):
        graph = graph.with_component(
            f"n{neuron}",
            weight=(w["mlp_fc2"][:, neuron], w["mlp_fc1"][neuron]),
            pattern=run.on[:, neuron] * run.mlp_scale[:, 0],
            beside="n0" if neuron else None,
            kind="neuron",
        )
    return graph


@pytest.mark.parametrize("name", ["emma", "a", "isabella"])
def test_the_paths_of_a_hand_built_graph_add_up_to_its_own_forward_pass(weights, name):
    tokens = ids(name)
    run = Run(weights, tokens)
    terms = px.expand(by_hand(weights, run, tokens))
    assert terms.count() == 2 * (1 + HEADS) * (1 + 64)
    verdict = terms.verify(run.logits)
    assert verdict.ok and verdict.tolerance < 1e-9, verdict
    assert not terms.verify(run.logits + 1e-6).ok


def test_it_knows_names(weights):
    """2.39 nats a letter on names, by its card; a sequence of letters that is no name costs far more."""

    def loss(text):
        tokens = ids(text)
        logits = Run(weights, tokens).logits[:-1]
        log_probs = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
        return -log_probs[np.arange(len(logits)), tokens[1:]].mean()

    names = ["emma", "olivia", "ava", "mia", "anna", "john", "maria", "lena"]
    assert np.mean([loss(name) for name in names]) < 2.5 < np.mean([loss("xqzk"), loss("vvvq")])


def test_the_builder_of_transformers_says_the_same(weights):
    """The same weights as a model: one config, and one graph, and the same logits."""

    def heads(name):
        return weights[name].reshape(HEADS, WIDTH, 16)[None]

    config = px.Config(
        n_layers=1, n_heads=HEADS, d_model=16, d_head=WIDTH, d_vocab=27, n_ctx=16, d_mlp=64, activation="relu",
        norm="rmsnorm", embed_norm=True, final_norm=False, positions="learned",
    )  # fmt: skip
    made = px.Weights(
        W_E=weights["wte"].T, W_pos=weights["wpe"].T, W_U=weights["lm_head"],
        W_Q=heads("attn_wq"), W_K=heads("attn_wk"), W_V=heads("attn_wv"),
        W_O=weights["attn_wo"].reshape(16, HEADS, WIDTH).transpose(1, 0, 2)[None],
        W_in=weights["mlp_fc1"][None], W_out=weights["mlp_fc2"][None],
    )  # fmt: skip
    trace = px.Model(config, made, name="microgpt").run(ids("olivia"))
    run = Run(weights, ids("olivia"))
    np.testing.assert_allclose(trace.logits, run.logits, atol=1e-11)
    np.testing.assert_allclose(trace.patterns[0], run.patterns, atol=1e-12)
    assert px.expand(trace).verify().ok and px.decompose(trace).ok

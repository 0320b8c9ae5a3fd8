"""One switch at a time, on cases small enough to work by hand, and the names under which a run keeps things."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from pathexp.errors import ConfigError, WeightsError
from pathexp.model.activations import GATES
from pathexp.model.config import Config
from pathexp.model.handmade import random_model
from pathexp.model.model import Model
from pathexp.model.rotary import Rotary
from pathexp.model.trace import Trace
from pathexp.model.weights import Weights, expected
from tests.zoo import FAMILIES, ZOO

SIZES: dict[str, Any] = {"n_layers": 2, "n_heads": 2, "d_model": 6, "d_head": 4, "d_vocab": 5, "n_ctx": 40}


@pytest.fixture(params=[*ZOO, *FAMILIES])
def trace(request: pytest.FixtureRequest) -> Trace:
    model = {**ZOO, **FAMILIES}[request.param]()
    return model.run(np.random.default_rng(0).integers(0, model.config.d_vocab, 9))


def test_the_stream_is_what_was_there_and_what_was_added(trace: Trace) -> None:
    r, c = trace.residuals, trace.config
    stream = r["embed"]
    for layer in range(c.n_layers):
        at = f"L{layer}."
        if c.parallel:
            np.testing.assert_allclose(
                r[at + "out"], stream + r[at + "attn_out"] + r[at + "mlp_out"], atol=1e-13
            )
        else:
            for branch, end in _branches(c):
                total = stream + r[at + branch + "_out"]
                reached = r[at + branch + "_sum"] if c.norm_placement == "post" else r[at + end]
                np.testing.assert_allclose(reached, total, atol=1e-13)
                stream = r[at + end]
        stream = r[at + "out"]
    np.testing.assert_array_equal(r["final_in"], stream)


def _branches(c: Config) -> list[tuple[str, str]]:
    return [("attn", "mid"), ("mlp", "out")] if c.has_mlps else [("attn", "out")]


def test_every_norm_has_a_site_and_its_scale_is_that_of_what_it_reads(trace: Trace) -> None:
    c, r = trace.config, trace.residuals
    reads = {"attn": "", "attn_post": "attn_result", "mlp": "mid", "mlp_post": "mlp_result"}
    if c.norm_placement == "post":
        reads |= {"attn_post": "attn_sum", "mlp_post": "mlp_sum"}
    expected_sites = ["embed"] * c.embed_norm
    for layer in range(c.n_layers):
        before = r["embed"] if layer == 0 else r[f"L{layer - 1}.out"]
        for name in c.norms_of(layer):
            point = f"L{layer}.{reads[name]}"
            _assert_scale(trace, f"L{layer}.{name}", before if name == "attn" else r.get(point, before))
            expected_sites.append(f"L{layer}.{name}")
        expected_sites += [f"L{layer}.q", f"L{layer}.k"] if c.qk_norm else []
        if c.latent is not None:
            expected_sites += [
                f"L{layer}.kv_latent",
                *([f"L{layer}.q_latent"] if c.latent.query_rank else []),
            ]
    expected_sites += ["before_transform"] * c.transform_norm + ["final"] * c.final_norm
    if c.transform_norm:
        _assert_scale(trace, "before_transform", r["final_in"])
    assert sorted(trace.norm_scales) == sorted(expected_sites)
    if c.final_norm:
        _assert_scale(trace, "final", r["transform_out" if c.transform else "final_in"])
    if c.embed_norm:
        _assert_scale(trace, "embed", r["embed_in"])


def _assert_scale(trace: Trace, site: str, x: np.ndarray) -> None:
    power = x.var(axis=-1) if trace.config.norm == "layernorm" else (x**2).mean(axis=-1)
    np.testing.assert_allclose(
        trace.norm_scales[site], 1 / np.sqrt(power + trace.config.norm_eps), rtol=1e-12
    )


def test_scores_are_products_of_the_queries_and_keys_that_were_kept(trace: Trace) -> None:
    c, seen = trace.config, ~np.isneginf(trace.scores)
    scores = trace.scores_before_cap
    if c.attention_cap is not None:
        assert np.abs(trace.scores[seen]).max() < c.attention_cap
        scores = c.attention_cap * np.tanh(scores / c.attention_cap)
    if c.alibi_slopes is not None:
        i, j = np.indices(scores.shape[-2:])
        scores = scores - np.reshape(c.alibi_slopes, (-1, 1, 1)) * abs(i - j)
    np.testing.assert_allclose(trace.scores[seen], scores[seen], atol=1e-13)


def test_z_is_the_values_that_were_kept_weighted(trace: Trace) -> None:
    c = trace.config
    for layer in range(c.n_layers):
        for head in range(c.n_heads):
            weighted = trace.patterns[layer, head] @ trace.values[layer, c.kv_head(head)]
            np.testing.assert_allclose(trace.z[layer, head], weighted, atol=1e-13)


def test_the_attention_result_is_the_sum_of_the_heads(trace: Trace) -> None:
    for layer in range(trace.config.n_layers):
        bias = trace.model.weights.b_O
        total = trace.head_results[layer].sum(axis=0) + (0 if bias is None else bias[layer])
        np.testing.assert_allclose(trace.residuals[f"L{layer}.attn_result"], total, atol=1e-13)


def test_a_frozen_gate_makes_the_mlp_linear(trace: Trace) -> None:
    c, w = trace.config, trace.model.weights
    assert trace.mlp_gates.shape == trace.mlp_hidden.shape == (c.n_layers, len(trace), c.d_mlp)
    if not c.d_mlp:
        return
    assert w.W_in is not None and w.W_out is not None
    dense = [layer for layer in range(c.n_layers) if c.has_dense(layer)]
    for layer in dense:
        read = trace.residuals[f"L{layer}.mlp_in"]
        pre = read @ w.W_in[layer].T + (0 if w.b_in is None else w.b_in[layer])
        hidden = trace.mlp_gates[layer] * pre
        np.testing.assert_allclose(trace.mlp_pre[layer], pre, atol=1e-13)
        np.testing.assert_allclose(trace.mlp_hidden[layer], hidden, atol=1e-13)
        result = hidden @ w.W_out[layer].T + (0 if w.b_out is None else w.b_out[layer])
        np.testing.assert_allclose(trace.residuals[f"L{layer}.mlp_result"], result, atol=1e-13)
    if not c.gated:
        np.testing.assert_array_equal(trace.mlp_gate_pre, trace.mlp_pre)
    asked = trace.mlp_gate_pre[dense]
    gate = GATES[c.activation](asked)
    np.testing.assert_allclose(trace.mlp_gates[dense], gate * asked if c.gated else gate, atol=1e-14)


def _one_dimension(**switches: Any) -> Model:
    """One number in the stream, a head of gain 2 (or 2 in all), an MLP of gain 3 for what is positive."""
    layers = switches.get("n_layers", 1)
    one = np.ones((layers, 1, 1, 1))
    config = Config(
        **{"n_layers": layers, "n_heads": 1, "d_model": 1, "d_head": 1, "d_vocab": 1, "n_ctx": 4} | switches
    )
    mlp = {"W_in": np.ones((layers, 1, 1)), "W_out": 3 * np.ones((layers, 1, 1))} if config.d_mlp else {}
    weights = Weights(W_E=[[1.0]], W_Q=one, W_K=one, W_V=one, W_O=2 * one, W_U=[[1.0]], **mlp)  # type: ignore[arg-type]
    return Model(config, weights)


def test_parallel_and_sequential_blocks() -> None:
    mlp = {"d_mlp": 1, "activation": "relu"}
    assert _one_dimension(**mlp, parallel="separate").run([0]).logits == [[1 + 2 + 3]]
    assert _one_dimension(**mlp).run([0]).logits == [[1 + 2 + 3 + 6]]


def test_the_residual_multiplier_is_part_of_the_branch() -> None:
    one = _one_dimension(residual_multiplier=0.22).run([0])
    assert one.logits[0, 0] == pytest.approx(1.44)
    assert one.residuals["L0.attn_out"][0, 0] == pytest.approx(0.44)
    two = _one_dimension(residual_multiplier=0.22, n_layers=2).run([0])
    assert two.logits[0, 0] == pytest.approx(1 + 0.44 + 0.44 + 0.1936)


def test_the_embedding_multiplier_leaves_a_tied_unembedding_alone() -> None:
    trace = _one_dimension(n_layers=0, embedding_multiplier=math.sqrt(3072), tied=True).run([0])
    assert trace.logits[0, 0] == pytest.approx(55.42562584)
    assert trace.model.weights.W_U.tolist() == [[1.0]]


def _zero_layers(W_U: Any, x: Any, **switches: Any) -> Model:
    """A model of one token that is embedded as x."""
    read, stream = np.array(W_U, dtype=float), np.array(x, dtype=float)
    d, vocab = len(stream), len(read)
    none, arrays = np.zeros((0, 1, 1, d)), switches.pop("arrays", {})
    config = Config(n_layers=0, n_heads=1, d_model=d, d_head=1, d_vocab=vocab, n_ctx=3, **switches)
    W_E = np.repeat(stream[:, None], vocab, axis=1)
    weights = Weights(W_E=W_E, W_Q=none, W_K=none, W_V=none, W_O=none.reshape(0, 1, d, 1), W_U=read, **arrays)
    return Model(config, weights)


def test_gain_and_bias_of_the_final_norm_count() -> None:
    arrays = {"g_final": [2, 1, 1, 1], "b_final": [0, 0, 1, 0]}
    model = _zero_layers(np.eye(4)[:2], [1, -1, 2, -2], norm="layernorm", norm_eps=0, arrays=arrays)
    np.testing.assert_allclose(model.run([0]).logits, [[1.2649111, -0.6324555]], atol=1e-7)


def test_soft_caps() -> None:
    cap: dict[str, Any] = {"logit_cap": 30.0}
    trace = _zero_layers(np.eye(2), [0, 30], **cap).run([1])
    np.testing.assert_allclose(trace.logits, [[0, 22.8478247]], atol=1e-7)
    np.testing.assert_array_equal(trace.logits_before_cap, [[0, 30]])
    shifted = _zero_layers(np.eye(2), [10, 40], **cap).run([1]).logits
    np.testing.assert_allclose(shifted, [[9.6453821, 26.1018499]], atol=1e-7)
    assert np.abs(_zero_layers(np.eye(2), [124, -1e4], **cap).run([0]).logits).max() <= 30
    assert _zero_layers([[1], [0]], [124], **cap).run([0]).logits[0, 0] == pytest.approx(29.985, abs=1e-3)
    plain = _zero_layers(np.eye(2), [0, 30]).run([1])
    assert plain.logits_before_cap is plain.logits


def test_logits_are_multiplied_before_they_are_capped() -> None:
    model = _zero_layers(np.eye(2), [0, 30], logit_multiplier=0.5, logit_cap=30.0, arrays={"b_U": [2, 4]})
    np.testing.assert_allclose(model.run([1]).logits, 30 * np.tanh(np.array([[1, 17]]) / 30))


@pytest.mark.filterwarnings("error")
def test_a_cap_does_not_hide_an_overflow() -> None:
    with pytest.raises(WeightsError, match="a logit is inf"):
        _zero_layers([[1e300], [0]], [1e300], logit_cap=30.0).run([0])
    capped = random_model(positions="none", layers=1, attention_cap=2.0)
    large = {name: capped.weights.arrays()[name] * 1e200 for name in ("W_Q", "W_K")}
    with pytest.raises(WeightsError, match="a score of layer 0 is"):
        Model(capped.config, Weights(**capped.weights.arrays() | large)).run([1, 2])


@pytest.mark.parametrize("windows", [(2, None), (None, 2)])
def test_each_layer_has_its_own_window(windows: tuple[int | None, ...]) -> None:
    patterns = random_model(layers=2, windows=windows).run([1, 2, 3, 4]).patterns
    for layer, window in enumerate(windows):
        assert (patterns[layer, :, 3, :2] == 0).all() == (window == 2)
        assert (patterns[layer, :, 3, 2:] > 0).all()


def test_one_window_is_for_all_layers() -> None:
    assert Config(**SIZES, windows=3).windows == (3, 3)  # type: ignore[arg-type]
    assert Config(**SIZES).windows is None
    assert Config(**SIZES, windows=[None, 3]).window(1) == 3  # type: ignore[arg-type]


def test_without_positions_and_mask_the_output_is_permuted_with_the_tokens() -> None:
    tokens, order = np.array([4, 1, 7, 2, 9]), np.array([3, 0, 4, 1, 2])
    switches: dict[str, Any] = {"d_mlp": 9, "norm": "layernorm", "biases": True, "d_head": 4, "causal": False}
    same = random_model(**switches, positions="none")
    np.testing.assert_allclose(same.run(tokens[order]).logits, same.run(tokens).logits[order], atol=1e-13)
    for positions in ("learned", "qk", "sinusoidal", "rotary", "alibi"):
        model = random_model(**switches, positions=positions)
        assert abs(model.run(tokens[order]).logits - model.run(tokens).logits[order]).max() > 1e-3, positions
    masked = random_model(**switches | {"causal": True}, positions="none")
    assert abs(masked.run(tokens[order]).logits - masked.run(tokens).logits[order]).max() > 1e-3


@pytest.mark.parametrize("positions", ["rotary", "alibi"])
def test_relative_positions_see_differences_only(positions: str) -> None:
    model = random_model(layers=1, d_head=4, positions=positions, causal=False, norm="rmsnorm")
    scores = model.run([3] * 13).scores[0]
    np.testing.assert_allclose(scores[:, 5, 3], scores[:, 12, 10], atol=1e-12)
    assert (abs(scores[:, 5, 3] - scores[:, 5, 4]) > 1e-6).all()


def test_query_key_positions_never_enter_the_stream() -> None:
    model = random_model(layers=1, positions="qk", norm="layernorm")
    trace = model.run([3, 3, 3])
    for point in ("embed", "L0.attn_in"):
        np.testing.assert_array_equal(trace.residuals[point][0], trace.residuals[point][2])
    assert abs(trace.scores[0, :, 2, 0] - trace.scores[0, :, 2, 1]).min() > 1e-6


def test_query_heads_of_a_group_share_keys_and_values() -> None:
    trace = random_model(heads=4, kv_heads=2, biases=True).run([1, 2, 3])
    assert trace.keys.shape == trace.values.shape == (2, 2, 3, 5)
    weights = trace.model.weights
    tiled = Config(**trace.config.to_dict() | {"n_kv_heads": 4})
    kv = {name: np.repeat(weights.arrays()[name], 2, axis=1) for name in ("W_K", "W_V", "b_K", "b_V")}
    repeated = Model(tiled, Weights(**weights.arrays() | kv))
    np.testing.assert_allclose(repeated.run([1, 2, 3]).logits, trace.logits, atol=1e-13)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"norm_placement": "post"}, "norm_placement='post' needs a norm"),
        (
            {"transform": True, "norm": "layernorm"},
            "transform=True needs norm_placement='post' or transform_norm=True",
        ),
        (
            {"transform_norm": True, "norm": "layernorm"},
            "transform_norm=True needs a norm and transform=True",
        ),
        ({"transform_activation": "tanh"}, "transform_activation='tanh' needs transform=True"),
        ({"transform": True, "transform_activation": "sine"}, "expected one of None, 'relu'"),
        ({"first_norm": False}, "first_norm=False is known with norm_placement='pre' and branches one after"),
        ({"norm_placement": "both"}, "expected one of 'pre', 'post', 'sandwich', 'branch', got 'both'"),
        ({"embed_norm": True}, "embed_norm=True needs a norm"),
        ({"gated": True}, "gated=True needs an MLP; found d_mlp=0"),
        ({"parallel": "shared"}, "parallel='shared' needs an MLP; found d_mlp=0"),
        (
            {"parallel": "shared", "d_mlp": 3, "norm": "rmsnorm", "norm_placement": "post"},
            "parallel='shared' is known with norm_placement='pre' only, found 'post'",
        ),
        (
            {"activation": "swish"},
            "expected one of 'relu', 'relu2', 'gelu', 'gelu_tanh', 'quick_gelu', 'silu', 'tanh'",
        ),
        ({"rotaries": (None, None)}, "rotaries need positions='rotary', found 'none'"),
        ({"positions": "rotary", "rotaries": (None,)}, "for each of the 2 layers, found"),
        ({"positions": "rotary", "rotaries": (None, 4)}, "rotary must be a Rotary or None, found 4"),
        ({"positions": "rotary", "rotaries": (None, Rotary(dims=6))}, "at most d_head: found dims=6"),
        (
            {"positions": "rotary", "rotaries": (None, None), "rotary": Rotary()},
            "rotary and rotaries are both given",
        ),
        ({"head_slopes": (0.5, 0.25)}, "needs positions='alibi', found 'none'"),
        ({"positions": "alibi", "head_slopes": (0.5,)}, "one slope for each of the 2 heads"),
        ({"positions": "alibi", "head_slopes": "ab"}, "one slope for each of the 2 heads"),
        (
            {"positions": "alibi", "head_slopes": (0.5, 0)},
            r"head_slopes\[1\]: expected a finite number > 0, got 0",
        ),
        ({"qk_norm": "all"}, "qk_norm: expected one of None, 'head', 'projection'"),
        ({"d_mlp": -1}, "d_mlp: expected an integer ≥ 0, got -1"),
        ({"windows": 0}, "windows: expected an integer ≥ 1, got 0"),
        ({"windows": (1, 2, 3)}, "found 3 for 2 layers"),
        ({"windows": (1, 0)}, r"windows\[1\]: expected an integer ≥ 1, got 0"),
        ({"windows": "13"}, "windows: expected an integer ≥ 1, got '13'"),
        ({"logit_cap": 0.0}, "logit_cap: expected a finite number > 0"),
        ({"attention_cap": -1.0}, "attention_cap: expected a finite number > 0"),
        ({"logit_multiplier": math.inf}, "logit_multiplier: expected a finite number, got inf"),
        ({"tied": None}, "tied: expected True or False, got None"),
    ],
)
def test_what_does_not_fit_is_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        Config(**SIZES | change)


def test_tied_is_held_to_its_word() -> None:
    tied = random_model(tied=True)
    np.testing.assert_array_equal(tied.weights.W_U, tied.weights.W_E.T)
    assert not np.shares_memory(tied.weights.W_U, tied.weights.W_E)
    other = tied.weights.W_U + 1e-9
    with pytest.raises(
        WeightsError, match="W_U is not the transpose of W_E, but the configuration has tied=True"
    ):
        Model(tied.config, Weights(**tied.weights.arrays() | {"W_U": other}))


@pytest.mark.parametrize(
    ("switches", "norms"),
    [
        ({"norm_placement": "pre"}, ("attn", "mlp")),
        ({"norm_placement": "pre", "parallel": "shared"}, ("attn",)),
        ({"norm_placement": "pre", "parallel": "separate"}, ("attn", "mlp")),
        ({"norm_placement": "post"}, ("attn_post", "mlp_post")),
        ({"norm_placement": "branch"}, ("attn_post", "mlp_post")),
        ({"norm_placement": "sandwich"}, ("attn", "attn_post", "mlp", "mlp_post")),
        ({"norm_placement": "sandwich", "d_mlp": 0}, ("attn", "attn_post")),
    ],
)
def test_every_norm_has_its_weights(switches: dict[str, Any], norms: tuple[str, ...]) -> None:
    config = Config(**SIZES | {"norm": "layernorm", "d_mlp": 7} | switches)
    assert config.block_norms == norms
    places = expected(config)
    assert {name for name in places if name.startswith("g_")} == {f"g_{n}" for n in norms} | (
        {"g_final"} if config.final_norm else set()
    )
    assert all(places[f"b_{name}"].shape == (2, 6) for name in norms)
    assert config.final_norm == (config.norm_placement != "post")


def test_the_families_have_every_switch() -> None:
    configs = [make().config for make in FAMILIES.values()]
    for name, values in {
        "positions": {"none", "learned", "qk", "sinusoidal", "rotary", "alibi"},
        "norm": {None, "layernorm", "rmsnorm"},
        "norm_placement": {"pre", "post", "sandwich", "branch"},
        "transform_activation": {None, "gelu", "tanh"},
        "activation": {"relu", "relu2", "gelu", "gelu_tanh", "quick_gelu", "silu"},
        "parallel": {None, "shared", "separate"},
        "qk_norm": {None, "head", "projection", "layernorm"},
        "gated": {True, False},
        "tied": {True, False},
        "embed_norm": {True, False},
        "causal": {True, False},
        "sinks": {True, False},
        "first_norm": {True, False},
        "transform_norm": {True, False},
    }.items():
        assert {getattr(c, name) for c in configs} == values, name
    for name in ("attention_cap", "logit_cap", "windows", "head_slopes", "rotaries"):
        assert any(getattr(c, name) is not None for c in configs), name
    for name in ("embedding_multiplier", "residual_multiplier", "logit_multiplier"):
        assert any(getattr(c, name) != 1 for c in configs), name

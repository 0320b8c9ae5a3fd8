"""Arrays as TransformerLens names and shapes them, made from our own models; the real thing is in interop."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import pathexp as px
from pathexp.errors import LoadError
from pathexp.model import Config, Model, Rotary, from_transformer_lens, random_model
from tests.shared_models import induction_2l_1h, shared_file

TOKENS = [3, 1, 4, 1, 5, 9, 2, 6, 5]
BLOCK = {
    "attn": {"W_Q": "attn.W_Q", "W_K": "attn.W_K", "W_V": "attn.W_V", "W_O": "attn.W_O", "b_Q": "attn.b_Q",
             "b_K": "attn.b_K", "b_V": "attn.b_V", "b_O": "attn.b_O"},
    "mlp": {"W_in": "mlp.W_in", "W_gate": "mlp.W_gate", "W_out": "mlp.W_out", "b_in": "mlp.b_in",
            "b_out": "mlp.b_out"},
    "norm": {"g_attn": "ln1.w", "b_attn": "ln1.b", "g_mlp": "ln2.w", "b_mlp": "ln2.b",
             "g_attn_post": "ln1_post.w", "g_mlp_post": "ln2_post.w", "g_q": "attn.q_norm.w", "g_k": "attn.k_norm.w"},
}  # fmt: skip
WHOLE = {
    "W_E": "embed.W_E", "W_pos": "pos_embed.W_pos", "W_U": "unembed.W_U", "b_U": "unembed.b_U", "g_final": "ln_final.w",
    "b_final": "ln_final.b", "g_embed": "embed.ln.w", "b_embed": "embed.ln.b",
}  # fmt: skip


def state(model: Model, grouped: bool = False) -> dict[str, np.ndarray]:
    """A model's arrays as HookedTransformer has them: rows times matrix."""
    by_layer = {ours: theirs for part in BLOCK.values() for ours, theirs in part.items()}
    found: dict[str, np.ndarray] = {}
    for name, array in model.weights.arrays().items():
        if name in WHOLE:
            found[WHOLE[name]] = array.T
            continue
        for layer, one in enumerate(array):
            theirs = by_layer[name]
            if grouped and name[-1] in "KV":
                theirs = theirs.replace(".", "._")
            found[f"blocks.{layer}.{theirs}"] = one.swapaxes(-1, -2) if name.startswith("W_") else one
    return found


def told(c: Config, **more: Any) -> dict[str, Any]:
    """The configuration that TransformerLens would have for it."""
    return {
        "n_layers": c.n_layers, "d_model": c.d_model, "d_head": c.d_head, "n_heads": c.n_heads, "n_ctx": c.n_ctx,
        "d_vocab": c.d_vocab, "d_mlp": c.d_mlp or None, "attn_only": not c.d_mlp, "eps": c.norm_eps,
        "normalization_type": {None: None, "layernorm": "LN", "rmsnorm": "RMS"}[c.norm],
        "positional_embedding_type": "standard", "model_name": "made", "seed": 7, "dtype": "float32", **more,
    }  # fmt: skip


MADE: dict[str, tuple[dict[str, Any], dict[str, Any], bool]] = {
    "attention only": ({"norm": "layernorm"}, {}, False),
    "gpt2": ({"norm": "layernorm", "d_mlp": 17, "activation": "gelu_tanh"}, {"act_fn": "gelu_new"}, False),
    "shortformer": ({"norm": "layernorm", "positions": "qk"}, {"positional_embedding_type": "shortformer"}, False),
    "alibi": (
        {"norm": "layernorm", "positions": "alibi", "embed_norm": True, "heads": 4},
        {"positional_embedding_type": "alibi", "post_embedding_ln": True},
        False,
    ),
    "grouped, both ways, capped": (
        {
            "norm": "rmsnorm", "heads": 4, "kv_heads": 2, "positions": "rotary", "causal": False,
            "rotary": Rotary(base=500.0, dims=4), "attention_cap": 2.0, "logit_cap": 3.0, "attention_scale": 0.5,
            "qk_norm": "head", "norm_placement": "sandwich", "d_mlp": 17, "activation": "relu",
        },
        {
            "n_key_value_heads": 2, "positional_embedding_type": "rotary", "rotary_base": 500, "rotary_dim": 4,
            "attention_dir": "bidirectional", "attn_scores_soft_cap": 2.0, "output_logits_soft_cap": 3.0,
            "attn_scale": 2.0, "use_qk_norm": True, "use_normalization_before_and_after": True, "act_fn": "relu",
        },
        True,
    ),
    "parallel, adjacent pairs": (
        {
            "norm": "layernorm", "parallel": "separate", "positions": "rotary", "d_mlp": 17, "activation": "relu",
            "rotary": Rotary(dims=4, pairing="adjacent"),
        },
        {
            "parallel_attn_mlp": True, "positional_embedding_type": "rotary", "rotary_dim": 4, "rotary_base": 10000,
            "rotary_adjacent_pairs": True, "act_fn": "relu",
        },
        False,
    ),
    "local": (
        {"windows": (3, None), "attention_scale": 1.0},
        {"use_local_attn": True, "attn_types": ["local", "global"], "window_size": 3, "use_attn_scale": False},
        False,
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", MADE)
def test_a_state_dict_is_the_model_that_it_was_made_from(case: str) -> None:
    switches, keys, grouped = MADE[case]
    model = random_model(biases=True, seed=len(case), **switches)
    again = from_transformer_lens(state(model, grouped), told(model.config, **keys))
    assert again.config == model.config
    np.testing.assert_array_equal(again.run(TOKENS).logits, model.run(TOKENS).logits)


def test_the_bias_of_a_gated_mlp_stands_behind_the_product() -> None:
    """There, mlp(x) = W_out (act(W_gate x) · (W_in x) + b_in) + b_out."""
    model = random_model(d_mlp=17, gated=True, activation="silu", norm="rmsnorm", seed=1, biases=True)
    w = replace(model.weights, b_gate=None)
    arrays = state(Model(model.config, w))
    again = from_transformer_lens(arrays, told(model.config, gated_mlp=True, act_fn="silu"))
    read = again.run(TOKENS).residuals["L0.mlp_in"]
    gate = read @ w.W_gate[0].T
    hidden = gate / (1 + np.exp(-gate)) * (read @ w.W_in[0].T) + w.b_in[0]
    expected = hidden @ w.W_out[0].T + w.b_out[0]
    np.testing.assert_allclose(again.run(TOKENS).residuals["L0.mlp_result"], expected, atol=1e-12)


def test_folded_norms_have_no_gain() -> None:
    model = random_model(norm="layernorm", seed=2)
    arrays = {**state(model), **{f"blocks.{l}.attn.{n}": np.zeros(s) for l in (0, 1) for n, s in
              (("b_Q", (3, 5)), ("b_K", (3, 5)), ("b_V", (3, 5)), ("b_O", 24))}, "unembed.b_U": np.zeros(11)}  # fmt: skip
    again = from_transformer_lens(arrays, told(model.config, normalization_type="LNPre"))
    assert again.weights.g_attn is None
    np.testing.assert_array_equal(again.run(TOKENS).logits, model.run(TOKENS).logits)


def test_a_live_object_and_torch_like_tensors() -> None:
    """All that is asked of an object is cfg and state_dict(), of a tensor that it can become an array."""
    model = random_model(biases=True, seed=3)

    class Tensor:
        def __init__(self, array: np.ndarray) -> None:
            self.array = array

        def detach(self) -> Tensor:
            return self

        cpu = double = detach

        def is_floating_point(self) -> bool:
            return self.array.dtype.kind == "f"

        def numpy(self) -> np.ndarray:
            return self.array

    tensors = {name: Tensor(array) for name, array in state(model).items()}
    tensors["blocks.0.attn.mask"] = Tensor(np.ones((40, 40), bool))
    live = SimpleNamespace(cfg=SimpleNamespace(**told(model.config)), state_dict=lambda: tensors)
    again = from_transformer_lens(live)
    assert again.name == "made"
    np.testing.assert_array_equal(again.run(TOKENS).logits, model.run(TOKENS).logits)


def test_a_trained_state_dict() -> None:
    with np.load(shared_file("induction_2l_1h.npz"), allow_pickle=False) as file:
        arrays = dict(file)
    ours = induction_2l_1h()
    again = from_transformer_lens(arrays, told(ours.config))
    np.testing.assert_array_equal(again.run([1, 2, 3, 1]).logits, ours.run([1, 2, 3, 1]).logits)


# Refusals ------------------------------------------------------------------------------------------------------

MODEL = random_model(biases=True, d_mlp=6, activation="relu", seed=4)
ARRAYS, KEYS = state(MODEL), told(MODEL.config, act_fn="relu")


def test_the_unembedding_is_never_made_up() -> None:
    arrays = {name: array for name, array in ARRAYS.items() if name != "unembed.W_U"}
    with pytest.raises(LoadError, match=r"'unembed\.W_U' is missing: expected shape \[24, 11\]"):
        from_transformer_lens(arrays, KEYS)


def test_an_unembedding_that_reads_late_dimensions() -> None:
    """Output directions are residual dimensions 5 to 7 here, and W_U says so; nothing assumes the first."""
    config = Config(n_layers=0, n_heads=1, d_model=8, d_head=1, d_vocab=3, n_ctx=4)
    W_U = np.zeros((8, 3))
    W_U[[5, 6, 7], [0, 1, 2]] = 1.0
    embed = np.arange(24.0).reshape(3, 8)
    arrays = {
        "embed.W_E": embed,
        "pos_embed.W_pos": np.zeros((4, 8)),
        "unembed.W_U": W_U,
        "unembed.b_U": np.zeros(3),
    }
    with pytest.raises(LoadError, match="'n_layers' must be"):
        from_transformer_lens(arrays, told(config))
    arrays |= {f"blocks.0.attn.{n}": np.zeros(s) for n, s in (("W_Q", (1, 8, 1)), ("W_K", (1, 8, 1)), ("W_V", (1, 8, 1)),
               ("W_O", (1, 1, 8)), ("b_Q", (1, 1)), ("b_K", (1, 1)), ("b_V", (1, 1)), ("b_O", 8))}  # fmt: skip
    model = from_transformer_lens(arrays, told(config) | {"n_layers": 1})
    np.testing.assert_array_equal(model.run([1]).logits, [[13.0, 14.0, 15.0]])


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"num_experts": 4}, "'num_experts' is 4: mixtures of experts"),
        ({"n_layers": 10**9}, "1,000,000,000 layers"),
        ({"act_fn": "solu_ln"}, "'act_fn' is 'solu_ln'"),
        ({"normalization_type": "BN"}, "'normalization_type' is 'BN'"),
        (
            {"positional_embedding_type": "relative_positional_bias"},
            "'relative_positional_bias', which is not known",
        ),
        ({"scale_attn_by_inverse_layer_idx": True}, "'scale_attn_by_inverse_layer_idx'"),
        ({"architecture": "GPT2LMHeadModel"}, "before a model of transformers.*save_pretrained"),
        ({"d_vocab_out": 5}, "unembed.W_U"),
        ({"normalization_type": "LN", "final_rms": True}, "'final_rms' with LayerNorm"),
        (
            {"normalization_type": "LN", "post_embedding_ln": True},
            "'post_embedding_ln' norms before positions",
        ),
        ({"new_switch": 3}, "'new_switch' may change the computation"),
        ({"use_local_attn": True, "window_size": 2, "attn_types": "local"}, "'attn_types' must be a list"),
    ],
)
def test_keys_that_are_refused(keys: dict[str, Any], message: str) -> None:
    with pytest.raises(LoadError, match=message):
        from_transformer_lens(ARRAYS, KEYS | keys)


def test_keys_may_be_waved_through() -> None:
    assert (
        from_transformer_lens(ARRAYS, KEYS | {"new_switch": 3}, ignore=("new_switch",)).config == MODEL.config
    )


def test_integers_are_no_weights() -> None:
    integers = ARRAYS | {"blocks.0.attn.W_Q": np.ones((3, 24, 5), np.int32)}
    with pytest.raises(LoadError, match=r"'blocks\.0\.attn\.W_Q' holds int32"):
        from_transformer_lens(integers, KEYS)


@pytest.mark.parametrize(("model", "config"), [(ARRAYS, None), (7, None), (SimpleNamespace(cfg=1), None)])
def test_what_is_no_model(model: Any, config: Any) -> None:
    with pytest.raises(LoadError, match="configuration"):
        from_transformer_lens(model, config)


def test_load_takes_a_live_object() -> None:
    live = SimpleNamespace(cfg=KEYS, state_dict=lambda: ARRAYS)
    assert px.load(live).config == MODEL.config
    assert (
        px.load(SimpleNamespace(cfg=KEYS | {"new": 3}, state_dict=lambda: ARRAYS), ignore="new").name
        == "made"
    )


def test_fewer_outputs_than_tokens() -> None:
    classes = ARRAYS | {"unembed.W_U": ARRAYS["unembed.W_U"][:, :3], "unembed.b_U": ARRAYS["unembed.b_U"][:3]}
    model = from_transformer_lens(classes, KEYS | {"d_vocab_out": 3})
    np.testing.assert_array_equal(model.run([1, 2]).logits, MODEL.run([1, 2]).logits[:, :3])

"""Configurations as they are published, with tiny sizes: they load, or are refused for a reason one can act on."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pathexp as px
from pathexp.errors import LoadError, LoadWarning, PathexpError
from pathexp.model.load.checkpoint import Held
from pathexp.model.load.huggingface import FAMILIES, assembled
from pathexp.model.load.keys import Keys
from pathexp.model.load.options import Options
from tests.model.load.checkpoints import drawn, folder
from tests.model.load.published_configs import OPTIONS, PUBLISHED, REFUSED

Config = dict[str, Any]


def tensors(config: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """Seeded tensors under the names that the family gives them; both tables, so that it may be tied or not."""
    rng, family = np.random.default_rng(0), FAMILIES[config["model_type"]]
    values = config if family.part is None else config[family.part]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LoadWarning)
        plan = family.plan(Keys(values, "a test"), Options())
    c, found = plan.config, {}
    for piece in plan.pieces:
        found |= {name: drawn(rng, *shape) for name, shape in piece.stored(c.n_layers)}
    table = drawn(rng, c.d_vocab, plan.table_width or c.d_model)
    if plan.head is not None:
        ends = {f"{plan.head}.weight": drawn(rng, 2, c.d_model), f"{plan.head}.bias": drawn(rng, 2)}
        return found | ends | {family.embedding: table}
    return found | {family.embedding: table, family.unembedding: table}


LIKE_LLAMA: Config = {
    "vocab_size": 11,
    "hidden_size": 24,
    "intermediate_size": 10,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 40,
}
FALCON: Config = {
    "model_type": "falcon",
    "vocab_size": 11,
    "hidden_size": 24,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
}
MPT: Config = {
    "model_type": "mpt",
    "vocab_size": 11,
    "d_model": 24,
    "n_layers": 2,
    "n_heads": 4,
    "max_seq_len": 40,
}
GEMMA3: Config = {**LIKE_LLAMA, "model_type": "gemma3_text", "head_dim": 6}
SMOLLM3: Config = {**LIKE_LLAMA, "model_type": "smollm3"}
COHERE2: Config = {**LIKE_LLAMA, "model_type": "cohere2"}
ENCODER: Config = {k: v for k, v in LIKE_LLAMA.items() if k != "num_key_value_heads"}
BERT: Config = {**ENCODER, "model_type": "bert"}
ROBERTA: Config = {**ENCODER, "model_type": "roberta", "pad_token_id": 1}
MODERNBERT: Config = {**ENCODER, "model_type": "modernbert"}
OPT: Config = {
    "model_type": "opt",
    "vocab_size": 11,
    "hidden_size": 24,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "ffn_dim": 10,
    "max_position_embeddings": 40,
    "word_embed_proj_dim": 24,
}
DEEPSEEK: Config = {
    **LIKE_LLAMA, "num_key_value_heads": 4, "q_lora_rank": None, "kv_lora_rank": 7, "qk_nope_head_dim": 5, "qk_rope_head_dim": 4,
    "v_head_dim": 6, "moe_intermediate_size": 8, "n_routed_experts": 6, "n_shared_experts": 1, "num_experts_per_tok": 2,
    "first_k_dense_replace": 1, "n_group": 3, "topk_group": 2,
}  # fmt: skip
V2, V3 = {**DEEPSEEK, "model_type": "deepseek_v2"}, {**DEEPSEEK, "model_type": "deepseek_v3"}
OLMO: Config = {**LIKE_LLAMA, "model_type": "olmo"}
STARCODER2: Config = {**LIKE_LLAMA, "model_type": "starcoder2"}


def refused(place: Path, message: str) -> None:
    with pytest.raises(LoadError, match=message):
        px.load(place)


@pytest.mark.parametrize(
    ("config", "change", "message"),
    [
        (V2, {"num_key_value_heads": 2}, "'num_key_value_heads' is 2: in latent attention each of the 4 heads"),
        (V2, {"head_dim": 6}, "'head_dim' is 6, known is 4: this family turns qk_rope_head_dim numbers"),
        (V2, {"qk_head_dim": 6}, "'qk_head_dim' is 6, known is 9"),
        (V2, {"moe_layer_freq": 2}, "'moe_layer_freq' is 2, known is 1: every layer after the first dense ones"),
        (V2, {"norm_topk_prob": True}, "'norm_topk_prob' is True: the code of this family in transformers"),
        (V2, {"topk_method": "noaux_tc"}, "'topk_method' is 'noaux_tc', which is not known; known: greedy"),
        (V2, {"scoring_func": "sigmoid"}, "'scoring_func' is 'sigmoid', known is 'softmax'"),
        (V2, {"n_shared_experts": None}, "'n_shared_experts' must be a whole number of at least 1, found None"),
        (V2, {"qk_rope_head_dim": 3}, "rotary dims must be even"),
        (V2, {"partial_rotary_factor": 0.5}, "partial_rotary_factor is 0.5, but this family turns whole heads"),
        (V3, {"scoring_func": "softmax"}, "'scoring_func' is 'softmax', known is 'sigmoid'"),
        (V3, {"topk_method": "greedy"}, "'topk_method' is 'greedy', known is 'noaux_tc'"),
        (V3, {"n_group": None}, "'n_group' must be a whole number of at least 1, found None"),
        (V3, {"n_group": 4}, "experts groups must divide their count: found count=6, groups=4"),
        (V3, {"rope_interleave": 1}, "'rope_interleave' must be true or false, found 1"),
        (V3, {"num_local_experts": 5}, "'num_local_experts' is 5, known is 6: it must be n_routed_experts"),
        (V3, {"sliding_window": 8}, "'sliding_window' may change the computation"),
        (OLMO, {"clip_qkv": 8.0}, "'clip_qkv' is 8.0: queries, keys and values that are clipped"),
        (STARCODER2, {"norm_type": "rms_norm"}, "'norm_type' is 'rms_norm', known is 'layer_norm'"),
        (STARCODER2, {"mlp_type": "gated"}, "'mlp_type' is 'gated', known is 'default'"),
        (FALCON, {"num_ln_in_parallel_attn": 2}, "num_ln_in_parallel_attn = 2, new_decoder_architecture = False"),
        (FALCON, {"new_decoder_architecture": True, "parallel_attn": False}, "new decoders in parallel"),
        (FALCON, {"apply_residual_connection_post_layernorm": True}, "residuals taken after the norm"),
        (GEMMA3, {"attn_logit_softcapping": 50.0}, "transformers does not apply it in this family"),
        (GEMMA3, {"use_bidirectional_attention": True}, "the causal model is known here"),
        (GEMMA3, {"rope_parameters": {"rope_theta": 3.0}}, "'sliding_attention' and 'full_attention' an object each"),
        (GEMMA3, {"rope_parameters": {"chunked_attention": {}}}, "'rope_parameters' has 'chunked_attention'"),
        (GEMMA3, {"sliding_window_pattern": 0}, "'sliding_window_pattern' must be a whole number of at least 1"),
        (GEMMA3, {"layer_types": ["sliding_attention"]}, "'layer_types' must be a list of 2 kinds"),
        (SMOLLM3, {"no_rope_layers": [1]}, "'no_rope_layers' must be 2 numbers, 1 or 0 a layer"),
        (SMOLLM3, {"no_rope_layers": [1, 7]}, "'no_rope_layers' must be 2 numbers, 1 or 0 a layer"),
        (SMOLLM3, {"layer_types": ["sliding_attention"] * 2}, "use_sliding_window and sliding_window give no width"),
        (COHERE2, {"order_of_interleaved_layers": "global_attn_first"}, "another order of layers"),
        (COHERE2, {"use_qk_norm": True}, "no norm of queries and keys"),
        (COHERE2, {"layer_switch": 2}, "'layer_switch' is 2, known is 4"),
        (BERT, {"architectures": ["BertForSomething"]}, r"BertForSomething.*head is not known here; known: …ForMaskedLM"),
        (BERT, {"architectures": "BertForMaskedLM"}, "'architectures' must be a list of names"),
        (BERT, {"architectures": ["BertForTokenClassification"]}, "'classifier.weight', the map to the outputs"),
        (BERT, {"position_embedding_type": "relative_key"}, "other positions of BERT"),
        (ROBERTA, {"architectures": ["RobertaForNextSentencePrediction"]}, "whose head is not known here"),
        (ROBERTA, {"pad_token_id": 39}, "'pad_token_id' must be a token before whose number positions begin, found 39"),
        (
            MODERNBERT,
            {"architectures": ["ModernBertForSequenceClassification"], "classifier_pooling": "mean"},
            "a head over the mean of positions is not known here",
        ),
        (OPT, {"enable_bias": False}, "OPT without biases"),
        (OPT, {"do_layer_norm_before": "no"}, "'do_layer_norm_before' must be true or false"),
        (OPT, {"word_embed_proj_dim": 8}, "'model.decoder.project_in.weight' is missing"),
        (MPT, {"no_bias": False}, "'no_bias' is False, known is True"),
        (MPT, {"attn_config": {"alibi": False}}, "'alibi' is False, known is True"),
        (MPT, {"attn_config": {"clip_qkv": 6}}, "attn_config: 'clip_qkv' is 6: queries, keys and values"),
        (MPT, {"attn_config": {"alibi_bias_max": 16}}, "'alibi_bias_max' is 16, known is 8"),
        (MPT, {"attn_config": {"rope": True}}, "'rope' may change the computation"),
        (MPT, {"attn_config": "alibi"}, "'attn_config' must be an object, found 'alibi'"),
        (MPT, {"logit_scale": "inv_sqrt_d_model"}, "'logit_scale' is 'inv_sqrt_d_model'"),
        (MPT, {"norm_type": "rmsnorm"}, "'norm_type' is 'rmsnorm', which is not known; known: layernorm"),
    ],
)  # fmt: skip
def test_what_a_family_cannot_do_is_refused_by_name(
    tmp_path: Path, config: Config, change: Config, message: str
) -> None:
    refused(folder(tmp_path / "x", {**config, **change}, tensors(config)), message)


def test_slopes_that_transformers_rounds_are_told(tmp_path: Path) -> None:
    config = {
        **FALCON,
        "num_attention_heads": 3,
        "alibi": True,
        "multi_query": False,
        "layer_norm_epsilon": 1e-5,
        "activation": "gelu",
    }
    place = folder(tmp_path / "x", config, tensors(config))
    with pytest.warns(LoadWarning, match="ALiBi slopes of 3 heads: taken as they are"):
        found = px.load(place).config
    np.testing.assert_allclose(found.alibi_slopes, np.array([2**-4, 2**-8, 2**-2]) / 8**0.5)


def test_there_are_enough_and_of_many_families() -> None:
    assert (
        len(PUBLISHED) >= 31
        and len({config["model_type"] for config in PUBLISHED.values()} & set(FAMILIES)) >= 25
    )
    assert set(REFUSED) | set(OPTIONS) <= set(PUBLISHED)


@pytest.mark.parametrize("name", [name for name in PUBLISHED if name not in REFUSED])
def test_published_configurations_load_and_run(tmp_path: Path, name: str) -> None:
    """Whole, and with no key passed over; those that ask for a decision load once it is told."""
    config = PUBLISHED[name]
    unpacked = {key: value for key, value in config.items() if key != "auto_map"}
    place = folder(tmp_path / "x", config, tensors(unpacked))
    if name in OPTIONS:
        refused(place, "load\\(.*ignore=")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LoadWarning)
        model = px.load(place, **OPTIONS.get(name, {}))
    trace = model.run([3, 1, 4, 1, 5, 9, 2, 6, 5])
    assert np.isfinite(trace.logits).all() and model.config.n_layers == 3
    assert px.expand(px.freeze(trace, mlp="source")).verify().ok


@pytest.mark.parametrize("name", REFUSED)
def test_published_configurations_that_are_refused_say_why(tmp_path: Path, name: str) -> None:
    place = folder(
        tmp_path / "x",
        PUBLISHED[name],
        {"a.weight": np.zeros((2, 2)), "b.weight": np.zeros(2), "c": np.zeros(1)},
    )
    refused(place, REFUSED[name])


@pytest.mark.parametrize("name", [name for name in PUBLISHED if name not in REFUSED])
def test_a_key_that_nobody_knows_is_named_in_every_family(tmp_path: Path, name: str) -> None:
    config = {key: value for key, value in PUBLISHED[name].items() if key != "auto_map"}
    place = folder(tmp_path / "x", {**config, "use_something_new": True}, tensors(config))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LoadWarning)
        refused(place, "'use_something_new' may change the computation")


@pytest.mark.parametrize(
    ("name", "key", "value", "message"),
    [
        (
            "pythia",
            "rotary_pct",
            float("nan"),
            "the share of a head that turns must be above 0 and at most 1",
        ),
        ("pythia", "rotary_pct", 0, "the share of a head that turns must be above 0 and at most 1"),
        (
            "gemma 2",
            "query_pre_attn_scalar",
            0,
            "'query_pre_attn_scalar' must be a number above zero, found 0",
        ),
        ("gemma 3, text", "query_pre_attn_scalar", -4, "'query_pre_attn_scalar' must be a number above zero"),
        ("granite", "logits_scaling", 0, "'logits_scaling' must be a number above zero, found 0"),
        (
            "granite",
            "logits_scaling",
            float("inf"),
            "'logits_scaling' must be a number above zero, found inf",
        ),
    ],
)
def test_numbers_that_mean_nothing_are_refused(
    tmp_path: Path, name: str, key: str, value: float, message: str
) -> None:
    place = folder(tmp_path / "x", {**PUBLISHED[name], key: value}, tensors(PUBLISHED[name]))
    refused(place, message)


VALUES = (0, -1, 1.5, float("nan"), float("inf"), [], [1], {"a": 1}, "x", None, 10**30, True)


@pytest.mark.sampled(12)
@pytest.mark.parametrize("name", [name for name in PUBLISHED if name not in REFUSED])
def test_every_key_of_every_configuration_is_refused_or_read(tmp_path: Path, name: str) -> None:
    """One key at a time is another value: a LoadError or a model, nothing else."""
    config = {key: value for key, value in PUBLISHED[name].items() if key != "auto_map"}
    held = Held(tensors(config), "a test")
    rng = np.random.default_rng(len(name))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LoadWarning)
        for key in config:
            for at in rng.choice(len(VALUES), 4, replace=False):
                try:
                    assembled(Keys({**config, key: VALUES[at]}, "a test"), held, Options())
                except PathexpError as error:
                    assert str(error)

"""Every family that loads gives what transformers computes: logits and attention, in double precision."""

from __future__ import annotations

import os
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

os.environ["HF_HUB_OFFLINE"] = "1"
torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

import pathexp as px  # noqa: E402
from pathexp.model import Model, load  # noqa: E402
from tests.interop.double import in_double, shake  # noqa: E402

pytestmark = pytest.mark.interop

WINDOW = 5
LENGTHS = (1, 2, WINDOW + 1, 9, 33)
SIZES = {
    "vocab_size": 29, "hidden_size": 24, "intermediate_size": 20, "num_hidden_layers": 3,
    "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 40,
}  # fmt: skip
OWN_HEAD = {**SIZES, "head_dim": 10}  # not d_model / n_heads
NO_GROUPS = {key: value for key, value in SIZES.items() if key != "num_key_value_heads"}
LLAMA3 = {
    "rope_type": "llama3", "rope_theta": 700.0, "factor": 4.0, "low_freq_factor": 1.0,
    "high_freq_factor": 4.0, "original_max_position_embeddings": 20,
}  # fmt: skip
YARN = {
    "rope_type": "yarn", "rope_theta": 700.0, "factor": 4.0, "original_max_position_embeddings": 10,
    "beta_fast": 4.0, "beta_slow": 0.5,
}  # fmt: skip
LONGROPE = {
    "rope_type": "longrope", "rope_theta": 500.0, "short_factor": [1.0, 1.2, 1.3], "long_factor": [1.1, 3.0, 9.0],
}  # fmt: skip
SPECIAL = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
BERT = {**NO_GROUPS, "layer_norm_eps": 1e-3}
ROBERTA = {
    **NO_GROUPS,
    "max_position_embeddings": 69,
    "pad_token_id": 28,
    "type_vocab_size": 1,
    "layer_norm_eps": 1e-3,
}
DISTILBERT = {
    "vocab_size": 29,
    "dim": 24,
    "n_layers": 3,
    "n_heads": 4,
    "hidden_dim": 20,
    "max_position_embeddings": 40,
}
MODERNBERT = {
    **NO_GROUPS, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "cls_token_id": 1, "sep_token_id": 2,
    "local_attention": 6, "global_attn_every_n_layers": 2, "global_rope_theta": 900.0, "local_rope_theta": 30.0,
}  # fmt: skip
GPT2 = {"vocab_size": 29, "n_positions": 40, "n_embd": 24, "n_layer": 3, "n_head": 4, "n_inner": 20}

FALCON = {
    "vocab_size": 29,
    "hidden_size": 24,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "ffn_hidden_size": 20,
}
WITHOUT_PATTERNS = {"falcon, slopes"}  # asked for patterns, transformers adds its slopes twice

NAMES = {"GPT2": "GPT2LMHeadModel", "Gemma3Text": "Gemma3ForCausalLM"}
CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "gpt2": ("GPT2", GPT2),
    "gpt2 unscaled relu untied": (
        "GPT2",
        {**GPT2, "scale_attn_weights": False, "activation_function": "relu", "tie_word_embeddings": False},
    ),
    "gpt_neox parallel": ("GPTNeoX", {**NO_GROUPS, "rotary_pct": 0.7, "rotary_emb_base": 500}),
    "gpt_neox sequential": ("GPTNeoX", {**NO_GROUPS, "rotary_pct": 1.0, "use_parallel_residual": False}),
    "gpt_neox without attention biases": ("GPTNeoX", {**NO_GROUPS, "attention_bias": False, "hidden_act": "relu", "rotary_pct": 0.7}),
    "llama": ("Llama", {**OWN_HEAD, "rope_theta": 500.0}),
    "llama biased tied": (
        "Llama",
        {**OWN_HEAD, "attention_bias": True, "mlp_bias": True, "tie_word_embeddings": True},
    ),
    "llama 3 scaling": ("Llama", {**OWN_HEAD, "rope_parameters": LLAMA3}),
    "llama linear scaling": ("Llama", {**OWN_HEAD, "rope_scaling": {"type": "linear", "factor": 2.5}}),
    "llama yarn": ("Llama", {**OWN_HEAD, "rope_parameters": YARN}),
    "llama yarn mscale": (
        "Llama",
        {**OWN_HEAD, "rope_parameters": {**YARN, "mscale": 1.0, "mscale_all_dim": 0.7, "truncate": False}},
    ),
    "mistral": ("Mistral", {**OWN_HEAD, "rope_theta": 500.0, "sliding_window": WINDOW}),
    "mistral without window": ("Mistral", {**OWN_HEAD, "sliding_window": None}),
    "phi3": ("Phi3", {**SIZES, "rope_theta": 500.0, "sliding_window": WINDOW, "pad_token_id": 0, "partial_rotary_factor": 0.7}),
    "qwen2": ("Qwen2", {**SIZES, "rope_theta": 500.0}),
    "qwen2 sliding": (
        "Qwen2",
        {**SIZES, "use_sliding_window": True, "sliding_window": WINDOW, "max_window_layers": 1},
    ),
    "qwen3": ("Qwen3", {**OWN_HEAD, "rope_theta": 500.0, "attention_bias": True}),
    "gemma2": (
        "Gemma2",
        {
            **OWN_HEAD, "rope_theta": 500.0, "sliding_window": WINDOW, "query_pre_attn_scalar": 7,
            "attn_logit_softcapping": 2.0, "final_logit_softcapping": 3.0,
        },
    ),
    "gemma2 layers told, no caps": (
        "Gemma2",
        {
            **OWN_HEAD, "sliding_window": WINDOW, "attn_logit_softcapping": None, "final_logit_softcapping": None,
            "layer_types": ["full_attention", "sliding_attention", "sliding_attention"],
        },
    ),
    "gemma": ("Gemma", {**OWN_HEAD, "rope_theta": 500.0}),
    "granite": (
        "Granite",
        {
            **SIZES, "embedding_multiplier": 3.0, "residual_multiplier": 0.22, "attention_multiplier": 0.3,
            "logits_scaling": 8.0, "pad_token_id": 0,
        },
    ),
    "gptj": ("GPTJ", {**GPT2, "rotary_dim": 4}),
    "bloom": ("Bloom", {"vocab_size": 29, "hidden_size": 24, "n_layer": 3, "n_head": 3}),
    "phi": ("Phi", {**SIZES, "partial_rotary_factor": 0.7, "rope_theta": 500.0, "pad_token_id": 0}),
    "opt": (
        "OPT",
        {
            "vocab_size": 29, "hidden_size": 24, "num_hidden_layers": 3, "ffn_dim": 20, "num_attention_heads": 4,
            "max_position_embeddings": 40, "word_embed_proj_dim": 24,
        },
    ),
    "bert": ("Bert", BERT),
    "bert as a decoder, untied": (
        "Bert",
        {**BERT, "is_decoder": True, "tie_word_embeddings": False, "hidden_act": "gelu_new"},
    ),
    "opt, norms behind, narrow tables": (
        "OPT",
        {
            "vocab_size": 29, "hidden_size": 24, "num_hidden_layers": 3, "ffn_dim": 20, "num_attention_heads": 4,
            "max_position_embeddings": 40, "word_embed_proj_dim": 10, "do_layer_norm_before": False,
        },
    ),
    "opt without its final norm": (
        "OPT",
        {
            "vocab_size": 29, "hidden_size": 24, "num_hidden_layers": 3, "ffn_dim": 20, "num_attention_heads": 4,
            "max_position_embeddings": 40, "word_embed_proj_dim": 24, "_remove_final_layer_norm": True,
        },
    ),
    "roberta": ("Roberta", ROBERTA),
    "roberta untied": ("Roberta", {**ROBERTA, "tie_word_embeddings": False, "hidden_act": "relu"}),
    "xlm-roberta": ("XLMRoberta", ROBERTA),
    "camembert": ("Camembert", ROBERTA),
    "distilbert": ("DistilBert", DISTILBERT),
    "distilbert sinusoidal": ("DistilBert", {**DISTILBERT, "sinusoidal_pos_embds": True, "activation": "relu"}),
    "modernbert": ("ModernBert", MODERNBERT),
    "modernbert biased": (
        "ModernBert",
        {
            **MODERNBERT, "norm_bias": True, "attention_bias": True, "mlp_bias": True, "classifier_bias": True,
            "decoder_bias": False, "classifier_activation": "silu", "hidden_activation": "gelu_pytorch_tanh",
        },
    ),
    "olmo2": ("Olmo2", {**SIZES, "rope_theta": 500.0, "attention_bias": True}),
    "starcoder2": ("Starcoder2", {**SIZES, "rope_theta": 500.0, "sliding_window": WINDOW}),
    "starcoder2 without biases, untied": (
        "Starcoder2", {**SIZES, "rope_theta": 500.0, "use_bias": False, "tie_word_embeddings": False},
    ),
    "gpt_bigcode": ("GPTBigCode", GPT2),
    "gpt_bigcode with a key for every query": (
        "GPTBigCode", {**GPT2, "multi_query": False, "scale_attn_weights": False},
    ),
    "olmo": ("Olmo", {**SIZES, "rope_theta": 500.0, "pad_token_id": 0, "eos_token_id": 1, "attention_bias": True}),
    "nemotron": ("Nemotron", {**OWN_HEAD, "head_dim": 8, "rope_theta": 500.0, "attention_bias": True, "mlp_bias": True}),
    "nemotron without biases": ("Nemotron", {**OWN_HEAD, "partial_rotary_factor": 0.8}),
    "stablelm": ("StableLm", {**SIZES, "rope_theta": 500.0, "partial_rotary_factor": 0.7, "use_qkv_bias": True}),
    "stablelm parallel": ("StableLm", {**SIZES, "use_parallel_residual": True, "partial_rotary_factor": 0.4}),
    "falcon": ("Falcon", {**FALCON, "rope_theta": 500.0}),
    "falcon, new decoder": (
        "Falcon", {**FALCON, "rope_theta": 500.0, "new_decoder_architecture": True, "num_kv_heads": 2, "bias": True},
    ),
    "falcon, new decoder behind one norm": (
        "Falcon", {**FALCON, "new_decoder_architecture": True, "num_kv_heads": 2, "num_ln_in_parallel_attn": 1},
    ),
    "falcon, slopes": (
        "Falcon", {**FALCON, "alibi": True, "multi_query": False, "parallel_attn": False, "bias": True},
    ),
    "stablelm, normed queries and keys": (
        "StableLm", {**SIZES, "partial_rotary_factor": 0.7, "qk_layernorm": True, "layer_norm_eps": 1e-3},
    ),
    "phi, normed queries and keys": (
        "Phi", {**SIZES, "partial_rotary_factor": 0.7, "pad_token_id": 0, "qk_layernorm": True, "layer_norm_eps": 1e-3},
    ),
    "cohere": ("Cohere", {**SIZES, "rope_theta": 500.0, "logit_scale": 0.3, "attention_bias": True, "eos_token_id": 2}),
    "cohere, normed queries and keys": (
        "Cohere", {**SIZES, "use_qk_norm": True, "tie_word_embeddings": False, "eos_token_id": 2},
    ),
    "cohere2": (
        "Cohere2", {**SIZES, "rope_theta": 500.0, "sliding_window": WINDOW, "sliding_window_pattern": 2, "eos_token_id": 2},
    ),
    "cohere2, layers told": (
        "Cohere2",
        {
            **SIZES, "sliding_window": WINDOW, "eos_token_id": 2, "logit_scale": 0.3, "attention_bias": True,
            "layer_types": ["full_attention", "sliding_attention", "sliding_attention"],
        },
    ),
    "smollm3": ("SmolLM3", {**SIZES, **SPECIAL, "rope_theta": 500.0, "no_rope_layer_interval": 2}),
    "smollm3 sliding": (
        "SmolLM3",
        {
            **SIZES, **SPECIAL, "no_rope_layers": [1, 0, 1], "use_sliding_window": True, "sliding_window": WINDOW,
            "attention_bias": True, "mlp_bias": True,
        },
    ),
    "gemma3_text": (
        "Gemma3Text", {**OWN_HEAD, "sliding_window": WINDOW, "sliding_window_pattern": 2, "query_pre_attn_scalar": 7},
    ),
    "gemma3_text, bases and scaling told, caps": (
        "Gemma3Text",
        {
            **OWN_HEAD, "sliding_window": WINDOW,  "final_logit_softcapping": 3.0,
            "layer_types": ["full_attention", "sliding_attention", "full_attention"], "attention_bias": True,
            "rope_parameters": {
                "sliding_attention": {"rope_type": "default", "rope_theta": 70.0},
                "full_attention": {"rope_type": "linear", "factor": 4.0, "rope_theta": 900.0},
            },
        },
    ),
    "llama dynamic": (
        "Llama",
        {**OWN_HEAD, "max_position_embeddings": 8, "rope_theta": 500.0, "rope_scaling": {"type": "dynamic", "factor": 5.0}},
    ),
    "phi3 longrope": ("Phi3", {**SIZES, "pad_token_id": 0, "original_max_position_embeddings": 8, "rope_parameters": LONGROPE}),
    "phi3 longrope, its amplitude told": (
        "Phi3",
        {
            **SIZES, "pad_token_id": 0, "original_max_position_embeddings": 8,
            "rope_parameters": {**LONGROPE, "attention_factor": 1.4, "type": "su"},
        },
    ),
    "mpt": ("Mpt", {"vocab_size": 29, "d_model": 24, "n_layers": 3, "n_heads": 4, "max_seq_len": 40}),
    "mpt, three heads": (
        "Mpt",
        {
            "vocab_size": 29, "d_model": 24, "n_layers": 3, "n_heads": 3, "max_seq_len": 40,
            "attn_config": {"softmax_scale": 0.3},
        },
    ),
}  # fmt: skip


def made(case: str, folder: Path) -> Any:
    """A seeded model of transformers, saved to a folder."""
    family, sizes = CASES[case]
    config = getattr(transformers, f"{family}Config")(**sizes)
    config._attn_implementation = "sdpa" if case in WITHOUT_PATTERNS else "eager"
    encoder = family.endswith(("Roberta", "Bert", "Camembert"))
    name = NAMES.get(family, f"{family}ForMaskedLM" if encoder else f"{family}ForCausalLM")
    if family == "Bert" and config.is_decoder:
        name = "BertLMHeadModel"
    model = getattr(transformers, name)(config).double().eval()
    shake(model, seed=len(case))
    if config.tie_word_embeddings:
        model.tie_weights()
    model.save_pretrained(folder)
    return model


def compare(model: Any, ours: Model) -> float:
    """The largest difference of logits, relative to the largest logit; patterns must agree."""
    logits, patterns = differences(model, ours)
    assert patterns is None or patterns < 1e-9
    return logits


def differences(model: Any, ours: Model) -> tuple[float, float | None]:
    """The largest difference of logits, relative to the largest, and that of patterns, where they can be asked for."""
    rng, worst, of_patterns = np.random.default_rng(0), 0.0, 0.0
    patterns = model.config._attn_implementation == "eager"
    for length in LENGTHS:
        tokens = rng.integers(0, 28, length)  # the last may pad
        theirs, trace = model(torch.tensor(tokens)[None], output_attentions=patterns), ours.run(tokens)
        for layer, pattern in enumerate(theirs.attentions if patterns else ()):
            of_patterns = max(of_patterns, float(np.abs(trace.patterns[layer] - pattern[0].numpy()).max()))
        logits = theirs.logits[0].numpy()
        assert logits.dtype == np.float64
        worst = max(worst, float(np.abs(trace.logits - logits).max() / np.abs(logits).max()))
    return worst, of_patterns if patterns else None


@pytest.mark.parametrize("case", CASES)
def test_logits_and_patterns_are_those_of_transformers(case: str, tmp_path: Path) -> None:
    with in_double():
        model = made(case, tmp_path)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            ours = load(tmp_path)
        assert compare(model, ours) < 1e-9
    trace = ours.run(np.random.default_rng(1).integers(0, 29, 9))
    assert px.expand(px.freeze(trace, mlp="gate")).verify().ok
    assert px.expand(px.freeze(trace, mlp="source")).verify().ok


IMAGES = {
    "model_type": "siglip_vision_model", "hidden_size": 16, "intermediate_size": 8, "num_hidden_layers": 1,
    "num_attention_heads": 2, "image_size": 28, "patch_size": 14,
}  # fmt: skip


@pytest.mark.parametrize("prefix", ["language_model.model.", "model.language_model."])
def test_of_a_model_that_reads_images_the_text_is_taken(prefix: str, tmp_path: Path) -> None:
    text = {**OWN_HEAD, "sliding_window": WINDOW, "sliding_window_pattern": 2}
    with in_double():
        config = transformers.Gemma3Config(
            text_config=text, vision_config=IMAGES, mm_tokens_per_image=4, image_token_index=28
        )
        config._attn_implementation = config.text_config._attn_implementation = "eager"
        model = transformers.Gemma3ForConditionalGeneration(config).double().eval()
        shake(model, seed=3)
        model.tie_weights()
        model.save_pretrained(tmp_path)
        renamed(tmp_path / "model.safetensors", "language_model.model.", prefix)
        ours = load(tmp_path)
        for length in LENGTHS[1:]:
            tokens = np.random.default_rng(length).integers(0, 28, length)
            logits = model(torch.tensor(tokens)[None]).logits[0].numpy()
            np.testing.assert_allclose(
                ours.run(tokens).logits, logits, rtol=0, atol=1e-9 * np.abs(logits).max()
            )


def renamed(path: Path, old: str, new: str) -> None:
    """Give tensors of a file other names, as other versions have them."""
    from safetensors.torch import load_file, save_file

    tensors = load_file(path)
    save_file({new + n.removeprefix(old) if n.startswith(old) else n: t for n, t in tensors.items()}, path)


HEADS = {
    "GPT2ForSequenceClassification": (GPT2, -1),
    "GPT2ForTokenClassification": (GPT2, None),
    "GPT2ForQuestionAnswering": (GPT2, None),
    "LlamaForSequenceClassification": (OWN_HEAD, -1),
    "LlamaForTokenClassification": (OWN_HEAD, None),
    "BertForSequenceClassification": (BERT, 0),
    "BertForNextSentencePrediction": (BERT, 0),
    "BertForTokenClassification": (BERT, None),
    "BertForQuestionAnswering": (BERT, None),
    "RobertaForSequenceClassification": (ROBERTA, 0),
    "RobertaForTokenClassification": (ROBERTA, None),
    "DistilBertForSequenceClassification": (DISTILBERT, 0),
    "DistilBertForTokenClassification": (DISTILBERT, None),
    "DistilBertForQuestionAnswering": (DISTILBERT, None),
    "ModernBertForSequenceClassification": (MODERNBERT, 0),
    "ModernBertForTokenClassification": (MODERNBERT, None),
    "ModernBertForQuestionAnswering": (MODERNBERT, None),
}


def headed(name: str, folder: Path) -> Any:
    """A seeded model of transformers with a head over classes, saved to a folder."""
    labels = 2 if "Question" in name or "Next" in name else 5
    config = getattr(transformers, name.split("For")[0] + "Config")(**HEADS[name][0], num_labels=labels)
    model = getattr(transformers, name)(config).double().eval()
    shake(model, seed=len(name))
    model.save_pretrained(folder)
    return model


def head_difference(name: str, model: Any, ours: Model) -> float:
    """The largest difference of outputs, relative to the largest: of one position (first or last), or of each."""
    worst, place = 0.0, HEADS[name][1]
    for length in LENGTHS:
        tokens = np.random.default_rng(length).integers(0, 28, length)
        found = model(torch.tensor(tokens)[None])
        if "logits" in found:
            theirs = found.logits[0].numpy()
        else:
            theirs = torch.stack([found.start_logits, found.end_logits], -1)[0].numpy()
        mine = ours.run(tokens).logits
        mine = mine if place is None else mine[[place]]
        assert mine.shape == np.atleast_2d(theirs).shape
        worst = max(worst, float(np.abs(mine - theirs).max() / np.abs(theirs).max()))
    return worst


@pytest.mark.parametrize("name", HEADS)
def test_heads_over_classes_are_those_of_transformers(name: str, tmp_path: Path) -> None:
    with in_double():
        model = headed(name, tmp_path)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            ours = load(tmp_path)
        assert head_difference(name, model, ours) < 1e-9
    short = ours.run(np.random.default_rng(1).integers(0, 28, 9))
    assert px.expand(px.freeze(short, mlp="gate")).verify().ok
    assert px.expand(px.freeze(short, mlp="source")).verify().ok

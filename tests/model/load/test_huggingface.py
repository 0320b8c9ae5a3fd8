"""Directories as transformers saves them: what loads, and what is refused by name."""

from __future__ import annotations

import json
import socket
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pathexp as px
from pathexp.cli import main
from pathexp.errors import LoadError, LoadWarning, WeightsError
from pathexp.model.load.families.llama import embedding_scale
from pathexp.model.load.fused import Widths, parts
from tests.model.load.checkpoints import (
    GPT2,
    LLAMA,
    Arrays,
    bfloat16,
    folder,
    gpt2_arrays,
    llama_arrays,
    shards,
    write,
)

TOKENS = [3, 1, 4, 1, 5, 9, 2, 6, 5]
E, U = "model.embed_tokens.weight", "lm_head.weight"


@pytest.fixture(autouse=True)
def no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing here may open a socket."""

    def refuse(*args: Any, **kwargs: Any) -> None:
        raise AssertionError("the network was asked")

    monkeypatch.setattr(socket, "socket", refuse)


def changed(**keys: Any) -> dict[str, Any]:
    return {**LLAMA, **keys}


def without(values: Mapping[str, Any], *names: str) -> dict[str, Any]:
    return {name: value for name, value in values.items() if name not in names}


# What loads ------------------------------------------------------------------------------------------------


def test_a_llama_runs_and_its_paths_add_up(tmp_path: Path) -> None:
    model = px.load(folder(tmp_path / "tiny"))
    assert (model.name, model.config.n_kv_heads, model.config.d_head) == ("tiny", 2, 6)
    assert model.config.rotary.base == 500.0
    assert px.expand(model.run(TOKENS)).verify().ok


def test_a_small_gpt2_of_nobody_loads_and_verifies(tmp_path: Path) -> None:
    """Any directory loads, whatever it is called; it was saved without its language model head and is tied."""
    model = px.load(folder(tmp_path / "mine", GPT2, gpt2_arrays()))
    assert model.config.tied
    assert model.config.activation == "gelu_tanh"
    assert px.expand(model.run(TOKENS)).verify().ok


def test_arrays_are_turned_to_target_by_source(tmp_path: Path) -> None:
    arrays = llama_arrays()
    weights = px.load(folder(tmp_path / "x")).weights
    q, o = (arrays[f"model.layers.1.self_attn.{name}_proj.weight"] for name in "qo")
    np.testing.assert_array_equal(weights.W_E, arrays[E].T)
    np.testing.assert_array_equal(weights.W_U, arrays[U])
    np.testing.assert_array_equal(weights.W_Q[1, 2], q[12:18])
    np.testing.assert_array_equal(weights.W_O[1, 2], o[:, 12:18])
    np.testing.assert_array_equal(weights.W_gate[1], arrays["model.layers.1.mlp.gate_proj.weight"])
    np.testing.assert_array_equal(weights.g_mlp[0], arrays["model.layers.0.post_attention_layernorm.weight"])


@pytest.mark.parametrize("kind", ["float32", "float16", "bfloat16", "float64"])
def test_every_precision_gives_the_same_model(tmp_path: Path, kind: str) -> None:
    arrays = llama_arrays()
    stored = {n: bfloat16(a) if kind == "bfloat16" else a.astype(kind) for n, a in arrays.items()}
    model = px.load(folder(tmp_path / "x", LLAMA, stored))
    assert model.weights.W_Q.dtype == np.float64
    np.testing.assert_array_equal(
        model.run(TOKENS).logits, px.load(folder(tmp_path / "y", LLAMA, arrays)).run(TOKENS).logits
    )


def test_half_precision_does_not_overflow(tmp_path: Path) -> None:
    arrays = gpt2_arrays()
    arrays["wte.weight"] = np.full((11, 8), 60000.0)
    arrays["wpe.weight"] = np.full((40, 8), 60000.0)
    half = {name: array.astype(np.float16) for name, array in arrays.items()}
    trace = px.load(folder(tmp_path / "x", GPT2, half)).run([1])
    assert trace.residuals["embed"].max() == 120000.0


@pytest.mark.parametrize("kind", ["float16", "bfloat16"])
def test_singular_values_and_eigenvalues_of_half_precision_weights(tmp_path: Path, kind: str) -> None:
    rng = np.random.default_rng(1)
    arrays = {n: rng.standard_normal(a.shape) for n, a in llama_arrays().items()}
    stored = {n: bfloat16(a) if kind == "bfloat16" else a.astype(kind) for n, a in arrays.items()}
    maps = []
    for name, content in (("x", arrays), ("y", stored)):
        weights = px.load(folder(tmp_path / name, LLAMA, content)).weights
        maps.append(weights.W_O[0, 0] @ weights.W_V[0, 0])
    tolerance = 1e-2 if kind == "bfloat16" else 1e-3
    singular = [np.linalg.svd(m, compute_uv=False)[:6] for m in maps]
    np.testing.assert_allclose(singular[1], singular[0], rtol=tolerance)
    eigen = [np.sort_complex(np.linalg.eigvals(m)) for m in maps]
    np.testing.assert_allclose(eigen[1], eigen[0], atol=tolerance * np.abs(eigen[0]).max())


def test_shards_load_like_one_file(tmp_path: Path) -> None:
    whole = px.load(folder(tmp_path / "x"))
    shards(folder(tmp_path / "y"), llama_arrays(), files=3)
    parted = px.load(tmp_path / "y")
    np.testing.assert_array_equal(parted.run(TOKENS).logits, whole.run(TOKENS).logits)
    index = px.load(tmp_path / "y" / "model.safetensors.index.json")
    np.testing.assert_array_equal(index.run(TOKENS).logits, whole.run(TOKENS).logits)


def test_a_file_may_be_named_beside_its_configuration(tmp_path: Path) -> None:
    place = folder(tmp_path / "x")
    (place / "model.safetensors").rename(place / "epoch3.safetensors")
    assert px.load(place / "epoch3.safetensors").config.n_layers == 2


def test_stored_masks_and_frequencies_are_not_extra(tmp_path: Path) -> None:
    frequencies = 500.0 ** (-np.arange(0, 6, 2) / 6)
    name = "model.layers.0.self_attn.rotary_emb.inv_freq"
    px.load(folder(tmp_path / "x", LLAMA, llama_arrays() | {name: frequencies.astype(np.float16)}))
    wrong = 10000.0 ** (-np.arange(0, 6, 2) / 6)
    with pytest.raises(LoadError, match=r"inv_freq.*but the configuration gives"):
        px.load(folder(tmp_path / "x", LLAMA, llama_arrays() | {name: wrong}))


def test_a_saved_model_comes_back_exactly(tmp_path: Path) -> None:
    """Tied tables are a transposed view; our own file holds every number all the same."""
    config = changed(tie_word_embeddings=True)
    model = px.load(folder(tmp_path / "x", config, llama_arrays(config)))
    model.save(tmp_path / "x.npz")
    again = px.load(tmp_path / "x.npz")
    assert again.config == model.config
    for name, array in model.weights.arrays().items():
        np.testing.assert_array_equal(getattr(again.weights, name), array)


# Fused tensors ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("layout", "expected"),
    [
        ("gpt2", {"Q": [0, 1], "K": [2, 3], "V": [4, 5]}),
        ("gpt_neox", {"Q": [0, 3], "K": [1, 4], "V": [2, 5]}),
        ("gpt_bigcode", {"Q": [0, 3], "K": [1, 4], "V": [2, 5]}),
        ("falcon", {"Q": [0, 3], "K": [1, 4], "V": [2, 5]}),
        ("mpt", {"Q": [0, 1], "K": [2, 3], "V": [4, 5]}),
    ],
)
def test_rows_of_a_fused_tensor_by_architecture(layout: str, expected: dict[str, list[int]]) -> None:
    turns = parts(layout, Widths(heads=2, kv_heads=2, d_head=1), "W")
    rows = np.arange(6.0)[:, None] * np.ones(3)  # row i is filled with i
    assert {name[-1]: turn(rows)[:, 0, 0].tolist() for name, turn in turns.items()} == expected


@pytest.mark.parametrize(
    ("layout", "kv_heads", "expected"),
    [
        ("gpt_bigcode multi-query", 1, {"Q": [0, 1, 2, 3], "K": [4], "V": [5]}),
        ("falcon multi-query", 1, {"Q": [0, 1, 2, 3], "K": [4], "V": [5]}),
        ("falcon grouped", 2, {"Q": [0, 1, 4, 5], "K": [2, 6], "V": [3, 7]}),
    ],
)
def test_rows_of_a_fused_tensor_of_grouped_heads(
    layout: str, kv_heads: int, expected: dict[str, list[int]]
) -> None:
    widths = Widths(heads=4, kv_heads=kv_heads, d_head=1)
    rows = np.arange(float(widths.rows))[:, None] * np.ones(3)
    turns = parts(layout, widths, "W")
    assert {name[-1]: turn(rows)[:, 0, 0].tolist() for name, turn in turns.items()} == expected


def test_fused_widths_under_grouped_heads() -> None:
    widths = Widths(heads=4, kv_heads=2, d_head=16)
    assert widths.rows == 128
    turned = {name: turn(np.zeros((128, 5))).shape for name, turn in parts("phi3", widths, "W").items()}
    assert turned == {"W_Q": (4, 16, 5), "W_K": (2, 16, 5), "W_V": (2, 16, 5)}


def test_a_fused_tensor_of_wrong_width_is_refused_by_name(tmp_path: Path) -> None:
    keys = {
        "model_type": "phi3", "vocab_size": 11, "hidden_size": 8, "intermediate_size": 6, "num_hidden_layers": 1,
        "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16, "max_position_embeddings": 40,
        "rope_theta": 1e4, "rms_norm_eps": 1e-5, "hidden_act": "silu",
    }  # fmt: skip
    block = "model.layers.0."
    shapes = {
        E: (11, 8), U: (11, 8), "model.norm.weight": (8,), block + "self_attn.qkv_proj.weight": (126, 8),
        block + "self_attn.o_proj.weight": (8, 64), block + "mlp.gate_up_proj.weight": (12, 8),
        block + "mlp.down_proj.weight": (8, 6), block + "input_layernorm.weight": (8,),
        block + "post_attention_layernorm.weight": (8,),
    }  # fmt: skip
    arrays = {name: np.ones(shape) for name, shape in shapes.items()}
    with pytest.raises(LoadError, match=r"qkv_proj\.weight' has shape \[126, 8\], expected \[128, 8\]"):
        px.load(folder(tmp_path / "x", keys, arrays))
    arrays[block + "self_attn.qkv_proj.weight"] = np.ones((128, 8))
    assert px.load(folder(tmp_path / "x", keys, arrays)).config.n_kv_heads == 2


# Tied and untied -------------------------------------------------------------------------------------------


def refused(place: Path, message: str, **options: Any) -> None:
    with pytest.raises(LoadError, match=message):
        px.load(place, **options)


def test_tied_tables_are_one(tmp_path: Path) -> None:
    model = px.load(folder(tmp_path / "x", changed(tie_word_embeddings=True), without(llama_arrays(), U)))
    assert model.config.tied
    np.testing.assert_array_equal(model.weights.W_U, model.weights.W_E.T)
    assert np.shares_memory(model.weights.W_U, model.weights.W_E)
    assert not model.weights.W_U.flags.writeable
    assert not model.weights.W_E.flags.writeable


def test_a_missing_table_is_not_made_up(tmp_path: Path) -> None:
    place = folder(tmp_path / "x", LLAMA, without(llama_arrays(), U))
    refused(place, r"'lm_head\.weight' is missing.*load\(\.\.\., tie=True\)")
    assert px.load(place, tie=True).config.tied
    place = folder(tmp_path / "x", LLAMA, without(llama_arrays(), E))
    refused(place, r"'model\.embed_tokens\.weight' is missing.*tie=True")


def test_two_tables_are_tied_on_request_only_if_they_are_one(tmp_path: Path) -> None:
    arrays = llama_arrays()
    refused(folder(tmp_path / "x", LLAMA, arrays), r"tie=True, but 'lm_head\.weight' is stored too", tie=True)
    arrays[U] = arrays[E].copy()
    assert px.load(folder(tmp_path / "x", LLAMA, arrays), tie=True).config.tied


def test_a_head_alone_serves_as_embedding_where_they_are_tied(tmp_path: Path) -> None:
    arrays = without(llama_arrays(), E)
    model = px.load(folder(tmp_path / "x", changed(tie_word_embeddings=True), arrays))
    np.testing.assert_array_equal(model.weights.W_E.T, arrays[U])
    np.testing.assert_array_equal(model.weights.W_U, arrays[U])


def test_both_tables_of_a_tied_model(tmp_path: Path) -> None:
    arrays, config = llama_arrays(), changed(tie_word_embeddings=True)
    place = folder(tmp_path / "x", config, arrays | {U: arrays[E]})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert px.load(place, strict=True).config.tied
    place = folder(tmp_path / "x", config, arrays)
    with pytest.warns(LoadWarning, match=r"'lm_head\.weight' differs from.*is taken"):
        model = px.load(place)
    assert not model.config.tied
    np.testing.assert_array_equal(model.weights.W_U, arrays[U])
    refused(place, "differs from", strict=True)


# Vocabulary ------------------------------------------------------------------------------------------------


def test_a_vocabulary_of_another_size_is_refused_or_taken_on_request(tmp_path: Path) -> None:
    config = changed(vocab_size=32)
    arrays = llama_arrays(changed(vocab_size=61))
    place = folder(tmp_path / "x", config, arrays)
    refused(
        place, r"vocab_size is 32, but 'model\.embed_tokens\.weight' has shape \[61, 8\], expected 32 rows"
    )
    with pytest.warns(LoadWarning, match="vocab_size = 32; 61 is taken"):
        assert px.load(place, vocab_from_checkpoint=True).config.d_vocab == 61


def test_tables_of_two_sizes_are_refused_in_any_case(tmp_path: Path) -> None:
    arrays = llama_arrays() | {U: np.ones((12, 8))}
    place = folder(tmp_path / "x", LLAMA, arrays)
    refused(place, r"'lm_head\.weight' has shape \[12, 8\], expected \[11, 8\]", vocab_from_checkpoint=True)


# Tensors that are missing, extra, of another shape or kind ---------------------------------------------------


def renamed(arrays: Arrays, old: str, new: str) -> Arrays:
    return {new if name == old else name: array for name, array in arrays.items()}


def test_a_final_norm_by_another_name_is_not_no_norm(tmp_path: Path) -> None:
    place = folder(tmp_path / "x", LLAMA, renamed(llama_arrays(), "model.norm.weight", "foo.norm_out.weight"))
    with pytest.raises(LoadError) as error:
        px.load(place)
    assert "'model.norm.weight' is missing" in str(error.value)
    assert "have no place in this architecture: 'foo.norm_out.weight'" in str(error.value)


def test_all_problems_are_told_at_once(tmp_path: Path) -> None:
    arrays = llama_arrays()
    del arrays["model.layers.0.self_attn.q_proj.weight"]
    arrays["model.layers.1.mlp.up_proj.weight"] = np.ones((8, 6))
    arrays["model.layers.2.mlp.up_proj.weight"] = np.ones((6, 8))
    with pytest.raises(LoadError) as error:
        px.load(folder(tmp_path / "x", LLAMA, arrays))
    for part in ("3 problem(s)", "q_proj.weight' is missing: expected shape [24, 8]",
                 "up_proj.weight' has shape [8, 6], expected [6, 8]", "no place in this architecture"):  # fmt: skip
        assert part in str(error.value)


def test_many_problems_are_cut_short(tmp_path: Path) -> None:
    with pytest.raises(LoadError, match=r"and \d+ more") as error:
        px.load(folder(tmp_path / "x", LLAMA, {E: np.ones((11, 8)), U: np.ones((11, 8))}))
    assert len(str(error.value).splitlines()) < 20


def test_biases_that_the_configuration_does_not_know_are_extra(tmp_path: Path) -> None:
    arrays = llama_arrays() | {"model.layers.0.self_attn.q_proj.bias": np.ones(24)}
    refused(folder(tmp_path / "x", LLAMA, arrays), r"no place .*q_proj\.bias")
    refused(folder(tmp_path / "x", changed(attention_bias=True), llama_arrays()), r"q_proj\.bias' is missing")


def test_quantized_checkpoints_are_refused(tmp_path: Path) -> None:
    packed = llama_arrays() | {"model.layers.0.self_attn.q_proj.qweight": np.ones((3, 8), np.int32)}
    refused(folder(tmp_path / "x", LLAMA, packed), r"quantized: 'model.*q_proj\.qweight'.*dequantize")
    config = changed(quantization_config={"quant_method": "gptq"})
    refused(folder(tmp_path / "x", config), "'quantization_config' is .*gptq.*dequantize")
    integers = {name: array.astype(np.int32) for name, array in llama_arrays().items()}
    refused(folder(tmp_path / "x", LLAMA, integers), "holds I32")


def test_numbers_that_are_none_are_refused(tmp_path: Path) -> None:
    arrays = llama_arrays()
    arrays["model.layers.1.mlp.up_proj.weight"][2, 3] = np.nan
    model = px.load(folder(tmp_path / "x", LLAMA, arrays))
    with pytest.raises(WeightsError, match=r"W_in has 1 numbers that are not finite.*\(1, 2, 3\)"):
        model.run([1, 2])


# Configuration keys ----------------------------------------------------------------------------------------


def test_an_unknown_key_is_refused_by_name_unless_it_is_waved_through(tmp_path: Path) -> None:
    place = folder(tmp_path / "x", changed(attention_sinks=4, my_note="fine-tuned"))
    refused(place, r"'attention_sinks', 'my_note' may change the computation")
    assert px.load(place, ignore=("attention_sinks", "my_note")).config.n_layers == 2
    px.load(folder(tmp_path / "x", changed(attention_sinks=None)))  # null says that it is off


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"is_encoder_decoder": True}, "'is_encoder_decoder' is True: encoder–decoder"),
        ({"add_cross_attention": True}, "'add_cross_attention'"),
        ({"num_local_experts": 8}, "'num_local_experts' is 8: mixtures of experts"),
        ({"model_type": "mixtral", "num_local_experts": 8}, "'num_experts_per_tok' must be a whole number"),
        ({"model_type": "t5", "is_encoder_decoder": True}, "'is_encoder_decoder'"),
        (
            {"model_type": "mamba"},
            "model_type 'mamba' is not known; known: bert, bloom, camembert, cohere",
        ),
        ({"model_type": None}, "model_type None"),
        ({"model_type": ["llama"]}, r"model_type \['llama'\] is not known"),
        ({"rope_theta": 10**400}, "'rope_theta' is a whole number of 401 digits"),
        ({"auto_map": {"AutoModel": "modeling.Mine"}}, "'auto_map'.*code of its own"),
        ({"hidden_act": "quick_gelu"}, "'hidden_act' is 'quick_gelu', which is not known"),
        ({"hidden_size": "8"}, "'hidden_size' must be a whole number of at least 1, found '8'"),
        ({"hidden_size": True}, "'hidden_size' must be a whole number"),
        ({"num_hidden_layers": 0}, "'num_hidden_layers' must be"),
        ({"num_hidden_layers": 10**9}, "1,000,000,000 layers, but there are 21 tensors in all"),
        ({"num_key_value_heads": 3}, "n_kv_heads must divide n_heads"),
        ({"attention_bias": "no"}, "'attention_bias' must be true or false"),
        ({"rms_norm_eps": "1e-5"}, "'rms_norm_eps' must be a number"),
    ],
)
def test_keys_that_are_refused(tmp_path: Path, keys: dict[str, Any], message: str) -> None:
    refused(folder(tmp_path / "x", changed(**keys), llama_arrays()), message)


def test_code_of_its_own_may_be_waved_through_and_is_not_run(tmp_path: Path) -> None:
    place = folder(tmp_path / "x", changed(auto_map={"AutoConfig": "mine.Config"}), llama_arrays())
    refused(place, r"ignore=\('auto_map',\)")
    assert px.load(place, ignore=("auto_map",)).config.n_layers == 2


@pytest.mark.parametrize(
    ("config", "keys"),
    [
        (LLAMA, {"is_llama_config": True, "rope_interleaved": False, "pretraining_tp": 1}),  # SmolLM2
        (LLAMA, {"use_mrope": False}),  # Qwen2.5
        (GPT2, {"_num_labels": 1}),  # DistilGPT-2
    ],
)
def test_keys_of_published_configurations_load(
    tmp_path: Path, config: dict[str, Any], keys: dict[str, Any]
) -> None:
    arrays = gpt2_arrays() if config is GPT2 else llama_arrays()
    assert px.load(folder(tmp_path / "x", {**config, **keys}, arrays)).config.n_layers == 2


def test_the_same_keys_switched_on_are_refused(tmp_path: Path) -> None:
    refused(folder(tmp_path / "x", changed(rope_interleaved=True)), "'rope_interleaved' is True")
    refused(folder(tmp_path / "x", changed(use_mrope=True)), "'use_mrope' is True")


def test_a_gpt2_that_scales_by_layer_is_refused(tmp_path: Path) -> None:
    config = {**GPT2, "scale_attn_by_inverse_layer_idx": True}
    refused(folder(tmp_path / "x", config, gpt2_arrays()), "'scale_attn_by_inverse_layer_idx' is True")
    refused(folder(tmp_path / "x", {**GPT2, "n_ctx": 20}, gpt2_arrays()), "'n_ctx' is 20, known is 40")


def test_defaults_are_told(tmp_path: Path) -> None:
    place = folder(tmp_path / "x", without(LLAMA, "rms_norm_eps", "hidden_act"))
    with pytest.warns(LoadWarning, match="does not say rms_norm_eps = 1e-06, hidden_act = silu"):
        assert px.load(place).config.norm_eps == 1e-6


@pytest.mark.parametrize("content", ["[1]", "no JSON", '{"a": 1, "a": 2}', "\ud800"])
def test_a_configuration_that_is_none(tmp_path: Path, content: str) -> None:
    place = folder(tmp_path / "x")
    (place / "config.json").write_bytes(content.encode("utf-8", "surrogatepass"))
    refused(place, r"config\.json.*JSON")


def test_tensors_without_a_configuration_are_refused(tmp_path: Path) -> None:
    refused(write(tmp_path / "x.safetensors", llama_arrays()), r"it has no config\.json")


def test_options_are_known_by_name(tmp_path: Path) -> None:
    place = folder(tmp_path / "x")
    refused(place, "no option 'trust_remote_code'; it takes tie", trust_remote_code=True)
    refused(place, "tie: expected True or False, got 1", tie=1)
    refused(place, "embedding_scale: expected one of", embedding_scale="float8")
    px.load("attn-0l").save(tmp_path / "x.npz")
    refused(tmp_path / "x.npz", "leave nothing open", tie=True)


# Rotary positions ------------------------------------------------------------------------------------------


def frequencies(place: Path) -> list[float]:
    rotary = px.load(place).config.rotary
    assert rotary is not None
    return [round(float(f), 8) for f in rotary.frequencies()]


FOUR = {"head_dim": 4, "hidden_size": 16}
NO_BASE = without(changed(**FOUR), "rope_theta")


@pytest.mark.parametrize(
    "keys",
    [
        {"rope_theta": 500000},
        {"rope_parameters": {"rope_theta": 500000}},
        {"rope_parameters": {"rope_theta": 500000.0, "rope_type": "default"}, "rope_theta": 500000},
        {"rope_scaling": {"rope_theta": 500000}},
        {"rope_theta": 500000, "rope_scaling": None},
    ],
)
def test_the_rotary_base_in_either_place(tmp_path: Path, keys: dict[str, Any]) -> None:
    assert frequencies(folder(tmp_path / "x", {**NO_BASE, **keys})) == [1.0, 0.00141421]


def test_a_missing_rotary_base_is_a_warning(tmp_path: Path) -> None:
    with pytest.warns(LoadWarning, match=r"rope_theta = 10000\.0: assumed"):
        assert frequencies(folder(tmp_path / "x", NO_BASE)) == [1.0, 0.01]


def test_two_rotary_bases_are_refused(tmp_path: Path) -> None:
    keys = {"rope_theta": 10000.0, "rope_parameters": {"rope_theta": 500000.0}}
    refused(
        folder(tmp_path / "x", {**NO_BASE, **keys}), "different values.*rope_theta = 10000.0, rope_parameters"
    )
    keys = {"rope_scaling": {"type": "linear", "factor": 2.0}, "rope_parameters": {"factor": 3.0}}
    refused(
        folder(tmp_path / "x", changed(**keys)), "rope_parameters says factor = 3.0, rope_scaling says 2.0"
    )


@pytest.mark.parametrize(
    ("scaling", "message"),
    [
        (
            {"type": "proportional", "factor": 2.0},
            "rope_type 'proportional' is not known; known: default, linear",
        ),
        ({"type": "dynamic"}, "must give 'factor' as a number, found None"),
        ({"type": "dynamic", "factor": 2.0, "alpha": 3.0}, "rope_type 'dynamic' has no 'alpha'"),
        ({"type": "dynamic", "factor": 0.5}, "factor: expected a finite number ≥ 1"),
        (
            {"type": "longrope", "short_factor": [1, 1, 1]},
            "must give 'long_factor' as a list of numbers, found None",
        ),
        (
            {"type": "su", "short_factor": [1, 1], "long_factor": [1, 1, 2]},
            "one divisor for each of the 3 pairs of dims=6, found 2",
        ),
        (
            {"type": "longrope", "short_factor": [1, 1, "2"], "long_factor": [1, 1, 2]},
            "'short_factor' as a list",
        ),
        ({"type": "linear"}, "must give 'factor' as a number, found None"),
        ({"type": "linear", "factor": 2.0, "offset": 1}, "rope_type 'linear' has no 'offset'"),
        ({"factor": 2.0}, "has 'factor' but no rope_type"),
        (
            {"full_attention": {"rope_theta": 1.5}, "sliding_attention": {"rope_theta": 2.5}},
            "differs between",
        ),
        ({"rope_type": ["linear"], "factor": 2.0}, r"rope_type \['linear'\] is not known"),
        ({"rope_type": "linear", "factor": 10**400}, "'factor' is a whole number of 401 digits"),
        ("linear", "'rope_scaling' must be an object"),
    ],
)
def test_scalings_that_are_refused(tmp_path: Path, scaling: Any, message: str) -> None:
    refused(folder(tmp_path / "x", changed(rope_scaling=scaling)), message)


@pytest.mark.parametrize(
    "keys",
    [
        {"partial_rotary_factor": 0.5},
        {"rope_parameters": {"rope_theta": 500.0, "partial_rotary_factor": 0.5}},
    ],
)
def test_part_of_a_head_turns_only_where_the_family_reads_it(tmp_path: Path, keys: dict[str, Any]) -> None:
    """The code of Llama in transformers turns whole heads, whatever this key says."""
    config = {**NO_BASE, "rope_theta": 500.0, **keys}
    refused(folder(tmp_path / "x", config), "partial_rotary_factor is 0.5, but this family turns whole heads")
    whole = changed(partial_rotary_factor=1.0)
    assert px.load(folder(tmp_path / "x", whole)).config.rotary.dims in (None, 6)


# Windows ---------------------------------------------------------------------------------------------------

GEMMA2 = {
    **without(LLAMA, "hidden_act"), "model_type": "gemma2", "hidden_activation": "gelu_pytorch_tanh",
    "query_pre_attn_scalar": 6, "attn_logit_softcapping": 50.0, "final_logit_softcapping": 30.0,
    "sliding_window": 2, "tie_word_embeddings": True,
}  # fmt: skip


def gemma2_arrays() -> Arrays:
    arrays = llama_arrays(changed(tie_word_embeddings=True))
    for layer in range(2):
        for name in ("pre_feedforward_layernorm", "post_feedforward_layernorm"):
            arrays[f"model.layers.{layer}.{name}.weight"] = np.full(8, 0.5)
    arrays["model.layers.0.input_layernorm.weight"] = np.array([0.5, -0.5] * 4)
    return arrays


@pytest.mark.parametrize(("kinds", "local"), [(["sliding_attention", "full_attention"], 0),
                                              (["full_attention", "sliding_attention"], 1)])  # fmt: skip
def test_an_explicit_list_of_windows_wins(tmp_path: Path, kinds: list[str], local: int) -> None:
    config = GEMMA2 | {"layer_types": kinds}
    patterns = px.load(folder(tmp_path / "x", config, gemma2_arrays())).run([1, 2, 3, 4]).patterns
    assert (patterns[local, :, 3, :2] == 0).all()
    assert (patterns[1 - local, :, 3, 0] > 0).all()


def test_without_a_list_the_family_has_its_rule(tmp_path: Path) -> None:
    assert px.load(folder(tmp_path / "x", GEMMA2, gemma2_arrays())).config.windows == (2, None)


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"layer_types": ["full_attention"]}, "a list of 2 kinds"),
        ({"layer_types": ["full_attention", "chunked_attention"]}, "'chunked_attention'; known are"),
        ({"layer_types": ["sliding_attention"] * 2, "sliding_window": None}, "gives them no width"),
        ({"use_bidirectional_attention": True}, "'use_bidirectional_attention'"),
    ],
)
def test_windows_that_are_refused(tmp_path: Path, keys: dict[str, Any], message: str) -> None:
    refused(folder(tmp_path / "x", GEMMA2 | keys, gemma2_arrays()), message)


def test_windows_of_qwen(tmp_path: Path) -> None:
    """A width is stored although it is not used; where it is, the first layers see everything."""
    biases = {
        f"model.layers.{layer}.self_attn.{name}_proj.bias": np.ones(rows)
        for layer in range(2)
        for name, rows in (("q", 24), ("k", 12), ("v", 12))
    }
    config = changed(model_type="qwen2", sliding_window=7, use_sliding_window=False, max_window_layers=1)
    arrays = llama_arrays() | biases
    assert px.load(folder(tmp_path / "x", config, arrays)).config.windows is None
    config["use_sliding_window"] = True
    assert px.load(folder(tmp_path / "x", config, arrays)).config.windows == (None, 7)


def test_keys_that_gemma_stores_twice(tmp_path: Path) -> None:
    """Published ones have the old hidden_act, which is not used, and a second name of the window."""
    config = GEMMA2 | {"hidden_act": "gelu", "sliding_window_size": 2}
    assert px.load(folder(tmp_path / "x", config, gemma2_arrays())).config.activation == "gelu_tanh"
    config["sliding_window_size"] = 3
    refused(folder(tmp_path / "x", config, gemma2_arrays()), "'sliding_window_size' is 3, known is 2")


# Gemma's own -----------------------------------------------------------------------------------------------


def test_gains_stored_less_one_and_the_scaled_embedding(tmp_path: Path) -> None:
    model = px.load(folder(tmp_path / "x", GEMMA2, gemma2_arrays()))
    np.testing.assert_array_equal(model.weights.g_attn[0], [1.5, 0.5] * 4)
    assert model.config.embedding_multiplier == 8**0.5
    assert model.config.attention_scale == 6**-0.5
    np.testing.assert_array_equal(model.weights.W_U, gemma2_arrays()[E])  # tied, and not scaled
    np.testing.assert_allclose(model.run([3]).residuals["embed"][0], 8**0.5 * gemma2_arrays()[E][3])


def test_the_first_gemma_stores_gains_alike_and_means_the_tanh_form(tmp_path: Path) -> None:
    config = changed(model_type="gemma", hidden_act="gelu", tie_word_embeddings=True)
    model = px.load(folder(tmp_path / "x", config, llama_arrays(config)))
    stored = llama_arrays(config)["model.norm.weight"]
    np.testing.assert_array_equal(model.weights.g_final, 1 + stored)
    assert (model.config.activation, model.config.embedding_multiplier) == ("gelu_tanh", 8**0.5)


def test_the_embedding_scale_in_two_precisions(tmp_path: Path) -> None:
    assert round(embedding_scale(3072), 8) == 55.42562584
    assert embedding_scale(3072, "bfloat16") == 55.5
    assert embedding_scale(2304, "bfloat16") == 48.0
    model = px.load(folder(tmp_path / "x", GEMMA2, gemma2_arrays()), embedding_scale="bfloat16")
    assert model.config.embedding_multiplier == 2.828125


def test_caps_that_are_null_are_none_and_caps_that_are_absent_are_told(tmp_path: Path) -> None:
    off = GEMMA2 | {"attn_logit_softcapping": None, "final_logit_softcapping": None}
    model = px.load(folder(tmp_path / "x", off, gemma2_arrays()))
    assert (model.config.attention_cap, model.config.logit_cap) == (None, None)
    with pytest.warns(LoadWarning, match=r"final_logit_softcapping = 30\.0"):
        absent = without(GEMMA2, "final_logit_softcapping")
        assert px.load(folder(tmp_path / "x", absent, gemma2_arrays())).config.logit_cap == 30.0


# Pickles ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["model.pt", "model.pth", "model.ckpt", "model.pkl"])
def test_pickles_are_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(b"\x80\x04N.")
    refused(
        tmp_path / name, r"Python pickle.*can run code(.|\n)*weights_only=True(.|\n)*px.load\(state, config="
    )


def test_a_directory_of_pickles_is_refused(tmp_path: Path) -> None:
    place = folder(tmp_path / "x")
    (place / "model.safetensors").rename(place / "pytorch_model.bin")
    refused(place, r"'pytorch_model\.bin'.*pickle, which can run code(.|\n)*from_pretrained")
    assert json.loads((place / "config.json").read_text())["model_type"] == "llama"


def test_what_a_file_leaves_open_may_be_told_on_the_command_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place = folder(tmp_path / "x", changed(my_note="mine"), without(llama_arrays(), U))
    command = ["expand", str(place), "--tokens", "1,2,3"]
    assert main(command) == 2
    assert "--ignore KEY" in capsys.readouterr().err
    assert main([*command, "--ignore", "my_note"]) == 2
    assert "--tie" in capsys.readouterr().err
    assert main([*command, "--tie", "--ignore", "my_note"]) == 0
    assert main(["expand", "attn-0l", "--tie"]) == 2
    assert "leaves nothing open" in capsys.readouterr().err


# Outputs that are no vocabulary ----------------------------------------------------------------------------


def test_a_class_head_takes_the_place_of_the_unembedding(tmp_path: Path) -> None:
    score = np.random.default_rng(0).standard_normal((3, llama_arrays()[U].shape[1]))
    arrays = {**without(llama_arrays(), U), "score.weight": score}
    keys = changed(
        id2label={"0": "a", "1": "b", "2": "c"}, label2id={"a": 0, "b": 1, "c": 2}, problem_type=None
    )
    model = px.load(folder(tmp_path / "classes", keys, arrays))
    run = model.run(TOKENS)
    assert (model.config.d_out, run.logits.shape) == (3, (len(TOKENS), 3))
    np.testing.assert_array_equal(model.weights.W_U, score)
    assert px.expand(run).verify().ok


def test_a_checkpoint_without_unembedding_gives_its_final_stream(tmp_path: Path) -> None:
    path = folder(tmp_path / "base", arrays=without(llama_arrays(), U))
    with pytest.raises(LoadError, match="no_unembedding=True"):
        px.load(path)
    run = px.load(path, no_unembedding=True).run(TOKENS)
    np.testing.assert_array_equal(run.logits, run.residuals["final_out"])
    assert px.expand(run).verify().ok

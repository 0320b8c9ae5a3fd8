"""GGUF files made from checkpoints of transformers, as llama.cpp's converter makes them: other names, rows in other orders.

Nothing here knows how the product reads them: names come from the package, turns from the converter's rules
(ggml-org/llama.cpp, convert_hf_to_gguf.py).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

import gguf
import numpy as np

from pathexp.model.load.huggingface import FAMILIES
from pathexp.model.load.keys import Keys
from pathexp.model.load.options import Options
from tests.model.load import checkpoints

Arrays = dict[str, np.ndarray]
Config = Mapping[str, Any]


def arrays_of(config: Config, seed: int = 0) -> Arrays:
    """Random tensors of a configuration under the names of transformers, that float32 and float16 hold exactly."""
    family, rng = FAMILIES[config["model_type"]], np.random.default_rng(seed)
    plan = family.plan(Keys(config, "a test"), Options(no_unembedding=config["model_type"] == "bert"))
    shapes = dict(found for piece in plan.pieces for found in piece.stored(plan.config.n_layers))
    table = (plan.config.d_vocab, plan.config.d_model)
    tables = {family.embedding: table}
    if not config.get("tie_word_embeddings", family.tied):
        tables[family.unembedding] = table
    return {name: _drawn(rng, name, shape) for name, shape in (shapes | tables).items()}


def _drawn(rng: np.random.Generator, name: str, shape: tuple[int, ...]) -> np.ndarray:
    array = checkpoints.drawn(rng, *shape)
    return array / 2 + 1 if len(shape) == 1 and name.endswith("norm.weight") else array


# The converter's rules: from a name and its tensor to the tensors that are written -----------------------------

Rule = Callable[[str, np.ndarray, Config], np.ndarray]


def as_it_is(name: str, array: np.ndarray, config: Config) -> np.ndarray:
    return array


def permuted(name: str, array: np.ndarray, config: Config) -> np.ndarray:
    """Llama: rotary pairs half a head apart become neighbors, in queries and keys, biases too."""
    if not any(f"{letter}_proj." in name for letter in "qk"):
        return array
    heads = config["num_attention_heads" if "q_proj" in name else "num_key_value_heads"]
    return array.reshape(heads, 2, -1, *array.shape[1:]).swapaxes(1, 2).reshape(array.shape)


def one_more(name: str, array: np.ndarray, config: Config) -> np.ndarray:
    """Gemma: gains are written whole."""
    return array + 1 if name.endswith("norm.weight") else array


def transposed(name: str, array: np.ndarray, config: Config) -> np.ndarray:
    """GPT-2: rows are outputs."""
    return array.T if ".h." in name and array.ndim == 2 else array


def in_blocks(name: str, array: np.ndarray, config: Config) -> np.ndarray:
    """GPT-NeoX and BLOOM: all queries, all keys, all values."""
    if "query_key_value" not in name:
        return array
    heads = config.get("num_attention_heads") or config["n_head"]
    return np.concatenate(list(array.reshape(heads, 3, -1, *array.shape[1:]).swapaxes(0, 1))).reshape(
        array.shape
    )


def grouped(name: str, array: np.ndarray, config: Config) -> np.ndarray:
    """Falcon: within each group of heads its queries, its key, its value become all queries, all keys, all values."""
    if "query_key_value" not in name:
        return array
    heads = config["num_attention_heads"]
    groups = config["num_kv_heads"] if config.get("new_decoder_architecture") else 1
    rows = array.reshape(groups, heads // groups + 2, -1, *array.shape[1:])
    return np.concatenate(
        [part.reshape(-1, *array.shape[1:]) for part in (rows[:, :-2], rows[:, -2], rows[:, -1])]
    )


def stacked_heads(arrays: Arrays) -> Arrays:
    """StableLM: the gains of heads, each a tensor, become one table."""
    found: Arrays = {}
    for name, array in arrays.items():
        if ".norms." not in name:
            found[name] = array
        elif name.endswith(".norms.0.weight"):
            start = name.removesuffix("0.weight")
            heads = [
                arrays[f"{start}{at}.weight"] for at in range(sum(each.startswith(start) for each in arrays))
            ]
            found[name.replace(".norms.0.weight", ".weight")] = np.stack(heads)
    return found


def joined_experts(arrays: Arrays) -> Arrays:
    """Mixtral, OLMoE, Qwen-MoE: the maps of all experts of a layer become one tensor; a gate of one row loses that axis."""
    ours = {"w1": "gate_proj", "w3": "up_proj", "w2": "down_proj"}
    found: Arrays = {}
    joined: dict[str, dict[int, np.ndarray]] = {}
    for name, array in arrays.items():
        match = re.fullmatch(r"(model\.layers\.\d+\.).*\.experts\.(\d+)\.(\w+)\.weight", name)
        if match:
            whole = f"{match[1]}mlp.experts.{ours.get(match[3], match[3])}.weight"
            joined.setdefault(whole, {})[int(match[2])] = array
        else:
            found[name] = array[0] if name.endswith("shared_expert_gate.weight") else array
    return found | {name: np.stack([each[at] for at in range(len(each))]) for name, each in joined.items()}


def parted_experts(arrays: Arrays) -> Arrays:
    """gpt-oss: gates and values stand side by side in one tensor, inputs first; each becomes a tensor, outputs first."""
    found: Arrays = {}
    for name, array in arrays.items():
        bias = name.endswith("_bias")
        turned = array if bias or array.ndim < 3 else array.swapaxes(1, 2)
        whole = f"{name.removesuffix('_bias')}.{'bias' if bias else 'weight'}"
        if ".gate_up_proj" in name:
            found |= {
                whole.replace("gate_up_proj", side): turned[:, at::2]
                for at, side in enumerate(("gate_proj", "up_proj"))
            }
        elif ".experts." in name:
            found[whole] = turned
        else:
            found[f"{name}.weight" if name.endswith(".sinks") else name] = array
    return found


def apart_in_heads(arrays: Arrays, own: int, values: int) -> Arrays:
    """DeepSeek today: what makes keys, inputs first, and what makes values of the latent, a head each; experts joined."""
    found: Arrays = {}
    for name, array in joined_experts(arrays).items():
        if "kv_b_proj" not in name:
            found[name.replace("e_score_correction_bias", "e_score_correction.bias")] = array
            continue
        keys, made = np.split(array.reshape(-1, own + values, array.shape[-1]), [own], axis=1)
        found[name.replace("kv_b_proj", "k_b_proj")] = keys.swapaxes(1, 2)
        found[name.replace("kv_b_proj", "v_b_proj")] = made
    return found


def joined_choices(arrays: Arrays) -> Arrays:
    """DeepSeek as it was: keys and values made by one tensor; experts joined."""
    return {
        name.replace("e_score_correction_bias", "e_score_correction.bias"): array
        for name, array in joined_experts(arrays).items()
    }


@dataclass(frozen=True)
class Case:
    """A configuration of transformers, the architecture of GGUF, its keys, and the rule for its tensors."""

    config: Config
    architecture: str
    fields: Mapping[str, Any]
    rule: Rule = as_it_is
    tensors: Mapping[str, Any] = field(default_factory=dict)
    base: str = ""
    prepare: Callable[[Arrays], Arrays] = dict


def tensors_of(case: Case, arrays: Arrays) -> Arrays:
    """The tensors as the converter writes them, by GGUF's names."""
    kind = next(key for key, name in gguf.MODEL_ARCH_NAMES.items() if name == case.architecture)
    names = gguf.get_tensor_name_map(kind, case.fields["block_count"])
    found = {}
    for name, array in case.prepare(arrays).items():
        written = names.get_name(name.removeprefix(case.base), try_suffixes=(".weight", ".bias"))
        assert written, name
        found[written] = case.rule(name, array, case.config)
    return found | {name: np.asarray(array) for name, array in case.tensors.items()}


def write(
    path: Path,
    architecture: str,
    fields: Mapping[str, Any],
    tensors: Arrays,
    tokens: Mapping[str, Any] | None = None,
    packed: Mapping[str, np.ndarray] = MappingProxyType({}),
    form: Any = None,
) -> Path:
    """Write a file of GGUF: keys of the architecture, of its tokenizer, and tensors; some as the bytes of a packing."""
    writer = gguf.GGUFWriter(path, architecture)
    for name, value in fields.items():
        if value is not None:
            add(
                writer,
                name if name.startswith(("general.", "split.", "x.")) else f"{architecture}.{name}",
                value,
            )
    for name, value in (tokens or {}).items():
        add(writer, f"tokenizer.ggml.{name}", value)
    for name, array in tensors.items():
        writer.add_tensor(name, np.ascontiguousarray(array, dtype=np.float32))
    for name, raw in packed.items():
        writer.add_tensor(name, raw, raw_dtype=form)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def add(writer: Any, name: str, value: Any) -> None:
    """Add one key, of the kind that llama.cpp expects."""
    adds = {bool: writer.add_bool, int: writer.add_uint32, float: writer.add_float32, str: writer.add_string}
    adds.get(type(value), writer.add_array)(name, value)


def loaded(case: Case, folder: Path, seed: int = 0) -> tuple[Path, Path]:
    """The directory of transformers and the file of GGUF of one seeded model."""
    arrays = arrays_of(case.config, seed)
    there = checkpoints.folder(
        folder / "hf", case.config, {n: a.astype(np.float32) for n, a in arrays.items()}
    )
    return there, write(folder / "model.gguf", case.architecture, case.fields, tensors_of(case, arrays))


# The cases -----------------------------------------------------------------------------------------------------

_SIZES: Config = {
    "vocab_size": 13, "hidden_size": 24, "intermediate_size": 20, "num_hidden_layers": 3, "num_attention_heads": 4,
    "num_key_value_heads": 2, "max_position_embeddings": 40, "rms_norm_eps": 1e-5, "rope_theta": 500.0,
    "tie_word_embeddings": False,
}  # fmt: skip
_OWN: Config = {**_SIZES, "head_dim": 10}  # not d_model / n_heads
_BLOCK: Config = {
    "block_count": 3, "context_length": 40, "embedding_length": 24, "feed_forward_length": 20,
    "attention.head_count": 4, "attention.head_count_kv": 2, "vocab_size": 13,
}  # fmt: skip
_RMS: Config = {
    **_BLOCK,
    "attention.layer_norm_rms_epsilon": 1e-5,
    "rope.freq_base": 500.0,
    "rope.dimension_count": 6,
}
_RMS_OWN: Config = {
    **_RMS,
    "attention.key_length": 10,
    "attention.value_length": 10,
    "rope.dimension_count": 10,
}
_LN: Config = {**_BLOCK, "attention.layer_norm_epsilon": 1e-5, "attention.head_count_kv": 4}

_OLMO: Config = {
    "vocab_size": 13, "hidden_size": 24, "intermediate_size": 20, "num_hidden_layers": 3, "num_attention_heads": 4,
    "num_key_value_heads": 2, "max_position_embeddings": 40, "rope_theta": 500.0, "tie_word_embeddings": False, "hidden_act": "silu",
}  # fmt: skip
_FALCON: Config = {
    "model_type": "falcon", "vocab_size": 13, "hidden_size": 24, "num_hidden_layers": 3, "num_attention_heads": 4,
    "layer_norm_epsilon": 1e-5, "rope_theta": 500.0, "max_position_embeddings": 40, "alibi": False, "bias": False,
    "parallel_attn": True,
}  # fmt: skip

_LLAMA3 = {
    "rope_type": "llama3", "rope_theta": 500.0, "factor": 4.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
    "original_max_position_embeddings": 20,
}  # fmt: skip
_YARN = {"rope_type": "yarn", "rope_theta": 500.0, "factor": 4.0, "original_max_position_embeddings": 10}


def _llama3_divisors(dims: int = 10) -> np.ndarray:
    """What the converter writes for Llama 3.1: how much slower each pair turns."""
    frequencies = 500.0 ** -(np.arange(0, dims, 2) / dims)
    length, divisors = 2 * np.pi / frequencies, []
    for wave in length:
        smooth = (20 / wave - 1.0) / (4.0 - 1.0)
        between = 1 / ((1 - smooth) / 4.0 + smooth)
        divisors.append(1.0 if wave < 20 / 4.0 else 4.0 if wave > 20 / 1.0 else between)
    return np.array(divisors)


_DEEPSEEK: Config = {
    **_SIZES, "num_key_value_heads": 4, "rms_norm_eps": 1e-6, "q_lora_rank": 11, "kv_lora_rank": 7, "qk_nope_head_dim": 5,
    "qk_rope_head_dim": 4, "v_head_dim": 6, "moe_intermediate_size": 8, "n_routed_experts": 6, "n_shared_experts": 2,
    "num_experts_per_tok": 2, "first_k_dense_replace": 1, "hidden_act": "silu",
}  # fmt: skip
_DEEPSEEK_KEYS: Config = {
    **_RMS, "attention.layer_norm_rms_epsilon": 1e-6, "rope.dimension_count": 4, "attention.q_lora_rank": 11,
    "attention.kv_lora_rank": 7, "leading_dense_block_count": 1, "expert_count": 6, "expert_used_count": 2,
    "expert_feed_forward_length": 8, "expert_shared_count": 2,
}  # fmt: skip
_LATENT_HEAD: Config = {
    "attention.head_count_kv": 1, "attention.key_length": 11, "attention.value_length": 7, "attention.key_length_mla": 9,
    "attention.value_length_mla": 6,
}  # fmt: skip

CASES: dict[str, Case] = {
    "llama": Case({**_OWN, "model_type": "llama"}, "llama", _RMS_OWN, permuted),
    "llama biased tied": Case(
        {**_OWN, "model_type": "llama", "attention_bias": True, "mlp_bias": True, "tie_word_embeddings": True},
        "llama", _RMS_OWN, permuted,
    ),
    "llama 3.1": Case(
        {**_OWN, "model_type": "llama", "rope_parameters": _LLAMA3}, "llama", _RMS_OWN, permuted,
        {"rope_freqs.weight": _llama3_divisors()},
    ),
    "llama linear": Case(
        {**_OWN, "model_type": "llama", "rope_scaling": {"type": "linear", "factor": 2.5}}, "llama",
        {**_RMS_OWN, "rope.scaling.type": "linear", "rope.scaling.factor": 2.5}, permuted,
    ),
    "llama linear, old key": Case(
        {**_OWN, "model_type": "llama", "rope_scaling": {"type": "linear", "factor": 2.5}}, "llama",
        {**_RMS_OWN, "rope.scale_linear": 2.5, "tensor_data_layout": "Meta AI original pth"}, permuted,
    ),
    "llama yarn": Case(
        {**_OWN, "model_type": "llama", "rope_parameters": _YARN}, "llama",
        {
            **_RMS_OWN, "rope.scaling.type": "yarn", "rope.scaling.factor": 4.0,
            "rope.scaling.original_context_length": 10, "rope.scaling.finetuned": True,
        },
        permuted,
    ),
    "llama yarn, attention factor": Case(
        {**_OWN, "model_type": "llama", "rope_parameters": {**_YARN, "attention_factor": 0.75}}, "llama",
        {
            **_RMS_OWN, "rope.scaling.type": "yarn", "rope.scaling.factor": 4.0,
            "rope.scaling.original_context_length": 10, "rope.scaling.attn_factor": float(0.75 / (0.1 * np.log(4.0) + 1)),
        },
        permuted,
    ),
    "llama, keys by layer": Case(
        {**_OWN, "model_type": "llama"}, "llama",
        {**_RMS_OWN, "attention.head_count": [4] * 3, "attention.head_count_kv": [2] * 3, "feed_forward_length": [20] * 3},
        permuted,
    ),
    "mistral": Case(
        {**_OWN, "model_type": "mistral", "sliding_window": 5}, "llama", {**_RMS_OWN, "attention.sliding_window": 5}, permuted,
    ),
    "qwen2": Case({**_SIZES, "model_type": "qwen2"}, "qwen2", _RMS),
    "qwen3": Case({**_OWN, "model_type": "qwen3"}, "qwen3", _RMS_OWN),
    "gpt_oss": Case(
        {
            **_OWN, "model_type": "gpt_oss", "sliding_window": 5, "num_local_experts": 4, "num_experts_per_tok": 2,
            "rope_parameters": {**_YARN, "truncate": False},
        },
        "gpt-oss",
        {
            **_RMS_OWN, "attention.sliding_window": 5, "expert_count": 4, "expert_used_count": 2, "expert_feed_forward_length": 20,
            "rope.scaling.type": "yarn", "rope.scaling.factor": 4.0, "rope.scaling.original_context_length": 10,
        },
        prepare=parted_experts,
    ),
    "gemma": Case(
        {**_OWN, "model_type": "gemma", "hidden_activation": "gelu_pytorch_tanh", "tie_word_embeddings": True},
        "gemma", _RMS_OWN, one_more,
    ),
    "gemma2": Case(
        {
            **_OWN, "model_type": "gemma2", "tie_word_embeddings": True, "sliding_window": 5, "query_pre_attn_scalar": 10,
            "attn_logit_softcapping": 2.0, "final_logit_softcapping": 3.0, "hidden_activation": "gelu_pytorch_tanh",
        },
        "gemma2",
        {
            **_RMS_OWN, "attention.sliding_window": 5, "attn_logit_softcapping": 2.0, "final_logit_softcapping": 3.0,
        },
        one_more,
    ),
    "phi3": Case(
        {**_SIZES, "model_type": "phi3", "sliding_window": 5, "partial_rotary_factor": 0.7}, "phi3",
        {**_RMS, "attention.sliding_window": 5, "rope.dimension_count": 4},
    ),
    "granite": Case(
        {
            **_SIZES, "model_type": "granite", "embedding_multiplier": 3.0, "residual_multiplier": 0.22,
            "attention_multiplier": 0.3, "logits_scaling": 8.0,
        },
        "granite",
        {
            **_RMS, "embedding_scale": 3.0, "residual_scale": 0.22, "attention.scale": 0.3, "logit_scale": 8.0,
        },
        permuted,
    ),
    "olmo2": Case({**_SIZES, "model_type": "olmo2"}, "olmo2", _RMS),
    "phi": Case(
        {
            **{key: value for key, value in _SIZES.items() if key != "rms_norm_eps"}, "num_key_value_heads": 4,
            "model_type": "phi", "partial_rotary_factor": 0.7, "layer_norm_eps": 1e-5, "hidden_act": "gelu_new",
        },
        "phi2", {**_LN, "rope.freq_base": 500.0, "rope.dimension_count": 4},
    ),
    "gpt_neox": Case(
        {
            "model_type": "gpt_neox", "vocab_size": 13, "hidden_size": 24, "intermediate_size": 20, "num_hidden_layers": 3,
            "num_attention_heads": 4, "max_position_embeddings": 40, "layer_norm_eps": 1e-5, "rotary_pct": 0.7,
            "rotary_emb_base": 500.0, "hidden_act": "gelu",
        },
        "gptneox", {**_LN, "rope.freq_base": 500.0, "rope.dimension_count": 4, "use_parallel_residual": True}, in_blocks,
    ),
    "gpt_neox sequential": Case(
        {
            "model_type": "gpt_neox", "vocab_size": 13, "hidden_size": 24, "intermediate_size": 20, "num_hidden_layers": 3,
            "num_attention_heads": 4, "max_position_embeddings": 40, "layer_norm_eps": 1e-5, "rotary_pct": 1.0,
            "rotary_emb_base": 500.0, "hidden_act": "gelu", "use_parallel_residual": False,
        },
        "gptneox", {**_LN, "rope.freq_base": 500.0, "rope.dimension_count": 6, "use_parallel_residual": False}, in_blocks,
    ),
    "gpt2": Case(
        {
            "model_type": "gpt2", "vocab_size": 13, "n_positions": 40, "n_embd": 24, "n_layer": 3, "n_head": 4,
            "n_inner": 20, "layer_norm_epsilon": 1e-5, "activation_function": "gelu_new",
        },
        "gpt2", _LN, transposed,
    ),
    "bloom": Case(
        {
            "model_type": "bloom", "vocab_size": 13, "hidden_size": 24, "n_layer": 3, "n_head": 3, "seq_length": 40,
            "layer_norm_epsilon": 1e-5,
        },
        "bloom",
        {**_LN, "attention.head_count": 3, "attention.head_count_kv": 3, "feed_forward_length": 96}, in_blocks,
        base="transformer.",
    ),
    "phi3 longrope": Case(
        {
            **_SIZES, "model_type": "phi3", "sliding_window": None, "original_max_position_embeddings": 8,
            "rope_scaling": {"type": "longrope", "short_factor": [1.0, 1.25, 1.5], "long_factor": [1.0, 2.0, 8.0]},
        },
        "phi3",
        {
            **_RMS, "rope.scaling.original_context_length": 8,
            "rope.scaling.attn_factor": float(np.sqrt(1 + np.log(40 / 8) / np.log(8))),
        },
        tensors={"rope_factors_short.weight": [1.0, 1.25, 1.5], "rope_factors_long.weight": [1.0, 2.0, 8.0]},
    ),
    "gemma3": Case(
        {
            **_OWN, "model_type": "gemma3_text", "tie_word_embeddings": True, "sliding_window": 16, "query_pre_attn_scalar": 10,
            "sliding_window_pattern": 2, "rope_local_base_freq": 50.0, "hidden_activation": "gelu_pytorch_tanh",
            "rope_scaling": {"rope_type": "linear", "factor": 8.0}, "final_logit_softcapping": None,
        },
        "gemma3",
        {
            **_RMS_OWN, "attention.sliding_window": 16, "attention.sliding_window_pattern": 2, "rope.freq_base_swa": 50.0,
            "rope.scaling.type": "linear", "rope.scaling.factor": 8.0,
        },
        one_more,
    ),
    "smollm3": Case(
        {**_SIZES, "model_type": "smollm3", "num_hidden_layers": 5}, "smollm3", {**_RMS, "block_count": 5}, permuted,
    ),
    "olmo": Case({**_OLMO, "model_type": "olmo"}, "olmo", {**_LN, "attention.head_count_kv": 2, "rope.freq_base": 500.0}, permuted),
    "nemotron": Case(
        {**_OLMO, "model_type": "nemotron", "norm_eps": 1e-5, "partial_rotary_factor": 0.7, "hidden_act": "relu2"}, "nemotron",
        {**_LN, "attention.head_count_kv": 2, "rope.freq_base": 500.0, "rope.dimension_count": 4}, one_more,
    ),
    "stablelm": Case(
        {**_OLMO, "model_type": "stablelm", "layer_norm_eps": 1e-5, "partial_rotary_factor": 0.7, "use_qkv_bias": True},
        "stablelm", {**_LN, "attention.head_count_kv": 2, "rope.freq_base": 500.0, "rope.dimension_count": 4},
    ),
    "stablelm parallel, normed heads": Case(
        {
            **_OLMO, "model_type": "stablelm", "layer_norm_eps": 1e-5, "partial_rotary_factor": 0.7, "qk_layernorm": True,
            "use_parallel_residual": True,
        },
        "stablelm",
        {
            **_LN, "attention.head_count_kv": 2, "rope.freq_base": 500.0, "rope.dimension_count": 4,
            "use_parallel_residual": True,
        },
        prepare=stacked_heads,
    ),
    "cohere": Case(
        {**_OLMO, "model_type": "cohere", "layer_norm_eps": 1e-5, "logit_scale": 0.25, "tie_word_embeddings": True},
        "command-r", {**_LN, "attention.head_count_kv": 2, "rope.freq_base": 500.0, "logit_scale": 0.25},
    ),
    "cohere, normed heads": Case(
        {
            **_OLMO, "model_type": "cohere", "layer_norm_eps": 1e-5, "logit_scale": 0.25, "tie_word_embeddings": True,
            "use_qk_norm": True,
        },
        "command-r", {**_LN, "attention.head_count_kv": 2, "rope.freq_base": 500.0, "logit_scale": 0.25},
    ),
    "cohere2": Case(
        {
            **_OLMO, "model_type": "cohere2", "layer_norm_eps": 1e-5, "logit_scale": 0.25, "tie_word_embeddings": True,
            "num_hidden_layers": 5, "sliding_window": 16,
        },
        "cohere2",
        {
            **_LN, "block_count": 5, "attention.head_count_kv": 2, "rope.freq_base": 500.0, "logit_scale": 0.25,
            "attention.sliding_window": 16,
        },
    ),
    "falcon": Case(
        {**_FALCON, "multi_query": True}, "falcon",
        {**_LN, "attention.head_count_kv": 1, "feed_forward_length": 96, "rope.freq_base": 500.0, "tensor_data_layout": "jploski"},
        grouped, base="",
    ),
    "falcon, new decoder": Case(
        {**_FALCON, "new_decoder_architecture": True, "num_kv_heads": 2}, "falcon",
        {**_LN, "attention.head_count_kv": 2, "feed_forward_length": 96, "rope.freq_base": 500.0}, grouped,
    ),
    "starcoder2": Case(
        {
            **{key: value for key, value in _OLMO.items() if key != "hidden_act"}, "model_type": "starcoder2",
            "norm_epsilon": 1e-5, "use_bias": True, "hidden_act": "gelu_pytorch_tanh",
        },
        "starcoder2", {**_LN, "attention.head_count_kv": 2, "rope.freq_base": 500.0},
    ),
    "gpt_bigcode": Case(
        {
            "model_type": "gpt_bigcode", "vocab_size": 13, "n_positions": 40, "n_embd": 24, "n_layer": 3, "n_head": 4,
            "n_inner": 20, "layer_norm_epsilon": 1e-5, "activation_function": "gelu_pytorch_tanh", "multi_query": True,
        },
        "starcoder", {**_LN, "attention.head_count_kv": 1},
    ),
    "mpt": Case(
        {"model_type": "mpt", "vocab_size": 13, "d_model": 24, "n_layers": 3, "n_heads": 4, "max_seq_len": 40},
        "mpt", {**_LN, "feed_forward_length": 96, "attention.max_alibi_bias": 8.0},
    ),
    "mixtral": Case(
        {**_OWN, "model_type": "mixtral", "num_local_experts": 4, "num_experts_per_tok": 2, "hidden_act": "silu"}, "llama",
        {**_RMS_OWN, "expert_count": 4, "expert_used_count": 2}, permuted, prepare=joined_experts,
    ),
    "olmoe": Case(
        {
            **_SIZES, "model_type": "olmoe", "num_key_value_heads": 4, "num_experts": 4, "num_experts_per_tok": 2, "norm_topk_prob": False,
            "hidden_act": "silu",
        },
        "olmoe", {**_RMS, "attention.head_count_kv": 4, "expert_count": 4, "expert_used_count": 2}, prepare=joined_experts,
    ),
    "qwen2_moe": Case(
        {
            **_SIZES, "model_type": "qwen2_moe", "num_experts": 4, "num_experts_per_tok": 2, "norm_topk_prob": False,
            "moe_intermediate_size": 6, "shared_expert_intermediate_size": 10, "hidden_act": "silu",
        },
        "qwen2moe",
        {
            **_RMS, "expert_count": 4, "expert_used_count": 2, "expert_feed_forward_length": 6,
            "expert_shared_feed_forward_length": 10,
        },
        prepare=joined_experts,
    ),
    "qwen3_moe": Case(
        {
            **_OWN, "model_type": "qwen3_moe", "num_experts": 4, "num_experts_per_tok": 2, "norm_topk_prob": True,
            "moe_intermediate_size": 6, "hidden_act": "silu",
        },
        "qwen3moe", {**_RMS_OWN, "expert_count": 4, "expert_used_count": 2, "expert_feed_forward_length": 6},
        prepare=joined_experts,
    ),
    "deepseek_v3": Case(
        {**_DEEPSEEK, "model_type": "deepseek_v3", "topk_group": 2, "n_group": 3, "routed_scaling_factor": 1.7}, "deepseek2",
        {**_DEEPSEEK_KEYS, **_LATENT_HEAD, "expert_gating_func": 2, "expert_weights_norm": True, "expert_weights_scale": 1.7,
         "expert_group_count": 3, "expert_group_used_count": 2},
        prepare=partial(apart_in_heads, own=5, values=6),
    ),
    "deepseek_v2 yarn, no groups": Case(
        {**_DEEPSEEK, "model_type": "deepseek_v2", "rope_parameters": {**_YARN, "mscale": 0.7, "mscale_all_dim": 0.7}}, "deepseek2",
        {**_DEEPSEEK_KEYS, **_LATENT_HEAD, "expert_weights_scale": 1.0, "rope.scaling.type": "yarn", "rope.scaling.factor": 4.0,
         "rope.scaling.original_context_length": 10, "rope.scaling.yarn_log_multiplier": 0.07},
        prepare=partial(apart_in_heads, own=5, values=6),
    ),
    "deepseek_v2, groups": Case(
        {**_DEEPSEEK, "model_type": "deepseek_v2", "topk_method": "group_limited_greedy", "n_group": 2, "topk_group": 1}, "deepseek2",
        {**_DEEPSEEK_KEYS, **_LATENT_HEAD, "expert_group_count": 2, "expert_group_used_count": 1},
        prepare=partial(apart_in_heads, own=5, values=6),
    ),
    "deepseek_v2, older file": Case(
        {**_DEEPSEEK, "model_type": "deepseek_v2"}, "deepseek2",
        {**_DEEPSEEK_KEYS, "attention.head_count_kv": 4, "attention.key_length": 9, "attention.value_length": 6},
        prepare=joined_choices,
    ),
    "deepseek_v2 lite": Case(  # llama.cpp tells it by its 27 layers
        {**_DEEPSEEK, "model_type": "deepseek_v2", "q_lora_rank": None, "num_hidden_layers": 27, "first_k_dense_replace": 27}, "deepseek2",
        {**_DEEPSEEK_KEYS, **_LATENT_HEAD, "attention.q_lora_rank": None, "block_count": 27, "leading_dense_block_count": 27},
        prepare=partial(apart_in_heads, own=5, values=6),
    ),
    "bert": Case(
        {
            "model_type": "bert", "vocab_size": 13, "hidden_size": 24, "intermediate_size": 20, "num_hidden_layers": 3,
            "num_attention_heads": 4, "max_position_embeddings": 40, "layer_norm_eps": 1e-12, "type_vocab_size": 2,
            "hidden_act": "gelu",
        },
        "bert",
        {**_LN, "attention.layer_norm_epsilon": 1e-12, "attention.causal": False, "pooling_type": 1}, base="bert.",
    ),
}  # fmt: skip

"""Tiny checkpoints made on the spot: safetensors files byte by byte, and directories as transformers has them."""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

Arrays = dict[str, np.ndarray]
_KINDS = {
    "float64": "F64",
    "float32": "F32",
    "float16": "F16",
    "int32": "I32",
    "int64": "I64",
    "uint8": "U8",
    "bool": "BOOL",
}


def bfloat16(values: np.ndarray) -> np.ndarray:
    """The upper halves of float32 numbers, as the raw bits that ``write`` marks as BF16."""
    return (np.asarray(values, dtype=np.float32).view(np.uint32) >> 16).astype(np.uint16)


def file_bytes(header: Mapping[str, Any] | bytes, data: bytes = b"", length: int | None = None) -> bytes:
    """A safetensors file from its header and its data; ``length`` lies about the header's."""
    raw = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(raw) if length is None else length) + raw + data


def entry(kind: str, shape: list[int], begin: int, end: int) -> dict[str, Any]:
    """What a header says of one tensor."""
    return {"dtype": kind, "shape": shape, "data_offsets": [begin, end]}


def write(path: Path, arrays: Mapping[str, np.ndarray]) -> Path:
    """Write arrays to a safetensors file; arrays of uint16 are bits of bfloat16."""
    path.write_bytes(raw(arrays))
    return path


def raw(arrays: Mapping[str, np.ndarray]) -> bytes:
    """The bytes of a safetensors file with these arrays."""
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    data = b""
    for name, array in arrays.items():
        kind = "BF16" if array.dtype == np.uint16 else _KINDS[array.dtype.name]
        numbers = np.ascontiguousarray(array).tobytes()
        header[name] = entry(kind, list(array.shape), len(data), len(data) + len(numbers))
        data += numbers
    return file_bytes(header, data)


def drawn(rng: np.random.Generator, *shape: int) -> np.ndarray:
    """Numbers that float16 and bfloat16 hold exactly: multiples of 1/64 below 1."""
    return rng.integers(-63, 64, shape) / 64


LLAMA: Mapping[str, Any] = {
    "model_type": "llama", "architectures": ["LlamaForCausalLM"], "vocab_size": 11, "hidden_size": 8,
    "intermediate_size": 6, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
    "head_dim": 6, "hidden_act": "silu", "max_position_embeddings": 40, "rms_norm_eps": 1e-5,
    "rope_theta": 500.0, "tie_word_embeddings": False, "torch_dtype": "float32", "use_cache": True,
}  # fmt: skip
GPT2: Mapping[str, Any] = {
    "model_type": "gpt2", "vocab_size": 11, "n_positions": 40, "n_ctx": 40, "n_embd": 8, "n_layer": 2,
    "n_head": 2, "layer_norm_epsilon": 1e-5, "activation_function": "gelu_new",
}  # fmt: skip


def llama_arrays(config: Mapping[str, Any] = LLAMA, seed: int = 0) -> Arrays:
    """The tensors of a Llama of these sizes."""
    rng = np.random.default_rng(seed)
    d, m, v = config["hidden_size"], config["intermediate_size"], config["vocab_size"]
    q, k = (config[key] * config["head_dim"] for key in ("num_attention_heads", "num_key_value_heads"))
    arrays = {"model.embed_tokens.weight": drawn(rng, v, d), "model.norm.weight": 1 + drawn(rng, d) / 2}
    for layer in range(config["num_hidden_layers"]):
        block = f"model.layers.{layer}."
        for name, rows in (("q", q), ("k", k), ("v", k)):
            arrays[f"{block}self_attn.{name}_proj.weight"] = drawn(rng, rows, d)
        arrays[block + "self_attn.o_proj.weight"] = drawn(rng, d, q)
        arrays[block + "mlp.gate_proj.weight"] = drawn(rng, m, d)
        arrays[block + "mlp.up_proj.weight"] = drawn(rng, m, d)
        arrays[block + "mlp.down_proj.weight"] = drawn(rng, d, m)
        for name in ("input_layernorm", "post_attention_layernorm"):
            arrays[f"{block}{name}.weight"] = 1 + drawn(rng, d) / 2
    if not config["tie_word_embeddings"]:
        arrays["lm_head.weight"] = drawn(rng, v, d)
    return arrays


def gpt2_arrays(config: Mapping[str, Any] = GPT2, seed: int = 0) -> Arrays:
    """The tensors of a GPT-2 of these sizes, saved without the language model around them."""
    rng = np.random.default_rng(seed)
    d = config["n_embd"]
    arrays = {
        "wte.weight": drawn(rng, config["vocab_size"], d),
        "wpe.weight": drawn(rng, config["n_positions"], d),
    }
    shapes = {
        "attn.c_attn": (d, 3 * d),
        "attn.c_proj": (d, d),
        "mlp.c_fc": (d, 4 * d),
        "mlp.c_proj": (4 * d, d),
    }
    for layer in range(config["n_layer"]):
        for name, shape in shapes.items():
            arrays[f"h.{layer}.{name}.weight"] = drawn(rng, *shape)
            arrays[f"h.{layer}.{name}.bias"] = drawn(rng, shape[1])
        arrays[f"h.{layer}.attn.bias"] = np.tril(np.ones((1, 1, 40, 40)))  # a stored mask
        for norm in ("ln_1", "ln_2"):
            arrays |= _layer_norm(rng, f"h.{layer}.{norm}", d)
    return arrays | _layer_norm(rng, "ln_f", d)


def _layer_norm(rng: np.random.Generator, name: str, d: int) -> Arrays:
    return {f"{name}.weight": 1 + drawn(rng, d) / 2, f"{name}.bias": drawn(rng, d)}


def folder(
    path: Path, config: Mapping[str, Any] = LLAMA, arrays: Mapping[str, np.ndarray] | None = None
) -> Path:
    """A directory with config.json and model.safetensors."""
    path.mkdir(exist_ok=True)
    (path / "config.json").write_text(json.dumps(dict(config)))
    write(path / "model.safetensors", llama_arrays(config) if arrays is None else arrays)
    return path


def shards(path: Path, arrays: Mapping[str, np.ndarray], files: int = 2) -> dict[str, str]:
    """Spread tensors over several files and an index; returns the index's map."""
    (path / "model.safetensors").unlink(missing_ok=True)
    where = {name: f"model-{1 + i % files:05}-of-{files:05}.safetensors" for i, name in enumerate(arrays)}
    for file in set(where.values()):
        write(path / file, {name: array for name, array in arrays.items() if where[name] == file})
    write_index(path, where)
    return where


def write_index(path: Path, where: Mapping[str, str]) -> None:
    """Write the index of a sharded checkpoint."""
    content = {"metadata": {"total_size": 1}, "weight_map": dict(where)}
    (path / "model.safetensors.index.json").write_text(json.dumps(content))

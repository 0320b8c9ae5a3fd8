"""Whole configurations, vocabularies and keys of GGUF as JSON, so that each of their fields can be damaged in turn."""

from __future__ import annotations

import io
import json
import struct
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import pathexp as px
from pathexp.model import from_transformer_lens
from pathexp.model.load.huggingface import FAMILIES
from pathexp.model.load.keys import Keys, read_keys
from pathexp.model.load.options import Options
from pathexp.model.load.tokenizer_json import byte_letters
from tests.model.load import checkpoints

TEXTS = ("hello world 12", " a\n", "<s>é🙂")
_YARN = {"rope_type": "yarn", "rope_theta": 500.0, "factor": 4.0, "original_max_position_embeddings": 10}
_COMMON: dict[str, Any] = {
    "vocab_size": 11, "hidden_size": 16, "intermediate_size": 10, "num_hidden_layers": 2, "num_attention_heads": 4,
    "num_key_value_heads": 2, "head_dim": 4, "max_position_embeddings": 40, "rope_theta": 500.0, "rms_norm_eps": 1e-5,
    "layer_norm_eps": 1e-5, "layer_norm_epsilon": 1e-5, "norm_eps": 1e-5, "norm_epsilon": 1e-5, "hidden_act": "gelu",
    "attention_bias": False, "mlp_bias": False, "use_bias": True, "sliding_window": 5, "use_sliding_window": False,
    "max_window_layers": 1, "layer_types": ["full_attention", "full_attention"], "partial_rotary_factor": 1.0,
    "query_pre_attn_scalar": 4, "attn_logit_softcapping": None, "final_logit_softcapping": 3.0, "logit_scale": 0.5,
    "embedding_multiplier": 2.0, "residual_multiplier": 0.5, "attention_multiplier": 0.3, "logits_scaling": 2.0,
    "qk_layernorm": False, "parallel_attn": True, "multi_query": True, "alibi": False, "bias": False, "ffn_dim": 10,
    "word_embed_proj_dim": 16, "do_layer_norm_before": True, "type_vocab_size": 2, "use_parallel_residual": True,
    "rotary_dim": 4, "n_positions": 40, "n_embd": 16, "n_layer": 2, "n_head": 4, "n_inner": 10, "seq_length": 40,
    "d_model": 16, "n_layers": 2, "n_heads": 4, "max_seq_len": 40, "rotary_pct": 1.0, "rotary_emb_base": 500,
    "scale_attn_weights": True, "activation_function": "gelu_new", "use_qkv_bias": False, "clip_qkv": None,
    "dim": 16, "hidden_dim": 10, "activation": "gelu",
}  # fmt: skip
"""Values of keys that families ask for; each gets those that it asks for."""

_EXPERTS: dict[str, Any] = {
    "num_experts": 4, "num_local_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 6, "norm_topk_prob": True,
    "shared_expert_intermediate_size": 8, "decoder_sparse_step": 1, "mlp_only_layers": [], "router_aux_loss_coef": 0.1,
}  # fmt: skip
_LATENT: dict[str, Any] = {
    "num_key_value_heads": 4, "head_dim": 4, "q_lora_rank": 6, "kv_lora_rank": 5, "qk_nope_head_dim": 3, "qk_rope_head_dim": 4,
    "v_head_dim": 5, "qk_head_dim": 7, "moe_intermediate_size": 6, "n_routed_experts": 4, "num_experts_per_tok": 2,
    "n_shared_experts": 1, "n_group": 2, "topk_group": 1, "routed_scaling_factor": 1.5, "first_k_dense_replace": 1,
    "rope_interleave": True, "moe_layer_freq": 1, "attention_bias": True, "rope_parameters": {**_YARN, "mscale_all_dim": 1.2},
}  # fmt: skip
_OWN: dict[str, dict[str, Any]] = {
    "deepseek_v2": {**_LATENT, "topk_method": "group_limited_greedy", "scoring_func": "softmax", "mlp_bias": True},
    "deepseek_v3": {**_LATENT, "topk_method": "noaux_tc", "scoring_func": "sigmoid", "norm_topk_prob": True},
    **dict.fromkeys(("mixtral", "olmoe", "qwen2_moe", "qwen3_moe", "gpt_oss"), _EXPERTS),
    "llama": {"rope_parameters": _YARN},
    "gemma2": {"layer_types": ["sliding_attention", "full_attention"]},
    "gpt_bigcode": {"num_key_value_heads": 1},
    "mpt": {"attn_config": {"alibi": True}, "logit_scale": None},
    "qwen2": {"use_sliding_window": True, "layer_types": None},
}  # fmt: skip


@dataclass(frozen=True)
class Fields:
    """Files by name, those of them whose fields are damaged, and what reads them from their folder."""

    files: dict[str, bytes]
    damaged: tuple[str, ...]
    read: Callable[[Path], Any]


def field_seeds() -> Iterator[tuple[str, Fields]]:
    """One set of files for the configuration of each family, and each kind of vocabulary and keys."""
    for family in FAMILIES:
        try:
            files = checkpoint_of(config_of(family))
        except px.PathexpError:  # told by `families_left_out`
            continue
        yield f"config.json {family}", Fields(files, ("config.json",), _run)
    yield "TransformerLens", _transformer_lens()
    for name, content in _tokenizers().items():
        files = {
            **checkpoint_of({**checkpoints.LLAMA, "vocab_size": 400}),
            "tokenizer.json": json.dumps(content).encode(),
        }
        yield (
            f"tokenizer.json {name}",
            Fields(files, ("tokenizer.json",), lambda there: _texts(px.load(there))),
        )
    yield from _gguf()


def families_left_out() -> set[str]:
    """The families whose configuration needs keys that are not here; to be empty."""
    return set(FAMILIES) - {name.removeprefix("config.json ") for name, _ in field_seeds()}


def _run(there: Path) -> Any:
    return px.load(there).run([0, 1])


def config_of(family: str) -> dict[str, Any]:
    """A configuration with every key of `_COMMON` that the family asks for."""
    if family == "gemma3":
        return {
            "model_type": family,
            "text_config": config_of("gemma3_text"),
            "vision_config": {"hidden_size": 4},
        }
    told = {**_COMMON, "model_type": family, **_OWN.get(family, {})}
    keys = Keys(told, "a test")
    FAMILIES[family].plan(keys, Options())
    always = {
        "tie_word_embeddings": False,
        "torch_dtype": "float32",
        "use_cache": True,
        "transformers_version": "5.0",
    }
    asked = {name: value for name, value in told.items() if name in keys.asked or name == "model_type"}
    return {**asked, **always}


def checkpoint_of(config: dict[str, Any]) -> dict[str, bytes]:
    """Files of a configuration with seeded tensors."""
    family, rng = FAMILIES[config["model_type"]], np.random.default_rng(0)
    plan = family.plan(Keys(config.get("text_config", config), "a test"), Options())
    shapes = {name: shape for piece in plan.pieces for name, shape in piece.stored(plan.config.n_layers)}
    table = (plan.config.d_vocab, plan.config.d_model)
    shapes |= {family.embedding: table, family.unembedding: table}
    arrays = {name: checkpoints.drawn(rng, *shape).astype(np.float32) for name, shape in shapes.items()}
    return {"config.json": json.dumps(config).encode(), "model.safetensors": checkpoints.raw(arrays)}


def _texts(model: px.Model) -> list[str]:
    """Texts to ids and back, where the model has a tokenizer."""
    model.run([0, 1])
    if model.tokenizer is None:
        return []
    return [model.decode(model.encode(text)) for text in TEXTS] + [model.token_string(1)]


def _transformer_lens() -> Fields:
    cfg = {
        "n_layers": 1, "n_heads": 2, "d_model": 6, "d_head": 3, "d_vocab": 5, "n_ctx": 8, "d_mlp": 4, "act_fn": "gelu",
        "normalization_type": "LN", "positional_embedding_type": "standard", "attn_only": False, "attn_scale": 1.7, "eps": 1e-5,
        "use_attn_scale": True, "attention_dir": "causal", "gated_mlp": False, "final_rms": False, "d_vocab_out": 5,
        "n_key_value_heads": None, "rotary_dim": None, "use_local_attn": False, "window_size": None, "attn_types": None,
        "parallel_attn_mlp": False, "output_logits_soft_cap": -1.0, "init_weights": True, "dtype": "float32", "device": "cpu",
    }  # fmt: skip
    rng, arrays = np.random.default_rng(0), {}
    shapes = {
        "embed.W_E": (5, 6),
        "pos_embed.W_pos": (8, 6),
        "unembed.W_U": (6, 5),
        "unembed.b_U": (5,),
        "ln_final.w": (6,),
    }
    shapes |= {"ln_final.b": (6,)} | {
        f"blocks.0.{norm}.{part}": (6,) for norm in ("ln1", "ln2") for part in "wb"
    }
    attention = {
        "W_Q": (2, 6, 3),
        "W_K": (2, 6, 3),
        "W_V": (2, 6, 3),
        "W_O": (2, 3, 6),
        "b_Q": (2, 3),
        "b_K": (2, 3),
    }
    attention |= {"b_V": (2, 3), "b_O": (6,)}
    shapes |= {f"blocks.0.attn.{name}": shape for name, shape in attention.items()}
    shapes |= {
        "blocks.0.mlp.W_in": (6, 4),
        "blocks.0.mlp.b_in": (4,),
        "blocks.0.mlp.W_out": (4, 6),
        "blocks.0.mlp.b_out": (6,),
    }
    arrays = {name: rng.standard_normal(shape) for name, shape in shapes.items()}

    def read(there: Path) -> Any:
        return from_transformer_lens(arrays, read_keys(there / "cfg.json")).run([0, 1])

    return Fields({"cfg.json": json.dumps(cfg).encode()}, ("cfg.json",), read)


def _tokenizers() -> dict[str, dict[str, Any]]:
    """Small tokenizer.json files of each kind of model."""
    as_bytes = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    letters = {letter: token for token, letter in enumerate(byte_letters())}
    begin = {
        "id": 300,
        "content": "<s>",
        "single_word": False,
        "lstrip": False,
        "rstrip": False,
        "normalized": False,
    }
    template = {
        "type": "TemplateProcessing",
        "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
        "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 0}}],
        "special_tokens": {"<s>": {"id": "<s>", "ids": [300], "tokens": ["<s>"]}},
    }
    mark = {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "first", "split": True}
    pairs = {"type": "BPE", "vocab": {**letters, "he": 299}, "merges": [["h", "e"]], "ignore_merges": False}
    scores = {
        "type": "Unigram",
        "vocab": [["<unk>", 0.0], ["▁", -1.0], ["a", -2.0], ["▁a", -1.5]],
        "unk_id": 0,
    }
    words = {"[UNK]": 0, "hello": 1, "##lo": 2, "he": 3, "[CLS]": 4, "[SEP]": 5}
    pieces = {
        "type": "WordPiece",
        "unk_token": "[UNK]",
        "continuing_subword_prefix": "##",
        "max_input_chars_per_word": 100,
    }
    bert = {
        "type": "BertNormalizer",
        "clean_text": True,
        "handle_chinese_chars": True,
        "strip_accents": None,
        "lowercase": True,
    }
    around = {"type": "BertProcessing", "sep": ["[SEP]", 5], "cls": ["[CLS]", 4]}
    common: dict[str, Any] = {"version": "1.0", "truncation": None, "padding": None, "normalizer": None}
    level = {"type": "WordLevel", "vocab": {"hello": 0, "12": 1, "<unk>": 2}, "unk_token": "<unk>"}
    special = [{**begin, "special": True}]
    return {
        "BPE": {**common, "added_tokens": special, "pre_tokenizer": as_bytes, "decoder": as_bytes, "post_processor": template, "model": pairs},
        "Unigram": {**common, "added_tokens": [], "pre_tokenizer": mark, "decoder": mark, "post_processor": None, "model": scores},
        "WordPiece": {
            **common, "normalizer": bert, "added_tokens": [], "pre_tokenizer": {"type": "BertPreTokenizer"}, "post_processor": around,
            "decoder": {"type": "WordPiece", "prefix": "##", "cleanup": True}, "model": {**pieces, "vocab": words},
        },
        "WordLevel": {**common, "added_tokens": [], "pre_tokenizer": {"type": "Whitespace"}, "model": level},
    }  # fmt: skip


# Keys of GGUF ----------------------------------------------------------------------------------------------------


def _gguf() -> Iterator[tuple[str, Fields]]:
    try:
        from tests.model.load import gguf_texts, gguf_writing
    except ImportError:  # the package is not here
        return
    for name, case in gguf_writing.CASES.items():
        if case.architecture == "bert":
            continue
        tensors = gguf_writing.tensors_of(case, gguf_writing.arrays_of(case.config))
        own = {f"{case.architecture}.{key}": value for key, value in case.fields.items()}
        yield f"GGUF {name}", _keyed({"general.architecture": case.architecture, **own}, tensors)
    case = gguf_writing.CASES["llama"]
    own = {f"llama.{key}": value for key, value in case.fields.items() if key != "vocab_size"}
    for name, tokens in _vocabularies(gguf_texts).items():
        size = {**case.config, "vocab_size": len(tokens["tokens"])}
        tensors = gguf_writing.tensors_of(case, gguf_writing.arrays_of(size))
        keys = {f"tokenizer.ggml.{key}": value for key, value in tokens.items()}
        yield f"GGUF tokens {name}", _keyed({"general.architecture": "llama", **own, **keys}, tensors)


def _vocabularies(texts: Any) -> dict[str, dict[str, Any]]:
    """A vocabulary of each kind, with every key that is read."""
    around = {"add_bos_token": True, "add_eos_token": True, "add_space_prefix": True}
    normal = {"normalizer.lowercase": True, "normalizer.strip_accents": True}
    return {
        "gpt2": texts.merged("qwen2", **around),
        "llama": texts.scored(**around),
        "bert": texts.word_pieces(**normal),
    }


def _keyed(keys: dict[str, Any], tensors: Mapping[str, np.ndarray]) -> Fields:
    """Keys as JSON, from which the file is made before it is read."""

    def read(there: Path) -> Any:
        path = there / "model.gguf"
        path.write_bytes(gguf_bytes(read_keys(there / "keys.json"), tensors))
        return _texts(px.load(path))

    return Fields({"keys.json": json.dumps(keys).encode()}, ("keys.json",), read)


def gguf_bytes(keys: Mapping[str, Any], tensors: Mapping[str, np.ndarray]) -> bytes:
    """A file of GGUF with these keys, of whatever kind their values are; None is left out."""
    told = {key: value for key, value in keys.items() if value is not None}
    head, data = io.BytesIO(), io.BytesIO()
    head.write(struct.pack("<4sIQQ", b"GGUF", 3, len(tensors), len(told)))
    for key, value in told.items():
        head.write(_string(key) + _typed(value))
    for name, array in tensors.items():
        plain = np.ascontiguousarray(array, dtype="<f4")
        shape = struct.pack(f"<I{plain.ndim}Q", plain.ndim, *reversed(plain.shape))
        head.write(_string(name) + shape + struct.pack("<IQ", 0, data.tell()))
        data.write(plain.tobytes())
        data.write(bytes(-data.tell() % 32))
    head.write(bytes(-head.tell() % 32))
    return head.getvalue() + data.getvalue()


def _string(text: str) -> bytes:
    raw = text.encode("utf-8", "surrogatepass")
    return struct.pack("<Q", len(raw)) + raw


def _typed(value: Any) -> bytes:
    kind, raw = _value(value)
    return struct.pack("<I", kind) + raw


def _value(value: Any) -> tuple[int, bytes]:
    """The kind of a value in GGUF, and its bytes."""
    match value:
        case bool():
            return 7, struct.pack("<?", value)
        case int() if 0 <= value < 2**32:
            return 4, struct.pack("<I", value)
        case int() if -(2**63) <= value < 2**63:
            return 11, struct.pack("<q", value)
        case float() if value != value or abs(value) < 3e38 or abs(value) == float("inf"):
            return 6, struct.pack("<f", value)
        case float():
            return 12, struct.pack("<d", value)
        case list():
            return 9, _list(value)
    return 8, _string(value if isinstance(value, str) else json.dumps(value))


def _list(values: list[Any]) -> bytes:
    """A list of one kind; of several kinds, all are text."""
    found = [_value(value) for value in values]
    if len({kind for kind, _ in found}) > 1:
        found = [_value(value if isinstance(value, str) else json.dumps(value)) for value in values]
    kind = found[0][0] if found else 4
    return struct.pack("<IQ", kind, len(found)) + b"".join(raw for _, raw in found)

"""Llama and its relatives: RMS norms, rotary positions, grouped heads, gated MLPs, and what each changes."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from ...config import Config
from ..experts import SINGLY, ExpertNames, expert_pieces
from ..fused import Widths, parts
from ..gather import Piece, Turn, as_it_is, heads_in, heads_out, one_more
from ..keys import Keys
from ..options import Options
from ..rope import by_kind, rotary
from ..safetensors_file import upcast_bfloat16
from .plan import ACTIVATIONS, SLIDING, Family, Plan, activation, head_size, layer_kinds, windows

Fields = Mapping[str, Any]

_PRE = {"input_layernorm": "attn", "post_attention_layernorm": "mlp"}
_BRANCH = {"post_attention_layernorm": "attn_post", "post_feedforward_layernorm": "mlp_post"}
_SANDWICH = {"input_layernorm": "attn", "pre_feedforward_layernorm": "mlp"} | _BRANCH


@dataclass(frozen=True)
class Kind:
    """How a relative differs: configuration fields of its own, norms by their names, biases, stored gains.

    ``biases``: the projections that have one where ``attention_bias`` says so; ``always``: those that have
    one in any case. ``told``: keys that have no default here, since the family's own is no formula.
    ``bias_key`` is where and what is said of ``biases``, ``theta`` the family's base of rotary positions, ``experts`` the names
    of experts where there are some. ``fused``: queries, keys and values in one tensor, gate and up in another. ``partial``: rotary positions
    may turn a part of each head; ``turned``: how layers are turned, by the fields of Config.
    """

    fields: Callable[[Keys, Options], Fields]
    norms: Mapping[str, str]
    biases: str = "qkvo"
    always: str = ""
    gain: Turn = as_it_is
    qk_norm: str | None = None
    told: tuple[str, ...] = ()
    epsilon: float = 1e-6
    fused: bool = False
    partial: bool = False
    turned: Callable[[Kind, Keys, int], Fields] = lambda kind, keys, d_head: {
        "rotary": rotary(keys, d_head, partial=kind.partial, default=kind.theta)
    }
    bias_key: tuple[str, bool] = ("attention_bias", False)
    theta: float = 10000.0
    experts: ExpertNames = SINGLY
    activation_key: tuple[str, str] = ("hidden_act", "silu")


def plan_of(kind: Kind, keys: Keys, options: Options) -> Plan:
    config = Config(**{**_sizes(kind, keys), **kind.fields(keys, options)})
    biased = kind.always + (kind.biases if keys.switch(*kind.bias_key) else "")
    if not kind.biases:
        keys.must_be_off("attention_bias", "this family's biases are fixed")
    attention = _fused_attention(config) if kind.fused else _attention(config, kind, biased)
    mlp = _fused_mlp(config) if kind.fused else _mlp(config, keys.switch("mlp_bias", False))
    pieces = [*attention, *mlp, *expert_pieces(config, kind.experts), *_norms(config, kind)]
    unused = (r"model\.layers\.\d+\.self_attn\.rotary_emb\.inv_freq", r"model\.rotary_emb\.inv_freq")
    return Plan(config, pieces, unused)


def _sizes(kind: Kind, keys: Keys) -> dict[str, Any]:
    n_heads, d_model = keys.size("num_attention_heads"), keys.size("hidden_size")
    told = {key: keys.size(key) for key in kind.told}
    keys.must_be_off("rope_interleaved", "this family turns pairs of numbers half a head apart")
    keys.must_be_off("use_mrope", "positions along several axes are not known here")
    d_head = told.get("head_dim") or keys.get("head_dim") or head_size(keys, d_model, n_heads)
    return {
        "n_layers": keys.size("num_hidden_layers"),
        "n_heads": n_heads,
        "n_kv_heads": keys.size("num_key_value_heads", n_heads),
        "d_model": d_model,
        "d_head": keys.size("head_dim", d_head),
        "d_vocab": keys.size("vocab_size"),
        "n_ctx": keys.size("max_position_embeddings"),
        "d_mlp": keys.size("intermediate_size"),
        "positions": "rotary",
        **kind.turned(kind, keys, d_head),
        "norm": "rmsnorm",
        "norm_eps": keys.assumed_number("rms_norm_eps", kind.epsilon),
        "qk_norm": kind.qk_norm,
        "activation": activation(keys, *kind.activation_key),
        "gated": True,
    }


def _attention(c: Config, kind: Kind, biased: str) -> Iterator[Piece]:
    d, h, block = c.d_model, c.d_head, "model.layers.{l}."
    for letter, heads in (("q", c.n_heads), ("k", c.n_kv_heads), ("v", c.n_kv_heads)):
        name = f"{block}self_attn.{letter}_proj"
        yield Piece(f"{name}.weight", (heads * h, d), {f"W_{letter.upper()}": heads_in(heads)})
        if letter in biased:
            yield Piece(f"{name}.bias", (heads * h,), {f"b_{letter.upper()}": heads_in(heads)})
        if kind.qk_norm and letter in "qk":
            whole = kind.qk_norm == "projection"
            turn = heads_in(heads) if whole else as_it_is
            size = heads * h if whole else h
            stored = kind.gain if kind.gain is not as_it_is else turn
            yield Piece(f"{block}self_attn.{letter}_norm.weight", (size,), {f"g_{letter}": stored})
    yield Piece(block + "self_attn.o_proj.weight", (d, c.n_heads * h), {"W_O": heads_out(c.n_heads)})
    if "o" in biased:
        yield Piece(block + "self_attn.o_proj.bias", (d,), {"b_O": as_it_is})


def _fused_attention(c: Config) -> Iterator[Piece]:
    width, block = Widths(c.n_heads, c.n_kv_heads, c.d_head), "model.layers.{l}.self_attn."
    yield Piece(block + "qkv_proj.weight", (width.rows, c.d_model), parts("phi3", width, "W"))
    turn = heads_out(c.n_heads)
    yield Piece(block + "o_proj.weight", (c.d_model, c.n_heads * c.d_head), {"W_O": turn})


def _norms(c: Config, kind: Kind) -> Iterator[Piece]:
    for theirs, ours in kind.norms.items():
        yield Piece(f"model.layers.{{l}}.{theirs}.weight", (c.d_model,), {f"g_{ours}": kind.gain})
    yield Piece("model.norm.weight", (c.d_model,), {"g_final": kind.gain})


def _mlp(c: Config, biased: bool) -> Iterator[Piece]:
    block, d, m = "model.layers.{l}.mlp.", c.d_model, c.d_mlp
    dense = None if c.experts is None else tuple(filter(c.has_dense, range(c.n_layers)))
    if not m:
        return
    for theirs, ours, shape in (("gate", "gate", (m, d)), ("up", "in", (m, d)), ("down", "out", (d, m))):
        yield Piece(f"{block}{theirs}_proj.weight", shape, {f"W_{ours}": as_it_is}, dense)
        if biased:
            yield Piece(f"{block}{theirs}_proj.bias", shape[:1], {f"b_{ours}": as_it_is}, dense)


def _fused_mlp(c: Config) -> Iterator[Piece]:
    block, d, m = "model.layers.{l}.mlp.", c.d_model, c.d_mlp
    halves: Mapping[str, Turn] = {"W_gate": lambda raw: raw[:m], "W_in": lambda raw: raw[m:]}
    yield Piece(block + "gate_up_proj.weight", (2 * m, d), halves)
    yield Piece(block + "down_proj.weight", (d, m), {"W_out": as_it_is})


# What each has of its own ----------------------------------------------------------------------------------


def _nothing(keys: Keys, options: Options) -> Fields:
    return {}


def _phi3(keys: Keys, options: Options) -> Fields:
    return {"windows": keys.get("sliding_window")}


def _mistral(keys: Keys, options: Options) -> Fields:
    return {"windows": keys.optional_size("sliding_window", 4096)}


def _qwen(keys: Keys, options: Options) -> Fields:
    n_layers, first = keys.size("num_hidden_layers"), keys.size("max_window_layers", 28, least=0)
    slides = keys.switch("use_sliding_window", False)
    width = keys.optional_size("sliding_window", 4096) if slides else None
    keys.asked.add("sliding_window")
    return {"windows": windows(keys, n_layers, width, lambda layer: layer >= first)}


def _gemma2(keys: Keys, options: Options) -> Fields:
    keys.must_be_off("use_bidirectional_attention", "the causal model is known here")
    keys.get("hidden_act")  # stored beside hidden_activation, and not used
    n_layers, width = keys.size("num_hidden_layers"), keys.optional_size("sliding_window", 4096)
    keys.must_be("sliding_window_size", width, "it must be sliding_window")
    return {
        "norm_placement": "sandwich",
        "embedding_multiplier": embedding_scale(keys.size("hidden_size"), options.embedding_scale),
        "attention_scale": keys.assumed_positive("query_pre_attn_scalar", 256) ** -0.5,
        "attention_cap": keys.optional_number("attn_logit_softcapping", 50.0),
        "logit_cap": keys.optional_number("final_logit_softcapping", 30.0),
        "windows": windows(keys, n_layers, width, lambda layer: layer % 2 == 0),
    }


def _pattern(keys: Keys, default: int) -> int:
    """Every so many layers one is full; older and newer files have different keys for it."""
    found = keys.get("sliding_window_pattern", keys.get("_sliding_window_pattern", default))
    if type(found) is not int or found < 1:
        raise keys.error(f"'sliding_window_pattern' must be a whole number of at least 1, found {found!r}")
    return found


def _gemma3(keys: Keys, options: Options) -> Fields:
    keys.must_be_off("use_bidirectional_attention", "the causal model is known here")
    n_layers, width = keys.size("num_hidden_layers"), keys.optional_size("sliding_window", 4096)
    keys.must_be_off("attn_logit_softcapping", "transformers does not apply it in this family")
    every = _pattern(keys, 6)
    return {
        "norm_placement": "sandwich",
        "embedding_multiplier": embedding_scale(keys.size("hidden_size"), options.embedding_scale),
        "attention_scale": keys.assumed_positive("query_pre_attn_scalar", 256) ** -0.5,
        "logit_cap": keys.get("final_logit_softcapping"),
        "windows": windows(keys, n_layers, width, lambda layer: bool((layer + 1) % every)),
    }


def _gemma3_turned(kind: Kind, keys: Keys, d_head: int) -> Fields:
    """Sliding layers turn by one base, full ones by another."""
    bases = by_kind(keys, d_head, "rope_local_base_freq", ("rope_theta",), (10_000.0, 1_000_000.0))
    n_layers, every = keys.size("num_hidden_layers"), _pattern(keys, 6)
    kinds = layer_kinds(keys, n_layers, True, lambda layer: bool((layer + 1) % every))
    return {"rotaries": tuple(bases[kind] for kind in kinds)}


def _smollm3(keys: Keys, options: Options) -> Fields:
    n_layers, slides = keys.size("num_hidden_layers"), keys.switch("use_sliding_window", False)
    width = keys.get("sliding_window") if slides else None
    keys.asked |= {"sliding_window", "max_window_layers"}  # the second is stored, and read by nothing
    kinds = layer_kinds(keys, n_layers, width is not None, lambda layer: not _turns(keys)[layer])
    if SLIDING in kinds and width is None:
        raise keys.error(
            "'layer_types' has sliding layers, but use_sliding_window and sliding_window give no width"
        )
    return {
        "windows": tuple(width if kind == SLIDING else None for kind in kinds) if SLIDING in kinds else None
    }


def _turns(keys: Keys) -> list[bool]:
    """Which layers are turned, as `no_rope_layers` has it (1: turned), or all but every fourth."""
    n_layers, every = keys.size("num_hidden_layers"), keys.size("no_rope_layer_interval", 4)
    told = keys.get("no_rope_layers", [int((layer + 1) % every != 0) for layer in range(n_layers)])
    if not isinstance(told, list) or len(told) < n_layers or any(value not in (0, 1) for value in told):
        raise keys.error(f"'no_rope_layers' must be {n_layers} numbers, 1 or 0 a layer, found {told!r:.80}")
    return [bool(value) for value in told[:n_layers]]


def _smollm3_turned(kind: Kind, keys: Keys, d_head: int) -> Fields:
    one = rotary(keys, d_head, partial=False, default=2_000_000.0)
    return {"rotaries": tuple(one if turns else None for turns in _turns(keys))}


def _gemma(keys: Keys, options: Options) -> Fields:
    """Whatever GELU is named, Gemma's is the tanh form."""
    keys.must_be_off("use_bidirectional_attention", "the causal model is known here")
    named = keys.get("hidden_activation") or keys.get("hidden_act", "gelu")
    return {
        "embedding_multiplier": embedding_scale(keys.size("hidden_size"), options.embedding_scale),
        "activation": "gelu_tanh" if named == "gelu" else keys.choice("hidden_act", named, ACTIVATIONS),
    }


def _granite(keys: Keys, options: Options) -> Fields:
    return {
        "embedding_multiplier": keys.assumed_number("embedding_multiplier", 1.0),
        "residual_multiplier": keys.assumed_number("residual_multiplier", 1.0),
        "attention_scale": keys.assumed_number("attention_multiplier", 1.0),
        "logit_multiplier": 1 / keys.assumed_positive("logits_scaling", 1.0),
    }


def _olmo2(keys: Keys, options: Options) -> Fields:
    return {"norm_placement": "branch"}


def embedding_scale(d_model: int, precision: str = "float64") -> float:
    """Gemma's multiplier of the embedding, √d_model, as computed in a precision.

    >>> embedding_scale(3072), embedding_scale(3072, "bfloat16")
    (55.42562584220407, 55.5)
    """
    exact = np.sqrt(np.float64(d_model))
    if precision == "float64":
        return float(exact)
    bits = np.array([exact], dtype=np.float32).view(np.uint32)
    nearest = (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16  # to nearest, ties to even
    return float(upcast_bfloat16(nearest.astype(np.uint16))[0])


def _family(kind: Kind, tied: bool = False) -> Family:
    return Family(
        "model.", "model.embed_tokens.weight", "lm_head.weight", tied=tied, plan=partial(plan_of, kind)
    )


LLAMA = _family(Kind(_nothing, _PRE))
MISTRAL = _family(Kind(_mistral, _PRE, biases="", told=("num_key_value_heads",)))
PHI3 = _family(Kind(_phi3, _PRE, biases="", fused=True, partial=True, epsilon=1e-5))
QWEN2 = _family(Kind(_qwen, _PRE, biases="", always="qkv", told=("num_key_value_heads",)))
QWEN3 = _family(Kind(_qwen, _PRE, qk_norm="head", told=("num_key_value_heads", "head_dim")))
GRANITE = _family(Kind(_granite, _PRE))
GEMMA = _family(
    Kind(
        _gemma,
        _PRE,
        gain=one_more,
        told=("num_key_value_heads", "head_dim"),
        activation_key=("hidden_act", "gelu_pytorch_tanh"),
    ),
    tied=True,
)
GEMMA2 = _family(
    Kind(
        _gemma2,
        _SANDWICH,
        gain=one_more,
        told=("num_key_value_heads", "head_dim"),
        activation_key=("hidden_activation", "gelu_pytorch_tanh"),
    ),
    tied=True,
)
OLMO2 = _family(Kind(_olmo2, _BRANCH, qk_norm="projection", epsilon=1e-5))
SMOLLM3 = _family(Kind(_smollm3, _PRE, turned=_smollm3_turned), tied=True)
GEMMA3_TEXT = _family(
    Kind(
        _gemma3,
        _SANDWICH,
        gain=one_more,
        qk_norm="head",
        told=("num_key_value_heads", "head_dim"),
        activation_key=("hidden_activation", "gelu_pytorch_tanh"),
        turned=_gemma3_turned,
    ),
    tied=True,
)


def _text_of_gemma3(names: Collection[str]) -> Mapping[str, str]:
    """Tensors of the text in a model of text and images, which are called otherwise in older and in newer files."""
    found = {}
    for name in names:
        for prefix, ours in _GEMMA3_PREFIXES.items():
            if name.startswith(prefix):
                found[ours + name.removeprefix(prefix)] = name
                break
        else:
            found[name] = name
    return found


_GEMMA3_PREFIXES = {
    "language_model.model.": "model.",
    "language_model.lm_head.": "lm_head.",
    "model.language_model.": "model.",
}
GEMMA3 = replace(
    GEMMA3_TEXT,
    renamed=_text_of_gemma3,
    part="text_config",
    beside=(r"(model\.)?vision_tower\..*", r"(model\.)?multi_modal_projector\..*"),
    beside_keys=("vision_config", "mm_tokens_per_image", "boi_token_index", "eoi_token_index", "image_token_index"),
    defaults={
        "vocab_size": 262_208, "num_attention_heads": 8, "num_key_value_heads": 4, "head_dim": 256,
        "max_position_embeddings": 131_072,
    },
)  # fmt: skip
"""The text of a model that reads images too; images are not read."""

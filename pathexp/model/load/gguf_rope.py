"""Rotary positions as the keys and tensors of a GGUF file tell them."""

from __future__ import annotations

import math
from collections.abc import Mapping

from ..rotary import Divided, Linear, LongRope, Rotary, Scaling, Yarn
from .checkpoint import Shape
from .gguf_file import GgufFile
from .gguf_keys import GgufKeys
from .gguf_kinds import Kind

FREQUENCIES = "rope_freqs.weight"
LONG, SHORT = "rope_factors_long.weight", "rope_factors_short.weight"


def rotary(keys: GgufKeys, kind: Kind, file: GgufFile, d_head: int) -> Rotary | None:
    """The rotary positions that a file tells, None where its architecture has none.

    Raises LoadError for a scaling that is not known, or stored factors that are no numbers above zero, one a pair.
    """
    if kind.pairing is None:
        keys.get("rope.dimension_count")  # old converters write it for all
        return None
    keys.get("rope.scaling.finetuned")  # whether the model was trained on with its scaling
    base = keys.assumed_number("rope.freq_base", 10000.0)
    dims = keys.size("rope.dimension_count", d_head)
    scaling = _stored(keys, kind, file) or _scaling(keys, kind)
    return Rotary(base=base, dims=dims, pairing=kind.pairing, scaling=scaling)


def stored_factors(kind: Kind, shapes: Mapping[str, Shape]) -> tuple[str, ...]:
    """The tensors that divide frequencies: one list, or one for short texts and one for long ones."""
    if kind.turns and FREQUENCIES in shapes:
        return (FREQUENCIES,)
    return (LONG, SHORT) if kind.turns and LONG in shapes and SHORT in shapes else ()


def _stored(keys: GgufKeys, kind: Kind, file: GgufFile) -> Scaling | None:
    names = stored_factors(kind, file.shapes)
    if len(names) == 1:
        return _divided(keys, file, _scaling(keys, kind))
    return _long(keys, file) if names else None


def _long(keys: GgufKeys, file: GgufFile) -> LongRope:
    """LongRoPE: a text is long by its own length; llama.cpp goes by that of the context that is set up."""
    keys.must_be("rope.scaling.type", "longrope", "it is, where factors for long texts are stored")
    keys.must_be("rope.scaling.factor", 1.0, "stored factors divide alone")
    long, short = (tuple(file.read(name).ravel().tolist()) for name in (LONG, SHORT))
    return LongRope(
        short=short,
        long=long,
        original_n_ctx=keys.size("rope.scaling.original_context_length", keys.size("context_length")),
        attention_factor=keys.number("rope.scaling.attn_factor", 1.0),
    )


def _scaling(keys: GgufKeys, kind: Kind) -> Scaling | None:
    factor = keys.number("rope.scaling.factor", 0.0) or keys.number("rope.scale_linear", 0.0)
    for key in ("rope.scale_linear", "rope.scaling.original_context_length"):
        keys.get(key)  # the second beside a linear scaling too, which does not need it
    told = keys.get("rope.scaling.type", "linear")
    if told == "yarn":
        return _yarn(keys, kind, factor)
    keys.must_be("rope.scaling.attn_factor", 1.0, "only YaRN makes scores larger here")
    if told not in ("none", "linear"):
        raise keys.error(
            f"rope.scaling.type {told!r} is not known; known: none, linear, yarn, and longrope with its stored factors"
        )
    if told == "none" or factor in (0.0, 1.0):
        return None
    return Linear(factor=factor)


def _yarn(keys: GgufKeys, kind: Kind, factor: float) -> Yarn:
    """YaRN; a factor that is told multiplies the amplitude of the paper. Latent attention scales whole products instead."""
    for key in ("rope.scaling.yarn_ext_factor", "rope.scaling.yarn_attn_factor"):
        keys.must_be(key, 1.0, "YaRN's own is known here")
    if not kind.latent:
        keys.must_be_off("rope.scaling.yarn_log_multiplier", "it belongs to models that are not known here")
    told = keys.number("rope.scaling.attn_factor", 1.0)
    amplitude = told * (0.1 * math.log(factor) + 1) if told != 1 and factor > 1 else None
    if kind.latent:
        keys.must_be("rope.scaling.attn_factor", 1.0, "products of queries and keys are scaled whole here")
        amplitude = 1.0
    return Yarn(
        factor=factor,
        original_n_ctx=keys.size("rope.scaling.original_context_length", keys.size("context_length")),
        beta_fast=keys.number("rope.scaling.yarn_beta_fast", 32.0),
        beta_slow=keys.number("rope.scaling.yarn_beta_slow", 1.0),
        attention_factor=amplitude,
    )


def _divided(keys: GgufKeys, file: GgufFile, scaling: Scaling | None) -> Divided:
    stored = file.read(FREQUENCIES).ravel().tolist()
    if scaling is None:
        return Divided(divisors=tuple(stored))
    if not isinstance(scaling, Linear):
        raise keys.error(f"{FREQUENCIES!r} beside a scaling of kind 'yarn' is not known here")
    return Divided(divisors=tuple(value * scaling.factor for value in stored))

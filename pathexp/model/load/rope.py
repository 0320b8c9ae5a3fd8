"""Rotary positions as configurations tell them, in the old place and in the new one."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from ..config import Config
from ..rotary import Dynamic, Linear, Llama3, LongRope, Rotary, Scaling, Yarn
from .keys import Keys

_COMMON = {"rope_type", "type", "rope_theta", "partial_rotary_factor"}
_SCALED = {
    "default": set[str](),
    "linear": {"factor"},
    "llama3": {"factor", "low_freq_factor", "high_freq_factor", "original_max_position_embeddings"},
    "yarn": {
        "factor", "original_max_position_embeddings", "beta_fast", "beta_slow", "attention_factor",
        "truncate", "mscale", "mscale_all_dim",
    },
    "dynamic": {"factor"},
    "longrope": {"short_factor", "long_factor", "factor", "attention_factor", "original_max_position_embeddings"},
}  # fmt: skip
BASE_KEYS = ("rope_theta", "rotary_emb_base")
_RENAMED = {"su": "longrope"}
SHARE_KEYS = ("partial_rotary_factor", "rotary_pct")


def rotary(
    keys: Keys, d_head: int, *, share: float = 1.0, partial: bool = True, default: float = 10000.0
) -> Rotary:
    """The rotary positions of a configuration; pairs are half-split, as transformers has them.

    The base may stand in ``rope_theta``, in ``rope_parameters`` or in ``rope_scaling``; where it stands
    nowhere, the family's ``default`` is assumed, with a warning. ``share`` is the family's default share of a head that turns;
    families that are not ``partial`` turn all of it, and their code in transformers reads no other share.

    Raises LoadError where two places disagree, or for a scaling or a key that is not known.
    """
    given = _parameters(keys)
    base = _base(keys, given, BASE_KEYS, default)
    turned = _agreed(keys, given, "partial_rotary_factor", SHARE_KEYS)
    if not partial and turned not in (None, 1):
        raise keys.error(
            f"partial_rotary_factor is {turned:g}, but this family turns whole heads, and does not read it"
        )
    turned = share if turned is None else turned
    if not 0 < turned <= 1:
        raise keys.error(f"the share of a head that turns must be above 0 and at most 1, found {turned:g}")
    dims = int(d_head * turned)
    return Rotary(base=base, dims=dims, pairing="half", scaling=_scaling(keys, given))


def by_kind(
    keys: Keys, d_head: int, local_key: str, global_keys: tuple[str, ...], defaults: tuple[float, float]
) -> dict[str, Rotary]:
    """The rotary positions of sliding and of full layers, where they differ, by the kind of layer.

    Each base stands in ``rope_parameters`` under the kind, or under its own key; ``defaults``: that of sliding and
    that of full layers. A ``rope_scaling`` of the old form holds for full layers alone.
    """
    nested = keys.get("rope_parameters", {})
    if not isinstance(nested, Mapping) or not all(isinstance(value, Mapping) for value in nested.values()):
        raise keys.error(
            f"'rope_parameters' must give 'sliding_attention' and 'full_attention' an object each, found {nested!r:.80}"
        )
    if unknown := sorted(set(nested) - {"sliding_attention", "full_attention"}):
        raise keys.error(
            f"'rope_parameters' has {unknown[0]!r}; known are 'sliding_attention', 'full_attention'"
        )
    local = _without_nulls(nested.get("sliding_attention", {}))
    whole = {**_flat(keys, "rope_scaling"), **_without_nulls(nested.get("full_attention", {}))}
    turned = {}
    for kind, given, outer, default in (
        ("sliding_attention", local, (local_key,), defaults[0]),
        ("full_attention", whole, global_keys, defaults[1]),
    ):
        base = _base(keys, given, outer, default)
        turned[kind] = Rotary(base=base, dims=d_head, pairing="half", scaling=_scaling(keys, given))
    return turned


def stretched(config: Config) -> Config:
    """The configuration with the context that a scaling by length stretches it to."""
    rotary = config.rotary
    if rotary is None or not isinstance(rotary.scaling, Dynamic):
        return config
    return replace(config, n_ctx=int(config.n_ctx * rotary.scaling.factor))


def _base(keys: Keys, given: Mapping[str, Any], outer: tuple[str, ...], default: float) -> float:
    """The one base, or the family's, of which the load will warn."""
    base = _agreed(keys, given, "rope_theta", outer)
    if base is None:
        keys.assumed[outer[0]] = base = default
    return base


def _parameters(keys: Keys) -> Mapping[str, Any]:
    """What ``rope_parameters`` and ``rope_scaling`` say together."""
    places = {place: _flat(keys, place) for place in ("rope_parameters", "rope_scaling")}
    new, old = places["rope_parameters"], places["rope_scaling"]
    for key in new.keys() & old.keys():
        if new[key] != old[key]:
            raise keys.error(
                f"rope_parameters says {key} = {new[key]!r}, rope_scaling says {old[key]!r}; make them agree"
            )
    return {**old, **new}


def _flat(keys: Keys, place: str) -> Mapping[str, Any]:
    found = keys.get(place, {})
    if not isinstance(found, Mapping):
        raise keys.error(f"{place!r} must be an object, found {found!r:.80}")
    if any(isinstance(value, Mapping) for value in found.values()):
        kinds = list(found.values())
        if any(kind != kinds[0] for kind in kinds):
            raise keys.error(f"{place!r} differs between kinds of layers, which is not known here")
        found = kinds[0]
    return _without_nulls(found)


def _without_nulls(found: Mapping[str, Any]) -> Mapping[str, Any]:
    """What is told, the kind of scaling under its name of today."""
    flat = {key: value for key, value in found.items() if value is not None}
    if "type" in flat:
        flat.setdefault("rope_type", flat.pop("type"))
    if isinstance(kind := flat.get("rope_type"), str):
        flat["rope_type"] = _RENAMED.get(kind, kind)
    return flat


def _agreed(keys: Keys, given: Mapping[str, Any], inner: str, outer: tuple[str, ...]) -> float | None:
    """The one value of what may stand in several places."""
    found = {key: keys.number(key) for key in outer if keys.get(key) is not None}
    if inner in given:
        found[f"rope_parameters.{inner}"] = _number(keys, given, inner)
    if len(set(found.values())) > 1:
        told = ", ".join(f"{key} = {value}" for key, value in found.items())
        raise keys.error(f"it gives different values for one thing: {told}; make them agree")
    return next(iter(found.values()), None)


def _scaling(keys: Keys, given: Mapping[str, Any]) -> Scaling | None:
    kind = given.get("rope_type", "default")
    keys.asked.add("original_max_position_embeddings")  # read where the kind needs it
    if not isinstance(kind, str) or kind not in _SCALED:
        raise keys.error(f"rope_type {kind!r} is not known; known: {', '.join(_SCALED)}")
    known = _COMMON | _SCALED[kind]
    unknown = sorted(set(given) - known)
    if unknown and kind != "default":
        raise keys.error(f"rope_type {kind!r} has no {unknown[0]!r}; known: {', '.join(sorted(known))}")
    if unknown:
        raise keys.error(f"rope_parameters has {unknown[0]!r} but no rope_type that would use it")
    if kind == "linear":
        return Linear(factor=_number(keys, given, "factor"))
    if kind == "llama3":
        names = ("factor", "low_freq_factor", "high_freq_factor")
        factors = {name: _number(keys, given, name) for name in names}
        return Llama3(**factors, original_n_ctx=_original(keys, given))
    made: Mapping[str, Callable[[Keys, Mapping[str, Any]], Scaling]] = {
        "yarn": _yarn,
        "dynamic": _dynamic,
        "longrope": _longrope,
    }
    return made[kind](keys, given) if kind in made else None


def _dynamic(keys: Keys, given: Mapping[str, Any]) -> Dynamic:
    return Dynamic(factor=_number(keys, given, "factor"), original_n_ctx=keys.size("max_position_embeddings"))


def _longrope(keys: Keys, given: Mapping[str, Any]) -> LongRope:
    original = _original(keys, given)
    factor = _number(keys, given, "factor", keys.size("max_position_embeddings") / original)
    grown = math.sqrt(1 + math.log(factor) / math.log(original)) if factor > 1 and original > 1 else 1.0
    short, long = (_divisors(keys, given, name) for name in ("short_factor", "long_factor"))
    amplitude = _number(keys, given, "attention_factor", grown)
    return LongRope(short=short, long=long, original_n_ctx=original, attention_factor=amplitude)


def _divisors(keys: Keys, given: Mapping[str, Any], name: str) -> tuple[float, ...]:
    found = given.get(name)
    if not isinstance(found, list) or any(type(value) not in (int, float) for value in found):
        raise keys.error(f"rope_parameters must give {name!r} as a list of numbers, found {found!r:.80}")
    return tuple(keys.real(name, value) for value in found)


def _yarn(keys: Keys, given: Mapping[str, Any]) -> Yarn:
    factor = _number(keys, given, "factor")
    return Yarn(
        factor=factor,
        original_n_ctx=_original(keys, given),
        beta_fast=_number(keys, given, "beta_fast", 32.0) or 32.0,
        beta_slow=_number(keys, given, "beta_slow", 1.0) or 1.0,
        attention_factor=_attention_factor(keys, given, factor),
        truncate=given.get("truncate", True),
    )


def _attention_factor(keys: Keys, given: Mapping[str, Any], factor: float) -> float | None:
    """As given; or from mscale and mscale_all_dim; or YaRN's own."""
    if "attention_factor" in given:
        return _number(keys, given, "attention_factor")
    scale, all_dims = (_number(keys, given, name, 0.0) for name in ("mscale", "mscale_all_dim"))
    if not (scale and all_dims) or factor <= 1:
        return None
    return (0.1 * scale * math.log(factor) + 1) / (0.1 * all_dims * math.log(factor) + 1)


def mean_scale(keys: Keys) -> float:
    """What DeepSeek multiplies queries and keys by, whole, where positions are stretched: 0.1 · mscale_all_dim · ln(factor) + 1."""
    given = _parameters(keys)
    all_dims = _number(keys, given, "mscale_all_dim", 0.0)
    if given.get("rope_type", "default") == "default" or not all_dims:
        return 1.0
    factor = _number(keys, given, "factor", 1.0)
    return 0.1 * all_dims * math.log(factor) + 1 if factor > 1 else 1.0


def _original(keys: Keys, given: Mapping[str, Any]) -> int:
    """The context that the model was trained with before it was stretched, in tokens."""
    outer = keys.get("original_max_position_embeddings")
    found = outer if outer is not None else given.get("original_max_position_embeddings")
    if found is None:
        found = keys.assume("original_max_position_embeddings", keys.size("max_position_embeddings"))
    if type(found) is not int or found < 1:
        raise keys.error(f"original_max_position_embeddings must be a whole number, found {found!r}")
    return found


def _number(keys: Keys, given: Mapping[str, Any], name: str, default: float | None = None) -> float:
    found = given.get(name, default)
    if type(found) not in (int, float):
        raise keys.error(f"rope_parameters must give {name!r} as a number, found {found!r}")
    return keys.real(name, found)

"""What a configuration gives once for all layers or heads, or for each: checked, and written out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from ..arguments import check, finite, whole
from ..errors import ConfigError
from .rotary import Rotary


def windows(given: object, n_layers: int) -> tuple[int | None, ...] | None:
    """One window a layer, from one for all or one for each."""
    if given is None:
        return None
    if isinstance(given, str) or not isinstance(given, Sequence):
        return (int(check("windows", given, whole(1), ConfigError)),) * n_layers
    if len(given) != n_layers:
        raise ConfigError(
            f"windows must give one window per layer: found {len(given)} for {n_layers} layers: {given!r}."
        )
    return tuple(
        None if width is None else int(check(f"windows[{layer}]", width, whole(1), ConfigError))
        for layer, width in enumerate(given)
    )


def rotaries(
    given: object, n_layers: int, d_head: int, size: str = "d_head"
) -> tuple[Rotary | None, ...] | None:
    """One a layer, None where queries and keys are not turned."""
    if given is None:
        return None
    if not isinstance(given, list | tuple) or len(given) != n_layers:
        raise ConfigError(
            f"rotaries must give a Rotary or None for each of the {n_layers} layers, found {given!r:.200}."
        )
    return tuple(None if rotary is None else with_dims(rotary, d_head, size) for rotary in given)


def with_dims(rotary: object, d_head: int, size: str = "d_head") -> Rotary:
    """A rotary that says how many of a head's numbers turn: all, unless told; ``size`` is what their number is called."""
    if not isinstance(rotary, Rotary):
        raise ConfigError(f"rotary must be a Rotary or None, found {rotary!r}.")
    filled = rotary if rotary.dims is not None else replace(rotary, dims=d_head)
    if filled.dims > d_head:
        raise ConfigError(f"rotary dims must be at most {size}: found dims={filled.dims}, {size}={d_head}.")
    return filled


def rotary_dict(rotary: Rotary | None) -> dict[str, Any] | None:
    """A rotary as plain values for JSON."""
    return None if rotary is None else rotary.to_dict()


def read_rotary(value: Any) -> Any:
    """What `rotary_dict` wrote; anything else as it is, for the checks to name."""
    return Rotary.from_dict(value) if isinstance(value, Mapping) else value


def head_slopes(given: object, n_heads: int) -> tuple[float, ...] | None:
    """One slope a head, all finite and above zero."""
    if given is None:
        return None
    if isinstance(given, str) or not isinstance(given, Sequence) or len(given) != n_heads:
        raise ConfigError(
            f"head_slopes must give one slope for each of the {n_heads} heads, found {given!r}."
        )
    return tuple(
        float(check(f"head_slopes[{head}]", slope, finite(above=0), ConfigError))
        for head, slope in enumerate(given)
    )

"""Sizes and switches of a transformer, checked when they are made."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from difflib import get_close_matches
from numbers import Integral, Real
from typing import Any

from ..errors import ConfigError

CHOICES: Mapping[str, tuple[str | None, ...]] = {
    "positions": ("none", "learned", "qk"),
    "norm": (None, "layernorm", "rmsnorm"),
}
_AT_LEAST = {
    "n_layers": 0,
    "n_heads": 1,
    "n_kv_heads": 1,
    "d_model": 1,
    "d_head": 1,
    "d_vocab": 1,
    "n_ctx": 1,
}
_POSITIVE = ("attention_scale",)
_SWITCHES = ("final_norm", "causal")


@dataclass(frozen=True, kw_only=True)
class Config:
    """The sizes and switches of a transformer; those left at None get the value written beside them.

    ``positions``: "none"; "learned" (W_pos is added to the embedding); "qk" (W_pos is added to what queries
    and keys read, after the norm, and never to the stream: Press et al. 2021, "Shortformer").
    ``norm``: None, "layernorm" or "rmsnorm", before attention and, if ``final_norm``, before the unembedding.

    Raises ConfigError for a size or switch that is not known or does not fit the others.

    >>> config = Config(n_layers=2, n_heads=4, d_model=32, d_head=8, d_vocab=50, n_ctx=16, norm="rmsnorm")
    >>> config.n_kv_heads, config.final_norm, round(config.attention_scale, 4)
    (4, True, 0.3536)
    """

    n_layers: int
    n_heads: int
    d_model: int
    d_head: int
    d_vocab: int
    n_ctx: int
    n_kv_heads: int = None  # type: ignore[assignment]  # None: n_heads
    positions: str = "none"
    norm: str | None = None
    final_norm: bool = None  # type: ignore[assignment]  # None: whether there is a norm
    norm_eps: float = 1e-5
    attention_scale: float = None  # type: ignore[assignment]  # None: 1 / sqrt(d_head)
    causal: bool = True

    def __post_init__(self) -> None:
        self._set("n_kv_heads", _or(self.n_kv_heads, self.n_heads))
        for name, least in _AT_LEAST.items():
            self._set(name, _size(name, getattr(self, name), least))
        for name, known in CHOICES.items():
            _check_choice(name, getattr(self, name), known)
        self._set("final_norm", _or(self.final_norm, self.norm is not None))
        self._set("attention_scale", _or(self.attention_scale, 1 / math.sqrt(self.d_head)))
        for name in _SWITCHES:
            _check_switch(name, getattr(self, name))
        for name in _POSITIVE:
            self._set(name, _number(name, getattr(self, name), above=True))
        self._set("norm_eps", _number("norm_eps", self.norm_eps, above=False))
        self._check_together()

    def _set(self, name: str, value: object) -> None:
        object.__setattr__(self, name, value)

    def _check_together(self) -> None:
        if self.n_heads % self.n_kv_heads:
            raise ConfigError(
                f"n_kv_heads must divide n_heads so that every query head has its key/value head: "
                f"found n_heads={self.n_heads}, n_kv_heads={self.n_kv_heads}."
            )
        if self.final_norm and self.norm is None:
            raise ConfigError("final_norm=True needs a norm; found norm=None. Give 'layernorm' or 'rmsnorm'.")

    def kv_head(self, head: int) -> int:
        """The key/value head that query head ``head`` uses: head // (n_heads // n_kv_heads).

        >>> Config(n_layers=1, n_heads=4, n_kv_heads=2, d_model=8, d_head=2, d_vocab=5, n_ctx=4).kv_head(1)
        0
        """
        return head // (self.n_heads // self.n_kv_heads)

    def to_dict(self) -> dict[str, Any]:
        """The configuration as plain values for JSON.

        >>> config = Config(n_layers=0, n_heads=1, d_model=8, d_head=2, d_vocab=5, n_ctx=4)
        >>> Config.from_dict(config.to_dict()) == config
        True
        """
        return asdict(self)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Config:
        """The configuration that ``to_dict`` wrote; names that are not there keep their default.

        Raises ConfigError for a name that is not known or a size that is missing.
        """
        known = {field.name: field for field in fields(cls)}
        for name in values:
            if name not in known:
                raise ConfigError(f"Config has no {name!r}.{_hint(name, known)} Known: {', '.join(known)}.")
        missing = [name for name in _REQUIRED if name not in values]
        if missing:
            raise ConfigError(f"Config needs {', '.join(_REQUIRED)}; missing: {', '.join(missing)}.")
        return cls(**values)


_REQUIRED = ("n_layers", "n_heads", "d_model", "d_head", "d_vocab", "n_ctx")


def _or(value: Any, default: Any) -> Any:
    return default if value is None else value


def _size(name: str, value: object, least: int) -> int:
    if isinstance(value, bool) or not isinstance(value, Integral) or value < least:
        raise ConfigError(f"{name} must be an integer of at least {least}, found {value!r}.")
    return int(value)


def _number(name: str, value: object, above: bool) -> float:
    bound = "a finite number above 0" if above else "a finite number of at least 0"
    if isinstance(value, bool) or not isinstance(value, Real) or not math.isfinite(value):
        raise ConfigError(f"{name} must be {bound}, found {value!r}.")
    if value < 0 or (above and value == 0):
        raise ConfigError(f"{name} must be {bound}, found {value!r}.")
    return float(value)


def _check_choice(name: str, value: object, known: tuple[str | None, ...]) -> None:
    if (value is not None and not isinstance(value, str)) or value not in known:
        raise ConfigError(f"{name}={value!r} is not known; known: {', '.join(map(repr, known))}.")


def _check_switch(name: str, value: object) -> None:
    if not isinstance(value, bool):
        raise ConfigError(f"{name} must be True or False, found {value!r}.")


def _hint(name: str, known: Mapping[str, object]) -> str:
    near = get_close_matches(name, known, n=1)
    return f" Did you mean {near[0]!r}?" if near else ""

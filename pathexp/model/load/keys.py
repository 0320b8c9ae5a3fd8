"""A configuration of JSON, every key accounted for: asked for, known not to matter, or refused by name."""

from __future__ import annotations

import json
import math
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ...errors import LoadError, LoadWarning
from .checkpoint import listed
from .inert import INERT

_EXPERTS = ("num_local_experts", "num_experts", "n_routed_experts", "moe_num_experts", "num_experts_per_tok")
_OFF = (
    ("is_encoder_decoder", "encoder–decoder models have two streams; only one stream is known here"),
    ("add_cross_attention", "cross-attention reads a second stream; only one stream is known here"),
    ("quantization_config", "the weights are quantized; dequantize them to float16 or float32 first"),
    ("compression_config", "the weights are quantized; dequantize them to float16 or float32 first"),
    ("pruned_heads", "heads were taken out; save the model with all of them"),
)


class Keys:
    """The keys of one configuration, and a record of which were asked for."""

    def __init__(self, values: Mapping[str, Any], where: str) -> None:
        self.values = {key: _plain(value) for key, value in values.items()}
        self.where = where
        self.asked: set[str] = set()
        self.assumed: dict[str, Any] = {}
        for key, reason in _OFF:
            self.must_be_off(key, reason)

    def get(self, key: str, default: Any = None) -> Any:
        """The value, or the default where the key is not there or null."""
        self.asked.add(key)
        found = self.values.get(key)
        return default if found is None else found

    def assume(self, key: str, default: Any) -> Any:
        """The value; where it is not there, the family's default, which the load will warn of."""
        if self.get(key) is None:
            self.assumed[key] = default
        return self.get(key, default)

    def size(self, key: str, default: int | None = None, least: int = 1) -> int:
        """A whole number. Raises LoadError if it is none, too small, or not there and without a default."""
        found = self.get(key, default)
        if type(found) is not int or found < least:
            raise self.error(f"{key!r} must be a whole number of at least {least}, found {found!r:.80}")
        return found

    def number(self, key: str, default: float | None = None) -> float:
        """A real number. Raises LoadError if it is none, or not there and without a default."""
        found = self.get(key, default)
        if type(found) not in (int, float):
            raise self.error(f"{key!r} must be a number, found {found!r}")
        return self.real(key, found)

    def real(self, key: str, found: float) -> float:
        """A number of a file as a float. Raises LoadError for whole numbers that no float can hold."""
        try:
            return float(found)
        except OverflowError:
            raise self.error(f"{key!r} is a whole number of {len(str(found))} digits") from None

    def assumed_number(self, key: str, default: float) -> float:
        """A real number; where it is not there, the family's default, which the load will warn of."""
        self.assume(key, default)
        return self.number(key, default)

    def inverse(self, key: str, default: float) -> float:
        """One over a number; where it is not there, over the family's default. Raises LoadError for zero."""
        found = self.assumed_number(key, default)
        if not found:
            raise self.error(f"{key!r} is {found}, and divides")
        return 1 / found

    def assumed_positive(self, key: str, default: float) -> float:
        """A real number above zero; where it is not there, the family's default, which the load will warn of."""
        found = self.assumed_number(key, default)
        if not 0 < found < math.inf:
            raise self.error(f"{key!r} must be a number above zero, found {found!r}")
        return found

    def optional_number(self, key: str, default: float) -> float | None:
        """A real number, or None where the key is null; where it is not there, an assumed default."""
        return self.assumed_number(key, default) if self._is_given(key) else None

    def optional_size(self, key: str, default: int) -> int | None:
        """A whole number, or None where the key is null; where it is not there, an assumed default."""
        if not self._is_given(key):
            return None
        self.assume(key, default)
        return self.size(key, default)

    def _is_given(self, key: str) -> bool:
        self.asked.add(key)
        return key not in self.values or self.values[key] is not None

    def switch(self, key: str, default: bool) -> bool:
        """True or false. Raises LoadError if it is neither."""
        found = self.get(key, default)
        if not isinstance(found, bool):
            raise self.error(f"{key!r} must be true or false, found {found!r}")
        return found

    def choice(self, key: str, found: object, known: Mapping[str, str]) -> str:
        """One of the known values, in our words. Raises LoadError naming the value and those known."""
        if not isinstance(found, str) or found not in known:
            raise self.error(f"{key!r} is {found!r}, which is not known; known: {', '.join(known)}")
        return known[found]

    def must_be_off(self, key: str, reason: str) -> None:
        """Raises LoadError if a key is there and neither null, false, zero nor empty."""
        if self.get(key):
            raise self.error(f"{key!r} is {self.values[key]!r:.80}: {reason}")

    def must_be(self, key: str, value: object, reason: str) -> None:
        """Raises LoadError if a key is there and has another value than the one known here."""
        if self.get(key, value) != value:
            raise self.error(f"{key!r} is {self.values[key]!r:.80}, known is {value!r}: {reason}")

    def finish(self, ignore: tuple[str, ...] = (), off: tuple[object, ...] = (None,)) -> None:
        """Raises LoadError for keys that nobody asked for; warns of defaults that were assumed.

        ``off`` are the values by which a key says that it does nothing.
        """
        self._finish_code(ignore)
        for key in (key for key in _EXPERTS if key not in self.asked):
            self.must_be_off(
                key, f"mixtures of experts are not known in a model_type {self.values.get('model_type')!r}"
            )
        known = self.asked | INERT | set(ignore)
        unknown = sorted(key for key, value in self.values.items() if key not in known and value not in off)
        if unknown:
            raise self.error(
                f"{listed(unknown)} may change the computation, and what it does is not known here. "
                f"If you know that it does not matter: load(..., ignore={tuple(unknown)!r:.200}), or --ignore KEY"
            )
        if self.assumed:
            values = ", ".join(f"{key} = {value}" for key, value in self.assumed.items())
            warnings.warn(f"{self.where} does not say {values}: assumed.", LoadWarning, stacklevel=2)

    def _finish_code(self, ignore: tuple[str, ...]) -> None:
        if "auto_map" not in ignore and self.get("auto_map"):
            raise self.error(
                f"'auto_map' is {self.values['auto_map']!r:.80}: the model brings code of its own, which is never "
                "run here. If you know that it computes what transformers does without it: "
                "load(..., ignore=('auto_map',)), or --ignore auto_map"
            )

    def error(self, problem: str) -> LoadError:
        """The error for a key."""
        return LoadError(f"Cannot load {self.where}: {problem}.")


def _plain(value: Any) -> Any:
    """A value of a configuration; of a number of numpy, the number."""
    return value.item() if isinstance(value, np.generic) else value


def read_keys(path: Path) -> Mapping[str, Any]:
    """The keys of a JSON file. Raises LoadError if it is none, or no object, or names a key twice."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"), object_pairs_hook=once)
    except (OSError, ValueError, RecursionError) as error:
        raise LoadError(f"Cannot load {str(path)!r}: it is no JSON: {error}") from error
    if not isinstance(found, dict):
        raise LoadError(f"Cannot load {str(path)!r}: it must be a JSON object, found {type(found).__name__}.")
    return found


def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """The object of these keys and values of JSON. Raises ValueError if it names a key twice."""
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"it names {next(n for n in names if names.count(n) > 1)!r} twice")
    return found

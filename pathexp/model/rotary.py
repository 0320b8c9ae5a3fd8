"""Rotary positions: queries and keys are turned, pair by pair, by angles that grow with the position."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ..arguments import SWITCH, check, check_fields, finite, one_of, whole
from ..errors import ConfigError

Array = npt.NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class Linear:
    """All frequencies divided by one factor. Chen et al. 2023, "Position Interpolation".

    >>> Linear(factor=4.0).scaled(np.array([1.0, 0.01]), base=1e4).tolist()
    [0.25, 0.0025]
    """

    factor: float

    def __post_init__(self) -> None:
        _numbers(self, above=0, names=("factor",))

    def scaled(self, frequencies: Array, base: float, n: int = 1) -> Array:
        """The frequencies, (pairs), as this scaling has them, in radians a position."""
        return frequencies / self.factor

    @property
    def amplitude(self) -> float:
        """What turned queries and keys are multiplied by."""
        return 1.0


@dataclass(frozen=True, kw_only=True)
class Llama3:
    """Slow frequencies divided by a factor, fast ones kept, a linear passage between, by wavelength.

    A frequency with ``high_freq_factor`` turns or more in ``original_n_ctx`` positions is kept, one with
    ``low_freq_factor`` or fewer is divided. Llama 3.1, "rope_type": "llama3".

    >>> scaling = Llama3(factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0, original_n_ctx=8192)
    >>> scaling.scaled(np.array([1.0, 1e-5]), base=1e5).tolist()
    [1.0, 1.25e-06]
    """

    factor: float
    low_freq_factor: float
    high_freq_factor: float
    original_n_ctx: int

    def __post_init__(self) -> None:
        _numbers(self, above=0, names=("factor", "low_freq_factor", "high_freq_factor"))
        int(check("original_n_ctx", self.original_n_ctx, whole(1), ConfigError))
        if self.high_freq_factor <= self.low_freq_factor:
            raise ConfigError(
                f"high_freq_factor must be above low_freq_factor, "
                f"found {self.high_freq_factor} and {self.low_freq_factor}."
            )

    def scaled(self, frequencies: Array, base: float, n: int = 1) -> Array:
        """The frequencies, (pairs), as this scaling has them, in radians a position."""
        turns = self.original_n_ctx * frequencies / (2 * math.pi)
        kept = (turns - self.low_freq_factor) / (self.high_freq_factor - self.low_freq_factor)
        return _mixed(frequencies, frequencies / self.factor, np.clip(kept, 0.0, 1.0))

    @property
    def amplitude(self) -> float:
        """What turned queries and keys are multiplied by."""
        return 1.0


@dataclass(frozen=True, kw_only=True)
class Yarn:
    """Slow frequencies divided by a factor, fast ones kept, a linear passage between, by pair number.

    ``attention_factor`` multiplies turned queries and keys; None is 0.1 ln(factor) + 1. With ``truncate``
    the ends of the passage are whole pair numbers. Peng et al. 2023, "YaRN".

    >>> round(Yarn(factor=4.0, original_n_ctx=2048).amplitude, 4)
    1.1386
    """

    factor: float
    original_n_ctx: int
    beta_fast: float = 32.0
    beta_slow: float = 1.0
    attention_factor: float | None = None
    truncate: bool = True

    def __post_init__(self) -> None:
        _numbers(self, above=0, names=("factor", "beta_fast", "beta_slow"))
        int(check("original_n_ctx", self.original_n_ctx, whole(1), ConfigError))
        check("truncate", self.truncate, SWITCH, ConfigError)
        if self.attention_factor is not None:
            _numbers(self, above=0, names=("attention_factor",))
        if self.beta_fast <= self.beta_slow:
            raise ConfigError(
                f"beta_fast must be above beta_slow, found {self.beta_fast} and {self.beta_slow}."
            )

    def scaled(self, frequencies: Array, base: float, n: int = 1) -> Array:
        """The frequencies, (pairs), as this scaling has them, in radians a position."""
        pair = np.arange(len(frequencies), dtype=np.float64)
        low, high = self._passage(len(frequencies), math.log(base))
        kept = 1 - np.clip((pair - low) / (high - low), 0.0, 1.0)
        return _mixed(frequencies, frequencies / self.factor, kept)

    def _passage(self, pairs: int, log_base: float) -> tuple[float, float]:
        """The pair numbers at which the passage begins and ends."""
        low, high = (self._pair_with(turns, pairs, log_base) for turns in (self.beta_fast, self.beta_slow))
        if self.truncate:
            low, high = math.floor(low), math.ceil(high)
        low, high = max(low, 0), min(high, 2 * pairs - 1)
        return low, high if high != low else high + 0.001  # no division by zero, as the published code has it

    def _pair_with(self, turns: float, pairs: int, log_base: float) -> float:
        """The number (not whole) of the pair that makes so many turns in the original context."""
        return pairs * math.log(self.original_n_ctx / (turns * 2 * math.pi)) / log_base

    @property
    def amplitude(self) -> float:
        """What turned queries and keys are multiplied by."""
        if self.attention_factor is not None:
            return self.attention_factor
        return 0.1 * math.log(self.factor) + 1 if self.factor > 1 else 1.0


@dataclass(frozen=True, kw_only=True)
class Divided:
    """Each frequency divided by a number of its own, as files of GGUF hold them for Llama 3.1 (``rope_freqs``).

    >>> Divided(divisors=(1.0, 8.0)).scaled(np.array([1.0, 0.01]), base=1e4).tolist()
    [1.0, 0.00125]
    """

    divisors: tuple[float, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "divisors", _one_a_pair("divisors", self.divisors))

    def scaled(self, frequencies: Array, base: float, n: int = 1) -> Array:
        """The frequencies, (pairs), as this scaling has them, in radians a position."""
        divided: Array = frequencies / np.array(self.divisors)
        return divided

    @property
    def amplitude(self) -> float:
        """What turned queries and keys are multiplied by."""
        return 1.0


@dataclass(frozen=True, kw_only=True)
class Dynamic:
    """A base that grows with the length of the text, once that is longer than ``original_n_ctx`` positions.

    Text of n positions is turned with base · (factor · n / original_n_ctx - (factor - 1))^(dims / (dims - 2)):
    the slowest pair turns as if the text were that much shorter, the fastest as ever. "Dynamic NTK-aware scaling",
    Peng et al. 2023, "YaRN", section 3.3.

    >>> Dynamic(factor=2.0, original_n_ctx=8).scaled(np.array([1.0, 0.01]), base=1e4, n=16).round(6).tolist()
    [1.0, 0.003333]
    """

    factor: float
    original_n_ctx: int

    def __post_init__(self) -> None:
        _numbers(self, above=0, names=("factor",))
        int(check("original_n_ctx", self.original_n_ctx, whole(1), ConfigError))
        if self.factor < 1:
            raise ConfigError(f"factor: expected a finite number ≥ 1, got {self.factor}.")

    def scaled(self, frequencies: Array, base: float, n: int = 1) -> Array:
        """The frequencies, (pairs), in a text of n positions, in radians a position."""
        stretch = max(self.factor * n / self.original_n_ctx - (self.factor - 1), 1.0)
        pair = np.arange(len(frequencies), dtype=np.float64)
        slowed: Array = frequencies * stretch ** (-pair / max(len(frequencies) - 1, 1))
        return slowed

    @property
    def amplitude(self) -> float:
        """What turned queries and keys are multiplied by."""
        return 1.0


@dataclass(frozen=True, kw_only=True)
class LongRope:
    """Each frequency divided by a number of its own: by those of ``long`` in a text of more than ``original_n_ctx``.

    ``attention_factor`` multiplies turned queries and keys, in short texts too. Ding et al. 2024, "LongRoPE".

    >>> scaling = LongRope(short=(1.0, 1.0), long=(1.0, 4.0), original_n_ctx=8, attention_factor=1.2)
    >>> [scaling.scaled(np.array([1.0, 0.01]), base=1e4, n=n).tolist() for n in (8, 9)]
    [[1.0, 0.01], [1.0, 0.0025]]
    """

    short: tuple[float, ...]
    long: tuple[float, ...]
    original_n_ctx: int
    attention_factor: float = 1.0

    def __post_init__(self) -> None:
        _numbers(self, above=0, names=("attention_factor",))
        int(check("original_n_ctx", self.original_n_ctx, whole(1), ConfigError))
        for name in ("short", "long"):
            object.__setattr__(self, name, _one_a_pair(name, getattr(self, name)))

    def scaled(self, frequencies: Array, base: float, n: int = 1) -> Array:
        """The frequencies, (pairs), in a text of n positions, in radians a position."""
        divided: Array = frequencies / np.array(self.long if n > self.original_n_ctx else self.short)
        return divided

    @property
    def amplitude(self) -> float:
        """What turned queries and keys are multiplied by."""
        return self.attention_factor


Scaling = Linear | Llama3 | Yarn | Divided | Dynamic | LongRope
_SCALINGS: Mapping[str, type[Scaling]] = {
    "linear": Linear,
    "llama3": Llama3,
    "yarn": Yarn,
    "divided": Divided,
    "dynamic": Dynamic,
    "longrope": LongRope,
}


@dataclass(frozen=True, kw_only=True)
class Rotary:
    """How queries and keys are turned: pair p of a head by the angle position · base^(-2p / dims).

    ``dims``: how many of a head's numbers are turned, the first ones (None: all). ``pairing``: "half" pairs
    number p with p + dims / 2, "adjacent" 2p with 2p + 1. Su et al. 2021, "RoFormer", section 3.2.

    Raises ConfigError for values that are not known or do not fit.

    >>> Rotary(base=500000.0, dims=4).frequencies().round(8).tolist()
    [1.0, 0.00141421]
    """

    base: float = 10000.0
    dims: int = None  # type: ignore[assignment]  # None: d_head, filled in by Config
    pairing: str = "half"
    scaling: Scaling | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "base", float(check("rotary base", self.base, finite(above=1), ConfigError)))
        check("rotary pairing", self.pairing, one_of("half", "adjacent"), ConfigError)
        if self.dims is not None:
            object.__setattr__(self, "dims", int(check("rotary dims", self.dims, whole(2), ConfigError)))
            if self.dims % 2:
                raise ConfigError(
                    f"rotary dims must be even, since they are turned in pairs; found {self.dims}."
                )
        if self.scaling is not None and not isinstance(self.scaling, Scaling):
            raise ConfigError(
                f"rotary scaling must be one of {', '.join(kind.__name__ for kind in _SCALINGS.values())} or None, found {self.scaling!r}."
            )
        _check_divisors(self)

    def frequencies(self, n: int = 1) -> Array:
        """The angle by which each pair turns from one position to the next, (dims / 2), in radians.

        ``n``: how long the text is, for scalings that depend on it; without, those of a short text.
        Raises ConfigError while ``dims`` is None.
        """
        if self.dims is None:
            raise ConfigError("rotary dims are not known: give dims, or take the Rotary that a Config holds.")
        plain = self.base ** (-np.arange(0, self.dims, 2, dtype=np.float64) / self.dims)
        return plain if self.scaling is None else self.scaling.scaled(plain, self.base, n)

    @property
    def amplitude(self) -> float:
        """What turned numbers are multiplied by: 1 but for YaRN and LongRoPE."""
        return 1.0 if self.scaling is None else self.scaling.amplitude

    def pairs(self) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """The first and the second number of each pair."""
        first = np.arange(self.dims // 2)
        return (first, first + self.dims // 2) if self.pairing == "half" else (2 * first, 2 * first + 1)

    def turned(self, vectors: Array, begin: int = 0, length: int | None = None) -> Array:
        """Turn vectors, (.., n, d_head), each by the angles of its position, from `begin` on in a text of `length` tokens.

        >>> Rotary(dims=4, pairing="half").turned(np.array([[1.0, 0, 0, 0]] * 2))[1].round(7).tolist()
        [0.5403023, 0.0, 0.841471, 0.0]
        """
        n = vectors.shape[-2]
        whole = begin + n if length is None else length
        angles = np.arange(begin, begin + n)[:, None] * self.frequencies(whole)  # (n, pairs)
        cos, sin = np.cos(angles) * self.amplitude, np.sin(angles) * self.amplitude
        first, second = self.pairs()
        turned = np.array(vectors)
        turned[..., first] = vectors[..., first] * cos - vectors[..., second] * sin
        turned[..., second] = vectors[..., second] * cos + vectors[..., first] * sin
        return turned

    def to_dict(self) -> dict[str, Any]:
        """The values as plain ones for JSON."""
        return asdict(self) | {"scaling": None if self.scaling is None else _scaling_dict(self.scaling)}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Rotary:
        """What ``to_dict`` wrote.

        Raises ConfigError for a name that is not known.

        >>> rotary = Rotary(dims=4, scaling=Linear(factor=2.0))
        >>> Rotary.from_dict(rotary.to_dict()) == rotary
        True
        """
        check_fields("rotary", values, cls)
        scaling = values.get("scaling")
        return cls(**dict(values) | {"scaling": None if scaling is None else _scaling(scaling)})


def _check_divisors(rotary: Rotary) -> None:
    scaling, given = rotary.scaling, []
    if isinstance(scaling, Divided):
        given = [scaling.divisors]
    if isinstance(scaling, LongRope):
        given = [scaling.short, scaling.long]
    for divisors in given if rotary.dims is not None else ():
        if len(divisors) == rotary.dims // 2:
            continue
        raise ConfigError(
            f"rotary scaling must give one divisor for each of the {rotary.dims // 2} pairs of dims={rotary.dims}, "
            f"found {len(divisors)}."
        )


def _scaling_dict(scaling: Scaling) -> dict[str, Any]:
    kind = next(name for name, known in _SCALINGS.items() if isinstance(scaling, known))
    return {"kind": kind, **asdict(scaling)}


def _scaling(values: object) -> Scaling:
    if not isinstance(values, Mapping):
        raise ConfigError(f"rotary scaling must be a mapping, found {values!r}.")
    kind = values.get("kind")
    check("rotary scaling kind", kind, one_of(*_SCALINGS), ConfigError)
    made = _SCALINGS[str(kind)]
    rest = {name: value for name, value in values.items() if name != "kind"}
    check_fields(f"rotary scaling {kind!r}", rest, made)
    return made(**rest)


def _numbers(scaling: object, above: float, names: tuple[str, ...]) -> None:
    for name in names:
        object.__setattr__(
            scaling, name, float(check(name, getattr(scaling, name), finite(above=above), ConfigError))
        )


def _one_a_pair(name: str, given: object) -> tuple[float, ...]:
    """Numbers above zero, one a pair."""
    if isinstance(given, str) or not isinstance(given, Sequence) or not given:
        raise ConfigError(f"{name} must be numbers, one a pair, found {given!r:.80}.")
    return tuple(
        float(check(f"{name}[{pair}]", value, finite(above=0), ConfigError))
        for pair, value in enumerate(given)
    )


def _mixed(kept: Array, divided: Array, share: Array) -> Array:
    mixed: Array = share * kept + (1 - share) * divided
    return mixed

"""Latent attention: keys and values of all heads, and perhaps queries, made of a few numbers a position. Sizes alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from ..arguments import check, check_fields, finite, whole
from ..errors import ConfigError


@dataclass(frozen=True, kw_only=True)
class Latent:
    """The sizes of latent attention: what heads read is compressed to ``rank`` numbers, normed, and made into keys and values.

    c = RMS(W_DKV x + b_DKV) · g_kv_latent; a head's key is [W_KR x + b_KR, W_UK c], its value W_UV c. The first
    ``d_shared`` numbers of a key are the same for all heads, and those that rotary positions turn; the other d_head - d_shared
    are of the head. Values have ``d_value`` numbers. ``query_rank``: queries are W_UQ RMS(W_DQ x + b_DQ) · g_q_latent, by so
    many numbers (None: W_Q x). ``eps`` is that of both norms.

    DeepSeek-V2, section 2.1, "Multi-Head Latent Attention". Raises ConfigError for sizes that are no whole numbers from 1 up.

    >>> Latent(rank=16, d_shared=4, d_value=8).query_rank is None
    True
    """

    rank: int
    d_shared: int
    d_value: int
    query_rank: int | None = None
    eps: float = 1e-6

    def __post_init__(self) -> None:
        for name in ("rank", "d_shared", "d_value", *(["query_rank"] if self.query_rank is not None else [])):
            self._set(name, int(check(f"latent {name}", getattr(self, name), whole(1), ConfigError)))
        self._set("eps", float(check("latent eps", self.eps, finite(least=0), ConfigError)))

    def _set(self, name: str, value: object) -> None:
        object.__setattr__(self, name, value)

    def to_dict(self) -> dict[str, Any]:
        """The values as plain ones for JSON."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Latent:
        """What ``to_dict`` wrote.

        Raises ConfigError for a name that is not known or one that is missing.

        >>> latent = Latent(rank=4, d_shared=2, d_value=3)
        >>> Latent.from_dict(latent.to_dict()) == latent
        True
        """
        check_fields("latent", values, cls)
        return cls(**values)

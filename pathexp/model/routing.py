"""Mixtures of experts: how many there are, and by which rule a router chooses and weighs them. Sizes and switches alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from ..arguments import SWITCH, check, check_fields, finite, one_of, whole
from ..errors import ConfigError

_LEAST = {"count": 1, "chosen": 1, "width": 1, "shared": 0, "groups": 1, "chosen_groups": 1}


@dataclass(frozen=True, kw_only=True)
class Experts:
    """The experts of a sparse layer: ``count`` MLPs of ``width`` neurons, of which a router chooses ``chosen`` a position.

    The router's scores are W_router x + b_router; their ``scoring``, "softmax" over all experts or "sigmoid" of each,
    are the weights. The largest are chosen, by weight plus ``b_choice`` where the model has that array, and what
    the others write has weight zero. ``normalized`` divides the chosen weights by their sum; ``multiplier`` multiplies them.

    ``groups``: experts stand in so many groups of equal size, and only those in the best ``chosen_groups`` can be
    chosen. A group is as good as its best expert, or with ``by_two`` as its best two together (DeepSeek-V3).

    ``shared``: neurons of one more expert that every position uses, with weight 1, or with ``shared_gate`` with the
    weight sigmoid(W_shared_gate · x + b_shared_gate). ``layers``: which layers have experts (None: all); the others have an MLP.

    ``limit``: gates are capped at it and what they multiply is clipped to ± it; then ``shift`` is added to the latter
    (gpt-oss: 7 and 1).

    Shazeer et al. 2017, "Outrageously Large Neural Networks"; DeepSeek-V3, section 2.1.2. Raises ConfigError for values
    that do not fit.

    >>> Experts(count=8, chosen=2, width=64, normalized=True).layers is None
    True
    """

    count: int
    chosen: int
    width: int
    layers: tuple[int, ...] | None = None
    shared: int = 0
    shared_gate: bool = False
    scoring: str = "softmax"
    normalized: bool = False
    multiplier: float = 1.0
    groups: int = 1
    chosen_groups: int = 1
    by_two: bool = False
    limit: float | None = None
    shift: float = 0.0

    def __post_init__(self) -> None:
        for name, least in _LEAST.items():
            self._set(name, int(check(f"experts {name}", getattr(self, name), whole(least), ConfigError)))
        check("experts scoring", self.scoring, one_of("softmax", "sigmoid"), ConfigError)
        for name in ("shared_gate", "normalized", "by_two"):
            check(f"experts {name}", getattr(self, name), SWITCH, ConfigError)
        for name in ("multiplier", "shift"):
            self._set(name, float(check(f"experts {name}", getattr(self, name), finite(), ConfigError)))
        if self.limit is not None:
            self._set("limit", float(check("experts limit", self.limit, finite(above=0), ConfigError)))
        for problem in _misfits(self):
            raise ConfigError(problem)

    def _set(self, name: str, value: object) -> None:
        object.__setattr__(self, name, value)

    def in_layers(self, n_layers: int) -> Experts:
        """The same with every layer named. Raises ConfigError for layers that a model of so many has not, or twice."""
        if self.layers is None:
            return replace(self, layers=tuple(range(n_layers)))
        if isinstance(self.layers, str) or not isinstance(self.layers, Sequence):
            raise ConfigError(
                f"experts layers must be numbers of layers, or None for all; found {self.layers!r:.60}."
            )
        found = tuple(int(check("experts layers", layer, whole(0), ConfigError)) for layer in self.layers)
        if list(found) != sorted(set(found)) or any(layer >= n_layers for layer in found):
            raise ConfigError(
                f"experts layers must be in order, each once, below n_layers={n_layers}; found {list(found)!r:.60}."
            )
        return replace(self, layers=found)

    def to_dict(self) -> dict[str, Any]:
        """The values as plain ones for JSON."""
        return asdict(self) | {"layers": None if self.layers is None else list(self.layers)}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Experts:
        """What ``to_dict`` wrote.

        Raises ConfigError for a name that is not known or one that is missing.

        >>> experts = Experts(count=4, chosen=2, width=3)
        >>> Experts.from_dict(experts.to_dict()) == experts
        True
        """
        check_fields("experts", values, cls)
        return cls(**values)


def _misfits(e: Experts) -> list[str]:
    """Values that do not go together, in words."""
    size = e.count // e.groups if e.count % e.groups == 0 else 0
    rules = {
        f"experts groups must divide their count: found count={e.count}, groups={e.groups}.": not size,
        f"experts chosen_groups must be at most groups: found {e.chosen_groups} of {e.groups}.": (
            e.chosen_groups > e.groups
        ),
        f"experts chosen must be at most the experts of the chosen groups: found chosen={e.chosen}, "
        f"{e.chosen_groups} groups of {size}.": e.chosen > e.chosen_groups * size,
        f"experts by_two needs at least two experts a group, found {size}.": e.by_two and size < 2,
        "experts shared_gate=True needs a shared expert; found shared=0.": e.shared_gate and not e.shared,
    }
    return [problem for problem, found in rules.items() if found]

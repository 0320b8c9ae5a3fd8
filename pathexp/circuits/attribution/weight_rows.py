"""Sources of a contrast of two models, gathered by kind of weight, layer, head or module."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

_LABEL = re.compile(r"d(?P<kind>\w+?)(?:_L(?P<layer>\d+)(?P<head>[HGE]\d+|S)?)?")


@dataclass(frozen=True)
class WeightName:
    """A weight that differs: its kind, its layer and its head ("H3", or "G1" of keys and values), where it has them.

    >>> weight_name("dW_K_L0G1")
    WeightName(kind='W_K', layer='L0', head='G1')
    >>> weight_name("db_U"), weight_name("dg_attn_L2").module
    (WeightName(kind='b_U', layer='', head=''), 'L2.g_attn')
    """

    kind: str
    layer: str
    head: str

    @property
    def module(self) -> str:
        """The weight of all heads of a layer together: what an adapter adds to."""
        return f"{self.layer}.{self.kind}" if self.layer else self.kind

    @property
    def place(self) -> str:
        """The head that the weight is of, else its module."""
        return f"{self.layer}{self.head}" if self.head else self.module


def weight_name(label: str) -> WeightName:
    """Return what the label of a source that is a weight's difference spells. Raises ValueError for another label."""
    found = _LABEL.fullmatch(label)
    if found is None:
        raise ValueError(f"expected the label of a weight that differs, such as dW_Q_L1H3, got {label!r:.60}")
    layer = "" if found["layer"] is None else f"L{found['layer']}"
    return WeightName(found["kind"], layer, found["head"] or "")


ROW_NAMES: dict[str, Callable[[WeightName], str]] = {
    "weight": lambda name: name.kind,
    "weight_layer": lambda name: name.layer or name.kind,
    "weight_head": lambda name: name.place,
    "module": lambda name: name.module,
}
"""By unit, the row in which a weight that differs is counted."""

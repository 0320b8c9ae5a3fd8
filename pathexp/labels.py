"""The name of a node as a value: E, L0H3, L2M, L2N17, L2E5, L0H2.V, b_V_L0H1, U; read, printed and ordered here."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import total_ordering
from typing import Literal

Kind = Literal["", "H", "N", "E", "S", "M"]
_KINDS: tuple[Kind, ...] = ("", "H", "N", "E", "S", "M")


@total_ordering
@dataclass(frozen=True)
class Label:
    """A name, a place, or both: `E` is a name, `L0H3` a place, `b_V_L0H1` the name b_V at the place L0H1.

    Parameters
    ----------
    name: of a source, a sink, a constant or a symbol; empty for components.
    layer: of the place; None where there is none, such as for E and U.
    kind: what stands at the place: "H" a head, "N" a neuron, "E" an expert, "S" the expert that all positions share,
        "M" an MLP, "" the layer as a whole.
    index: of the head, the neuron or the expert.
    port: by which it reads or writes, such as V in `L0H2.V` and gate in `L5M.gate`; empty for the whole node.

    Labels are ordered as a forward pass meets them: what has no place first, then by layer, heads before neurons
    and experts, these before the MLP.

    >>> str(Label(layer=0, kind="H", index=2, port="V")), str(Label("b_V", 0, "H", 1)), str(Label("E"))
    ('L0H2.V', 'b_V_L0H1', 'E')
    >>> [str(label) for label in sorted(map(read_label, ["L10M", "L2M", "L2N17", "L2H3", "E"]))]
    ['E', 'L2H3', 'L2N17', 'L2M', 'L10M']
    """

    name: str = ""
    layer: int | None = None
    kind: Kind = ""
    index: int | None = None
    port: str = ""

    def __str__(self) -> str:
        place = (
            ""
            if self.layer is None
            else f"L{self.layer}{self.kind}{'' if self.index is None else self.index}"
        )
        return "_".join(filter(None, (self.name, place))) + (f".{self.port}" if self.port else "")

    def __lt__(self, other: Label) -> bool:
        return self._key < other._key

    @property
    def _key(self) -> tuple[int, int, int, str, str]:
        layer, index = (-1 if size is None else size for size in (self.layer, self.index))
        return layer, _KINDS.index(self.kind), index, self.name, self.port

    @property
    def node(self) -> Label:
        """The same without its port."""
        return Label(self.name, self.layer, self.kind, self.index)


_NUMBER = r"(?:0|[1-9][0-9]*)"
_LABEL = re.compile(
    rf"(?:(?P<name>[A-Za-z_]\w*?)_)?L(?P<layer>{_NUMBER})(?:(?P<kind>[HNE])(?P<index>{_NUMBER})|(?P<mlp>[MS]))?"
    r"(?:\.(?P<port>[A-Za-z]\w*))?",
    re.ASCII,
)
_NAME = re.compile(r"(?P<name>[A-Za-z_]\w*)(?:\.(?P<port>[A-Za-z]\w*))?", re.ASCII)


def read_label(text: str) -> Label:
    """Return the label that a text spells. Raises ValueError for what spells none.

    >>> read_label("b_V_L0H1"), read_label("L5M.gate").port, read_label("steer").name
    (Label(name='b_V', layer=0, kind='H', index=1, port=''), 'gate', 'steer')
    >>> read_label("L0H1 U")
    Traceback (most recent call last):
    ...
    ValueError: expected the label of a node, such as L0H1, L2M, L2N17, E or U, got 'L0H1 U'
    """
    if (found := find_label(text)) is None:
        raise ValueError(f"expected the label of a node, such as L0H1, L2M, L2N17, E or U, got {text!r:.60}")
    return found


def find_label(text: str) -> Label | None:
    """Return the label that a text spells, or None.

    >>> find_label("L0H1 U") is None, find_label("L0H1")
    (True, Label(name='', layer=0, kind='H', index=1, port=''))
    """
    if placed := _LABEL.fullmatch(text):
        kind = placed["kind"] or placed["mlp"] or ""
        index = None if placed["index"] is None else int(placed["index"])
        return Label(placed["name"] or "", int(placed["layer"]), kind, index, placed["port"] or "")  # type: ignore[arg-type]
    if named := _NAME.fullmatch(text):
        return Label(named["name"], port=named["port"] or "")
    return None


def head_label(layer: int, head: int, port: str = "") -> str:
    """Return how a head is called.

    >>> head_label(0, 3), head_label(0, 3, "V")
    ('L0H3', 'L0H3.V')
    """
    return str(Label(layer=layer, kind="H", index=head, port=port))


def mlp_label(layer: int, port: str = "") -> str:
    """Return how an MLP is called.

    >>> mlp_label(2), mlp_label(2, "gate")
    ('L2M', 'L2M.gate')
    """
    return str(Label(layer=layer, kind="M", port=port))


def neuron_label(layer: int, neuron: int) -> str:
    """Return how a neuron is called.

    >>> neuron_label(2, 17)
    'L2N17'
    """
    return str(Label(layer=layer, kind="N", index=neuron))


def expert_label(layer: int, expert: int) -> str:
    """Return how an expert is called.

    >>> expert_label(2, 5)
    'L2E5'
    """
    return str(Label(layer=layer, kind="E", index=expert))


def shared_label(layer: int) -> str:
    """Return how the expert that all positions of a layer share is called.

    >>> shared_label(2)
    'L2S'
    """
    return str(Label(layer=layer, kind="S"))

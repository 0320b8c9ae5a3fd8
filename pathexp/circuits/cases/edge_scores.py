"""How much every edge matters: ranked, cut to the strongest, and exchanged with other tools as JSON.

The format is the graph JSON of EAP-IG (Hanna et al. 2024, "Have Faith in Faithfulness"), which the Mechanistic
Interpretability Benchmark (Mueller et al. 2025) takes as importances: nodes `input`, `a0.h1`, `m0`, `logits`, edges
`a0.h1->a1.h0<q>` with a score and whether they are in the circuit.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...arguments import shown
from ...errors import LoadError, PathexpError
from ...graph import Array
from ...labels import head_label, mlp_label
from ...model import Config
from ...replaced_file import replaced_file
from .edge_run import PORTS, VALUES, EdgeList, Kept

_NAME = re.compile(r"(?P<writer>[^->]+)->(?P<reader>[^<]+)(<(?P<port>[qkv])>)?")
_HEAD, _MLP = re.compile(r"a(\d{1,6})\.h(\d{1,6})"), re.compile(r"m(\d{1,6})")
INPUT, LOGITS = "input", "logits"


@dataclass(frozen=True, eq=False)
class EdgeScores:
    """A score of every edge, (3, writers, readers): into queries, keys and values; NaN where none was measured.

    `chosen`: which edges are in the circuit, where that is known.
    """

    edges: EdgeList
    scores: Array
    chosen: Kept | None = None

    @cached_property
    def measured(self) -> Kept:
        """Which edges have a score."""
        return np.isfinite(self.scores) & self.edges.there

    @property
    def amount(self) -> int:
        """How many edges have a score."""
        return int(self.measured.sum())

    @cached_property
    def _order(self) -> NDArray[np.intp]:
        """The edges as flat places, the largest |score| first; of equals, the first in the graph."""
        flat = np.where(self.measured, -np.abs(np.nan_to_num(self.scores)), np.inf).ravel()
        return np.argsort(flat, kind="stable")[: self.amount]

    def strongest(self, amount: int) -> Kept:
        """Return so many of the strongest edges as kept; a port without scores follows its head's values."""
        kept = np.zeros(self.scores.shape, dtype=bool)
        kept.ravel()[self._order[:amount]] = True
        return self.filled(kept)

    def filled(self, kept: Kept) -> Kept:
        """Return kept edges where ports that have no scores of their own go with the values."""
        together = ~self.measured.any(axis=(1, 2))
        found = kept.copy()
        found[together] = kept[VALUES]
        return found

    def ranked(self) -> Iterator[tuple[str, str, str, float]]:
        """Yield writer, reader, port and score, the strongest first."""
        for place in self._order:
            port, row, column = np.unravel_index(place, self.scores.shape)
            yield (
                self.edges.writers[row],
                self.edges.readers[column],
                PORTS[port],
                float(self.scores[port, row, column]),
            )

    # Exchange ------------------------------------------------------------------------------------------

    def to_eap(self, config: Config, amount: int | None = None) -> dict[str, Any]:
        """Return the scores as EAP-IG's graph: what enters is one node, `amount` edges are in the circuit (all)."""
        kept = self.edges.all() if amount is None else self.strongest(amount)
        found: dict[str, dict[str, Any]] = {}
        for port, row, column in np.argwhere(self.edges.all()):
            writer, reader = self.edges.writers[row], self.edges.readers[column]
            heads = reader.rpartition("H")[0] != ""
            if not heads and port != VALUES:
                continue
            name = f"{_eap(writer)}->{_eap(reader)}" + (f"<{PORTS[port]}>" if heads else "")
            score = float(np.nan_to_num(self.scores[port, row, column]))
            edge = found.setdefault(name, {"score": 0.0, "in_graph": False})
            edge["score"] += score
            edge["in_graph"] |= bool(kept[port, row, column])
        names = dict.fromkeys(map(_eap, (*self.edges.writers, *self.edges.readers)))
        used = {end for name, edge in found.items() if edge["in_graph"] for end in re.split(r"->|<", name)}
        return {
            "cfg": {
                "n_layers": config.n_layers,
                "n_heads": config.n_heads,
                "parallel_attn_mlp": config.parallel is not None,
                "d_model": config.d_model,
            },
            "nodes": {name: {"in_graph": name in used or name == LOGITS} for name in names},
            "edges": found,
        }

    def save_eap(self, path: str | Path, config: Config, amount: int | None = None) -> None:
        """Write the scores as EAP-IG's graph JSON. Raises LoadError where they cannot be written."""
        try:
            with replaced_file(path) as file:
                file.write(json.dumps(self.to_eap(config, amount), allow_nan=False).encode())
        except OSError as error:
            raise LoadError(f"cannot write {str(path)!r}: {error.strerror or error}") from error


def read_eap(path: str | Path, edges: EdgeList) -> EdgeScores:
    """Read a graph JSON of EAP-IG, or importances of the Mechanistic Interpretability Benchmark, for a model's edges.

    The score of the file's one input node is divided evenly between embedding and positions. Raises LoadError for a file
    of another form, and for edges that the model does not have.
    """
    try:
        found = json.loads(Path(path).read_text(encoding="utf-8"))
        return _scores(found, edges)
    except (OSError, ValueError, RecursionError, PathexpError) as error:
        raise LoadError(f"cannot read edges from {str(path)!r}: {error}") from None


def _scores(found: object, edges: EdgeList) -> EdgeScores:
    if not isinstance(found, dict) or not isinstance(found.get("edges"), dict):
        raise LoadError("expected an object with 'edges' by name")
    scores = np.full((len(PORTS), *edges.there.shape), np.nan)
    chosen = np.zeros(scores.shape, dtype=bool)
    for name, edge in found["edges"].items():
        if not isinstance(edge, Mapping):
            raise LoadError(f"edge {name!r:.60}: expected an object, got {shown(edge)}")
        score = edge.get("score", 0.0)
        number = isinstance(score, int | float) and not isinstance(score, bool)
        if not number or not abs(score) <= sys.float_info.max:  # integers of JSON have any size
            raise LoadError(f"edge {name!r:.60}: expected a finite score, got {shown(score)}")
        places = list(_places(name, edges))
        for place in places:
            scores[place], chosen[place] = score / len(places), edge.get("in_graph") is True
    return EdgeScores(edges, scores, chosen)


def _places(name: str, edges: EdgeList) -> Iterable[tuple[int, int, int]]:
    parts = _NAME.fullmatch(name)
    if parts is None:
        raise LoadError(f"{name!r:.60} names no edge, such as 'a0.h1->a1.h0<q>'")
    port = VALUES if parts["port"] is None else PORTS.index(parts["port"])
    writers = (
        [w for w in edges.writers if w[0] != "L"] if parts["writer"] == INPUT else [_label(parts["writer"])]
    )
    reader = edges.readers[-1] if parts["reader"] == LOGITS else _label(parts["reader"])
    return [(port, *edges.place(writer, reader)) for writer in writers]


def _label(name: str) -> str:
    if head := _HEAD.fullmatch(name):
        return head_label(int(head[1]), int(head[2]))
    if mlp := _MLP.fullmatch(name):
        return mlp_label(int(mlp[1]))
    raise LoadError(f"{name!r:.40} is no node, such as 'input', 'a0.h1', 'm0', 'logits'")


def _eap(label: str) -> str:
    """A label as the other tools write it."""
    if head := re.fullmatch(r"L(\d+)H(\d+)", label):
        return f"a{head[1]}.h{head[2]}"
    if mlp := re.fullmatch(r"L(\d+)M", label):
        return f"m{mlp[1]}"
    return LOGITS if label == "U" else INPUT

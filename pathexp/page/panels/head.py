"""One head on the text: where it attends, what it writes from each token, and why it attends there."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ...answer import visible
from ...circuits.attribution.attribution import HeadTokens, head_tokens
from ...errors import PathexpError
from ...expansion.scores.score import score as expand_score
from ...graph import freeze
from ...graph.nodes import Component
from ...graph.operators import act_at
from ...model import Trace
from ..subject import Subject
from ..view import number, words
from . import shown

STRONGEST = 4
"""From how many of the most attended tokens the likeliest outputs are shown."""


def head(subject: Subject, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return a head's attention row at the position asked about, and what it writes straight to the target, by token."""
    label = words(given, "head")
    place = number(given, "at", subject.target.position, 0, len(subject.trace) - 1)
    return {"head": label, "at": place, "runs": [_on(subject, trace, label, place) for trace in subject.runs]}


def _on(subject: Subject, trace: Trace, label: str, place: int) -> dict[str, Any]:
    node = _head(trace, label)
    row = trace.patterns[node.layer, node.head, place]
    target = subject.target_on(trace)
    brought = _brought(head_tokens(trace, target, [label]), label) if place == target.position else None
    strongest = [int(key) for key in np.argsort(-row, kind="stable")[:STRONGEST] if row[key] > 0]
    return {
        "tokens": shown.tokens(trace), "attention": row.tolist(), "said": [f"{weight:.3f}" for weight in row],
        "brings": None if brought is None else shown.by_token(trace, brought[0]),
        "constant": None if brought is None else shown.logits(brought[1]),
        "outputs": dict(zip(map(str, strongest), _outputs(trace, node, place, strongest), strict=True)),
        "strongest": strongest,
    }  # fmt: skip


def _head(trace: Trace, label: str) -> Any:
    node = freeze(trace).by_label.get(label)
    if not isinstance(node, Component) or node.head is None:
        raise PathexpError(f"no head {label!r:.40} in this model; heads are written L0H1")
    return node


def _brought(found: HeadTokens, label: str) -> tuple[Any, float]:
    row = found.labels.index(label)
    return found.values[row], float(found.constants[row])


def _outputs(trace: Trace, node: Any, place: int, keys: list[int]) -> list[list[str]]:
    """The outputs that what a head moves from each key raises most, through the frozen final norm."""
    if not keys:
        return []
    kv = trace.config.kv_head(node.head)
    moved = trace.patterns[node.layer, node.head, place, keys][:, None] * trace.values[node.layer, kv, keys]
    states = moved @ trace.model.weights.W_O[node.layer, node.head].T
    rows = act_at(freeze(trace).sink.operator, np.full(len(keys), place), states)
    order = np.argsort(-rows, axis=-1, kind="stable")[:, :STRONGEST]
    return [[visible(trace.model.output_string(int(token))) for token in which] for which in order]


def score(subject: Subject, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return why a head attends to a key: its score as a sum over pairs of query paths and key paths, in each run."""
    label = words(given, "head")
    place = number(given, "at", subject.target.position, 0, len(subject.trace) - 1)
    key = given.get("key")
    keyed = None if key is None else number(given, "key", 0, 0, len(subject.trace) - 1)
    return {
        "runs": [
            shown.answer(expand_score(trace, label, query=place, key=keyed, k=8), 8) for trace in subject.runs
        ]
    }

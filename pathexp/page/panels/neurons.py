"""The strongest neurons of an MLP on a branch: each made a component of its own, and its paths summed exactly."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import numpy as np

from ...errors import PathexpError
from ...expansion.expansion import expand
from ...expansion.targets import on_stream
from ...graph import freeze
from ..subject import Subject
from ..view import words
from . import shown

FIRST = 8
"""How many neurons are shown, of those that write most toward the target."""


def neurons(subject: Subject, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the exact sums of a branch's paths through single neurons of an MLP, and through all others.

    The neurons shown are those whose output meets the target most, straight; their sums are over all paths of the branch.
    """
    query, label = words(given, "query"), words(given, "mlp")
    if subject.other is not None:
        raise PathexpError("neurons are shown of one run: leave out the second text")
    if not re.fullmatch(r"L\d+M", label) or label not in subject.graph.by_label:
        raise PathexpError(f"no MLP {label!r:.40} in this model; MLPs are written L0M")
    layer = int(label[1:-1])
    chosen = _strongest(subject, layer)
    terms = expand(freeze(subject.trace, neurons={layer: chosen}))
    whole = subject.terms.where(query).value(subject.target)
    rows = [(f"L{layer}N{neuron}", _replaced(query, label, f"L{layer}N{neuron}")) for neuron in chosen]
    found = [(name, asked, terms.where(asked).value(subject.target)) for name, asked in rows]
    rest = whole - sum(value for _, _, value in found)
    return {
        "rows": [{"label": name, "query": asked, "value": value, "said": shown.logits(value)}
                 for name, asked, value in sorted(found, key=lambda row: -abs(row[2]))],
        "rest": {"number": subject.model.config.d_mlp - len(chosen), "value": rest, "said": shown.logits(rest)},
    }  # fmt: skip


def _replaced(query: str, label: str, neuron: str) -> str:
    return re.sub(rf"\b{label}\b", neuron, query)


def _strongest(subject: Subject, layer: int) -> list[int]:
    """The neurons whose output at the target's position meets the target most."""
    target, trace = subject.target, subject.trace
    field = on_stream(target, subject.graph)[target.position]
    out = trace.model.weights.W_out
    assert out is not None, "a model with MLPs has their output maps"
    written = trace.mlp_hidden[layer, target.position] * (out[layer].T @ field)
    return [int(neuron) for neuron in np.argsort(-np.abs(written), kind="stable")[:FIRST]]

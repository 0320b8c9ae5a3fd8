"""The head of the page: model, tokens, what each position predicts, what is held fixed; and the verdict."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...answer import inert, visible
from ...expansion.header import counted, model_line
from ...graph import Contrast
from ...model import Trace
from ..subject import Subject
from . import shown

FIRST = 5
"""How many likely successors of each token are shown."""

MOST = 2_000_000
"""Up to so many logits, successors are shown for every token; above, for the position asked about alone."""


def run(subject: Subject, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the tokens with their likeliest successors, the target, and what is held fixed."""
    trace, target = subject.trace, subject.target
    contrasted = isinstance(subject.graph, Contrast)
    return {
        "model": inert(model_line(subject.model)),
        "text": {"tokens": shown.tokens(trace), "ids": trace.tokens.tolist(), "next": _successors(trace, target.position)},
        "other": _other(subject),
        "position": target.position,
        "target": {"label": inert(target.label), "value": subject.value, "said": shown.logits(subject.value),
                   "run": shown.logits(target.value)},
        "asked": {name: _named(subject, name) for name in ("target", "versus")},
        "count": counted(subject.terms.count(), "path"),
        "frozen": shown.lines(subject.graph.frozen) or ["nothing: this model is linear"],
        "labels": ["S", ".*", *subject.graph.alphabet.labels],
        "layers": subject.model.config.n_layers, "heads": subject.model.config.n_heads,
        "mlps": subject.model.config.has_mlps, "contrast": contrasted, "by_text": all(map(_by_text, subject.runs)),
    }  # fmt: skip


def _by_text(trace: Trace) -> bool:
    """Whether the text of a run gives its tokens back, so that code may name the text instead of the ids."""
    model = trace.model
    if model.tokenizer is None:
        return False
    ids = trace.tokens.tolist()
    return bool(model.encode(model.decode(ids)) == ids)


def _successors(trace: Trace, position: int) -> list[list[dict[str, Any]]]:
    every = trace.logits.size <= MOST
    return [
        shown.likeliest(trace, row, FIRST) if every or place == position else []
        for place, row in enumerate(trace.logits)
    ]


def _other(subject: Subject) -> dict[str, Any] | None:
    """The second text, and where it differs."""
    other = subject.other
    if other is None:
        return None
    differs = (other.tokens != subject.trace.tokens).tolist()
    return {
        "tokens": shown.tokens(other), "ids": other.tokens.tolist(), "differs": differs,
        "next": _successors(other, subject.target.position),
    }  # fmt: skip


def _named(subject: Subject, name: str) -> dict[str, Any] | None:
    """The target's token or its rival's, as an id and as text."""
    asked = getattr(subject.view, name)
    if asked is None and name == "versus":
        return None
    model = subject.model
    token = subject.trace.top_token(subject.view.position) if asked is None else model.output_id(asked)
    raw = model.output_string(token)
    return {"id": token, "token": visible(raw), "raw": raw, "chosen": asked is not None}


def verify(subject: Subject, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the verdict: whether all paths add up to the forward pass, or to the difference of two."""
    return shown.answer(subject.terms.verify())

"""Numbers and tokens as the page shows them, in the digits of every other form."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...answer import Answer, Document, columns, inert, visible
from ...answer.cells import cell
from ...answer.web import to_web
from ...graph import Array
from ...model import Trace
from ...model.softmax import log_softmax

_LOGITS, _SHARE, _COUNT = columns.number("value"), columns.share("share"), columns.count("count")


def logits(value: float) -> str:
    """Return a number of logits with its sign, as tables show it.

    >>> logits(1.23456), logits(-2e-9)
    ('+1.2346', '0.0000')
    """
    return cell(float(value), _LOGITS)


def share(value: float | None) -> str:
    """Return a fraction as a percentage."""
    return cell(value, _SHARE)


def amount(count: int) -> str:
    """Return a count."""
    return cell(count, _COUNT)


def answer(found: Answer | Document, top: int = 60) -> dict[str, Any]:
    """Return an answer, or the document that was made of it, for the page."""
    return to_web(found.document if isinstance(found, Answer) else found, top=top)


def likeliest(trace: Trace, row: Array, k: int = 5) -> list[dict[str, Any]]:
    """Return the k likeliest outputs of one row of logits, (d_out,), with their probabilities."""
    return [
        {"id": int(token), "token": visible(trace.model.output_string(int(token))), "chance": float(chance),
         "said": f"{chance:.3f}"}
        for token, chance in top_tokens(row[None], k)[0]
    ]  # fmt: skip


def top_tokens(rows: Array, k: int) -> list[list[tuple[int, float]]]:
    """Return the k likeliest outputs of each row of logits, (n, d_out), the likeliest first."""
    chances = np.exp(log_softmax(rows))
    order = np.argsort(-rows, axis=-1, kind="stable")[:, :k]
    return [
        [(int(token), float(row[token])) for token in which]
        for row, which in zip(chances, order, strict=True)
    ]


def tokens(trace: Trace) -> list[str]:
    """Return the tokens of a run, in quotes, inert."""
    return [visible(token) for token in trace.token_strings]


def by_token(trace: Trace, values: Array) -> list[dict[str, Any]]:
    """Return one number a token, with the words that are shown."""
    return [
        {"place": place, "token": token, "value": float(value), "said": logits(value)}
        for place, (token, value) in enumerate(zip(tokens(trace), values, strict=True))
    ]


def lines(said: tuple[str, ...]) -> list[str]:
    """Return lines of text, inert."""
    return [inert(line) for line in said]

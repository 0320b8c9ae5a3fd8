"""What the symbols of formulas mean: shown wherever a formula is."""

from __future__ import annotations

import re

from .document import Document
from .parts import Formula, Table

SYMBOLS: dict[str, str] = {
    "A": "attention pattern of a head, (query, key)",
    "W_OV": "W_O W_V: what a head moves",
    "W_QK": "W_Qᵀ W_K: where a head attends",
    "W_U": "unembedding",
    "W_E": "token embedding",
    "W_pos": "position embedding",
    "W_O": "output map of a head",
    "W_V": "value map of a head",
    "W_Q": "query map of a head",
    "W_K": "key map of a head",
    "W_UV": "what the values of a head make of their latent",
    "W_UK": "what the keys of a head make of their latent",
    "W_UQ": "what the queries of a head make of their latent",
    "W_in": "input map of an MLP",
    "W_out": "output map of an MLP",
    "S": "frozen scale of a norm, one number a position",
    "G": "gain of a norm",
    "C": "centering: subtracts the mean over features",
    "D": "frozen gates of an MLP, act(z)/z",
    "R": "rotation by a distance (rotary positions)",
    "Id": "identity",
    "M": "constant multiplier",
    "Λ": "logarithmic mean of two patterns, or of router weights",
    "κ": "secant slope of a nonlinearity between two runs",
    "Ā": "mean of two attention patterns",
    "S̄": "mean scale of a norm in two runs",
    "σ": "how a norm's scale differs between two runs: rank one at each position",
    "s": "scores of a head by its queries or keys, the other side at its mean of two runs",
    "R̄": "mean router weights of an expert in two runs",
    "ḡ": "mean gates of an MLP in two runs",
}

_WORD = re.compile(r"Λ|κ|Ā|S̄|R̄|σ|ḡ|\bs(?=_L)|W_(?:OV|QK|U[VKQ]|pos|in|out|[A-Z])|[A-Z][a-z]?(?=_|\b)")


def legend(document: Document) -> dict[str, str]:
    """Return the symbols that a document's formulas show, with their meanings.

    >>> from pathexp.answer import Document, Formula
    >>> list(legend(Document("x", "", (Formula("", "A_L1H0 ⊗ W_U W_OV_L1H0 W_E", ""),))))
    ['A', 'W_OV', 'W_U', 'W_E']
    """
    found = {word for formula in _formulas(document) for word in _WORD.findall(formula)}
    return {symbol: meaning for symbol, meaning in SYMBOLS.items() if symbol in found}


def _formulas(document: Document) -> list[str]:
    said = [formula.text for formula in document.of(Formula)]
    for table in document.of(Table):
        places = [at for at, column in enumerate(table.columns) if column.kind == "formula"]
        said += [str(row[at]) for row in table.rows for at in places]
    return said

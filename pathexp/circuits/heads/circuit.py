"""Circuits of heads as parts of an answer: sizes, spectra, and the largest entries of token tables, side by side."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from ...algebra import LinearMap, top_entries
from ...algebra.operations import singular_values
from ...answer import Figure, Matrix, Part, Table, columns
from .spectrum import Spectrum, spectrum

ENDS = {"QK": ("destination", "source", "score"), "OV": ("source", "output", "logit")}
TITLES = {"QK": "where it attends", "OV": "what it writes"}


@dataclass(frozen=True, eq=False)
class Circuit:
    """One circuit of one head: its map on the stream, its token table times `scale`, and the names of tokens.

    The table is (destination, source) for QK and (output, source) for OV.
    """

    head: str
    what: str
    on_stream: LinearMap
    table: LinearMap
    scale: float
    token: Callable[[int], str]
    output: Callable[[int], str]

    @property
    def name(self) -> str:
        """Such as "L1H3 QK"."""
        return f"{self.head} {self.what}"

    def entries(self, k: int) -> list[tuple[int, int, float]]:
        """Return the k largest entries: QK (destination, source, score), OV (source, output, logit)."""
        found = top_entries(self.table, k, "positive")
        return [
            (*self._ordered(int(row), int(column)), self.scale * float(value))
            for row, column, value in zip(*found, strict=True)
        ]

    def _ordered(self, row: int, column: int) -> tuple[int, int]:
        return (row, column) if self.what == "QK" else (column, row)

    def _second(self, index: int) -> str:
        return self.token(index) if self.what == "QK" else self.output(index)

    def spectrum(self) -> Spectrum | None:
        """Return the eigenvalues between tokens; None where outputs are no tokens."""
        return spectrum(self.table) if self.table.source == self.table.target else None

    def largest(self, k: int) -> Table:
        """Return the largest entries as a table of tokens."""
        first, second, value = ENDS[self.what]
        rows = [(self.token(one), self._second(other), adds) for one, other, adds in self.entries(k)]
        return Table(
            (columns.token(first), columns.token(second), columns.number("adds", f"added to {value}")),
            rows, self.name, f"{self.name}: {TITLES[self.what]}", key=(first, second), value="adds", shown=None,
        )  # fmt: skip

    def picture(self, k: int) -> Figure:
        """Return the table over the tokens of its k largest entries, as a heat map."""
        entries = self.entries(k)
        rows = list(dict.fromkeys(first for first, _, _ in entries))
        across = list(dict.fromkeys(second for _, second, _ in entries))
        table = self.table if self.what == "QK" else self.table.T
        chosen = np.zeros((len(across), table.source.size))
        chosen[np.arange(len(across)), across] = 1.0
        values = self.scale * table.apply(chosen)[:, rows].T
        names = {"rows": list(map(self.token, rows)), "columns": list(map(self._second, across))}
        return Figure("heatmap", self.name, names | {"values": values}, f"{self.name}: {TITLES[self.what]}")


def circuit_parts(circuits: Iterable[Circuit], k: int) -> Iterator[Part]:
    """Yield the sizes of circuits side by side, the k largest entries of each, and all singular values."""
    circuits = list(circuits)
    yield sizes(circuits)
    yield from (circuit.largest(k) for circuit in circuits)
    if circuits:
        yield spectra(circuits)
    yield from (circuit.picture(k) for circuit in circuits)


def sizes(circuits: list[Circuit]) -> Table:
    """Return a table of one row a circuit: rank, norm and trace on the stream, eigenvalues between tokens."""
    head = (
        columns.text("head"), columns.text("circuit"), columns.count("rank_bound", "rank at most"),
        columns.number("norm", "norm", signed=False), columns.number("trace", "trace"),
        columns.number("score", "Σλ/Σ|λ|", digits=3),
        columns.number("positive", "positive share", digits=3, signed=False),
        columns.hidden("reason"), columns.hidden("size"),
    )  # fmt: skip
    return Table(
        head,
        map(_sizes, circuits),
        "circuits",
        "sizes on the stream; eigenvalues λ between tokens",
        key=("head", "circuit"),
        value="score",
        shown=None,
    )


def _sizes(circuit: Circuit) -> tuple[object, ...]:
    on_stream, found = circuit.on_stream, circuit.spectrum()
    between = (None,) * 4 if found is None else (found.score, found.positive, found.reason, found.size)
    return circuit.head, circuit.what, on_stream.rank_bound, on_stream.norm(), on_stream.trace(), *between


def spectra(circuits: list[Circuit]) -> Matrix:
    """Return the singular values of the maps on the stream, one row a circuit; undefined beyond a circuit's rank."""
    found = [singular_values(circuit.on_stream) for circuit in circuits]
    values = np.full((len(found), max(map(len, found))), np.nan)
    for row, each in zip(values, found, strict=True):
        row[: len(each)] = each
    names = tuple(circuit.name for circuit in circuits), tuple(map(str, range(1, values.shape[1] + 1)))
    return Matrix(
        "singular values", *names, values, "singular values on the stream, by size", row_axis="circuit",
        column_axis="number", digits=2,
    )  # fmt: skip

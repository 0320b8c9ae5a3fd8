"""What is added up over cases: tables by name, the value of the target, and the worst check of each kind."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from ...answer import Check, Note, Part, Table
from ...expansion.header import counted
from .joined import JoinedTable
from .measured import Measured
from .moments import Moments

RANKS = {"holds": 0.0, "undecided": 1.0, "fails": 2.0}


@dataclass(frozen=True)
class Averaged:
    """What an average is made of; `more` are parts beside its tables."""

    cases: int
    value: Moments
    tables: tuple[Table, ...]
    checks: tuple[Check, ...] = ()
    notes: tuple[Part, ...] = ()
    more: tuple[Part, ...] = ()


class Sums:
    """Running sums over cases."""

    def __init__(self, quantiles: tuple[float, ...] = ()) -> None:
        self.quantiles, self.cases = quantiles, 0
        self.tables: dict[str, JoinedTable] = {}
        self.value, self.worst = Moments(), dict[str, tuple[float, int, Check]]()
        self.failed: dict[str, int] = {}

    def add(self, found: Measured) -> None:
        """Add one more case."""
        for name, table in found.tables.items():
            if name not in self.tables:
                self.tables[name] = JoinedTable(table, self.quantiles, self.cases)
        for name, joined in self.tables.items():
            joined.add(found.tables.get(name))
        self.cases += 1
        if found.value is not None:
            self.value.add(found.value)
        for check in found.checks:
            self._keep(check)

    def _keep(self, check: Check) -> None:
        """Keep the check of a kind that came closest to failing."""
        rank = RANKS[check.outcome]
        if check.ok and check.tolerance > 0:
            rank += 0.5 * check.error / check.tolerance
        if check.name not in self.worst or rank > self.worst[check.name][0]:
            self.worst[check.name] = rank, self.cases, check
        self.failed[check.name] = self.failed.get(check.name, 0) + (not check.ok)

    def averaged(self) -> Averaged:
        """Return the means so far."""
        tables = tuple(joined.table() for joined in self.tables.values())
        return Averaged(self.cases, self.value, tables, tuple(self._checks()), tuple(self._missing()))

    def _checks(self) -> Iterator[Check]:
        """Yield the worst check of every kind, with where it was found."""
        for name, (_, case, check) in self.worst.items():
            among = (
                f"; {counted(self.failed[name], 'case')} of {self.cases:,} not ok"
                if self.failed[name]
                else ""
            )
            yield replace(
                check, what=f"{check.what} (the worst of {counted(self.cases, 'case')}: {case}{among})"
            )

    def _missing(self) -> Iterator[Note]:
        for name, joined in self.tables.items():
            if joined.partial:
                yield Note(
                    f"{name}: {counted(joined.partial, 'row')} of {len(joined.rows):,} are not in every case, or undefined "
                    "there; their means are over the cases that have them (column cases), too large where a question chooses rows by size"
                )

"""Answers for machines: strict JSON with a kind and a schema version, records, CSV."""

from __future__ import annotations

import csv
import io
import json
import math
from typing import Any

from ..visible import inert
from .document import Document
from .parts import Check, Facts, Formula, Matrix, Note, Table, Value

SCHEMA = 1
"""The version of the layout of `to_dict`; it changes when a name or a meaning does."""


def to_dict(document: Document) -> dict[str, Any]:
    """Return a document as plain data, nothing in it infinite or undefined but None."""
    facts = {name: _finite(value) for part in document.of(Facts) for name, value in part.values.items()}
    made: dict[str, Any] = {"kind": document.kind, "schema": SCHEMA, "headline": document.headline, **facts}
    made["notes"] = [_said(note) for note in document.of(Note)]
    made["tables"] = {table.name: _table(table) for table in document.of(Table)}
    made["matrices"] = {matrix.name: _matrix(matrix) for matrix in document.of(Matrix)}
    made["checks"] = [_check(check) for check in document.of(Check)]
    made["formulas"] = [{"name": f.name, "text": f.text, "latex": f.latex} for f in document.of(Formula)]
    return {name: value for name, value in made.items() if value not in ([], {})}


def to_json(document: Document, indent: int | None = 1) -> str:
    """Return a document as strict JSON."""
    return json.dumps(to_dict(document), indent=indent, allow_nan=False)


def _finite(value: Value) -> Value:
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _said(note: Note) -> str:
    return f"{note.title}: {note.text}" if note.title else note.text


def _table(table: Table) -> dict[str, Any]:
    units = {column.name: column.unit for column in table.columns if column.unit}
    made: dict[str, Any] = {
        "title": table.title,
        "key": list(table.key),
        "value": table.value,
        "units": units,
    }
    made["rows"] = [{name: _finite(value) for name, value in row.items()} for row in table.records()]
    names = [column.name for column in table.columns]
    made["rest"] = [dict(zip(names, map(_finite, row), strict=True)) for row in table.rest]
    return {name: value for name, value in made.items() if name == "rows" or value not in ("", [], {}, None)}


def _matrix(matrix: Matrix) -> dict[str, Any]:
    values = [[_finite(float(value)) for value in row] for row in matrix.values]
    return {"rows": list(matrix.rows), "columns": list(matrix.columns), "unit": matrix.unit, "values": values}


def _check(check: Check) -> dict[str, Any]:
    return {
        "name": check.name,
        "what": check.what,
        "outcome": check.outcome,
        "ok": check.ok,
        "error": _finite(float(check.error)),
        "tolerance": _finite(float(check.tolerance)),
        "source": check.source,
        "detail": check.detail,
        "reason": check.reason,
    }


def records(document: Document, table: str | None = None) -> list[dict[str, Value]]:
    """Return the rows of the main table, or of the one of a name."""
    return document.table(table).records()


def to_csv(document: Document, table: str | None = None) -> str:
    """Return the rows of the main table, or of the one of a name, as CSV; control characters are written out."""
    chosen = document.table(table)
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow([inert(column.name) for column in chosen.columns])
    writer.writerows([inert(v) if isinstance(v, str) else _finite(v) for v in row] for row in chosen.rows)
    return out.getvalue()

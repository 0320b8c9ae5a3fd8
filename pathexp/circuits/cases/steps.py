"""Steps of work over cases that are kept in a journal: what each found, as plain values there and back."""

from __future__ import annotations

import base64
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any, Generic, TypeVar

import numpy as np

from ...answer import Check, Column, Table
from ...graph import Array
from .case import Case
from .journal import Journal, case_digest
from .measured import Measured

Found = TypeVar("Found")


@dataclass(frozen=True)
class Form(Generic[Found]):
    """How what is found in a case becomes plain values of JSON, and comes back."""

    plain: Callable[[Found], Any]
    made: Callable[[Any], Found]


@dataclass(frozen=True)
class Step(Generic[Found]):
    """A step of the work in a journal; `name` tells it from others in the same file."""

    journal: Journal
    form: Form[Found]
    name: str = ""

    def of(self, cases: Sequence[Case]) -> Mapping[int, Callable[[], Found]]:
        """Return what there is already, by index of the case."""
        keys = enumerate(map(self._key, cases))
        return {at: partial(self._found, key) for at, key in keys if key in self.journal.places}

    def keep(self, case: Case, found: Found) -> None:
        """Write what was found in a case, unless it is there."""
        self.journal.keep(self._key(case), self.form.plain(found))

    def _key(self, case: Case) -> str:
        return self.name + case_digest(case)

    def _found(self, key: str) -> Found:
        try:
            return self.form.made(self.journal.found(key))
        except (ValueError, TypeError, KeyError, AttributeError, zlib.error) as error:
            raise self.journal.unreadable(error) from error


def packed(array: Array) -> dict[str, Any]:
    """Return an array as plain values, to the last bit.

    >>> unpacked(packed(np.array([[0.1, -0.0, np.nan]])))
    array([[ 0.1, -0. ,  nan]])
    """
    data = zlib.compress(np.ascontiguousarray(array, dtype="<f8").tobytes())
    return {"shape": list(array.shape), "data": base64.b85encode(data).decode()}


def unpacked(plain: Any) -> Array:
    """Return the array of what `packed` made. Raises ValueError where the numbers do not fill its shape."""
    shape = tuple(map(int, plain["shape"]))
    size = 8 * int(np.prod(shape))
    unfolding = zlib.decompressobj()
    data = unfolding.decompress(base64.b85decode(plain["data"]), size + 1)
    if len(data) != size:
        raise ValueError(f"an array of shape {shape} has {size:,} bytes, these are {len(data):,} or more")
    return np.frombuffer(data, dtype="<f8").reshape(shape).copy()


def _measured(fields: Any) -> Measured:
    tables = {name: _table(**table) for name, table in fields["tables"].items()}
    return Measured(
        fields["kind"], tables, tuple(Check(**check) for check in fields["checks"]), fields["value"]
    )


def _table(columns: Any, key: Any, **others: Any) -> Table:
    return Table([Column(**column) for column in columns], key=tuple(key), **others)


MEASURED: Form[Measured] = Form(asdict, _measured)
ARRAY: Form[Array] = Form(packed, unpacked)

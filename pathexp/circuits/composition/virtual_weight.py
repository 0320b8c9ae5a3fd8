"""Virtual weights: how any reader reads what any writer writes to the stream, by chosen routes, kept factored."""

from __future__ import annotations

import re
import sys
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from pathlib import Path
from typing import ClassVar, Literal, TypeAlias

from ...algebra import (
    Entries,
    Identity,
    LinearMap,
    Progress,
    Space,
    add,
    compose,
    norm,
    save_dense,
    singular_values,
    top_entries,
)
from ...algebra.top import Largest
from ...answer import Answer, Check, Column, Facts, Formula, Part, Table, columns
from ...arguments import AMOUNT, Kind, expect, instance
from ...errors import PathError, PathexpError
from ...expansion.header import model_facts
from ...expansion.proof import check_entries
from ...graph import Array, ResidualGraph
from ...graph.ports import Norms, Place, Ports
from ...labels import head_label
from ...model import Model, Trace
from ...model.model import check_model
from .frozen_routes import frozen_weight

Through: TypeAlias = Literal["direct", "all"] | str | Sequence[str]
"""Routes: "direct"; heads passed in order, "L0H1 L1H2" or ("L0H1", "L1H2"); or "all"."""


def virtual_weight(
    what: Model | Trace | ResidualGraph,
    writer: str,
    reader: str,
    *,
    through: Through = "direct",
    norms: Norms = "folded",
) -> LinearMap:
    """Return the virtual weight from a writer to a reader, (output of the reader, input of the writer).

    It is (reader's map) · (maps on the way) · (writer's map), a flat product of factors that is never
    multiplied out: at 50,000 tokens ask it for `norm`, `svd`, rows and entries, and `px.top_entries`.
    Elhage et al. 2021, "Virtual Weights and the Residual Stream as a Communication Channel".

    Parameters
    ----------
    what: a model, whose weights alone are used: the maps of the features, with the positions left out. Or a
        trace (or its graph): everything frozen, maps on position*feature as pattern ⊗ weight.
    writer: `E`, `P`, a head `L0H1` (its W_OV; of a model also `L0H1.O`, its W_O), an MLP `L0M`, or one of its
        neurons `L0N17` (of a graph if it was frozen with that neuron as a component).
    reader: `U`, a head `L1H0` (its W_OV), of a model or a trace also its `L1H0.Q`, `.K`, `.V`; an MLP `L1M`
        or one of its neurons `L1N17` (of a model `.in` and `.gate` too).
    through: "direct"; the heads passed in order; or "all" routes between the two, as a product with one sum
        (identity + components) a block. Of a model those are the routes through heads alone, each taken to
        attend to its own position.
    norms: of a model, whether gains and centerings are folded into what reads them; a graph has them frozen.

    Raises GraphError for labels that are not there, PathError where a reader cannot read a writer or a route does
    not exist, PathexpError for anything but a model, trace or graph. O(1) beyond looking up weights; applying costs the sum of the factors' sizes.

    >>> import pathexp as px
    >>> model = px.random_model(layers=2, heads=3, positions="none")
    >>> px.virtual_weight(model, "L0H1.O", "L1H2.Q")
    W_Q_L1H2 · W_O_L0H1 : head(5) -> head(5), rank <= 5
    >>> px.virtual_weight(model, "E", "U", through="L0H1 L1H2")
    W_U · W_O_L1H2 · W_V_L1H2 · W_O_L0H1 · W_V_L0H1 · W_E : vocab(11) -> vocab(11), rank <= 5
    """
    if not isinstance(what, Model | Trace | ResidualGraph):
        raise PathexpError(
            f"virtual_weight() takes a model, a trace or a residual graph, not {type(what).__name__}"
        )
    label = instance(Hashable, "the label of a node")
    expect("virtual_weight", writer=(writer, label), reader=(reader, label))
    if not isinstance(what, Model):
        return frozen_weight(what, writer, reader, _labels(through))
    ports = Ports(what, norms)
    start, end = ports.place(writer), ports.place(reader)
    first, last = ports.writer(writer), ports.reader(reader)
    labels = _labels(through)
    if labels == "all":
        check_route([start, end])
        return compose(last, *reversed(_layers(ports, start, end)), first)
    passed = [ports.through(label) for label in labels]
    check_route([start, *map(ports.place, labels), end])
    return compose(last, *reversed(passed), first)


def _labels(through: Through) -> Literal["all"] | tuple[str, ...]:
    if isinstance(through, str):
        if through == "all":
            return "all"
        return () if through == "direct" else tuple(through.split())
    if not isinstance(through, Sequence) or not all(isinstance(label, str) for label in through):
        raise PathError(
            f"a route is 'direct', 'all', or heads passed in order as 'L0H1 L1H2', not {through!r:.60}"
        )
    return tuple(through)


def check_route(places: Sequence[Place]) -> None:
    """Raise PathError where something would read what has not been written yet."""

    def step(before: Place, after: Place) -> Place:
        if before.writes > after.reads:
            raise PathError(
                f"{after.label} cannot read {before.label}: {before.label} writes to the stream "
                f"{'after' if before.writes > after.reads + 1 else 'no earlier than'} {after.label} reads it"
            )
        return after

    reduce(step, places)


def _layers(ports: Ports, start: Place, end: Place) -> list[LinearMap]:
    """Per layer between two places, the identity and all heads, added."""
    c, stream = ports.model.config, Identity(ports.make.stream)
    sums: list[LinearMap] = []
    for layer in range(c.n_layers):
        heads = [head_label(layer, head) for head in range(c.n_heads)]
        place = ports.place(heads[0])
        if start.writes <= place.reads and place.writes <= end.reads:
            sums.append(add(stream, *map(ports.through, heads)))
    return sums


# The largest entries -----------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False, repr=False)
class VirtualWeight(Answer):
    """A virtual weight in numbers: its norm, its singular values in descending order, its largest entries."""

    live: ClassVar[frozenset[str]] = frozenset({"model", "weight"})

    model: Model
    weight: LinearMap
    route: str
    norm: float
    singular_values: Array
    entries: Entries
    largest: Largest = "abs"

    def check(self) -> tuple[Check, Check]:
        """Return whether the listed entries have their values, and whether no other one is larger: all of them again.

        Shares no code with the search in blocks. Costs the whole table in double precision, twice.

        >>> import pathexp as px
        >>> found = largest_entries(px.load("attn-1l"), through="L0H0", k=3)
        >>> [check.ok for check in found.check()]
        [True, True]
        """
        return check_entries(self.weight, self.entries, self.largest)

    def headline(self) -> str:
        """Return the route."""
        return self.route

    def parts(self) -> Iterator[Part]:
        """Yield the formula, the norm, the largest entries and the singular values."""
        rows, taken = self.weight.shape
        yield model_facts(self.model)
        yield Facts({"route": self.route, "spaces": f"{self.weight.source} -> {self.weight.target}"})
        yield Formula("", self.weight.formula, _latex(self.weight.formula))
        sizes = {"rows": rows, "columns": taken, "rank_bound": self.weight.rank_bound, "norm": self.norm}
        yield Facts(sizes, shown=True)
        yield self._largest()
        yield Table(
            (columns.count("number"), columns.number("singular_value", signed=False)),
            list(enumerate(self.singular_values, 1)), "singular_values", key=("number",), value="singular_value",
            shown=8,
        )  # fmt: skip

    def _largest(self) -> Table:
        weight, rows = self.weight, list(zip(*self.entries, strict=True))
        return Table(
            (
                _named("from", weight.source), _named("to", weight.target), columns.number("weight"),
                columns.count("from_index"), columns.count("to_index"),
            ),
            [(self._name(weight.source, j), self._name(weight.target, i), x, j, i) for i, j, x in rows],
            "entries", f"the {len(rows)} largest of {weight.shape[0] * weight.shape[1]:,} entries",
            key=("from_index", "to_index"), value="weight", shown=None,
        )  # fmt: skip

    def _name(self, space: Space, index: int) -> str:
        """A coordinate of a space by name: a token where it is one."""
        return self.model.token_string(int(index)) if space.name == VOCAB else f"{space.name} {index}"


VOCAB = "vocab"


def _named(name: str, space: Space) -> Column:
    return columns.token(name) if space.name == VOCAB else columns.text(name)


def _latex(formula: str) -> str:
    """Return the formula of a map as LaTeX.

    >>> print(_latex("W_U · W_O_L0H1"))
    W_{U} \\cdot W_{O}^{\\mathrm{L0H1}}
    """
    made = re.sub(r"(\w+?)_(\w+?)_(L\d+\w*)", r"\1_{\2}^{\\mathrm{\3}}", formula)
    made = re.sub(r"\b([A-Z])_(\w+)", r"\1_{\2}", made)
    return made.replace("·", r"\cdot").replace("⊗", r"\otimes")


def largest_entries(
    model: Model,
    *,
    writer: str = "E",
    reader: str = "U",
    through: Through = "direct",
    norms: Norms = "folded",
    k: int = 20,
    largest: Largest = "abs",
    table: str | None = None,
) -> VirtualWeight:
    """Return the `k` largest entries of a virtual weight; with `table`, also write all of it to a .npy file.

    writer, reader, through and norms are those of `virtual_weight`; `largest` is "abs", "positive" or "negative", as
    in `top_entries`. Progress is reported on stderr where that is a terminal. Costs what `top_entries` and one
    factored SVD do. Raises as `virtual_weight`, and SizeError for a table that does not fit the disk.

    >>> import pathexp as px
    >>> found = largest_entries(px.load("attn-1l"), through="L0H0", k=1)
    >>> found.records()[0]["from"], found.route
    (' tribe', 'from E to U, through L0H0')
    """
    check_model(model, "virtual_weight")
    expect("virtual_weight", k=(k, AMOUNT), table=(table, _FILE.or_none))
    weight = virtual_weight(model, writer, reader, through=through, norms=norms)
    if table is not None:
        save_dense(weight, table, progress=_progress("written"))
    entries = top_entries(weight, k, largest, progress=_progress("searched"))
    words = through if isinstance(through, str) else " ".join(through)
    route = f"from {writer} to {reader}, {words if words in ('direct', 'all') else f'through {words}'}"
    return VirtualWeight(model, weight, route, norm(weight), singular_values(weight), entries, largest)


_FILE = Kind(
    "a file in a folder that exists",
    lambda value: isinstance(value, str | Path) and Path(value).resolve().parent.is_dir(),
)


def _progress(done_to: str) -> Progress | None:
    """Return a reporter of how many rows of a table are done, where stderr is a terminal."""

    def say(done: int, rows: int) -> None:
        end = "\n" if done == rows else "\r"
        print(f"{done:,} of {rows:,} rows {done_to}", end=end, file=sys.stderr, flush=True)

    return say if sys.stderr.isatty() else None

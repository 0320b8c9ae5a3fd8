"""Virtual weights: what any reader takes of what any writer puts on the stream, by chosen routes, kept factored."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from functools import reduce
from typing import Literal, TypeAlias

from ..algebra import Identity, LinearMap, Space, add, compose
from ..arguments import expect, instance
from ..errors import PathError, PathexpError
from ..graph import ResidualGraph
from ..model import Model, Trace
from .frozen_routes import frozen_weight
from .ports import Norms, Place, Ports
from .token_space import MODEL

Through: TypeAlias = Literal["direct", "all"] | str | Sequence[str]
"""Routes: "direct"; heads passed in order, "L0H1 L1H2" or ("L0H1", "L1H2"); or "all"."""


def virtual_weight(
    what: Model | Trace | ResidualGraph,
    writer: str,
    reader: str,
    through: Through = "direct",
    norms: Norms = "folded",
) -> LinearMap:
    """Return the virtual weight from a writer to a reader, (what the reader yields, what the writer takes).

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
        look at its own position.
    norms: of a model, whether gains and centerings are folded into what reads them; a graph has them frozen.

    Raises GraphError for labels that are not there, PathError where a reader cannot read a writer or a route is
    none, PathexpError for anything else than a model, trace or graph. O(1) beyond looking up weights; applying costs the sum of the factors' sizes.

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
    c, stream = ports.model.config, Identity(Space(MODEL, ports.model.config.d_model))
    sums: list[LinearMap] = []
    for layer in range(c.n_layers):
        heads = [f"L{layer}H{head}" for head in range(c.n_heads)]
        place = ports.place(heads[0])
        if start.writes <= place.reads and place.writes <= end.reads:
            sums.append(add(stream, *map(ports.through, heads)))
    return sums

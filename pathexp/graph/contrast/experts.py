"""A layer of experts between two runs: what each makes of the stream, and what changes the router's weight of it.

Where both runs chose an expert, Δ(g y) = ḡ Δy + Δg ȳ: `L3E5.mlp` runs through what it makes, by the mean of both
router weights (`L3E5.value` and `L3E5.gate` where ports are kept apart), `L3E5.router` through its weight, at the mean of what it makes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ...model import Trace
from ...model.activations import GATES
from ...model.experts import Expert, shared_score, unweighted
from ...model.routing import Experts as Switches
from ..actions import Dyad
from ..experts import Part, experts_of
from ..named import dense, diagonal, feature, table
from ..nodes import Component
from ..operators import Array, Factor, Gate, Operator, Parallel, Step, chain
from ..stack import Indices
from .mlps import reading
from .routing import Routing, sigmoid_slope
from .runs import Runs, midpoint
from .secants import activation_slope, ceiling_slope, clip_slope, gate_part

ROUTER = "router"


@dataclass(frozen=True, eq=False)
class Experts:
    """One layer's experts; `reads` is what stands before their maps, `writes` what follows them."""

    runs: Runs
    layer: int
    reads: Operator
    writes: Operator

    def components(self, ports: bool) -> Iterator[Component]:
        """Every expert: what it makes, and where there is a router, its weight."""
        return reading(self.reads, self.after_read(ports), "expert", self.layer)

    def after_read(self, ports: bool) -> dict[str, Operator]:
        """Every component by its label, from what it reads behind the norm to what it writes."""
        return {
            label: operator for part in self.parts for label, operator in self[part].after_read(ports).items()
        }

    def from_scores(self) -> dict[str, Operator]:
        """Every component that reads the router's scores, from there: where changes of the router enter."""
        chosen = (self[part] for part in self.parts if part.arrays == "experts")
        return {label: operator for one in chosen for label, operator in one.from_scores().items()}

    def __getitem__(self, part: Part) -> OneExpert:
        """One expert between the two runs."""
        return self._known.setdefault(part, OneExpert(self.runs, self.routing, self.writes, part))

    @property
    def parts(self) -> tuple[Part, ...]:
        """The experts, the shared one last."""
        return experts_of(self.runs.config, self.layer)

    @cached_property
    def routing(self) -> Routing:
        """The router."""
        return Routing(self.runs, self.layer)

    @cached_property
    def _known(self) -> dict[Part, OneExpert]:
        return {}


@dataclass(frozen=True, eq=False)
class Scores(Experts):
    """A layer of experts as far as its router's scores: paths end there."""

    def after_read(self, ports: bool) -> dict[str, Operator]:
        """The scores, from what the router reads."""
        return {self.end: feature(router(self.runs, self.layer))}

    def from_scores(self) -> dict[str, Operator]:
        """The scores themselves."""
        return {self.end: ()}

    @property
    def end(self) -> str:
        """The name of the point."""
        return f"L{self.layer}.{ROUTER}"


@dataclass(frozen=True, eq=False)
class OneExpert:
    """One expert between two runs, at the positions where both use it."""

    runs: Runs
    routing: Routing
    writes: Operator
    part: Part

    def label(self, port: str) -> str:
        """How what runs through a port is called."""
        return f"{self.part.label}.{port}"

    def after_read(self, ports: bool) -> dict[str, Operator]:
        """Its components by their labels, from what they read behind the norm to what they write."""
        inside = self.by_port() if ports else {"mlp": self.whole()}
        found = {self.label(port): chain(self.out, neurons) for port, neurons in inside.items()}
        if self.routed:
            found |= {
                label: chain(behind, feature(self.router)) for label, behind in self.from_scores().items()
            }
        return found

    def after_map(self, weight: str, ports: bool) -> dict[str, Operator]:
        """The components that read one map's result, from there: where changes of weights enter."""
        gated = self.runs.config.gated
        if not gated and not ports:
            return {self.label("mlp"): chain(self.out, self.whole()[:1])}
        sides = {"in": ("value",), "gate": ("gate",)}[weight] if gated else ("value", "gate")
        by_port = self.by_port()
        return {self.label(port if ports else "mlp"): chain(self.out, by_port[port][:1]) for port in sides}

    def from_scores(self) -> dict[str, Operator]:
        """The component that reads the scores of its router, from there."""
        return {self.label(ROUTER): chain(self.writes, (self.by_scores,))}

    # What it makes -------------------------------------------------------------------------------------

    @property
    def out(self) -> Operator:
        """The mean router weight of the expert ⊗ its W_out, and what follows."""
        name = f"R̄_{self.part.label}"
        weight = diagonal(name, self.mean_weight, "position")
        return chain(self.writes, (Step((weight,), (self.weight("out"),)),))

    def whole(self) -> Operator:
        """From what the expert reads to what its neurons give."""
        if self.runs.config.gated:
            return (Parallel(f"D_{self.part.label}", tuple(self.by_port().values())),)
        slope = activation_slope(self.runs.config.activation, *self.at_both(lambda expert: expert.gate_pre))
        return self._gated("κ", slope, "in")

    def by_port(self) -> dict[str, Operator]:
        """The same as two operators that add up to it: through the values, and through the gate."""
        activation, asked = self.runs.config.activation, self.at_both(lambda expert: expert.gate_pre)
        if not self.runs.config.gated:
            mean = midpoint(*self.at_both(lambda expert: expert.gates))
            slope = gate_part(activation, *asked)
            return {"value": self._gated("ḡ", mean, "in"), "gate": self._gated("κ", slope, "in")}
        values = self.at_both(lambda expert: expert.pre)
        mean = self.runs.between(*map(self.activated, asked)) * self.clipped_slope(*values)
        here, there = map(self.clipped, values)
        slope = self.activated_slope(*asked) * self.runs.between(there, here)
        return {"value": self._gated("ḡ", mean, "in"), "gate": self._gated("κ", slope, "gate")}

    def _gated(self, symbol: str, rows: Array, side: str) -> Operator:
        label, size = f"{symbol}_{self.part.label}", self.part.width
        gate = Gate(label, self.runs.positions, size, self.spread(rows))
        return (gate, *feature(self.weight(side)))

    def weight(self, side: str) -> Factor:
        """W_in, W_gate or W_out, of two models their mean; made when it is used."""
        name, array = f"W_{side}_{self.part.label}", f"W_{side}_{self.part.arrays}"
        rows, columns = ("model", "neurons") if side == "out" else ("neurons", "model")
        sizes = {"model": self.runs.config.d_model, "neurons": self.part.width}
        return Factor(
            name, sizes[rows], sizes[columns],
            lambda: table(self.runs.weight(array, *self.part.place), rows, columns, name),
        )  # fmt: skip

    # Gates with limits ---------------------------------------------------------------------------------

    def activated(self, z: Array) -> Array:
        """What values are multiplied by: the activation of what is capped."""
        capped = z if self.limit is None else np.minimum(z, self.limit)
        return GATES[self.runs.config.activation](capped) * capped

    def activated_slope(self, here: Array, there: Array) -> Array:
        """Its slope between the runs."""
        if self.limit is None:
            return activation_slope(self.runs.config.activation, here, there)
        capped = (np.minimum(here, self.limit), np.minimum(there, self.limit))
        return activation_slope(self.runs.config.activation, *capped) * ceiling_slope(self.limit, here, there)

    def clipped(self, values: Array) -> Array:
        """What multiplies the gate: the values clipped, and the shift that is added to them."""
        within = values if self.limit is None else np.clip(values, -self.limit, self.limit)
        return within + self._experts.shift

    def clipped_slope(self, here: Array, there: Array) -> Array:
        """The slope of that between the runs."""
        return np.ones_like(here) if self.limit is None else clip_slope(self.limit, here, there)

    @property
    def limit(self) -> float | None:
        """At what gates are capped and values are clipped."""
        return self._experts.limit

    @property
    def _experts(self) -> Switches:
        experts = self.runs.config.experts
        assert experts is not None, "only layers of experts come here"
        return experts

    # Its weight ----------------------------------------------------------------------------------------

    @property
    def routed(self) -> bool:
        """Whether its weight follows the stream: not that of a shared expert without a gate."""
        return self.index is not None or self._experts.shared_gate

    @property
    def index(self) -> int | None:
        """Its number among those that the router chooses from."""
        return self.part.place[1] if self.part.arrays == "experts" else None

    @property
    def mean_weight(self) -> Array:
        """The mean router weight where both runs use it, (n)."""
        if self.index is not None:
            return self.routing.mean[:, self.index]
        return self.spread(self.runs.between(*self.at_both(lambda expert: expert.weights)))

    @cached_property
    def by_scores(self) -> Dyad:
        """From the router's scores to what the expert's weight makes of them."""
        if self.index is not None:
            return Dyad(self._slope_name, self.made, self.routing.from_scores(self.index))
        return Dyad(self._slope_name, self.made, self.spread(self.gate_slopes)[:, None])

    @property
    def gate_slopes(self) -> Array:
        """How the weight of a shared expert moves with its one score, (both)."""
        return sigmoid_slope(*(score[self.positions] for score in self.runs.both(self._shared_score)))

    @property
    def _slope_name(self) -> str:
        softmax = self.index is not None and self._experts.scoring == "softmax"
        return f"{'Λ' if softmax else 'κ'}_{self.part.label}_R"

    @property
    def router(self) -> Factor:
        """From what the router reads to its scores; of a shared expert one number a position."""
        if self.index is None:
            name = f"W_shared_gate_L{self.routing.layer}"
            return dense(name, self.runs.weight("W_shared_gate", self.routing.layer)[None], "one", "model")
        return router(self.runs, self.routing.layer)

    def _shared_score(self, run: Trace) -> Array:
        w, layer = run.model.weights, self.routing.layer
        assert w.W_shared_gate is not None, "weights fit their configuration"
        return shared_score(run.residuals[f"L{layer}.mlp_in"], layer, w)

    @cached_property
    def made(self) -> Array:
        """What it makes of the stream before it is weighed, the mean of both runs as a content, (n, d), zero where not both use it."""
        here, there = (self._made(run)[rows] for run, rows in zip(self._runs, self._rows, strict=True))
        return self.spread(self.runs.between(there, here))

    def added_alone(self, run: Trace) -> Array:
        """What it adds in one run where the other does not use it, (n, d), zero elsewhere."""
        expert = self._expert(run)
        rows = np.where(np.isin(expert.positions, self.positions), 0.0, expert.weights)[:, None] * self._made(
            run
        )
        return expert.spread(rows, self.runs.positions)

    def _made(self, run: Trace) -> Array:
        return unweighted(self._expert(run), self.routing.layer, self.index, run.model.weights)

    # Where both runs use it ----------------------------------------------------------------------------

    @property
    def _runs(self) -> tuple[Trace, Trace]:
        return self.runs.here, self.runs.there

    def _expert(self, run: Trace) -> Expert:
        return run.experts[self.part.label]

    @cached_property
    def positions(self) -> Indices:
        """The positions at which both runs use it."""
        here, there = (self._expert(run).positions for run in self._runs)
        return np.intersect1d(here, there, assume_unique=True)

    @property
    def _rows(self) -> tuple[Indices, Indices]:
        here, there = (np.searchsorted(self._expert(run).positions, self.positions) for run in self._runs)
        return here, there

    def at_both(self, read: Callable[[Expert], Array]) -> tuple[Array, Array]:
        """What is read of the expert in either run, where both use it."""
        here, there = (
            read(self._expert(run))[rows] for run, rows in zip(self._runs, self._rows, strict=True)
        )
        return here, there

    def spread(self, rows: Array) -> Array:
        """Numbers of these positions among those of all, zero elsewhere; where there are none, zeros that take no memory."""
        shape = (self.runs.positions, *rows.shape[1:])
        if not len(rows):
            return np.broadcast_to(np.float64(0), shape)
        found = np.zeros(shape)
        found[self.positions] = rows
        return found


def router(runs: Runs, layer: int) -> Factor:
    """Return the map of a layer's router from what it reads to its scores, of two models their mean."""
    return dense(f"W_router_L{layer}", runs.weight("W_router", layer), "experts", "model")

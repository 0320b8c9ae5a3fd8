"""An MLP between two runs: its activations by their slopes; gated, a mean gate for values and mean values for the gate."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from ...labels import mlp_label
from ..named import feature
from ..nodes import Component
from ..operators import Array, Factor, Gate, Operator, Parallel, chain
from .runs import Runs
from .secants import activation_slope, gate_part


def reading(reads: Operator, written: Mapping[str, Operator], kind: str, layer: int) -> Iterator[Component]:
    """Yield one layer's components, from what stands before their maps to what each writes, by label."""
    for label, operator in written.items():
        yield Component(label, kind, chain(operator, reads), layer, None, label.partition(".")[2])


@dataclass(frozen=True, eq=False)
class Mlp:
    """One layer's MLP; `reads` is what stands before its maps, `writes` what follows them."""

    runs: Runs
    layer: int
    reads: Operator
    writes: Operator

    def components(self, ports: bool) -> Iterator[Component]:
        """The MLP as one component, or as what runs through its values and what runs through its gate."""
        return reading(self.reads, self.after_read(ports), "mlp", self.layer)

    def after_read(self, ports: bool) -> dict[str, Operator]:
        """Every component by its label, from what it reads behind the norm to what it writes."""
        inside = self.by_port() if ports else {"": self.whole()}
        return {self._label(port): chain(self._out(), neurons) for port, neurons in inside.items()}

    def after_map(self, weight: str, ports: bool) -> dict[str, Operator]:
        """The components that read one map's result, from there: where changes of weights enter."""
        if not self.runs.config.gated and not ports:
            return {self._label(""): chain(self._out(), self.whole()[:1])}
        sides = (
            {"W_in": ("value",), "W_gate": ("gate",)}[weight] if self.runs.config.gated else ("value", "gate")
        )
        by_port = self.by_port()
        return {self._label(port if ports else ""): chain(self._out(), by_port[port][:1]) for port in sides}

    def _label(self, port: str) -> str:
        return mlp_label(self.layer, port)

    def _out(self) -> Operator:
        return chain(self.writes, feature(self._weight("W_out", "model", "neurons")))

    def whole(self) -> Operator:
        """From what the MLP reads to what its neurons give."""
        config = self.runs.config
        if config.gated:
            terms = tuple(self.by_port().values())
            return (Parallel(f"D_L{self.layer}M", terms),)
        slope = activation_slope(config.activation, *self.runs.both(lambda run: run.mlp_pre[self.layer]))
        return self._gated("κ", slope, "W_in")

    def by_port(self) -> dict[str, Operator]:
        """The same as two operators that add up to it: through the values, and through the gate."""
        config = self.runs.config
        read = self.runs.factor if config.gated else self.runs.mean  # else both parts make one slope
        mean = read(lambda run: run.mlp_gates[self.layer])
        asked = self.runs.both(lambda run: run.mlp_gate_pre[self.layer])
        if config.gated:
            slope = activation_slope(config.activation, *asked) * self.runs.content(
                lambda run: run.mlp_pre[self.layer]
            )
            return {"value": self._gated("ḡ", mean, "W_in"), "gate": self._gated("κ", slope, "W_gate")}
        slope = gate_part(config.activation, *asked)
        return {"value": self._gated("ḡ", mean, "W_in"), "gate": self._gated("κ", slope, "W_in")}

    def _gated(self, symbol: str, values: Array, reader: str) -> Operator:
        gate = Gate(f"{symbol}_L{self.layer}M", self.runs.positions, self.runs.config.d_mlp, values)
        return (gate, *feature(self._weight(reader, "neurons", "model")))

    def _weight(self, name: str, target: str, source: str) -> Factor:
        return self.runs.matrix(f"{name}_L{self.layer}", name, (self.layer,), target, source)

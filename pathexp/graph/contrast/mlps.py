"""An MLP between two runs: its activations by their slopes; gated, a mean gate for values and mean values for the gate."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ...labels import mlp_label
from ..nodes import Component
from ..operators import Array, Factor, Gate, Operator, Parallel, chain
from .named import dense, feature
from .runs import Runs
from .secants import activation_slope, gate_part


@dataclass(frozen=True, eq=False)
class Mlp:
    """One layer's MLP; `reads` is what stands before its maps, `writes` what follows them."""

    runs: Runs
    layer: int
    reads: Operator
    writes: Operator

    def components(self, ports: bool) -> Iterator[Component]:
        """The MLP as one component, or as what runs through its values and what runs through its gate."""
        inside = self.by_port() if ports else {"": self.whole()}
        for port, neurons in inside.items():
            operator = chain(
                self.writes, feature(self._weight("W_out", "model", "neurons")), neurons, self.reads
            )
            label = mlp_label(self.layer, port or "")
            yield Component(label, "mlp", operator, self.layer, None, port)

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
        mean = self.runs.mean(lambda run: run.mlp_gates[self.layer])
        asked = self.runs.both(lambda run: run.mlp_gate_pre[self.layer])
        if config.gated:
            slope = activation_slope(config.activation, *asked) * self.runs.mean(
                lambda run: run.mlp_pre[self.layer]
            )
            return {"value": self._gated("ḡ", mean, "W_in"), "gate": self._gated("κ", slope, "W_gate")}
        slope = gate_part(config.activation, *asked)
        return {"value": self._gated("ḡ", mean, "W_in"), "gate": self._gated("κ", slope, "W_in")}

    def _gated(self, symbol: str, values: Array, reader: str) -> Operator:
        gate = Gate(f"{symbol}_L{self.layer}M", self.runs.positions, self.runs.config.d_mlp, values)
        return (gate, *feature(self._weight(reader, "neurons", "model")))

    def _weight(self, name: str, target: str, source: str) -> Factor:
        return dense(f"{name}_L{self.layer}", self.runs.weight(name, self.layer), target, source)

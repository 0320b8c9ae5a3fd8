"""Only chosen paths, live: norms, patterns and neurons are computed anew for what each copy of a component reads.

Path patching (Wang et al. 2022, "Interpretability in the Wild", section 3.1; Goldowsky-Dill et al. 2023, "Localizing
Model Behavior with Path Patching") is the case where the other paths carry another text.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ...budget import BUDGET
from ...graph import Array, Component, Source
from ...model import Trace
from ...model.parts import after_block, embedded, embedding_parts, head_outputs, mlp_output, unembedded
from .kept_paths import Ending, KeptPaths

Kind = tuple[int, Ending, str, frozenset[str]]
"""What outputs of a block's heads depend on: layer, what is read, by which sides, without which constants."""

EMBEDDING = ("E", "P")
"""The sources that the norm of the embedding, if any, is computed for."""

BRANCHES = {"attn": "b_O", "mlp": "b_out"}
"""The branches of a layer with the biases that are added to what they give, before any norm behind them."""


@dataclass(frozen=True, eq=False)
class LivePaths(KeptPaths):
    """The paths of a run that a walk keeps, live, in any architecture.

    A norm behind several components (post-norm, norms of branches) or behind the embedding is computed for the sum that
    arrives there along kept paths, in each copy of the stream. A component's side that does not read along paths
    reads the stream of the run as it was. Constants inside a component are kept by their own paths; biases of
    queries and keys always stay.
    """

    def logits(self, positions: Sequence[int] | None = None) -> Array:
        """What the end of the model makes of the stream that the kept paths bring it, (n, V), the final norm anew.

        Those of some positions alone, (len(positions), V), where they are given.

        Cost: one forward pass for each set of endings that differs, once more for each set of constants left out.
        """
        final = self.final if positions is None else self.final[list(positions)]
        return unembedded(self.trace.model, final, self.dropped(self.graph.sink.label, self.at_sink))

    def enters(self, source: Source) -> bool:
        """Whether a source is added between blocks: biases of branches come before the norm behind them."""
        return super().enters(source) and source.label not in self._branch_biases

    @cached_property
    def _branch_biases(self) -> frozenset[str]:
        layers = range(self.trace.config.n_layers)
        return frozenset(f"{bias}_L{layer}" for bias in BRANCHES.values() for layer in layers)

    def arrived(self, depth: int, stream: Array, sources: list[tuple[Source, bool]]) -> Array:
        """The stream with what sources add, the norm of the embedding computed anew."""
        parts = [
            self._part(source, kept) for source, kept in sources if depth == 0 and source.label in EMBEDDING
        ]
        if parts:
            stream = stream + embedded(self.trace.model, sum(parts[1:], parts[0]))
        return sum((s.value() for s, _ in sources if depth or s.label not in EMBEDDING), stream)

    def _part(self, source: Source, kept: bool) -> Array:
        if not kept and self.means is not None:
            return self.means.embedding(source.label)
        run = self.trace if kept or self.other is None else self.other
        return self._embeddings(run)[source.label]

    def _embeddings(self, run: Trace) -> Mapping[str, Array]:
        return embedding_parts(run.model, run.tokens)

    def crossed(self, depth: int, ending: Ending, stream: Array, outputs: Mapping[str, Array]) -> Array:
        """The stream behind a block, norms behind its branches computed anew."""
        components = self.graph.blocks[depth].components
        layer = components[0].layer
        given = {}
        for branch in dict.fromkeys(_branch(component) for component in components):
            whole = [outputs[c.label] for c in components if c.label in outputs and _branch(c) == branch]
            given[branch] = sum(whole, np.zeros_like(stream)) + self._bias(layer, branch, ending)
        return after_block(self.trace.model, layer, stream, given)

    def _bias(self, layer: int, branch: str, ending: Ending) -> Array:
        """The bias of a branch, if a kept path begins at it."""
        name = BRANCHES[branch]
        source = self.graph.by_label.get(f"{name}_L{layer}")
        if not isinstance(source, Source) or (not self.replaces and not self.begins(source, ending)):
            return np.zeros(self.trace.config.d_model)
        bias: Array = getattr(self.trace.model.weights, name)[layer]
        return bias

    def output(self, component: Component, read: Ending, stream: Array, dropped: frozenset[str]) -> Array:
        """What a copy of a component gives, patterns and gates computed anew."""
        sides = self.reading.of(component.label)
        kinds = frozenset(label.rpartition("_L")[0] for label in dropped)
        key = (component.layer, read, sides, kinds)
        if component.head is None:
            return self._known(
                (component.label, sides, kinds),
                stream,
                lambda: self._neurons(component, stream, sides, kinds),
            )
        if key not in self._heads:
            self._heads[key] = self._known(
                ("heads", component.layer, sides, kinds),
                stream,
                lambda: self._every_head(component, stream, sides, kinds),
            )
        given: Array = self._heads[key][component.head]
        return given

    def _known(self, key: Hashable, stream: Array, make: Callable[[], Array]) -> Array:
        """What a branch gives for a stream: as first computed for the run, where the stream is the same to the bit.

        Before what is cut all interventions on a run are the same, so that they share these, within the budget.
        """
        first, given = BUDGET.get(self.trace, ("live", key), lambda: (stream, make()))
        return given if first is stream or np.array_equal(first, stream) else make()

    @cached_property
    def _heads(self) -> dict[Kind, Array]:
        return {}

    def _every_head(self, component: Component, stream: Array, sides: str, dropped: frozenset[str]) -> Array:
        clean = self.clean(component)
        query, key, value = (stream if side in sides else clean for side in "qkv")
        no_bias = "".join(set("qkv") & set(sides)) if "b_attn" in dropped else ""
        value_bias = "b_V" not in dropped or "v" not in sides
        no_latent_bias = "".join(set("kv") & set(sides)) if "b_DKV" in dropped else ""
        return head_outputs(
            self.trace.model,
            component.layer,
            (query, key, value),
            no_norm_bias=no_bias,
            value_bias=value_bias,
            no_latent_bias=no_latent_bias,
        )

    def _neurons(self, component: Component, stream: Array, sides: str, dropped: frozenset[str]) -> Array:
        if "m" not in sides:
            return mlp_output(self.trace.model, component.label, self.clean(component))
        return mlp_output(self.trace.model, component.label, stream, dropped)


def _branch(component: Component) -> str:
    return "mlp" if component.head is None else "attn"

"""What did a low-rank adapter change, through which weights and paths? Trained here, then contrasted with its base.

    python examples/adapter_contrast.py stories260K.bin [--steps 120] [--rank 2]

The base is llama2.c's stories260K (any model with the norm before its blocks will do). The adapter (Hu et al. 2021, "LoRA:
Low-Rank Adaptation of Large Language Models") is added to the maps of queries, values, attention outputs and MLP
outputs, and taught that little girls are named Tim. Its gradients come from the contrast of a run with itself, which is
the run's derivative: numpy alone. Then base and adapted model are contrasted on a prompt that was not trained on.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

import pathexp as px
from pathexp.graph import pull
from pathexp.graph.contrast.layout import Layout
from pathexp.graph.contrast.points import depth_behind
from pathexp.graph.contrast.runs import Runs

Array = npt.NDArray[np.float64]
KINDS = ("W_Q", "W_V", "W_O", "W_out")
TEXTS = (
    "Once upon a time, there was a little girl named Tim. Tim loved to play with her toys.",
    "One day, a little girl named Tim went to the park. Tim saw a big dog.",
    "There was a girl named Tim. She liked to play outside with her mom.",
    "Tim was a little girl. She had a big red ball.",
)
PROMPT, NEW, OLD = "Once there was a little girl named", " Tim", " Lily"


def gradients(model: px.Model, tokens: list[int]) -> tuple[float, dict[str, Array]]:
    """Return the mean loss of a text's next tokens, and its derivative in the adapted maps, in the shape of the weights."""
    trace = model.run(tokens)
    graph, layout, config = px.contrast(trace, trace), Layout(Runs(trace, trace)), trace.config
    chances = np.exp(trace.log_probs[:-1])
    rows, after = np.arange(len(tokens) - 1), np.asarray(trace.tokens)[1:]
    loss = -float(np.mean(trace.log_probs[rows, after]))
    toward = np.zeros_like(trace.logits)
    toward[:-1] = chances / len(rows)
    toward[rows, after] -= 1 / len(rows)
    fields = pulled_back(graph, toward)
    found: dict[str, Array] = {name: np.zeros_like(getattr(model.weights, name)) for name in KINDS}
    for layer in range(config.n_layers):
        attention, mlp = layout.attention_of(layer), layout.mlp_of(layer)
        behind = fields[depth_behind(config, layer, "attn")]
        read, written = trace.residuals[f"L{layer}.attn_in"], pull(attention.writes, behind)
        for kind, count in (("W_Q", config.n_heads), ("W_V", config.n_kv_heads)):
            for place in range(count):
                operators = attention.after_map(kind[-1], place).values()
                found[kind][layer, place] = sum(pull(operator, behind) for operator in operators).T @ read
        for head in range(config.n_heads):
            found["W_O"][layer, head] = written.T @ trace.z[layer, head]
        written = pull(mlp.writes, fields[depth_behind(config, layer, "mlp")])
        found["W_out"][layer] = written.T @ trace.mlp_hidden[layer]
    return loss, found


def pulled_back(graph: px.ResidualGraph, toward: Array) -> list[Array]:
    """A covector on all logits, (n, V), pulled back through all paths: before every block and the sink."""
    fields = [pull(graph.sink.operator, toward)[None]]
    for block, of in reversed(list(zip(graph.kernels, graph.blocks, strict=True))):
        backward = block.transposed
        fields.append(
            backward.through_skip(fields[-1]) + backward.sums(fields[-1], [np.arange(len(of.components))])[0]
        )
    return [found[0] for found in reversed(fields)]


@dataclass
class Adapter:
    """Low-rank changes B A of maps, one a layer and kind, all heads together, and Adam's moments of A and B."""

    base: px.Model
    rank: int
    parts: dict[tuple[str, int], list[Array]] = field(default_factory=dict)
    moments: dict[tuple[str, int, int], list[Array]] = field(default_factory=dict)
    steps: int = 0

    def __post_init__(self) -> None:
        rng = np.random.default_rng(0)
        for kind in KINDS:
            for layer, maps in enumerate(getattr(self.base.weights, kind)):
                rows, columns = joined(kind, maps).shape
                a = rng.standard_normal((self.rank, columns)) / np.sqrt(columns)
                self.parts[kind, layer] = [a, np.zeros((rows, self.rank))]

    def model(self) -> px.Model:
        """The base with the adapter merged into its maps."""
        changed = {kind: np.array(getattr(self.base.weights, kind)) for kind in KINDS}
        for (kind, layer), (a, b) in self.parts.items():
            changed[kind][layer] += apart(kind, b @ a, changed[kind][layer].shape)
        return replace(self.base, weights=replace(self.base.weights, **changed))

    def step(self, found: Mapping[str, Array], rate: float) -> None:
        """One step of Adam (Kingma & Ba 2015) along the gradient of the maps."""
        self.steps += 1
        for (kind, layer), (a, b) in self.parts.items():
            whole = joined(kind, found[kind][layer])
            for at, slope in enumerate((b.T @ whole, whole @ a.T)):
                mean, square = self.moments.get(
                    (kind, layer, at), [np.zeros_like(slope), np.zeros_like(slope)]
                )
                mean, square = 0.9 * mean + 0.1 * slope, 0.99 * square + 0.01 * slope**2
                self.moments[kind, layer, at] = [mean, square]
                size = np.sqrt(square / (1 - 0.99**self.steps)) + 1e-8
                self.parts[kind, layer][at] = (a, b)[at] - rate * mean / (1 - 0.9**self.steps) / size


def joined(kind: str, maps: Array) -> Array:
    """The maps of all heads as one: heads are rows of W_Q and W_V, columns of W_O."""
    if kind == "W_O":
        return np.concatenate(list(maps), axis=1)
    return maps.reshape(-1, maps.shape[-1])


def apart(kind: str, whole: Array, shape: tuple[int, ...]) -> Array:
    """One map of all heads as the maps of each."""
    return np.stack(np.split(whole, shape[0], axis=1)) if kind == "W_O" else whole.reshape(shape)


def train(base: px.Model, steps: int, rank: int, rate: float = 0.01) -> tuple[Adapter, list[float]]:
    """Train an adapter on the texts in turn; return it and its losses."""
    adapter, losses = Adapter(base, rank), []
    for number in range(steps):
        loss, found = gradients(adapter.model(), base.encode(TEXTS[number % len(TEXTS)]))
        adapter.step(found, rate)
        losses.append(loss)
    return adapter, losses


def report(base: px.Model, adapted: px.Model) -> Iterator[str]:
    """Yield what the adapter changed in the prediction, exactly."""
    here, there = adapted.run(PROMPT), base.run(PROMPT)
    graph, target = px.contrast(here, there), here.logit_difference(NEW, OLD)
    terms = px.expand(graph)
    yield (
        f"{PROMPT!r}, logit of {NEW!r} minus {OLD!r}: base {graph.runs[1].logits[-1] @ target.direction:+.3f}, "
        f"adapted {target.value:+.3f}"
    )
    yield str(terms.verify())
    for unit in ("weight", "weight_layer", "module", "weight_head", "port"):
        found = px.attribution(graph, target, by=unit)
        assert found.ok, str(found.check())
        rows = ", ".join(f"{name} {value:+.3f}" for name, value in found.ranked()[:6])
        yield f"by {unit}: {rows}; {len(found.names)} rows add up to {found.values.sum():+.3f}"
    tree = terms.tree(target, nodes=300)
    leaves = sorted((leaf for leaf in tree.leaves() if leaf.count == 1), key=lambda leaf: -abs(leaf.value))
    yield f"of {terms.count():,} paths the largest among {len(leaves):,} opened:"
    yield from (f"  {leaf.value:+.3f}  {leaf.query}" for leaf in leaves[:6])


def main() -> None:
    made = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("model", help="a file, such as llama2.c's stories260K.bin")
    made.add_argument("--steps", type=int, default=120)
    made.add_argument("--rank", type=int, default=2)
    options = made.parse_args()
    base = px.load(options.model)
    adapter, losses = train(base, options.steps, options.rank)
    ends = [float(np.mean(part)) for part in (losses[: len(TEXTS)], losses[-len(TEXTS) :])]
    print(f"{options.steps} steps at rank {options.rank}: loss {ends[0]:.3f} → {ends[1]:.3f} nats per token")
    for line in report(base, adapter.model()):
        print(line)


if __name__ == "__main__":
    main()

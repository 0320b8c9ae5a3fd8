"""Claim: a tree of 1,000 nodes over 10³⁹ paths in a few seconds; 10,000 nodes within 1 GB beside model and run.

    python benchmarks/tree.py [--tokens 12] [--nodes 1 100 1000] [--model FILE] [--growth] [--contrast] [--tiny]

Without a model: 30 × 9, d_model 576, gated MLPs of 1,536, random weights: the sizes of SmolLM2-135M, all MLP gates frozen. Each
tree is grown from nothing; a tree of one node pays for all tables. With --growth: trees of 100 nodes over layers, heads and tokens. With --contrast: by endings, of two runs that
differ in one token. Processor seconds are those of all threads; they say more where a machine has other work.
"""

from __future__ import annotations

import argparse

import numpy as np
from alone import machine, measured, parser, peak

import pathexp as px

SIZES = {
    "layers": 30,
    "heads": 9,
    "kv_heads": 3,
    "d_model": 576,
    "d_head": 64,
    "d_mlp": 1536,
    "d_vocab": 2000,
}
TINY = {"layers": 4, "heads": 4, "kv_heads": 2, "d_model": 24, "d_head": 6, "d_mlp": 30, "d_vocab": 20}
GROWTH = {"layers": (4, 8, 16), "heads": (3, 6, 12), "tokens": (4, 8, 16)}


def traced(sizes: dict[str, int], tokens: int) -> px.Trace:
    """A run of a gated model of random weights."""
    model = px.random_model(
        **sizes,
        n_ctx=max(64, tokens),
        positions="rotary",
        norm="rmsnorm",
        gated=True,
        activation="silu",
        seed=0,
    )
    return model.run(np.random.default_rng(0).integers(0, sizes["d_vocab"], tokens))


def grown(trace: px.Trace, nodes: int, direction: str) -> tuple[px.Tree, dict[str, float]]:
    """A tree from nothing but the run's graph, and how long it took."""
    graph, target = px.freeze(trace), trace.logit(trace.top_token())
    return measured(lambda: px.expand(graph).tree(target, nodes=nodes, direction=direction), 1)


def report(trace: px.Trace, all_nodes: list[int]) -> None:
    """Trees of several sizes in both directions, beside a forward pass."""
    _, forward = measured(lambda: trace.model.run(trace.tokens), 3)
    _ = px.freeze(trace).kernels
    before = peak()
    print(f"{'forward pass':28}{forward['seconds']:8.3f} s")
    for direction in ("back", "forward"):
        for nodes in all_nodes:
            tree, took = grown(trace, nodes, direction)
            print(
                f"{f'{direction}, {nodes:,} nodes':28}{took['seconds']:8.3f} s ({took['processor']:.2f} of the processor)  "
                f"{took['seconds'] / forward['seconds']:7.1f} "
                f"forward passes, {len(tree):9,} nodes in all, {tree.finished:+.3f} of {tree.value:+.3f} finished, "
                f"{took['peak'] - before:6.0f} MB more"
            )
        print(tree.balance)


def contrasted(trace: px.Trace, all_nodes: list[int]) -> None:
    """Trees by endings of the difference between a run and one whose middle token is that at the beginning."""
    tokens = trace.tokens.copy()
    tokens[len(tokens) // 2] = tokens[0]
    terms = px.expand(px.contrast(trace, trace.model.run(tokens)))
    target = trace.logit(trace.top_token())
    terms.value(target)
    for nodes in all_nodes:
        tree, took = measured(lambda: terms.tree(target, nodes=nodes), 1)  # noqa: B023
        print(
            f"{f'contrast, {nodes:,} nodes':28}{took['seconds']:8.3f} s ({took['processor']:.2f} of the processor)  "
            f"{len(tree):9,} nodes in all"
        )
    print(tree.balance)


def growth(options: argparse.Namespace) -> None:
    """Trees of 100 nodes over one size at a time."""
    base = {**(TINY if options.tiny else SIZES), "layers": 4 if options.tiny else 8}
    for axis, values in GROWTH.items():
        for value in values[:2] if options.tiny else values:
            sizes = (
                base
                if axis == "tokens"
                else {**base, axis: value} | ({"kv_heads": 1} if axis == "heads" else {})
            )
            trace = traced(sizes, value if axis == "tokens" else options.tokens)
            _ = px.freeze(trace).kernels
            tree, took = grown(trace, 100, "back")
            print(f"{axis:8}{value:4}  {took['seconds']:8.3f} s  {tree.count:.1e} paths")


def main(arguments: list[str] | None = None) -> None:
    made = parser(__doc__)
    made.add_argument("--tokens", type=int, default=12)
    made.add_argument("--nodes", type=int, nargs="+", default=[1, 100, 1000])
    made.add_argument("--model")
    made.add_argument("--growth", action="store_true")
    made.add_argument("--contrast", action="store_true")
    options = made.parse_args(arguments)
    print(f"trees, {options.model or 'random weights'}, {options.tokens} tokens; {machine()}")
    if options.growth:
        growth(options)
        return
    if options.model:
        model = px.load(options.model)
        trace = model.run(model.encode(TEXT)[: options.tokens])
    else:
        trace = traced(TINY if options.tiny else SIZES, options.tokens)
    print(f"{px.expand(trace).count():.1e} paths")
    (contrasted if options.contrast else report)(trace, [1, 20] if options.tiny else options.nodes)


TEXT = "The Eiffel Tower is in the city of Paris, the capital of France, where many people live and work."


if __name__ == "__main__":
    main()

"""Claim: proven largest paths of 13¹² and more, in seconds.

    python benchmarks/ranking.py [--tokens 8] [-k 10] [--model FILE] [--text FILE] [--mlp gate|source] [--seconds S] [--tiny]

Without a model: 12 × 12, d_model 768, random weights. Tables (of the run, whatever the target) and search apart: the second
target of a run pays for the search alone.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import numpy as np
from alone import machine, parser, peak

import pathexp as px

TEXT = (
    "The capital of France is Paris, and the capital of Italy is Rome. In 1969, people first walked on the Moon, and a "
    "large crowd watched it on television. When Mary and John went to the store, John gave a drink to Mary. Then they went "
    "home, and the next morning they went to the store again."
)


def run(options: argparse.Namespace) -> px.Trace:
    """The run that is asked about."""
    if options.model:
        model = px.load(options.model)
        text = Path(options.text).read_text()[: 16 * options.tokens] if options.text else TEXT
        return model.run(model.encode(text)[: options.tokens])
    layers, heads, d_model, d_head, vocabulary = (
        (7, 9, 16, 2, 20) if options.tiny else (12, 12, 768, 64, 5000)
    )
    model = px.random_model(
        layers=layers, heads=heads, d_model=d_model, d_head=d_head, d_vocab=vocabulary,
        n_ctx=max(64, options.tokens), norm="layernorm", seed=0,
    )  # fmt: skip
    return model.run(np.random.default_rng(0).integers(0, vocabulary, options.tokens))


def main(arguments: list[str] | None = None) -> None:
    made = parser(__doc__)
    made.add_argument("--tokens", type=int, default=8)
    made.add_argument("-k", type=int, nargs="+", default=[10])
    made.add_argument("--model")
    made.add_argument("--text", help="a file whose first tokens are run, instead of a text of our own")
    made.add_argument("--mlp", choices=("gate", "source"), default="gate")
    made.add_argument("--seconds", type=float)
    options = made.parse_args(arguments)
    trace = run(options)
    print(f"largest paths, {options.model or 'random weights'}, {len(trace.tokens)} tokens; {machine()}")
    graph = px.freeze(trace, mlp=options.mlp)
    _ = graph.kernels
    terms = px.expand(graph)
    print(f"{terms.count():,} paths")
    target = trace.logit(trace.top_token())
    for k in options.k:
        for what in ("with tables", "search alone"):
            start = time.perf_counter()
            best = terms.top(k, target, seconds=options.seconds, memory=2**32)
            took = time.perf_counter() - start
            print(
                f"top {k:>5} {what:13}{took:9.2f} s  proven: {best.exact}, examined {best.examined:,}, "
                f"k-th {abs(best.values[-1]):.4g}, bound on the rest {best.bound:.4g}"
            )
    print(f"peak {peak():,.0f} MB")


if __name__ == "__main__":
    main()

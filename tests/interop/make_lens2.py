"""Make the models of TransformerLens 2.16.1 that test_transformer_lens_2.py reads: seeded, tiny, in double precision.

    pip install transformer-lens==2.16.1
    python tests/interop/make_lens2.py

One file a case: the state dict, the configuration as its to_dict() gives it, one row of tokens, logits and patterns.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import torch
from transformer_lens import HookedTransformer, HookedTransformerConfig

FOLDER = Path(__file__).resolve().parents[1] / "model" / "load" / "lens2"
SIZES = {"n_layers": 2, "d_model": 6, "d_head": 4, "n_heads": 2, "n_ctx": 12, "d_vocab": 7}
ROTARY = {"positional_embedding_type": "rotary"}
CASES: dict[str, dict[str, Any]] = {
    "default": {"act_fn": "gelu"},
    "heads counted": {"n_heads": -1, "d_head": 3, "act_fn": "gelu_new"},
    "attention only": {"attn_only": True, "normalization_type": None},
    "attention only, LN": {"attn_only": True},
    "LNPre": {"act_fn": "relu", "normalization_type": "LNPre", "eps": 1e-3},
    "RMS": {"act_fn": "silu", "normalization_type": "RMS", "d_mlp": 7},
    "RMSPre, final": {"act_fn": "gelu_fast", "normalization_type": "RMSPre", "final_rms": True},
    "shortformer": {"act_fn": "gelu_pytorch_tanh", "positional_embedding_type": "shortformer", "d_mlp": 7},
    "shortformer, no norm": {"attn_only": True, "normalization_type": None, "positional_embedding_type": "shortformer"},
    "rotary": {"act_fn": "gelu", **ROTARY},
    "rotary in part, adjacent": {"act_fn": "gelu", **ROTARY, "rotary_dim": 2, "rotary_base": 100, "rotary_adjacent_pairs": True},
    "rotary by parts": {
        "act_fn": "silu", **ROTARY, "d_head": 6, "use_NTK_by_parts_rope": True, "NTK_original_ctx_len": 16,
        "NTK_by_parts_factor": 4.0, "normalization_type": "RMS",
    },
    "grouped": {"act_fn": "silu", "gated_mlp": True, "normalization_type": "RMS", "n_key_value_heads": 1, **ROTARY, "d_mlp": 7},
    "grouped, ungrouped": {
        "act_fn": "silu", "n_key_value_heads": 1, "ungroup_grouped_query_attention": True, "d_mlp": 7,
    },
    "normed queries": {"act_fn": "relu", "use_qk_norm": True, "normalization_type": "RMS", "d_mlp": 7},
    "outputs of their own": {"act_fn": "relu", "d_vocab_out": 3, "d_mlp": 5},
    "parallel": {"act_fn": "gelu", "parallel_attn_mlp": True, **ROTARY},
    "local": {"act_fn": "gelu", "use_local_attn": True, "window_size": 3, "attn_types": ["global", "local"]},
    "both ways": {"act_fn": "gelu", "attention_dir": "bidirectional"},
    "sandwich, capped": {
        "act_fn": "gelu_pytorch_tanh", "normalization_type": "RMS", "use_normalization_before_and_after": True,
        "attn_scores_soft_cap": 2.0, "output_logits_soft_cap": 3.0, **ROTARY,
    },
    "no scale": {"act_fn": "relu", "use_attn_scale": False},
    "own scale": {"act_fn": "relu", "attn_scale": 2.5},
    "alibi": {"act_fn": "gelu", "positional_embedding_type": "alibi", "post_embedding_ln": True, "d_mlp": 5},
    "alibi, three heads": {"attn_only": True, "positional_embedding_type": "alibi", "n_heads": 3},
    "alibi, both ways": {"attn_only": True, "positional_embedding_type": "alibi", "attention_dir": "bidirectional"},
    "solu": {"act_fn": "solu"},
    "solu_ln": {"act_fn": "solu_ln"},
    "by layer": {"act_fn": "gelu", "scale_attn_by_inverse_layer_idx": True},
    "experts": {"act_fn": "silu", "num_experts": 2, "experts_per_token": 1, "normalization_type": "RMS"},
}  # fmt: skip
"""Those that are refused are here as well, so that the names in the refusal are those of real files."""


def shaken(model: HookedTransformer) -> None:
    """Weights in which nothing is special: gains not one, biases not zero."""
    generator = torch.Generator().manual_seed(7)
    for name, parameter in model.named_parameters():
        values = torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
        gain = float(name.endswith(".w"))
        size = 0.3 if parameter.ndim == 1 else parameter.shape[-2] ** -0.5
        parameter.data = (gain + size * values).half().double()  # few digits: small files


def plain(value: Any) -> Any:
    """A value of a configuration as JSON can hold it; numbers of numpy are marked as such."""
    if isinstance(value, np.generic):
        return {"numpy": value.dtype.name, "value": value.item()}
    return value if isinstance(value, str | int | float | bool | list | None) else str(value)


def _small(tensor: torch.Tensor) -> np.ndarray:
    return tensor.half().numpy() if tensor.dtype == torch.float64 else tensor.numpy()


def main() -> None:
    """Write one file a case."""
    for case, own in CASES.items():
        config = HookedTransformerConfig(**{**SIZES, **own}, dtype=torch.float64, seed=1, device="cpu")
        model = HookedTransformer(config).eval()
        shaken(model)
        tokens = torch.tensor([[3, 1, 4, 1, 5, 0, 2, 6, 5]])
        with torch.no_grad():
            logits, cache = model.run_with_cache(tokens)
        patterns = np.stack([cache["pattern", layer][0].numpy() for layer in range(2)])
        header = {"config": {key: plain(value) for key, value in config.to_dict().items()}, "case": case}
        held = {f"state/{name}": _small(tensor) for name, tensor in model.state_dict().items()}
        held |= {"tokens": tokens[0].numpy(), "logits": logits[0].numpy(), "patterns": patterns}
        name = "".join(letter if letter.isalnum() else "-" for letter in case)
        np.savez_compressed(FOLDER / f"{name}.npz", header=json.dumps(header), **held)


if __name__ == "__main__":
    main()

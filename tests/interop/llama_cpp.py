"""llama.cpp itself, through the package `cyllama`: what it computes and how it cuts texts, from a file of GGUF."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

cyllama = pytest.importorskip("cyllama.llama.llama_cpp")
cyllama.disable_logging()

_F32, _NO_FLASH = 0, 0


class Opened(cyllama.LlamaModel):
    """A model that tells its `n_vocab`, which the package asks of it, and its own does not tell."""

    n_vocab = 0


def opened(path: Path) -> Opened:
    """A file, opened on the processor."""
    wanted = cyllama.LlamaModelParams()
    wanted.n_gpu_layers = 0
    return Opened(path_model=str(path), params=wanted, verbose=False)


def logits(path: Path, ids: Sequence[int], d_vocab: int) -> np.ndarray:
    """Its logits at every position, (positions, d_vocab), from caches of single precision."""
    model = opened(path)
    model.n_vocab = d_vocab
    context = _run(model, ids)
    return np.array([context.get_logits_ith(at) for at in range(len(ids))])


def features(path: Path, ids: Sequence[int]) -> np.ndarray:
    """The final stream of an encoder at every position, (positions, d_model)."""
    context = _run(opened(path), ids, features=True)
    return np.array([context.get_embeddings_ith(at) for at in range(len(ids))])


def _run(model: Opened, ids: Sequence[int], features: bool = False):
    wanted = cyllama.LlamaContextParams()
    wanted.n_ctx, wanted.n_threads, wanted.n_threads_batch = 64, 1, 1
    wanted.type_k, wanted.type_v, wanted.flash_attn_type = _F32, _F32, _NO_FLASH
    wanted.embeddings = features
    if features:
        wanted.pooling_type = 0
    context = cyllama.LlamaContext(model, wanted, verbose=False)
    batch = cyllama.LlamaBatch(n_tokens=len(ids), embd=0, n_seq_max=1)
    batch.set_batch(list(ids), n_past=0, logits_all=True)
    (context.encode if features else context.decode)(batch)
    return context


def tokens(path: Path, texts: Sequence[str]) -> list[list[int]]:
    """The ids of texts, with what belongs around them, control tokens read as such."""
    model = opened(path)  # which must outlive its vocabulary
    vocabulary = model.get_vocab()
    return [list(vocabulary.tokenize(text, True, True)) for text in texts]

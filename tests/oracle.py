"""A third opinion: every path of an attention-only run by naive recursion over dense arrays.

Shares nothing with the package but the trace it reads: no linear maps, no graph, no query.
"""

from __future__ import annotations

import numpy as np


def naive_terms(trace) -> dict[str, np.ndarray]:
    """Return the logits of every path by its name, constants included."""
    model, config, w = trace.model, trace.config, trace.model.weights
    n, d, layers, heads = len(trace.tokens), config.d_model, config.n_layers, config.n_heads
    group = heads // (config.n_kv_heads or heads)
    ones = np.ones((n, 1))

    def or_zeros(array, *index):
        return None if array is None else array[index]

    def gain(array, *index):
        return np.eye(d) if array is None else np.diag(array[index] if index else array)

    center = np.eye(d) - 1 / d if config.norm == "layernorm" else np.eye(d)

    def ov(layer, head):
        return w.W_O[layer, head] @ w.W_V[layer, head // group]

    def head_map(layer, head, x):
        a = trace.patterns[layer, head]
        if config.norm:
            scale = trace.norm_scales[f"L{layer}.attn"]
            x = (scale[:, None] * x) @ (gain(w.g_attn, layer) @ center).T
        return a @ x @ ov(layer, head).T

    def unembed(x):
        if "final" in trace.norm_scales:
            x = (trace.norm_scales["final"][:, None] * x) @ (gain(w.g_final) @ center).T
        return x @ w.W_U.T

    found: dict[str, np.ndarray] = {}

    def walk(name, x, layer):
        found[f"{name} U"] = unembed(x)
        for later in range(layer, layers):
            for head in range(heads):
                walk(f"{name} L{later}H{head}", head_map(later, head, x), later + 1)

    walk("E", w.W_E[:, trace.tokens].T, 0)
    if config.positions == "learned":
        walk("P", w.W_pos[:, :n].T, 0)
    for layer in range(layers):
        if w.b_O is not None:
            walk(f"b_O_L{layer}", ones * w.b_O[layer], layer + 1)
        for head in range(heads):
            a = trace.patterns[layer, head]
            if or_zeros(w.b_attn, layer) is not None:
                start = a @ ones @ (ov(layer, head) @ w.b_attn[layer])[None]
                walk(f"b_attn_L{layer} L{layer}H{head}", start, layer + 1)
            if w.b_V is not None:
                start = a @ ones @ (w.W_O[layer, head] @ w.b_V[layer, head // group])[None]
                walk(f"b_V_L{layer}H{head} L{layer}H{head}", start, layer + 1)
    if w.b_final is not None:
        found["b_final U"] = ones * (w.W_U @ w.b_final)
    if w.b_U is not None:
        found["b_U U"] = ones * w.b_U
    assert model is trace.model
    return found

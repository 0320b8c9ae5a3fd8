"""The forward pass once more, one number at a time, from the papers' formulas and with no array operation.

Shares nothing with the package but the sizes, switches and arrays it reads. Slow: for tiny models.
"""

from __future__ import annotations

import cmath
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from pathexp.model.model import Model

Vector = list[float]


@dataclass
class Naive:
    """Logits [position][token], and patterns [layer][head][query][key]."""

    logits: list[Vector]
    patterns: list[list[list[Vector]]] = field(default_factory=list)


def naive(model: Model, tokens: Sequence[int]) -> Naive:
    """Run a model on token ids."""
    c, w = model.config, model.weights
    found = Naive([])
    stream = [_embedded(model, int(token), place) for place, token in enumerate(tokens)]
    for layer in range(c.n_layers):
        before = stream
        attention = _attention(model, [_before(model, layer, "attn", x) for x in before], layer, found)
        if c.parallel:
            norm = "attn" if c.parallel == "shared" else "mlp"
            mlp = [_mlp(model, _before(model, layer, norm, x), layer) for x in before]
            stream = [
                [s + c.residual_multiplier * (a + m) for s, a, m in zip(x, y, z, strict=True)]
                for x, y, z in zip(before, attention, mlp, strict=True)
            ]
            continue
        stream = [_after(model, layer, "attn", x, y) for x, y in zip(before, attention, strict=True)]
        if c.d_mlp or c.experts:
            mlp = [_mlp(model, _before(model, layer, "mlp", x), layer) for x in stream]
            stream = [_after(model, layer, "mlp", x, y) for x, y in zip(stream, mlp, strict=True)]
    for x in stream:
        last = _norm(model, x, w.g_before_transform, w.b_before_transform) if c.transform_norm else x
        last = _transform(model, last) if c.transform else last
        last = _norm(model, last, w.g_final, w.b_final) if c.final_norm else last
        logits = [c.logit_multiplier * y for y in _dense(w.W_U, last, w.b_U)]
        found.logits.append([_cap(y, c.logit_cap) for y in logits])
    return found


def _embedded(model: Model, token: int, place: int) -> Vector:
    c, w = model.config, model.weights
    x = [c.embedding_multiplier * float(w.W_E[i, token]) for i in range(c.d_model)]
    if c.positions == "learned":
        x = [y + float(w.W_pos[i, place]) for i, y in enumerate(x)]  # type: ignore[index]
    if c.positions == "sinusoidal":
        x = [y + _sinusoid(place, i, c.d_model) for i, y in enumerate(x)]
    return _norm(model, x, w.g_embed, w.b_embed) if c.embed_norm else x


def _sinusoid(place: int, i: int, d_model: int) -> float:
    wave: Callable[[float], float] = math.cos if i % 2 else math.sin
    return wave(place / 10000 ** (2 * (i // 2) / d_model))


def _before(model: Model, layer: int, name: str, x: Vector) -> Vector:
    if model.config.norm is None or model.config.norm_placement not in ("pre", "sandwich"):
        return x
    if layer == 0 and name == "attn" and not model.config.first_norm:
        return x
    return _layer_norm(model, layer, name, x)


def _after(model: Model, layer: int, branch: str, x: Vector, y: Vector) -> Vector:
    c = model.config
    if c.norm is not None and c.norm_placement in ("sandwich", "branch"):
        y = _layer_norm(model, layer, f"{branch}_post", y)
    total = [a + c.residual_multiplier * b for a, b in zip(x, y, strict=True)]
    return _layer_norm(model, layer, f"{branch}_post", total) if c.norm_placement == "post" else total


def _layer_norm(model: Model, layer: int, name: str, x: Vector) -> Vector:
    gain, bias = getattr(model.weights, f"g_{name}"), getattr(model.weights, f"b_{name}")
    return _norm(model, x, None if gain is None else gain[layer], None if bias is None else bias[layer])


def _norm(model: Model, x: Vector, gain: Any, bias: Any) -> Vector:
    c = model.config
    mean = math.fsum(x) / len(x) if c.norm == "layernorm" else 0.0
    return _rms([y - mean for y in x], c.norm_eps, gain, bias)


def _rms(x: Vector, eps: float, gain: Any, bias: Any) -> Vector:
    sigma = math.sqrt(math.fsum(y * y for y in x) / len(x) + eps)
    y = [v / sigma * (1.0 if gain is None else float(gain[i])) for i, v in enumerate(x)]
    return [v + (0.0 if bias is None else float(bias[i])) for i, v in enumerate(y)]


def _dense(W: Any, x: Vector, bias: Any) -> Vector:
    sums = [math.fsum(float(W[i, j]) * x[j] for j in range(len(x))) for i in range(len(W))]
    return [y + (0.0 if bias is None else float(bias[i])) for i, y in enumerate(sums)]


def _cap(y: float, cap: float | None) -> float:
    return y if cap is None else cap * math.tanh(y / cap)


def _bias(array: Any, *place: int) -> Any:
    return None if array is None else array[place]


def _attention(model: Model, read: list[Vector], layer: int, found: Naive) -> list[Vector]:
    c, w = model.config, model.weights
    where = read
    if c.positions == "qk":
        where = [[y + float(w.W_pos[i, j]) for i, y in enumerate(x)] for j, x in enumerate(read)]  # type: ignore[index]
    Q = [[_query(model, layer, h, x) for h in range(c.n_heads)] for x in where]
    K = [[_key(model, layer, g, x) for g in range(c.n_kv_heads)] for x in where]
    V = [[_value(model, layer, g, x) for g in range(c.n_kv_heads)] for x in read]
    Q = [
        [_turn(model, layer, len(read), q, place) for q in _qk_norm(model, x, w.g_q, w.b_q, layer)]
        for place, x in enumerate(Q)
    ]
    K = [
        [_turn(model, layer, len(read), k, place) for k in _qk_norm(model, x, w.g_k, w.b_k, layer)]
        for place, x in enumerate(K)
    ]
    out = [[0.0 if w.b_O is None else float(w.b_O[layer, i]) for i in range(c.d_model)] for _ in read]
    found.patterns.append([])
    for h in range(c.n_heads):
        g = h * c.n_kv_heads // c.n_heads
        rows = [_row(model, [x[h] for x in Q], [x[g] for x in K], i, h, layer) for i in range(len(read))]
        found.patterns[-1].append(rows)
        for i, row in enumerate(rows):
            z = [math.fsum(row[j] * V[j][g][k] for j in range(len(row))) for k in range(len(V[0][g]))]
            out[i] = [a + b for a, b in zip(out[i], _dense(w.W_O[layer, h], z, None), strict=True)]
    return out


def _query(model: Model, layer: int, head: int, x: Vector) -> Vector:
    c, w = model.config, model.weights
    if c.latent is None or c.latent.query_rank is None:
        return _dense(w.W_Q[layer, head], x, _bias(w.b_Q, layer, head))
    latent = _dense(w.W_DQ[layer], x, _bias(w.b_DQ, layer))  # type: ignore[index]
    return _dense(w.W_UQ[layer, head], _rms(latent, c.latent.eps, _bias(w.g_q_latent, layer), None), None)  # type: ignore[index]


def _key(model: Model, layer: int, head: int, x: Vector) -> Vector:
    """Of latent attention: first the part that is turned and that all heads have, then the head's own."""
    c, w = model.config, model.weights
    if c.latent is None:
        return _dense(w.W_K[layer, head], x, _bias(w.b_K, layer, head))
    shared = _dense(w.W_KR[layer], x, _bias(w.b_KR, layer))  # type: ignore[index]
    return shared + _dense(w.W_UK[layer, head], _latent(model, layer, x), None)  # type: ignore[index]


def _value(model: Model, layer: int, head: int, x: Vector) -> Vector:
    w = model.weights
    if model.config.latent is None:
        return _dense(w.W_V[layer, head], x, _bias(w.b_V, layer, head))
    return _dense(w.W_UV[layer, head], _latent(model, layer, x), None)  # type: ignore[index]


def _latent(model: Model, layer: int, x: Vector) -> Vector:
    c, w = model.config, model.weights
    assert c.latent is not None
    before = _dense(w.W_DKV[layer], x, _bias(w.b_DKV, layer))  # type: ignore[index]
    return _rms(before, c.latent.eps, _bias(w.g_kv_latent, layer), None)


def _qk_norm(model: Model, heads: list[Vector], gain: Any, bias: Any, layer: int) -> list[Vector]:
    c = model.config
    own = None if gain is None else gain[layer]
    if c.qk_norm == "layernorm":
        means = [math.fsum(x) / len(x) for x in heads]
        return [
            _rms(
                [y - mean for y in x],
                c.norm_eps,
                None if own is None else own[h],
                None if bias is None else bias[layer][h],
            )
            for h, (x, mean) in enumerate(zip(heads, means, strict=True))
        ]
    if c.qk_norm == "head":
        return [_rms(x, c.norm_eps, own, None) for x in heads]
    if c.qk_norm == "projection":
        together = [y for x in heads for y in x]
        normed = _rms(together, c.norm_eps, None if own is None else [y for x in own for y in x], None)
        return [normed[h * c.d_head : (h + 1) * c.d_head] for h in range(len(heads))]
    return heads


def _turn(model: Model, layer: int, n: int, x: Vector, place: int) -> Vector:
    c = model.config
    rotary = c.rotary if c.rotaries is None else c.rotaries[layer]
    if rotary is None:
        return x
    turned, half = list(x), rotary.dims // 2
    for pair, frequency in enumerate(rotary.frequencies(n)):
        a, b = (pair, pair + half) if rotary.pairing == "half" else (2 * pair, 2 * pair + 1)
        point = complex(x[a], x[b]) * cmath.rect(rotary.amplitude, place * float(frequency))
        turned[a], turned[b] = point.real, point.imag
    return turned


def _row(model: Model, Q: list[Vector], K: list[Vector], i: int, h: int, layer: int) -> Vector:
    n = len(Q)
    raised = [
        math.exp(_score(model, Q[i], K[j], i, j, h)) if _seen(model, i, j, layer) else 0.0 for j in range(n)
    ]
    sink = 0.0 if model.weights.sinks is None else math.exp(float(model.weights.sinks[layer, h]))
    total = math.fsum([*raised, sink])
    return [y / total for y in raised]


def _score(model: Model, q: Vector, k: Vector, i: int, j: int, h: int) -> float:
    c = model.config
    score = _cap(c.attention_scale * math.fsum(a * b for a, b in zip(q, k, strict=True)), c.attention_cap)
    if c.positions != "alibi":
        return score
    return score - (c.head_slopes[h] if c.head_slopes else _slope(c.n_heads, h)) * abs(i - j)


def _slope(heads: int, h: int) -> float:
    """As the paper's own code has it, by recursion."""
    if math.log2(heads).is_integer():
        return float(2 ** (-(2 ** -(math.log2(heads) - 3)) * (h + 1)))
    below = 2 ** math.floor(math.log2(heads))
    return _slope(below, h) if h < below else _slope(2 * below, 2 * (h - below))


def _seen(model: Model, i: int, j: int, layer: int) -> bool:
    c = model.config
    window = None if c.windows is None else c.windows[layer]
    return (j <= i or not c.causal) and (window is None or abs(i - j) < window)


def _mlp(model: Model, x: Vector, layer: int) -> Vector:
    c, w = model.config, model.weights
    if c.experts is not None and layer in (c.experts.layers or ()):
        return _mixture(model, x, layer)
    pre = _dense(w.W_in[layer], x, _bias(w.b_in, layer))  # type: ignore[index]
    if c.gated:
        gate = _dense(w.W_gate[layer], x, _bias(w.b_gate, layer))  # type: ignore[index]
        hidden = [ACTIVATIONS[c.activation](g) * y for g, y in zip(gate, pre, strict=True)]
    else:
        hidden = [ACTIVATIONS[c.activation](y) for y in pre]
    return _dense(w.W_out[layer], hidden, _bias(w.b_out, layer))  # type: ignore[index]


def _mixture(model: Model, x: Vector, layer: int) -> Vector:
    """Router, chosen experts and the shared one, as DeepSeek-AI 2024 (section 2.1.2) and Shazeer et al. 2017 write them."""
    e, w = model.config.experts, model.weights
    scores = _dense(w.W_router[layer], x, _bias(w.b_router, layer))  # type: ignore[index]
    if e.scoring == "softmax":
        total = math.fsum(math.exp(y) for y in scores)
        shares = [math.exp(y) / total for y in scores]
    else:
        shares = [1 / (1 + math.exp(-y)) for y in scores]
    ranks = [y + (0.0 if w.b_choice is None else float(w.b_choice[layer, i])) for i, y in enumerate(shares)]
    size = e.count // e.groups
    groups = [ranks[g * size : (g + 1) * size] for g in range(e.groups)]
    merit = [sum(sorted(group)[-2:]) if e.by_two else max(group) for group in groups]
    best = sorted(range(e.groups), key=lambda g: -merit[g])[: e.chosen_groups]
    allowed = [i for i in range(e.count) if i // size in best]
    chosen = sorted(allowed, key=lambda i: -ranks[i])[: e.chosen]
    norm = math.fsum(shares[i] for i in chosen) if e.normalized else 1.0
    out = [0.0] * len(x)
    for i in chosen:
        y = _expert(model, x, "experts", (layer, i))
        out = [a + e.multiplier * shares[i] / norm * b for a, b in zip(out, y, strict=True)]
    if e.shared:
        y, gate = _expert(model, x, "shared", (layer,)), 1.0
        if e.shared_gate:
            z = math.fsum(float(w.W_shared_gate[layer, i]) * v for i, v in enumerate(x))  # type: ignore[index]
            z += 0.0 if w.b_shared_gate is None else float(w.b_shared_gate[layer])
            gate = 1 / (1 + math.exp(-z))
        out = [a + gate * b for a, b in zip(out, y, strict=True)]
    return out


def _expert(model: Model, x: Vector, kind: str, place: tuple[int, ...]) -> Vector:
    c, w = model.config, model.weights

    def made(side: str, y: Vector) -> Vector:
        return _dense(getattr(w, f"W_{side}_{kind}")[place], y, _bias(getattr(w, f"b_{side}_{kind}"), *place))

    act, pre, limit = ACTIVATIONS[c.activation], made("in", x), c.experts.limit
    if not c.gated:
        return made("out", [act(y) for y in pre])
    gate = made("gate", x)
    if limit is not None:
        gate, pre = [min(y, limit) for y in gate], [max(min(y, limit), -limit) for y in pre]
    return made("out", [act(g) * (y + c.experts.shift) for g, y in zip(gate, pre, strict=True)])


def _transform(model: Model, x: Vector) -> Vector:
    hidden = _dense(model.weights.W_transform, x, model.weights.b_transform)
    return [ACTIVATIONS[model.config.transform_activation](y) for y in hidden]


ACTIVATIONS: dict[str, Callable[[float], float]] = {
    "relu": lambda z: max(z, 0.0),
    "relu2": lambda z: max(z, 0.0) ** 2,
    "gelu": lambda z: z * (1 + math.erf(z / math.sqrt(2))) / 2,
    "gelu_tanh": lambda z: z * (1 + math.tanh(math.sqrt(2 / math.pi) * (z + 0.044715 * z**3))) / 2,
    "tanh": math.tanh,
    "quick_gelu": lambda z: z / (1 + math.exp(-1.702 * z)),
    "silu": lambda z: z / (1 + math.exp(-z)),
}

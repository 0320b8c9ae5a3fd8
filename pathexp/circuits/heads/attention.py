"""One head on one text: where it attends, and beside each token what it writes from there."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ...answer import Answer, Check, Facts, Figure, Note, Part, Table, columns, visible
from ...arguments import TEXT, expect, index_of, whole
from ...errors import PathexpError
from ...expansion.header import run_facts
from ...graph import Array
from ...graph.from_weights import has_token_space, unembedding, writing
from ...labels import head_label
from ...model import Target, Trace
from ...model.attention import concatenated
from ...model.trace import check_trace
from ..attribution.attribution import head_tokens

Ids: TypeAlias = NDArray[np.int64]


@dataclass(frozen=True, eq=False, repr=False)
class HeadAttention(Answer):
    """A head's attention from one position, and what it writes from every key.

    `attention` (n): the row of its pattern; `outputs` (n, k): the tokens that what it writes from each key raises most,
    and `raised` (n, k) by how much, above the mean of all tokens; `values` (n): what of it reaches the target straight.
    """

    live: ClassVar[frozenset[str]] = frozenset({"trace"})

    trace: Trace
    target: Target
    head: str
    query: int
    attention: Array
    outputs: Ids
    raised: Array
    values: Array
    difference: float
    tolerance: float

    def headline(self) -> str:
        """Return which head attends from where, and to what most."""
        best = int(np.argmax(self.attention))
        here, there = (visible(self.trace.token_strings[at]) for at in (self.query, best))
        return f"{self.head} from position {self.query} {here}: {self.attention[best]:.0%} to position {best} {there}"

    def parts(self) -> Iterator[Part]:
        """Yield one row a key, the most attended first, the check of heads as a sum, and bars."""
        yield run_facts(self.trace, self.target)
        yield Facts({"head": self.head, "query": self.query, "value": float(self.values.sum())})
        tokens = self.trace.token_strings
        order = [
            key
            for key in np.argsort(-self.attention, kind="stable")
            if key <= self.query or self.attention[key]
        ]
        rows = [
            (int(key), tokens[key], self.attention[key], self._brought(key), self.values[key])
            for key in order
        ]
        yield Table(
            (
                columns.count("key"), columns.token("token"), columns.number("attention", digits=3, signed=False),
                columns.text("brings", "what it writes from there"), columns.number("value", "added to the target"),
            ),
            rows, "keys", key=("key",), value="attention", shown=10, rest=[],
        )  # fmt: skip
        yield Note(
            "what it writes: the tokens whose logits rise most above the mean, by attention · W_U W_OV x"
        )
        yield Check(
            "the heads of its layer, added one by one, are the concatenated form (Vaswani et al. 2017, 3.2.2)",
            self.difference, self.tolerance, "rounding of both sides",
        )  # fmt: skip
        yield Figure(
            "bars", "attention",
            {"rows": [f"{key}: {visible(token)}" for key, token in enumerate(tokens)],
             "values": [[value] for value in self.attention.tolist()]},
            f"attention of {self.head} from position {self.query}",
        )  # fmt: skip

    def _brought(self, key: int) -> str:
        if not self.outputs.shape[1]:
            return "–"
        names = (self.trace.model.output_string(int(token)) for token in self.outputs[key])
        pairs = zip(names, self.raised[key], strict=True)
        return ", ".join(f"{visible(name)} {value:+.2f}" for name, value in pairs)


def attention(
    trace: Trace, target: Target, *, head: str = "L0H0", query: int | None = None, k: int = 3
) -> HeadAttention:
    """Return where one head attends from a position, and what it writes from every key.

    Elhage et al. 2021, "Attention Heads as Information Movement", "Function of Induction Heads" (the logit effect). `query`
    is by default the target's position; what reaches the target straight is zero from any other. `k` outputs a key are
    named; none for a model whose outputs are no tokens or with norms on the stream. Frozen scales of norms are in the
    numbers. Raises PathexpError for a head that is not there, or a target of another run.

    >>> import pathexp as px
    >>> trace = px.induction_model().run([5, 2, 7, 3, 5])
    >>> found = attention(trace, trace.logit(2), head="L1H0")
    >>> int(found.attention.argmax()), int(found.outputs[1, 0]), found.ok
    (1, 2, True)
    """
    check_trace(trace, "attention")
    expect("attention", head=(head, TEXT), k=(k, whole(0)))
    if query is not None:
        expect("attention", query=(query, index_of(range(len(trace)))))
    at = target.position % len(trace) if query is None else int(query) % len(trace)
    c = trace.config
    places = {head_label(layer, index): (layer, index) for layer, index in np.ndindex(c.n_layers, c.n_heads)}
    if head not in places:
        raise PathexpError(f"no head {head!r} among the {len(places)} heads")
    layer, index = places[head]
    pattern = trace.patterns[layer, index, at]
    values = head_tokens(trace, target, [head]).values[0]
    here = values if at == target.position % len(trace) else np.zeros(len(trace))
    outputs, raised = _brought(trace, layer, index, at, k)
    added, side_by_side = (
        trace.head_results[layer].sum(axis=0),
        concatenated(trace.z[layer], trace.model.weights.W_O[layer]),
    )
    tolerance = _tolerance(trace, layer)
    return HeadAttention(
        trace, target, head, at, np.array(pattern), outputs, raised, here,
        float(np.abs(added - side_by_side).max(initial=0.0)), tolerance,
    )  # fmt: skip


def _brought(trace: Trace, layer: int, index: int, at: int, k: int) -> tuple[Ids, Array]:
    """The tokens that a head raises most by what it writes from each key, and by how much, (n, k) each."""
    model, n = trace.model, len(trace)
    if not (model.config.predicts_tokens and has_token_space(model.config)):
        return np.zeros((n, 0), dtype=np.int64), np.zeros((n, 0))
    group = model.config.kv_head(index)
    given = (trace.values[layer, group] @ model.weights.W_O[layer, index].T) * trace.patterns[
        layer, index, at
    ][:, None]
    for factor in reversed(writing(model, layer)):
        given = factor.apply(given)
    for name in (f"L{layer}.attn_post", "final"):
        given = given * np.asarray(trace.norm_scales.get(name, np.ones(n))).reshape(-1)[at]
    logits = unembedding(model).apply(given)
    logits -= logits.mean(axis=-1, keepdims=True)
    best = np.argsort(-logits, axis=-1, kind="stable")[:, :k]
    return best, np.take_along_axis(logits, best, axis=-1)


def _tolerance(trace: Trace, layer: int) -> float:
    """Rounding of two orders of one sum of H · d_head products: γ of it on both sides, at the worst entry."""
    z, W_O = np.abs(trace.z[layer]), np.abs(trace.model.weights.W_O[layer])
    terms = z.shape[0] * z.shape[2] + 1
    unit = float(np.finfo(np.float64).eps) / 2
    gamma = terms * unit / (1 - terms * unit)
    return float(2 * gamma * np.einsum("hnk,hdk->nd", z, W_O).max(initial=0.0))

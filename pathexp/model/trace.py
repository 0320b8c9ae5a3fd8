"""Everything that happened in one run of the reference forward pass."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
import numpy.typing as npt

from ..arguments import TEXT, check, instance, one_of, refuse_masked, whole
from ..errors import TargetError, TokenError
from ..labels import find_label
from ..read_only import restore
from . import notebook
from .config import Config
from .experts import Expert
from .made_again import by_layer
from .points import canonical, check_seen, values_at
from .softmax import log_softmax
from .target import Space, Target

if TYPE_CHECKING:
    from .model import Model

Array = npt.NDArray[np.float64]
Token = int | str


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Trace:
    """One run; n tokens, L layers, H heads on G, h = d_head, d = d_model, m = d_mlp, O = d_out; read-only.

    ``tokens`` (n). Attention: ``queries`` (L, H, n, h) and ``keys`` (L, G, n, h) as they enter the score,
    normed and turned; ``values`` (L, G, n, h), or d_value numbers each in latent attention; ``scores`` (L, H, n, n) before the softmax, (query, key), capped,
    with slopes, -inf where masked; ``patterns`` (L, H, n, n), rows sum to 1, or to less where heads have sinks (of long runs both are made
    again a layer at a time where they are indexed); ``z`` (L, H, n, h), values weighted
    by the pattern. MLP, (L, n, m): ``mlp_pre``, W_in x + b_in; ``mlp_gate_pre``, what the activation is applied
    to (the gate's, or mlp_pre); ``mlp_gates``, act(mlp_gate_pre) where gated, else act(mlp_pre) / mlp_pre.
    Layers without such an MLP have zeros. Layers of E experts: ``router_scores`` and ``router_weights`` (L, n, E), before
    the softmax, and by which each expert multiplies what it writes, zero where it is not chosen; ``experts`` by label,
    "L3E5" and "L3S", what happens in each at the positions that use it.
    ``transform_gates``, act(z)/z of the transform before the final norm, (n, d), or (0, d) where there is none.

    ``residuals`` by point, (n, d): "embed_in" (before the embedding's norm, if any), "embed"; per layer
    "L0.attn_in" (as read, after the norm), "L0.attn_result", "L0.attn_out" (as added: after the branch's norm
    and multiplier), "L0.attn_sum" (post-norm only: before the norm), "L0.mid" (between attention and MLP), the
    same with "mlp", "L0.out"; "final_in", "transform_in" and "transform_out" (if there is one), "final_out". ``norm_scales`` by site: the 1/σ that a norm multiplies
    by, (n): "embed", "L0.attn", "L0.attn_post", "L0.mlp", "L0.mlp_post", "final"; of queries and keys, "L0.q"
    (H, n) and "L0.k" (G, n) per head, or (n) over the projection; of latents, "L0.kv_latent" and "L0.q_latent" (n). ``logits`` (n, O) in nats, and ``logits_before_cap``, the same where there is no
    cap. ``edited`` names the points of the residuals that `rerun` put other numbers at, ``before_edits`` holds what
    stood there before, by point.

    >>> import pathexp as px
    >>> trace = px.random_model(layers=2, heads=3, seed=0).run([3, 1, 2])
    >>> trace.patterns.shape, bool(np.allclose(trace.patterns.sum(axis=-1), 1))
    ((2, 3, 3, 3), True)
    """

    model: Model
    tokens: npt.NDArray[np.int64]
    queries: Array
    keys: Array
    values: Array
    scores: Array
    patterns: Array
    z: Array
    mlp_pre: Array
    mlp_gate_pre: Array
    mlp_gates: Array
    router_scores: Array
    router_weights: Array
    experts: Mapping[str, Expert]
    transform_gates: Array
    residuals: Mapping[str, Array]
    norm_scales: Mapping[str, Array]
    logits_before_cap: Array
    logits: Array
    edited: tuple[str, ...] = ()
    before_edits: Mapping[str, Array] = field(default_factory=lambda: MappingProxyType({}))

    def __getstate__(self) -> dict[str, Any]:
        """What a copy or a pickle keeps: the record of the run, its mappings as plain ones."""
        kept = {each.name: getattr(self, each.name) for each in fields(self)}
        mappings = ("residuals", "norm_scales", "before_edits", "experts")
        return kept | {name: dict(kept[name]) for name in mappings}

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        restore(self, state)

    @property
    def config(self) -> Config:
        """The model's sizes and switches."""
        return self.model.config

    def __len__(self) -> int:
        return len(self.tokens)

    def __repr__(self) -> str:
        return f"Trace({len(self)} tokens of {self.model!r})"

    def _repr_html_(self) -> str:
        said = f"{len(self)} tokens of {self.model!r}, below each what is predicted after it"
        predicted = [self.model.output_string(int(token)) for token in self.logits.argmax(axis=-1)]
        return notebook.tokens(said, self.token_strings, predicted)

    @cached_property
    def token_strings(self) -> tuple[str, ...]:
        """The text of each token, or its id where the model has no tokenizer."""
        return tuple(self.model.token_string(int(token)) for token in self.tokens)

    @cached_property
    def head_results(self) -> Array:
        """What each head adds, (L, H, n, d): z W_Oᵀ. With b_O they add up to "L0.attn_result".

        Elhage et al. 2021, "Attention Heads are Independent and Additive". Costs as much memory as H streams
        a layer.
        """
        z, W_O = self.z, self.model.weights.W_O
        shape = (*z.shape[:-1], self.config.d_model)
        return by_layer("head results", shape, lambda layer: z[layer] @ np.swapaxes(W_O[layer], -1, -2))

    @cached_property
    def mlp_hidden(self) -> Array:
        """What W_out reads, (L, n, m): mlp_gates · mlp_pre."""
        gates, pre = self.mlp_gates, self.mlp_pre
        return by_layer("hidden", pre.shape, lambda layer: gates[layer] * pre[layer])

    @cached_property
    def scores_before_cap(self) -> Array:
        """The scaled products of queries and keys, (L, H, n, n): before cap, slopes and mask, none of it -inf."""
        keys = self.keys[:, [self.config.kv_head(head) for head in range(self.config.n_heads)]]
        return _read_only(self.config.attention_scale * (self.queries @ np.swapaxes(keys, -1, -2)))

    @cached_property
    def log_probs(self) -> Array:
        """The logarithm of the distribution over outputs at every position, (n, O), in nats."""
        return _read_only(log_softmax(self.logits))

    def top_token(self, position: int = -1) -> int:
        """The id of the most likely output, the next token, at a position (the lowest id of equals).

        Raises TargetError if the run has no such position.
        """
        return int(self.logits[self._position(position)].argmax())

    def loss(self) -> float:
        """The mean loss of each token given those before it, in nats.

        Raises TokenError for a run of one token, where nothing is predicted, and for outputs that are no tokens.
        """
        if not self.config.predicts_tokens:
            raise TokenError(
                f"loss needs outputs that are tokens; found {self.config.d_out} outputs for {self.config.d_vocab} tokens."
            )
        if len(self) < 2:
            raise TokenError("loss needs at least 2 tokens, the second predicted from the first; found 1.")
        return float(-self.log_probs[np.arange(len(self) - 1), self.tokens[1:]].mean())

    def logit(self, token: Token, position: int = -1) -> Target:
        """The logit of one token, an id or a text that is one token, at a position.

        Raises TokenError if it is not one token, TargetError if the run has no such position.
        """
        found, place = self._token(token), self._position(position)
        return self._of_logits(self._one_hot(found), place, f"logit of {self._name(found)}")

    def logit_difference(self, a: Token, b: Token, position: int = -1) -> Target:
        """The logit of token a minus that of token b, at a position.

        Raises TokenError if either is not one token or both are the same, TargetError as ``logit``.
        """
        first, second, place = self._token(a), self._token(b), self._position(position)
        if first == second:
            raise TokenError(f"logit_difference needs two tokens, found {self._name(first)} twice.")
        label = f"logit of {self._name(first)} minus {self._name(second)}"
        return self._of_logits(self._one_hot(first) - self._one_hot(second), place, label)

    def probability(self, token: Token, position: int = -1) -> NoReturn:
        """Say why the probability of a token is no target of one run: raises TargetError, always."""
        self._not_linear("probability", token, position)

    def log_prob(self, token: Token, position: int = -1) -> NoReturn:
        """Say why the log-probability of a token is no target of one run: raises TargetError, always."""
        self._not_linear("log_prob", token, position)

    def _not_linear(self, name: str, token: Token, position: int) -> NoReturn:
        found, place = self._name(self._token(token)), self._position(position)
        raise TargetError(
            f"trace.{name}({found}) at position {place} is no sum over the paths of one run: the softmax over the "
            f"logits is not linear. Ask for trace.logit or trace.logit_difference; between two runs it is an exact "
            f"sum: px.contrast(run, other).{name}({found})."
        )

    def direction(
        self, vector: npt.ArrayLike, position: int = -1, space: Space = "logits", *, at: str = ""
    ) -> Target:
        """Any direction at any point: (O) numbers of logits unless ``at`` names another point.

        ``at``: "logits"; a point of the residuals, such as "L5.out" or "L3.mid"; "final", the final stream before
        its norm (also by space="residual"); "L3H2" or "L3M" for what a head or an MLP adds; "L3.router" for the scores of a layer's experts; "L3H2.Q" or "L3H2.K" for what a head's query or key is, (h), before it is
        turned by rotary positions. Paths to a point are those of `expand(trace, at=...)`.

        Raises TargetError for another point, space, length or position, a number that is not finite, or scores of keys that
        are not seen.

        >>> import pathexp as px
        >>> trace = px.random_model(layers=2, heads=3, d_model=24, seed=0).run([3, 1, 2])
        >>> target = trace.direction(np.arange(24.0), at="L0.out", position=1)
        >>> bool(target.value == trace.residuals["L0.out"][1] @ np.arange(24.0))
        True
        """
        place = self._position(position)
        check("space", space, one_of("logits", "residual"), TargetError)
        check("at", at, TEXT, TargetError)
        if at and at != "logits":
            stood = values_at(self, at)
            read = _vector(vector, stood.shape[-1], "the width", at)
            check_seen(self, at, place, read)
            return Target(
                place, read, "residual", f"direction at {at}", float(stood[place] @ read), canonical(at)
            )
        if space == "logits":
            return self._of_logits(_vector(vector, self.config.d_out, "d_out", space), place, "direction")
        read = _vector(vector, self.config.d_model, "d_model", space)
        value = float(self.residuals["final_in"][place] @ read)
        return Target(place, read, space, "direction in the final stream", value)

    def score(self, head: str, query: int = -1, key: int = -1) -> Target:
        """Return the target score of a head from a query position to a key position, as it enters the softmax.

        Scores are products of two sums over paths, so that paths of one run do not add up to one (see
        `score_expansion`); what it differs by between two runs is a sum over paths, in a contrast.

        Raises TargetError for a head or a position that is not there, or a key that the query does not see.

        >>> import pathexp as px
        >>> trace = px.random_model(layers=2, heads=2).run([1, 2, 3])
        >>> bool(trace.score("L1H0", 2, 0).value == trace.scores[1, 0, 2, 0])
        True
        """
        row, column = self._position(query), self._position(key)
        point = f"{head}.score"
        one = np.zeros(len(self))
        one[column] = 1.0
        found = self.direction(one, row, at=point)
        return replace(found, label=f"score of {head} from {row} to {column}")

    def router_score(self, expert: str, position: int = -1) -> Target:
        """Return the target score of an expert such as "L3E5" at a position, before the router's softmax: a sum over paths.

        Its paths are those of ``px.expand(trace, at="L3.router")``. Raises TargetError for an expert or a position that is not there.
        """
        place, experts = self._position(position), self.config.experts
        label = find_label(expert) if isinstance(expert, str) else None
        chosen = label is not None and label.kind == "E" and not (label.name or label.port)
        if experts is None or label is None or not chosen or (label.index or 0) >= experts.count:
            there = f"{experts.count} experts a layer" if experts else "no experts"
            raise TargetError(
                f"no expert {expert!r:.40} whose score a router makes: this model has {there}; they are written L0E3"
            )
        one = np.zeros(experts.count)
        one[label.index or 0] = 1.0
        found = self.direction(one, place, at=f"L{label.layer}.router")
        return replace(found, label=f"router score of {expert}")

    def _of_logits(self, read: Array, place: int, label: str) -> Target:
        return Target(place, _read_only(read), "logits", label, float(self.logits[place] @ read))

    def _one_hot(self, token: int) -> Array:
        read = np.zeros(self.config.d_out)
        read[token] = 1.0
        return read

    def _name(self, token: int) -> str:
        named = self.model.tokenizer is not None and self.config.predicts_tokens
        return repr(self.model.token_string(token)) if named else str(token)

    def _token(self, token: Token) -> int:
        return self.model.output_id(token)

    def _position(self, position: int) -> int:
        n = len(self)
        place = int(check("position", position, whole(), TargetError))
        if not -n <= place < n:
            raise TargetError(
                f"position {place} is not in this run of {n} tokens: give 0 to {n - 1}, "
                f"or -{n} to -1 from the end."
            )
        return place % n


def check_trace(what: object, call: str) -> None:
    """Raise PathexpError, naming the call, for what is no run of a model."""
    check(f"{call}(), trace", what, TRACE)


TRACE = instance(Trace, "a trace", "use model.run(text)")


def _vector(vector: npt.ArrayLike, size: int, name: str, space: str) -> Array:
    refuse_masked("a direction", vector, TargetError)
    found = np.asarray(vector)
    if found.shape != (size,):
        raise TargetError(
            f"a direction in space {space!r} has {name} = {size} numbers, shape ({size},); "
            f"found shape {found.shape}."
        )
    if found.dtype.kind not in "fiu":
        raise TargetError(f"a direction has real numbers, found dtype {found.dtype}.")
    read = np.array(found, dtype=np.float64)
    if not np.isfinite(read).all():
        first = int(np.argmin(np.isfinite(read)))
        raise TargetError(f"a direction has finite numbers, found {read[first]} at index {first}.")
    return _read_only(read)


def _read_only(array: Array) -> Array:
    array.setflags(write=False)
    return array

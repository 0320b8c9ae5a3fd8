"""The arrays of a transformer, in column convention, checked once against its configuration."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import numpy.typing as npt

from ..arguments import refuse_masked
from ..errors import WeightsError
from ..read_only import restore
from .config import Config
from .latent import Latent
from .routing import Experts
from .stored import Stored, StoredColumns, check_finite

Array = npt.NDArray[np.float64]
Shape = tuple[int, ...]


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Weights:
    """The arrays of a transformer as read-only float64: a map has shape (target, source).

    With L layers, H heads on G key/value heads, h = d_head, d = d_model, m = d_mlp, V = d_vocab, O = d_out:
    ``W_E`` (d, V), ``W_pos`` (d, n_ctx), ``W_Q`` (L, H, h, d), ``W_K`` and ``W_V`` (L, G, h, d),
    ``W_O`` (L, H, d, h), ``W_in`` and ``W_gate`` (L, m, d), ``W_out`` (L, d, m), ``W_transform`` (d, d), ``W_U`` (O, d); biases
    ``sinks`` (L, H); ``b_Q`` (L, H, h), ``b_K`` and ``b_V`` (L, G, h), ``b_O`` (L, d), ``b_in`` and ``b_gate`` (L, m),
    ``b_out`` (L, d), ``b_transform`` (d), ``b_U`` (O). Layers of E experts: ``W_router`` (L, E, d), ``b_router`` and
    ``b_choice`` (L, E); ``W_in_experts``, ``W_gate_experts``, ``W_out_experts`` and biases, as those of MLPs, with E as
    the second axis; ``W_in_shared`` and so on of the expert that all share, ``W_shared_gate`` (L, d) and ``b_shared_gate`` (L). An array is zero in layers
    that have no such part. Norms: gains ``g_attn``, ``g_attn_post``, ``g_mlp``, ``g_mlp_post`` (L, d),
    ``g_embed``, ``g_before_transform``, ``g_final`` (d), and for LayerNorm the biases ``b_…`` of the same names; of queries and keys,
    ``g_q`` and ``g_k`` (L, h) per head, or (L, H, h) and (L, G, h) over the projection or for LayerNorms of heads,
    which have biases ``b_q`` and ``b_k`` of the same shapes.

    Latent attention, r = rank, q = query_rank, s = d_shared, v = d_value: in the place of W_K and W_V ``W_DKV`` (L, r, d), ``W_KR`` (L, s, d),
    ``W_UK`` (L, H, h - s, r) and ``W_UV`` (L, H, v, r), with the gain ``g_kv_latent`` (L, r) and biases ``b_DKV`` and ``b_KR``;
    W_O is (L, H, d, v). With a query rank, ``W_DQ`` (L, q, d), ``W_UQ`` (L, H, h, q), ``g_q_latent`` (L, q) and ``b_DQ`` in the place of W_Q.

    A bias of None is zero and a gain of None is one. Query head k reads key/value head k // (H // G).
    Half and single precision and integers become float64; anything else is reported by ``check``. What a loader reads
    from a file stays as it is stored: ``W_Q[layer]`` raises that layer to float64, numpy functions raise all of it.

    >>> import numpy as np
    >>> weights = Weights(W_E=np.eye(2), W_Q=np.ones((0, 1, 1, 2)), W_K=np.ones((0, 1, 1, 2)),
    ...     W_V=np.ones((0, 1, 1, 2)), W_O=np.ones((0, 1, 2, 1)), W_U=[[0, 1], [1, 0]])
    >>> weights.W_U.dtype, weights.b_U is None
    (dtype('float64'), True)
    """

    W_E: Array
    W_O: Array
    W_U: Array
    W_Q: Array = None  # type: ignore[assignment]  # required by `expected`, but for latent queries
    W_K: Array = None  # type: ignore[assignment]  # required by `expected`, but for latent attention
    W_V: Array = None  # type: ignore[assignment]  # the same
    W_DQ: Array | None = None
    W_UQ: Array | None = None
    W_DKV: Array | None = None
    W_KR: Array | None = None
    W_UK: Array | None = None
    W_UV: Array | None = None
    W_pos: Array | None = None
    sinks: Array | None = None
    W_in: Array | None = None
    W_gate: Array | None = None
    W_out: Array | None = None
    W_router: Array | None = None
    W_in_experts: Array | None = None
    W_gate_experts: Array | None = None
    W_out_experts: Array | None = None
    W_in_shared: Array | None = None
    W_gate_shared: Array | None = None
    W_out_shared: Array | None = None
    W_shared_gate: Array | None = None
    W_transform: Array | None = None
    b_Q: Array | None = None
    b_K: Array | None = None
    b_V: Array | None = None
    b_O: Array | None = None
    b_DQ: Array | None = None
    b_DKV: Array | None = None
    b_KR: Array | None = None
    b_in: Array | None = None
    b_gate: Array | None = None
    b_out: Array | None = None
    b_router: Array | None = None
    b_choice: Array | None = None
    b_shared_gate: Array | None = None
    b_in_experts: Array | None = None
    b_gate_experts: Array | None = None
    b_out_experts: Array | None = None
    b_in_shared: Array | None = None
    b_gate_shared: Array | None = None
    b_out_shared: Array | None = None
    b_transform: Array | None = None
    b_U: Array | None = None
    g_embed: Array | None = None
    b_embed: Array | None = None
    g_attn: Array | None = None
    b_attn: Array | None = None
    g_attn_post: Array | None = None
    b_attn_post: Array | None = None
    g_mlp: Array | None = None
    b_mlp: Array | None = None
    g_mlp_post: Array | None = None
    b_mlp_post: Array | None = None
    g_before_transform: Array | None = None
    b_before_transform: Array | None = None
    g_final: Array | None = None
    b_final: Array | None = None
    g_q_latent: Array | None = None
    g_kv_latent: Array | None = None
    g_q: Array | None = None
    g_k: Array | None = None
    b_q: Array | None = None
    b_k: Array | None = None

    def __post_init__(self) -> None:
        for name, value in self.arrays().items():
            refuse_masked(name, value, WeightsError)
            object.__setattr__(self, name, _frozen(value))

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        """Take over what a copy or a pickle holds, read-only as it was."""
        restore(self, state)

    def arrays(self) -> dict[str, Array]:
        """The arrays that are there, by name."""
        named = ((field.name, getattr(self, field.name)) for field in fields(self))
        return {name: value for name, value in named if value is not None}

    def check(self, config: Config) -> None:
        """Hold every array against the shapes of a configuration.

        Raises WeightsError with all problems at once: what is missing, what has no place, shapes, kinds,
        and the first place that is not finite. Time is one look at every number in memory; those that are stored
        are looked at when they are raised.
        """
        places = expected(config)
        problems = [*_problems(self.arrays(), places), *_misplaced(self, places), *_untied(self, config)]
        if problems:
            head = f"{len(problems)} problem(s) with the weights of {_sizes(config)}:"
            raise WeightsError("\n  ".join([head, *problems]))

    def __repr__(self) -> str:
        arrays = self.arrays()
        return f"Weights({', '.join(arrays)}: {sum(a.size for a in arrays.values()):,} numbers)"


@dataclass(frozen=True)
class Expected:
    """The shape an array must have, whether it must be there, and in which layers it says something, if not in all."""

    shape: Shape
    required: bool
    layers: tuple[int, ...] | None = None


def expected(config: Config) -> dict[str, Expected]:
    """The arrays that a configuration has a place for, by name."""
    sides = (True, _required), (False, _optional)
    return {
        name: Expected(shape, required, _layers(name, config))
        for required, listed in sides
        for name, shape in listed(config)
    }


def _layers(name: str, c: Config) -> tuple[int, ...] | None:
    """The layers in which an array says something, where there are others."""
    if c.experts is None:
        return None
    if name in _DENSE:
        return tuple(layer for layer in range(c.n_layers) if c.has_dense(layer))
    return c.experts.layers if name in _SPARSE or name.endswith(("_experts", "_shared")) else None


_DENSE = ("W_in", "W_gate", "W_out", "b_in", "b_gate", "b_out")
_SPARSE = ("W_router", "b_router", "b_choice", "W_shared_gate", "b_shared_gate")


def _required(c: Config) -> Iterator[tuple[str, Shape]]:
    yield "W_E", (c.d_model, c.d_vocab)
    if c.positions in ("learned", "qk"):
        yield "W_pos", (c.d_model, c.n_ctx)
    if c.sinks:
        yield "sinks", (c.n_layers, c.n_heads)
    yield from _reads(c) if c.latent is None else _latent_reads(c, c.latent)
    yield "W_O", (c.n_layers, c.n_heads, c.d_model, c.d_value)
    if c.d_mlp:
        yield "W_in", (c.n_layers, c.d_mlp, c.d_model)
        yield "W_out", (c.n_layers, c.d_model, c.d_mlp)
    if c.gated and c.d_mlp:
        yield "W_gate", (c.n_layers, c.d_mlp, c.d_model)
    if c.experts is not None:
        yield from _of_experts(c, c.experts)
    if c.transform:
        yield "W_transform", (c.d_model, c.d_model)
    yield "W_U", (c.d_out, c.d_model)


def _reads(c: Config) -> Iterator[tuple[str, Shape]]:
    yield "W_Q", (c.n_layers, c.n_heads, c.d_head, c.d_model)
    yield "W_K", (c.n_layers, c.n_kv_heads, c.d_head, c.d_model)
    yield "W_V", (c.n_layers, c.n_kv_heads, c.d_head, c.d_model)


def _latent_reads(c: Config, e: Latent) -> Iterator[tuple[str, Shape]]:
    if e.query_rank is None:
        yield "W_Q", (c.n_layers, c.n_heads, c.d_head, c.d_model)
    else:
        yield "W_DQ", (c.n_layers, e.query_rank, c.d_model)
        yield "W_UQ", (c.n_layers, c.n_heads, c.d_head, e.query_rank)
    yield "W_DKV", (c.n_layers, e.rank, c.d_model)
    yield "W_KR", (c.n_layers, e.d_shared, c.d_model)
    yield "W_UK", (c.n_layers, c.n_heads, c.d_head - e.d_shared, e.rank)
    yield "W_UV", (c.n_layers, c.n_heads, e.d_value, e.rank)


def _biases_of_reads(c: Config) -> Iterator[tuple[str, Shape]]:
    yield "b_Q", (c.n_layers, c.n_heads, c.d_head)
    yield "b_K", (c.n_layers, c.n_kv_heads, c.d_head)
    yield "b_V", (c.n_layers, c.n_kv_heads, c.d_head)


def _latent_biases(c: Config, e: Latent) -> Iterator[tuple[str, Shape]]:
    yield (
        ("b_Q", (c.n_layers, c.n_heads, c.d_head))
        if e.query_rank is None
        else ("b_DQ", (c.n_layers, e.query_rank))
    )
    yield "b_DKV", (c.n_layers, e.rank)
    yield "b_KR", (c.n_layers, e.d_shared)


def _optional(c: Config) -> Iterator[tuple[str, Shape]]:
    yield from _biases_of_reads(c) if c.latent is None else _latent_biases(c, c.latent)
    yield "b_O", (c.n_layers, c.d_model)
    if c.d_mlp:
        yield "b_in", (c.n_layers, c.d_mlp)
        yield "b_out", (c.n_layers, c.d_model)
    if c.gated and c.d_mlp:
        yield "b_gate", (c.n_layers, c.d_mlp)
    if c.experts is not None:
        yield from _biases_of_experts(c, c.experts)
    if c.transform:
        yield "b_transform", (c.d_model,)
    yield "b_U", (c.d_out,)
    yield from _norms(c)


def _of_experts(c: Config, e: Experts) -> Iterator[tuple[str, Shape]]:
    yield "W_router", (c.n_layers, e.count, c.d_model)
    if e.shared_gate:
        yield "W_shared_gate", (c.n_layers, c.d_model)
    for kind, among, width in (("experts", (e.count,), e.width), ("shared", (), e.shared))[
        : 1 + bool(e.shared)
    ]:
        for side in ("in", "gate")[: 1 + c.gated]:
            yield f"W_{side}_{kind}", (c.n_layers, *among, width, c.d_model)
        yield f"W_out_{kind}", (c.n_layers, *among, c.d_model, width)


def _biases_of_experts(c: Config, e: Experts) -> Iterator[tuple[str, Shape]]:
    yield "b_router", (c.n_layers, e.count)
    yield "b_choice", (c.n_layers, e.count)
    if e.shared_gate:
        yield "b_shared_gate", (c.n_layers,)
    for kind, among, width in (("experts", (e.count,), e.width), ("shared", (), e.shared))[
        : 1 + bool(e.shared)
    ]:
        for side in ("in", "gate")[: 1 + c.gated]:
            yield f"b_{side}_{kind}", (c.n_layers, *among, width)
        yield f"b_out_{kind}", (c.n_layers, *among, c.d_model)


def _norms(c: Config) -> Iterator[tuple[str, Shape]]:
    if c.embed_norm:
        yield from _norm(c, "embed", (c.d_model,))
    for name in c.block_norms:
        yield from _norm(c, name, (c.n_layers, c.d_model))
    if c.transform_norm:
        yield from _norm(c, "before_transform", (c.d_model,))
    if c.final_norm:
        yield from _norm(c, "final", (c.d_model,))
    if c.latent is not None:
        yield "g_kv_latent", (c.n_layers, c.latent.rank)
        if c.latent.query_rank is not None:
            yield "g_q_latent", (c.n_layers, c.latent.query_rank)
    if c.qk_norm == "head":
        yield "g_q", (c.n_layers, c.d_head)
        yield "g_k", (c.n_layers, c.d_head)
    for kind in {"projection": "g", "layernorm": "gb"}.get(c.qk_norm or "", ""):
        yield f"{kind}_q", (c.n_layers, c.n_heads, c.d_head)
        yield f"{kind}_k", (c.n_layers, c.n_kv_heads, c.d_head)


def _norm(c: Config, site: str, shape: Shape) -> Iterator[tuple[str, Shape]]:
    yield f"g_{site}", shape
    if c.norm == "layernorm":
        yield f"b_{site}", shape


def at(array: Array | None, layer: int) -> Array | None:
    """An array of one layer, or None where there is none."""
    return None if array is None else array[layer]


def _frozen(value: Any) -> Any:
    """A read-only float64 array of its own, or, for what is no real number, the array as it is."""
    if isinstance(value, Stored):
        return value
    array = np.asarray(value)
    if array.dtype.kind not in "fiu" or array.dtype.itemsize > 8:
        return array
    if not (array.dtype == np.float64 and _is_settled(array)):
        array = np.array(array, dtype=np.float64, order="C")
        array.setflags(write=False)
    return array


def _is_settled(array: npt.NDArray[Any]) -> bool:
    """Whether nobody can write to the array's memory any more."""
    owner = array.base if isinstance(array.base, np.ndarray) else array
    return owner.flags.owndata and not (array.flags.writeable or owner.flags.writeable)


def _problems(arrays: Mapping[str, Array], places: Mapping[str, Expected]) -> Iterator[str]:
    for name, place in places.items():
        if place.required and name not in arrays:
            yield f"{name} is missing: expected shape {place.shape}"
    for name, array in arrays.items():
        if name not in places:
            yield f"{name} has no place in this configuration: leave it out or change the configuration"
        else:
            yield from _problem(name, array, places[name].shape)


def _problem(name: str, array: Array, shape: Shape) -> Iterator[str]:
    if array.dtype != np.float64:
        yield f"{name} must hold real numbers of at most 64 bits, found dtype {array.dtype}"
    if array.shape != shape:
        yield f"{name} has shape {array.shape}, expected {shape}{_transposed(array.shape, shape)}"
    if array.dtype == np.float64 and not isinstance(array, Stored):
        try:
            check_finite(name, array)
        except WeightsError as error:
            yield str(error)


def _untied(weights: Weights, config: Config) -> Iterator[str]:
    arrays = weights.arrays()
    if config.tied and "W_E" in arrays and "W_U" in arrays:
        W_E, W_U = arrays["W_E"], arrays["W_U"]
        if isinstance(W_E, StoredColumns) and W_E.table is W_U:
            return
        if W_E.T.shape == W_U.shape and not np.array_equal(W_E.T, W_U):
            yield "W_U is not the transpose of W_E, but the configuration has tied=True: set tied=False"


def _misplaced(weights: Weights, places: Mapping[str, Expected]) -> Iterator[str]:
    """Numbers in layers where nothing reads them; stored arrays are made by loaders, which put none there."""
    for name, array in weights.arrays().items():
        layers = places[name].layers if name in places else None
        if layers is None or isinstance(array, Stored) or array.shape != places[name].shape:
            continue
        for layer in range(len(array)):
            if layer not in layers and np.any(array[layer]):
                yield f"{name}[{layer}] is not zero, but this array says something in layers {list(layers)} only"


def _transposed(found: Shape, shape: Shape) -> str:
    turned = (*shape[:-2], shape[-1], shape[-2]) if len(shape) >= 2 else shape
    return ": transpose its last two axes (a map is target × source)" if found == turned != shape else ""


def _sizes(c: Config) -> str:
    return (
        f"{c.n_layers} layers × {c.n_heads} heads ({c.n_kv_heads} key/value), d_model {c.d_model}, "
        f"d_head {c.d_head}, d_mlp {c.d_mlp}, d_vocab {c.d_vocab}, n_ctx {c.n_ctx}"
        f"{'' if c.predicts_tokens else f', d_out {c.d_out}'}"
    )

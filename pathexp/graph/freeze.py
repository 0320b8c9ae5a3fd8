"""A run, frozen: hold fixed what is not linear, and the rest is a residual graph with numbers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from operator import index
from types import MappingProxyType
from weakref import ReferenceType, ref

from ..arguments import TEXT, check, expect, one_of
from ..errors import FreezeError
from ..model import Config, Model, Trace
from ..model.model import MODEL
from ..model.points import LOGITS, canonical
from ..model.trace import check_trace
from .added import ADDED, apart, check_base
from .build import Freezing, MlpMode, pieces
from .cache import WeakCache
from .ends import CapMode
from .factors import Factors
from .graph import ResidualGraph

GRAPHS: WeakCache[Trace, ResidualGraph] = WeakCache()
"""The graphs of the runs that are alive. A graph holds a copy of its run's record, so that it keeps no run alive."""

ORIGINS: WeakCache[Trace, ReferenceType[ResidualGraph]] = WeakCache()
"""The graph that each such copy belongs to: `freeze(graph.trace)` is the graph again."""


def freeze(
    trace: Trace,
    *,
    mlp: MlpMode = "gate",
    neurons: Mapping[int, Sequence[int]] = MappingProxyType({}),
    cap: CapMode = "ratio",
    at: str = "",
    start: str = "",
    base: Model | None = None,
) -> ResidualGraph:
    """Return the residual graph of a run with all that is not linear held fixed.

    The frozen graph is an affine map of the embedding that equals the run on the run's own tokens; what is
    held fixed is listed in `graph.frozen`. Elhage et al. 2021, "Splitting Attention Head terms into Query-Key and
    Output-Value Circuits" (the freezing
    attention patterns trick). As long as a trace lives,
    the same options give the same graph, so that freezing again costs nothing.

    Parameters
    ----------
    mlp: "gate" freezes act(z)/z of every neuron (of a gated MLP, its gate branch whole): paths pass through
        MLPs, `L0M`. Where act is flat away from zero, the credit for a step that was passed goes to biases. "source" freezes MLP outputs: paths start at `L0M`.
    neurons: by layer, neurons that become components of their own, such as `L0N17`; the rest stays `L0M`.
    cap: where logits are soft-capped, "ratio" freezes what the cap leaves of each, and terms add up to the
        capped logits; "before" leaves the cap out, and terms add up to the logits before it.
    at, start: points of the stream where paths end and begin, such as "L5.out", instead of the logits and the
        embedding: see `expand`.

    base: the model that an adapter or fine-tuning was added to. Where a head's, an MLP's or an expert's maps differ from the base's, it
        is two components, `L0H2.base` by the base's weights and `L0H2.added` by what was added; `L0H2` in
        queries is both. Patterns, scales and gates are the run's, with what was added to queries, keys and gate branches.

    Raises FreezeError for an unknown mode, a neuron that is not there or a base that differs elsewhere, GraphError for a point that is
    not there, PathexpError for what is no run.

    >>> import pathexp as px
    >>> graph = px.freeze(px.load("attn-2l").run("To be, or not to be"))
    >>> graph.frozen[0].startswith("attention patterns"), px.freeze(graph.trace) is graph
    (True, True)
    """
    expect("freeze", at=(at, TEXT), start=(start, TEXT))
    check_trace(trace, "freeze")
    if base is not None:
        check("freeze(), base", base, MODEL)
        check_base(base, trace.model)
    freezing = Freezing(mlp, _whole(neurons), cap, "" if at == LOGITS else at, start)
    _check(freezing, trace.config)
    if base is not None:
        return _frozen_apart(trace, freezing, base)
    known = ORIGINS.find(trace, freezing.key)
    return (known and known()) or GRAPHS.get(trace, freezing.key, lambda: _frozen(trace, freezing))


def _frozen(trace: Trace, freezing: Freezing) -> ResidualGraph:
    """Lay the graph of a run out, on a copy of the run's record."""
    run = replace(trace)
    laid = pieces(Factors.of_run(run), freezing)
    graph = ResidualGraph(
        **laid,
        frozen=tuple(ledger(run, freezing)),
        trace=run,
        before_cap=freezing.cap == "before" and not freezing.at,
        at=canonical(freezing.at) or LOGITS,
    )
    ORIGINS.get(run, freezing.key, lambda: ref(graph))
    return graph


def _frozen_apart(trace: Trace, freezing: Freezing, base: Model) -> ResidualGraph:
    """Lay the graph of a run out with what was added to its base as components of its own."""
    if freezing.neurons:
        raise FreezeError("neurons are parts of whole MLPs; give neurons or base, not both")
    whole = Factors.of_run(trace)
    laid = apart(pieces(whole, freezing), pieces(replace(whole, weights=base.weights), freezing))
    parts = sum(component.port == ADDED for block in laid["blocks"] for component in block.components)
    return ResidualGraph(
        **laid,
        frozen=(*ledger(trace, freezing), f"weights as base and what was added: {parts} components in two"),
        trace=trace,
        before_cap=freezing.cap == "before" and not freezing.at,
        at=canonical(freezing.at) or LOGITS,
    )


def _whole(neurons: Mapping[int, Sequence[int]]) -> Mapping[int, tuple[int, ...]]:
    """Neurons by layer as Python's whole numbers, whatever kind they are given as; never a truth value."""
    try:
        return MappingProxyType(
            {_index(layer): tuple(_index(neuron) for neuron in which) for layer, which in neurons.items()}
        )
    except (AttributeError, TypeError):
        raise FreezeError(
            f"neurons must be whole numbers by layer, such as {{0: [3, 17]}}, found {neurons!r:.80}"
        ) from None


def _index(value: object) -> int:
    if isinstance(value, bool):
        raise TypeError
    return index(value)  # type: ignore[arg-type]


def _check(freezing: Freezing, config: Config) -> None:
    check("freeze(), mlp", freezing.mlp, one_of("gate", "source"), FreezeError)
    check("freeze(), cap", freezing.cap, one_of("ratio", "before"), FreezeError)
    if freezing.neurons and freezing.mlp == "source":
        raise FreezeError(
            "neurons can be components only with mlp='gate'; with 'source' MLP outputs are whole"
        )
    for layer, which in freezing.neurons.items():
        if not 0 <= layer < config.n_layers or not config.has_mlps:
            raise FreezeError(f"neurons of layer {layer}: this model has {_mlps(config)}")
        if config.is_sparse(layer):
            raise FreezeError(
                f"neurons of layer {layer}: it has experts, which are components of their own (L{layer}E0)"
            )
        if outside := [neuron for neuron in which if not 0 <= neuron < config.d_mlp]:
            raise FreezeError(f"neuron {outside[0]} of layer {layer}: its MLP has {config.d_mlp} neurons")
        if len(set(which)) < len(which):
            raise FreezeError(f"neurons of layer {layer} are named more than once: {list(which)}")


def _mlps(config: Config) -> str:
    return f"MLPs in layers 0 to {config.n_layers - 1}" if config.has_mlps else "no MLPs"


def ledger(trace: Trace, freezing: Freezing) -> Iterator[str]:
    """Say in words what is held fixed, and what the sum of all paths then is."""
    config = trace.config
    layers, heads, n, _ = trace.patterns.shape
    if layers:
        within = [
            *(["soft-capped"] if config.attention_cap is not None else []),
            *_rotary(config),
            *(["with ALiBi slopes"] if config.positions == "alibi" else []),
            *(["with sinks"] if config.sinks else []),
            *(["of normed queries and keys"] if config.qk_norm else []),
            *(["of latents"] if config.latent is not None else []),
        ]
        how = f" ({', '.join(within)})" if within else ""
        yield f"attention patterns{how}: {layers} layers × {heads} heads, {n} × {n} each"
    if sites := [site for site in trace.norm_scales if not site.endswith((".q", ".k", ".q_latent"))]:
        yield f"norm scales: {', '.join(sites)}, one number per position"
    if dense := sum(map(config.has_dense, range(layers))):
        yield _mlp_sentence(config, freezing, n, dense)
    yield from _expert_sentences(trace, freezing)
    if config.transform:
        yield f"gates of the transform before U, {config.transform_activation}(z)/z: {config.d_model} × {n} positions"
    if config.logit_cap is not None:
        yield _cap_sentence(config.logit_cap, freezing)


def _rotary(config: Config) -> Iterator[str]:
    """How positions turn queries and keys, where they do."""
    if config.rotaries is None:
        yield from ["rotary"] if config.positions == "rotary" else []
    elif turned := sum(rotary is not None for rotary in config.rotaries):
        bases = {rotary.base for rotary in config.rotaries if rotary is not None}
        of = "" if len(bases) == 1 else f", {len(bases)} bases"
        yield f"rotary in {turned} of {config.n_layers} layers{of}"


def _expert_sentences(trace: Trace, freezing: Freezing) -> Iterator[str]:
    """What is held fixed of experts."""
    config, experts = trace.config, trace.config.experts
    if experts is None or not experts.layers:
        return
    size = f"{len(experts.layers)} layers × {experts.count} experts"
    yield (
        f"router weights of experts: {size} × {len(trace)} positions, {experts.chosen} at each not zero"
        f"{', and one expert that all positions share' if experts.shared else ''}"
    )
    if freezing.mlp == "source":
        yield f"outputs of experts: paths start at them; {size} × {experts.width} neurons"
    else:
        what = "the gate branch whole" if config.gated else f"{config.activation}(z)/z"
        yield f"gates of experts, {what}: {size} × {experts.width} neurons, where they are chosen"


def _mlp_sentence(config: Config, freezing: Freezing, n: int, layers: int) -> str:
    size = f"{layers} layers × {config.d_mlp} neurons × {n} positions"
    if freezing.mlp == "source":
        return f"MLP outputs: paths start at them; {size}"
    what = "the gate branch whole" if config.gated else f"{config.activation}(z)/z"
    return f"MLP gates, {what}: {size}"


def _cap_sentence(cap: float, freezing: Freezing) -> str:
    if freezing.cap == "before":
        return f"the soft-cap of the logits at ±{cap:g} is left out: paths add up to the logits before it"
    return f"the soft-cap of the logits at ±{cap:g}, as a ratio: paths add up to the capped logits"

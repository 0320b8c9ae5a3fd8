"""The contrast whose paths end inside: on the stream, at a head's query or key, or at its scores."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from ...errors import GraphError
from ...model.points import FINAL, LOGITS, canonical, is_router, router_layer
from ..nodes import Sink, Source
from ..operators import Operator, Parallel, chain
from .contrast import sources
from .ends import Ends
from .experts import Scores
from .graph import Contrast
from .layout import Layout
from .masks import Masks
from .points import depth_behind, places
from .runs import Runs
from .scoring import Projecting, Scoring

_HEAD = re.compile(r"L(\d+)H(\d+)\.(Q|K|score)")
FINAL_OUT = "final_out"


def contrast_to(graph: Contrast, at: str = "") -> Contrast:
    """Return a contrast whose paths end at a point instead of at the logits; the sink carries the point's name.

    Raises GraphError if there is no such point, or for a contrast that was changed by hand or ends elsewhere.
    """
    point = canonical(at) or graph.at
    if point == graph.at:
        return graph
    if graph.changed or graph.at != LOGITS:
        state = "; ".join(graph.changed) or f"its paths end at {graph.at}"
        raise GraphError(
            f"paths to {at} are those of a whole contrast, px.contrast(run, other); here {state}"
        )
    if is_router(point):
        return before_router(graph, router_layer(graph.runs[0], point))
    if (head := _HEAD.fullmatch(point)) is not None:
        sides = ("Q", "K") if head[3] == "score" else (head[3],)
        return inside_head(graph, int(head[1]), int(head[2]), head[3], sides)
    depths = {"embed": 0} | {place.after: b + 1 for b, place in enumerate(places(graph.runs[0].config))}
    depths |= {FINAL: len(graph.blocks), FINAL_OUT: len(graph.blocks)}
    if point not in depths:
        raise GraphError(
            f"no point {at!r:.40} at which paths of a contrast end; choose from: {', '.join(depths)}, or L0H0.Q, L0H0.K "
            "and L0H0.score for a head's queries, keys and scores, L0.router for a router's"
        )
    if point == FINAL_OUT:
        return before_tables(graph, at)
    kept = [source for source in graph.sources if point == FINAL or source.label != "edit_final_in"]
    return ended(graph, depths[point], Sink(at, ()), kept, point)


def ended(graph: Contrast, depth: int, sink: Sink, kept: list[Source], point: str) -> Contrast:
    """The first blocks, what enters before or in them, and another sink."""
    blocks = graph.blocks[:depth]
    known = {component.label for block in blocks for component in block.components} | {sink.label}
    found = tuple(cut for source in kept for cut in before(source, depth, known))
    return replace(
        graph, sources=found, blocks=blocks, sink=sink, at=point, d_out=graph.d_model
    )  # fmt: skip


def before(source: Source, depth: int, known: set[str]) -> Iterator[Source]:
    """A source as far as it enters before a depth or in what is known; nothing if it enters nowhere."""
    into = {label: operator for label, operator in source.into.items() if label in known}
    enters = source.depth is not None and source.depth <= depth
    if enters or into:
        yield replace(source, depth=source.depth if enters else None, into=into)


def before_tables(graph: Contrast, at: str) -> Contrast:
    """The paths to what the unembedding reads."""
    runs = Runs(*graph.runs, graph.share)
    ends = Ends(runs, at)
    kept = list(sources(runs, Layout(runs, graph.mlp_ports), ends))
    return ended(graph, len(graph.blocks), Sink(at, ends.unembedding()), kept, FINAL_OUT)


def score_sides(graph: Contrast, at: str) -> dict[str, Contrast]:
    """Return the paths to a head's scores through its queries, and those through its keys."""
    head = _HEAD.fullmatch(at)
    assert head is not None and head[3] == "score", at
    place = int(head[1]), int(head[2]), "score"
    return {"queries": inside_head(graph, *place, ("Q",)), "keys": inside_head(graph, *place, ("K",))}


def inside_head(graph: Contrast, layer: int, head: int, what: str, sides: tuple[str, ...]) -> Contrast:
    """The paths to a head's queries, keys or scores; what enters in the head itself enters the sink."""
    runs, config = Runs(*graph.runs, graph.share), graph.runs[0].config
    if layer >= config.n_layers or head >= config.n_heads:
        raise GraphError(
            f"no head L{layer}H{head}: this model has {config.n_layers} layers of {config.n_heads} heads"
        )
    score, label = what == "score", f"L{layer}H{head}"
    at = f"{label}.{what}"
    layout = Layout(runs, graph.mlp_ports, Scoring if score else Projecting)
    if score:
        _refuse_masks(layout, layer, head)
    attention, reads = layout.attention_of(layer), layout.law.read(layer, "attn")
    parts = {"Q": attention.by_queries, "K": attention.by_keys}
    operator = together(at, [chain(parts[s](head), reads) for s in sides])
    depth = depth_behind(config, layer, "attn") - 1
    own = [
        replace(source, depth=None, into={at: together(f"{source.label}_{at}", entering)})
        for source in sources(runs, layout, Ends(runs))
        if (entering := [source.into[f"{label}.{s}"] for s in sides if f"{label}.{s}" in source.into])
    ]
    found = ended(graph, depth, Sink(at, operator), beside(graph, own), at)
    return replace(found, d_out=runs.positions if score else config.d_head)


def before_router(graph: Contrast, layer: int) -> Contrast:
    """The paths to the scores of a layer's router."""
    runs = Runs(*graph.runs, graph.share)
    layout = Layout(runs, graph.mlp_ports, sparse=Scores)
    at, read = next(iter(layout.experts_of(layer).after_read(graph.mlp_ports).items()))
    sink = Sink(at, chain(read, layout.law.read(layer, "mlp")))
    own = [
        replace(source, depth=None, into={at: source.into[at]})
        for source in sources(runs, layout, Ends(runs))
        if at in source.into
    ]
    found = ended(graph, depth_behind(runs.config, layer, "mlp") - 1, sink, beside(graph, own), at)
    return replace(found, d_out=runs.here.router_scores.shape[-1])


def beside(graph: Contrast, own: list[Source]) -> list[Source]:
    """The sources of a contrast, some in the place of those of the same label."""
    known = {source.label for source in own}
    return [*(source for source in graph.sources if source.label not in known), *own]


def _refuse_masks(layout: Layout, layer: int, head: int) -> None:
    apart = Masks(layout.runs, layout).one_alone(layer)[head]
    if apart.any():
        raise GraphError(
            f"L{layer}H{head} sees {int(apart.sum()):,} keys in one run only: its scores there have no difference. Ask "
            f"for its queries or keys, L{layer}H{head}.Q or L{layer}H{head}.K"
        )


def together(name: str, parts: list[Operator]) -> Operator:
    """Operators whose results are added up; one stands for itself."""
    return parts[0] if len(parts) == 1 else (Parallel(name.replace(".", "_"), tuple(parts)),)

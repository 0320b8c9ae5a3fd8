"""What a router reads: the residual graph cut before a layer of experts, with the router's scores as its sink.

Every path into a score is a path of such a graph, so that counts, queries and exact sums hold for routers as they do for logits.
The scores W_router x + b_router are linear in what stands behind the frozen norm; the choice and the weights made of them are not.
"""

from __future__ import annotations

from collections.abc import Iterator
from types import MappingProxyType

from ..model import Trace
from ..model.points import router_layer
from .cut import part_before
from .factors import Factors, there
from .graph import ResidualGraph
from .named import table
from .nodes import One, Sink, Source
from .operators import Operator, Step, chain


def router_graph(trace: Trace, at: str, whole: ResidualGraph) -> ResidualGraph:
    """Return the graph of everything that a router reads, its scores (position, experts) as the sink `at`, "L3.router".

    Raises TargetError if there is no such router.

    >>> import pathexp as px
    >>> from pathexp.model import Experts
    >>> trace = px.random_model(norm="rmsnorm", experts=Experts(count=4, chosen=2, width=3)).run([1, 2, 3])
    >>> px.expand(trace, at="L1.router").verify().ok
    True
    """
    make, layer = Factors.of_run(trace), router_layer(trace, at)
    b = whole.places[f"L{layer}E0"]
    known = {component.label for block in whole.blocks[:b] for component in block.components}
    reads = _weight(make, layer)
    sources = [kept for source in whole.sources if (kept := part_before(source, b, known))]
    return ResidualGraph(
        positions=whole.positions,
        d_model=whole.d_model,
        d_out=trace.router_scores.shape[-1],
        sources=(*sources, *_constants(make, layer, reads, at)),
        blocks=whole.blocks[:b],
        sink=Sink(at, chain(reads, make.law.read(layer, "mlp"))),
        frozen=whole.frozen,
        changed=whole.changed,
        trace=whole.trace,
        at=at,
    )


def _weight(make: Factors, layer: int) -> Operator:
    name, experts = f"W_router_L{layer}", make.config.experts
    assert experts is not None, "a layer with a router has experts"
    numbers = make.make(
        name, experts.count, "d_model", lambda w: table(there(w.W_router, layer), "experts", "model", name)
    )
    return (Step((), (numbers,)),)


def _constants(make: Factors, layer: int, reads: Operator, at: str) -> Iterator[Source]:
    """The router's bias, and that of the norm before it."""
    ones = make.ones()
    norm = make.law.read_norm(layer, "mlp")
    if norm is not None and make.has(f"b_{norm}"):
        name = f"b_{norm}_L{layer}"
        bias = make.constant(name, "d_model", "model", lambda w: there(getattr(w, f"b_{norm}"), layer))
        into = MappingProxyType({at: chain(reads, (Step((ones,), (bias,)),))})
        yield Source(name, "norm bias", One(), depth=None, into=into, layer=layer)
    if make.has("b_router"):
        name, count = f"b_router_L{layer}", make.config.experts.count if make.config.experts else 0
        bias = make.constant(name, count, "experts", lambda w: there(w.b_router, layer))
        yield Source(
            name,
            "bias",
            One(),
            depth=None,
            into=MappingProxyType({at: (Step((ones,), (bias,)),)}),
            layer=layer,
        )

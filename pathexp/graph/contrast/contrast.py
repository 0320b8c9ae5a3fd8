"""Two runs, one residual graph: the difference of their logits as a sum over paths, exactly."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields

from ...arguments import TRUTH, expect, one_of
from ...errors import FreezeError
from ...model import Config, Trace
from ...model.trace import check_trace
from ..nodes import Sink, Source
from .changes import Changes
from .choices import Choices
from .edits import Edits
from .ends import Ends
from .graph import Contrast
from .layout import Layout
from .masks import Masks
from .runs import Runs

SPLITS = {"midpoint": 0.5, "here": 1.0, "there": 0.0}
"""Exact ways to divide a product's mixed part, by how much of the first factor is the first run's."""


def contrast(run: Trace, other: Trace, *, mlp_ports: bool = False, split: str = "midpoint") -> Contrast:
    """Return the residual graph of the difference of two runs: its paths add up to what their logits differ by.

    Every product and every function that is not linear is replaced by its secant between the two runs, so that
    nothing is left over: attention patterns by their means where values move (`L0H2.V`), by logarithmic means where
    other keys or queries change them (`L1H0.K`, `L1H0.Q`), norms by their mean scale and one direction in which it
    changes, activations by their slopes (`L5M`). Of experts that both runs chose, mean router weights where they move
    what they read (`L3E5.mlp`), and what changes those weights (`L3E5.router`). Biases, positions and masks are the same in both runs and drop out.
    The first source is `E`, zero at tokens that agree. Of two models every weight that differs is a source as well,
    `dW_O_L0H2` or `dW_Q_L1H3`, which enters where it acts, and `W` stands for their mean. So is every edit of `rerun`,
    `edit_mid_L1`, what a head moves by keys that one run alone sees (two models with other windows), `dmask_L0H1`, and
    what an expert adds where one run alone chose it, `dchoice_L3E5`.
    Runs may stand in either order: exchanged, every path changes its sign.

    Parameters
    ----------
    run, other: two runs of the same length, of one model or of two of one shape: fine-tuned and base, with and
        without an adapter, two checkpoints; or a run and its `rerun` with edits.
    mlp_ports: whether MLPs and experts are kept apart by port, `L5M.value` and `L5M.gate`.
    split: how the mixed part of products is divided, exact in each case: "midpoint", half to both factors; "here",
        patterns, scales, gates and queries as in `run`, values, streams and keys as in `other`; "there", the other way
        round. For two models midpoints only.

    Targets of either run read the graph, and what it makes itself: `Contrast.log_prob`, `Contrast.probability`.
    Set-up costs about two forward passes. Products at their midpoints are a convention (the symmetric one); the sum
    is not. Secants: Shrikumar et al. 2017, "Learning Important Features Through Propagating Activation Differences";
    logarithmic means: Ang 2004, "Decomposition analysis for policymaking in energy".

    Raises FreezeError for runs of unequal length or shape, or a split of two models other than midpoints, PathexpError for what is no run.

    >>> import pathexp as px
    >>> model = px.random_model(layers=2, heads=2, d_mlp=8, norm="rmsnorm", seed=1)
    >>> here, there = model.run([1, 2, 3]), model.run([4, 2, 3])
    >>> terms = px.expand(px.contrast(here, there))
    >>> terms.verify().ok, terms.count()
    (True, 196)
    >>> change = here.logits[-1, 5] - there.logits[-1, 5]
    >>> bool(abs(terms.value(here.logit(5)) - change) < 1e-12)
    True
    """
    expect("contrast", mlp_ports=(mlp_ports, TRUTH), split=(split, one_of(*SPLITS)))
    for trace in (run, other):
        check_trace(trace, "contrast")
    check_shapes(run, other)
    runs = Runs(run, other, SPLITS[split])
    if split != "midpoint" and not runs.one_model:
        raise FreezeError(
            f"split={split!r} is for two runs of one model; weights that differ stand at midpoints"
        )
    ends, layout = Ends(runs), Layout(runs, mlp_ports)
    return Contrast(
        positions=runs.positions,
        d_model=run.config.d_model,
        d_out=run.config.d_out,
        sources=tuple(sources(runs, layout, ends)),
        blocks=tuple(layout.blocks()),
        sink=Sink("U", ends.unembedding()),
        frozen=(*replaced(run.config), *([UNEVEN[split]] if split in UNEVEN else [])),
        trace=run,
        other=other,
        mlp_ports=mlp_ports,
        share=runs.share,
    )


UNEVEN = {
    "here": "products: not midpoints, but patterns, scales, gates, queries of the first run, contents of the other",
    "there": "products: not midpoints, but patterns, scales, gates, queries of the other run, contents of the first",
}


def check_shapes(run: Trace, other: Trace) -> None:
    """Raise FreezeError for two runs whose difference has no graph."""
    if len(run) != len(other):
        raise FreezeError(
            f"a contrast takes two runs of one length, position by position; found {len(run)} and {len(other)} "
            "tokens. Make the texts equally long in tokens, such as by replacing a name with one of as many tokens."
        )
    if apart := list(differing(run.config, other.config)):
        raise FreezeError(
            f"a contrast takes two runs of one shape; these models differ in {'; '.join(apart)}. "
            "Give two runs of one model, or of two models that differ in their weights, or in which keys are visible, alone."
        )


def sources(runs: Runs, layout: Layout, ends: Ends) -> Iterator[Source]:
    """Yield what tells the runs apart: their tokens, of two models their weights, masks, and edits."""
    changes = [] if runs.one_model else list(Changes(runs, layout, ends).sources())
    changes += [
        *Masks(runs, layout).sources(),
        *Choices(runs, layout).sources(),
        *Edits(runs, layout, ends).sources(),
    ]
    if not changes or (runs.here.tokens != runs.there.tokens).any():
        yield from ends.embeddings()
    yield from changes


MAY_DIFFER = ("tied", "n_ctx", "windows", "causal")
"""Switches in which the models of two runs may differ: how long texts may be, and which keys are visible."""


def differing(here: Config, there: Config) -> Iterator[str]:
    """Say in which switches two configurations differ that a contrast cannot hold; tied tables count as two."""
    for field in fields(Config):
        ours, theirs = getattr(here, field.name), getattr(there, field.name)
        if ours != theirs and field.name not in MAY_DIFFER:
            yield f"{field.name} ({ours} and {theirs})"


def replaced_in_experts(config: Config) -> Iterator[str]:
    """Say in words what stands for a layer of experts."""
    if config.experts is None:
        return
    inside = "mean gates and mean values of gated neurons" if config.gated else "slopes of the neurons"
    yield f"experts that both runs chose: mean router weights, {inside}"
    if config.experts.scoring == "softmax":
        yield "routers: logarithmic means of the weights; experts that one run alone chose are sources"
    else:
        yield "routers: slopes of the sigmoids; experts that one run alone chose are sources"


def replaced(config: Config) -> Iterator[str]:
    """Say in words which functions their secants stand for."""
    if config.n_layers:
        yield "attention: mean patterns where values move, logarithmic means of patterns where keys or queries differ"
    if config.norm is not None:
        yield "norms: mean scale at each position, and its change along the mean stream"
    if any(map(config.has_dense, range(config.n_layers))):
        gated = "mean gates and mean values of gated neurons" if config.gated else "slopes of the neurons"
        yield f"MLPs: {gated} between the two runs"
    yield from replaced_in_experts(config)
    if config.logit_cap is not None:
        yield f"the soft-cap of the logits at ±{config.logit_cap:g}: its slope between the two runs"

"""Edits of `rerun`: each point that was edited in either run is a source, what the edit put there enters where it acts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from ...model import Trace
from ..nodes import Source, Values
from ..operators import Array, Operator, chain
from .ends import Ends
from .layout import Layout
from .points import depth_behind, places
from .runs import Runs

EDIT = "edit"


@dataclass(frozen=True, eq=False)
class Entry:
    """Where what stands at a point goes on: to the stream at a depth, or into components (or the sink) that read it."""

    write: Operator = ()
    depth: int | None = None
    into: Mapping[str, Operator] | None = None


@dataclass(frozen=True, eq=False)
class Edits:
    """The sources that come from edits: (after − before) in one run minus the same in the other."""

    runs: Runs
    layout: Layout
    ends: Ends

    def sources(self) -> Iterator[Source]:
        """One source for each edited point, in the order of the forward pass: `edit_mid_L1`, `edit_embed`."""
        here, there = self.runs.here, self.runs.there
        for point in here.residuals:
            values = put_in(here, point) - put_in(there, point)
            if values.any():
                yield self.source(point, values)

    def source(self, point: str, values: Array) -> Source:
        """What edits at a point differ by, as a source."""
        layer, _, name = point.rpartition(".")
        label = f"edit_{name}_{layer}" if layer else f"edit_{name}"
        found, number = self.entry(point), int(layer[1:]) if layer else -1
        start = Values(f"x_{label}", values.shape[-1], values)
        return Source(label, EDIT, start, found.write, found.depth, found.into or {}, number)

    def entry(self, point: str) -> Entry:
        """Where what stands at a point goes on."""
        layer, _, name = point.rpartition(".")
        return self.at_an_end(name) if not layer else self.in_a_layer(int(layer[1:]), name)

    def at_an_end(self, name: str) -> Entry:
        """Points before the first layer and behind the last."""
        last, sink = len(list(places(self.runs.config))), self.ends.label
        match name:
            case "embed_in":
                return Entry(self.ends.embed_norm(), 0)
            case "embed":
                return Entry(depth=0)
            case "final_in":
                return Entry(depth=last)
            case "transform_in":
                return Entry(into={sink: chain(self.ends.past_norm(), self.ends.transform())})
            case "transform_out":
                return Entry(into={sink: self.ends.past_norm()})
        return Entry(into={sink: self.ends.past_table()})

    def in_a_layer(self, layer: int, name: str) -> Entry:
        """Points of a layer: what branches read and give, the sum under a norm, the stream between and behind them."""
        config = self.runs.config
        branch, _, what = name.partition("_")
        if not what:
            branch = "attn" if name == "mid" or not config.has_mlps else "mlp"
            return Entry(depth=depth_behind(config, layer, branch))
        if what == "in":
            mlp = branch == "mlp"
            read = (
                self.layout.behind_attention(layer).after_read(self.layout.ports)
                if mlp
                else self.heads(layer)
            )
            return Entry(into=read)
        law = self.layout.law
        write = law.written(layer, branch) if what == "result" else law.skip(layer, branch)
        return Entry(write, depth_behind(config, layer, branch))

    def heads(self, layer: int) -> dict[str, Operator]:
        """The edges of a layer's heads, from what they read behind the norm."""
        return dict(self.layout.attention_of(layer).after_read())


def put_in(run: Trace, point: str) -> Array:
    """Return what an edit of a run added at a point, (n, d); zero where there was none."""
    stands = run.residuals[point]
    return stands - run.before_edits[point] if point in run.before_edits else np.zeros_like(stands)

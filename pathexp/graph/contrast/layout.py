"""The pieces of a contrast, in the order of the forward pass: blocks of heads and MLPs, norms on branch and skip."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ..nodes import Block, Component
from ..operators import Operator, chain
from .attention import Attention
from .mlps import Mlp
from .named import multiplier
from .norms import norm
from .runs import Runs


@dataclass(frozen=True, eq=False)
class Layout:
    """Lays out the blocks; `ports` keeps value and gate of MLPs apart."""

    runs: Runs
    ports: bool = False

    def blocks(self) -> Iterator[Block]:
        """One block a branch, or one a layer where attention and MLP are parallel."""
        for layer in range(self.runs.config.n_layers):
            if self.runs.config.parallel:
                yield Block(tuple(self.parallel(layer)))
            else:
                yield from self.branches(layer)

    def parallel(self, layer: int) -> Iterator[Component]:
        """Attention and MLP of a layer that read the same stream, perhaps through one norm."""
        reads = self.reads(layer, "attn")
        yield from self.attention(layer, reads, self.writes(layer, "attn"))
        if self.runs.config.parallel != "shared":
            reads = self.reads(layer, "mlp")
        yield from self.mlp(layer, reads, self.writes(layer, "mlp"))

    def branches(self, layer: int) -> Iterator[Block]:
        """Attention, then the MLP if there is one; a norm of the sum stands on the skip edge as well."""
        for branch, of in (("attn", self.attention), ("mlp", self.mlp)):
            after = self.on_stream(layer, branch)
            writes = chain(after, self.multiplied()) if after else self.writes(layer, branch)
            components = tuple(of(layer, self.reads(layer, branch), writes))
            if components:
                yield Block(components, after)

    def attention(self, layer: int, reads: Operator, writes: Operator) -> Iterator[Component]:
        """The heads of a layer, by port."""
        return Attention(self.runs, layer, reads, writes).components()

    def mlp(self, layer: int, reads: Operator, writes: Operator) -> Iterator[Component]:
        """The MLP of a layer."""
        if self.runs.config.d_mlp:
            yield from Mlp(self.runs, layer, reads, writes).components(self.ports)

    def reads(self, layer: int, branch: str) -> Operator:
        """The norm through which a branch reads, if it has one."""
        return norm(self.runs, branch, layer) if branch in self.runs.config.block_norms else ()

    def writes(self, layer: int, branch: str) -> Operator:
        """What a branch's result goes through before it is on the stream: a norm, a multiplier."""
        after = f"{branch}_post"
        through = norm(self.runs, after, layer) if after in self.runs.config.block_norms else ()
        return chain(self.multiplied(), through)

    def multiplied(self) -> Operator:
        """The multiplier of what branches add."""
        config = self.runs.config
        return multiplier("M_R", config.residual_multiplier, config.d_model, "model")

    def on_stream(self, layer: int, branch: str) -> Operator:
        """The norm of the sum in the original block, else the identity."""
        after = f"{branch}_post"
        post = self.runs.config.norm_placement == "post" and after in self.runs.config.block_norms
        return norm(self.runs, after, layer) if post else ()

"""The pieces of a contrast, in the order of the forward pass: blocks of heads and MLPs, norms on branch and skip."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

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
        yield from self.attention_of(layer).components()
        yield from self.mlp(layer)

    def branches(self, layer: int) -> Iterator[Block]:
        """Attention, then the MLP if there is one; a norm of the sum stands on the skip edge as well."""
        yield Block(tuple(self.attention_of(layer).components()), self.on_stream(layer, "attn"))
        if self.runs.config.d_mlp:
            yield Block(tuple(self.mlp(layer)), self.on_stream(layer, "mlp"))

    def mlp(self, layer: int) -> Iterator[Component]:
        """The MLP of a layer."""
        yield from self.mlp_of(layer).components(self.ports)

    def attention_of(self, layer: int) -> Attention:
        """The attention of a layer."""
        if layer not in self._attention:
            reads, writes = self.reads(layer, "attn"), self.writes(layer, "attn")
            self._attention[layer] = Attention(self.runs, layer, reads, writes)
        return self._attention[layer]

    def mlp_of(self, layer: int) -> Mlp:
        """The MLP of a layer, behind the norm of attention where they share one."""
        shared = self.runs.config.parallel == "shared"
        reads = self.attention_of(layer).reads if shared else self.reads(layer, "mlp")
        return Mlp(self.runs, layer, reads, self.writes(layer, "mlp"))

    @cached_property
    def _attention(self) -> dict[int, Attention]:
        return {}

    def reads(self, layer: int, branch: str) -> Operator:
        """The norm through which a branch reads, if it has one."""
        return norm(self.runs, branch, layer) if branch in self.runs.config.block_norms else ()

    def writes(self, layer: int, branch: str) -> Operator:
        """What a branch's result goes through before it is on the stream: a norm, a multiplier."""
        through = self._norm_behind(layer, branch)
        if self.runs.config.norm_placement == "post":
            return chain(through, self.multiplied())
        return chain(self.multiplied(), through)

    def multiplied(self) -> Operator:
        """The multiplier of what branches add."""
        config = self.runs.config
        return multiplier("M_R", config.residual_multiplier, config.d_model, "model")

    def on_stream(self, layer: int, branch: str) -> Operator:
        """The norm of the sum in the original block, else the identity."""
        return self._norm_behind(layer, branch) if self.runs.config.norm_placement == "post" else ()

    def _norm_behind(self, layer: int, branch: str) -> Operator:
        """The norm that follows a branch, made once."""
        name = f"{branch}_post"
        if name not in self.runs.config.block_norms:
            return ()
        if (layer, branch) not in self._behind:
            self._behind[layer, branch] = norm(self.runs, name, layer)
        return self._behind[layer, branch]

    @cached_property
    def _behind(self) -> dict[tuple[int, str], Operator]:
        return {}

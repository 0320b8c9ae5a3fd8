"""The pieces of a contrast, in the order of the forward pass: blocks of heads and MLPs, norms on branch and skip."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, cached_property

from ..law import BlockLaw
from ..named import multiplier
from ..nodes import Block, Component
from .attention import Attention
from .experts import Experts
from .mlps import Mlp
from .norms import norm
from .runs import Runs


@dataclass(frozen=True, eq=False)
class Layout:
    """Lays out the blocks; `ports` keeps value and gate of MLPs apart, `kind` is how attention is laid out, `sparse` how experts are."""

    runs: Runs
    ports: bool = False
    kind: type[Attention] = Attention
    sparse: type[Experts] = Experts

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
        yield Block(tuple(self.attention_of(layer).components()), self.law.skip(layer, "attn"))
        if self.runs.config.has_mlps:
            yield Block(tuple(self.mlp(layer)), self.law.skip(layer, "mlp"))

    def mlp(self, layer: int) -> Iterator[Component]:
        """The MLP of a layer, or its experts."""
        yield from self.behind_attention(layer).components(self.ports)

    def behind_attention(self, layer: int) -> Mlp | Experts:
        """What stands behind the attention of a layer."""
        return self.experts_of(layer) if self.runs.config.is_sparse(layer) else self.mlp_of(layer)

    def attention_of(self, layer: int) -> Attention:
        """The attention of a layer."""
        if layer not in self._attention:
            reads, writes = self.law.read(layer, "attn"), self.law.written(layer, "attn")
            self._attention[layer] = self.kind(self.runs, layer, reads, writes)
        return self._attention[layer]

    def mlp_of(self, layer: int) -> Mlp:
        """The MLP of a layer, behind the norm of attention where they share one."""
        return Mlp(self.runs, layer, self.law.read(layer, "mlp"), self.law.written(layer, "mlp"))

    def experts_of(self, layer: int) -> Experts:
        """The experts of a layer, where it has some."""
        if layer not in self._experts:
            reads, writes = self.law.read(layer, "mlp"), self.law.written(layer, "mlp")
            self._experts[layer] = self.sparse(self.runs, layer, reads, writes)
        return self._experts[layer]

    @cached_property
    def _experts(self) -> dict[int, Experts]:
        return {}

    @cached_property
    def _attention(self) -> dict[int, Attention]:
        return {}

    @cached_property
    def law(self) -> BlockLaw:
        """What stands around the branches: norms as secants of both runs, each made once."""
        config = self.runs.config
        multiplied = multiplier("M_R", config.residual_multiplier, config.d_model, "model")
        return BlockLaw(config, cache(lambda name, layer: norm(self.runs, name, layer)), multiplied)

"""Memory management: components that read what an earlier one wrote and write back its negative.

Candidates from the weights: along the subspace B (d_model, r) that an earlier component writes, a head gives back
Bᵀ W_OV B; a negative mean of its diagonal means that what is read there is taken off. Confirmed on runs: the part of the
earlier component's output that is cancelled at the same place. Elhage et al. 2021, "Subspaces and Residual Stream
Bandwidth": "some MLP neurons have very negative cosine similarity between their input and output weights".
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

import numpy as np

from ..errors import PathexpError
from ..graph import Array
from ..model import Model
from .corpus import Corpus, Tokens, windows
from .decompose import decompose
from .ports import Ports
from .running import Tally, tally
from .subspaces import TINY


@dataclass(frozen=True)
class Erasure:
    """One component against an earlier writer.

    `weights`: what of a vector in the writer's subspace comes back negative where it is read whole: 1 erases, 0
    leaves alone, below 0 repeats. `measured`: the share of the writer's output that is cancelled at the same position on
    runs, -⟨out, written⟩ / ⟨written, written⟩; None if not measured.
    """

    component: str
    writer: str
    weights: float
    measured: float | None = None

    @property
    def confirmed(self) -> bool:
        """Whether runs show cancellation as well."""
        return self.measured is not None and self.measured > 0


def memory_management(
    model: Model,
    corpus: Corpus | None = None,
    *,
    k: int = 10,
    length: int | None = None,
    limit: int | None = 20,
    start: Tally | None = None,
) -> tuple[Erasure, ...]:
    """Return the `k` components whose weights take most off what an earlier component wrote, measured on a corpus.

    Heads against the embedding and every earlier head or MLP. Without a corpus nothing is measured. Costs an SVD per
    writer and O(heads² · d_model · d_head²); on runs, one decomposition per window. Raises PathexpError as `Ports` for
    post-norm models.

    >>> import pathexp as px
    >>> found = memory_management(px.load("attn-2l"), k=3)
    >>> len(found), found[0].measured is None, found[0].weights >= found[1].weights
    (3, True, True)
    """
    found = sorted(_by_weights(model), key=lambda pair: (-pair.weights, pair.component, pair.writer))[:k]
    if corpus is None:
        return tuple(found)
    pairs = tuple((pair.component, pair.writer) for pair in found)
    sums = tally(
        windows(model, corpus, length),
        partial(_met, model, pairs),
        f"cancellation of {pairs} in {model!r}",
        start=start,
        limit=limit,
    )
    shares = -sums.mean("met") / np.maximum(sums.mean("size"), 1e-300)
    return tuple(
        Erasure(pair.component, pair.writer, pair.weights, float(share))
        for pair, share in zip(found, shares, strict=True)
    )


def _by_weights(model: Model) -> list[Erasure]:
    ports, c = Ports(model), model.config
    heads = [f"L{layer}H{h}" for layer in range(c.n_layers) for h in range(c.n_heads)]
    mlps = [f"L{layer}M" for layer in range(c.n_layers)] if c.d_mlp else []
    found = []
    for writer in ["E", *heads, *mlps]:
        left, values, _ = ports.writer(writer).svd()
        basis = left[:, values > TINY * values.max(initial=0.0)]
        for component in heads:
            if ports.place(component).reads >= ports.place(writer).writes and basis.shape[1]:
                back = ports.through(component).apply(basis.T)
                found.append(Erasure(component, writer, -float(np.mean(np.sum(back * basis.T, axis=1)))))
    return found


def _met(model: Model, pairs: tuple[tuple[str, str], ...], window: Tokens) -> Mapping[str, Array]:
    parts = decompose(model.run(window))
    met = [float(np.vdot(parts[component], parts[writer])) for component, writer in pairs]
    size = [float(np.vdot(parts[writer], parts[writer])) for _, writer in pairs]
    return {"met": np.array(met), "size": np.array(size)}


@dataclass(frozen=True)
class Eraser:
    """A neuron that writes against what it reads: the cosine of its input and output weights, near -1."""

    label: str
    cosine: float


def erasing_neurons(model: Model, k: int = 10) -> tuple[Eraser, ...]:
    """Return the neurons whose output weights point most against their input weights, the gains of norms folded.

    With chance 0 ± 1/√d_model. Raises PathexpError for a model without MLPs, or as `Ports` for post-norm models.

    >>> import pathexp as px
    >>> [eraser.cosine < 0 for eraser in erasing_neurons(px.random_model(d_mlp=16), k=2)]
    [True, True]
    """
    c = model.config
    if not c.d_mlp:
        raise PathexpError("this model has no MLPs, so no neurons")
    ports, found = Ports(model), []
    for layer in range(c.n_layers):
        read = ports.reader(f"L{layer}M.in").dense()
        write = ports.writer(f"L{layer}M").dense().T
        sizes = np.linalg.norm(read, axis=1) * np.linalg.norm(write, axis=1)
        cosines = np.sum(read * write, axis=1) / np.where(sizes > 0, sizes, 1.0)
        found += [Eraser(f"L{layer}N{neuron}", float(cosine)) for neuron, cosine in enumerate(cosines)]
    return tuple(sorted(found, key=lambda eraser: eraser.cosine)[:k])

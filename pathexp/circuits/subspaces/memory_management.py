"""Memory management: components that erase what an earlier one wrote, by writing back its negative.

Candidates from the weights. Along the subspace B (d_model, r) that an earlier component writes, a head gives back
Bᵀ W_OV B; a negative mean of its diagonal erases what it reads. A neuron whose output weights point against its input
weights does so along one direction. Elhage et al. 2021, "Subspaces and Residual Stream Bandwidth", names both hints:
neurons whose input and output weights have a very negative cosine, and heads with large negative eigenvalues of W_OV
that attend mostly to the present token. Janiak et al. 2024, "An Adversarial Example for Direct Logit Attribution",
measure what heads remove of an earlier head's output.

Then measured on runs, as covariances over positions, so that constants do not count.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import ClassVar

import numpy as np

from ...answer import Answer, Figure, Note, Part, Table, columns
from ...arguments import AMOUNT, expect
from ...expansion.header import model_facts
from ...graph.experts import mlp_labels
from ...graph.ports import Ports
from ...labels import mlp_label, neuron_label
from ...model import Model
from ...model.model import check_model
from ...workers import in_turn, own_workers
from ..composition.head_sides import HeadSides
from ..corpus.corpus import Corpus, Source
from ..corpus.limits import NO_LIMITS, Limits
from ..corpus.tally import Tally
from ..heads.spectrum import Spectrum, spectrum
from .cancellation import cancelled, head_on_runs, neuron_lines, neuron_on_runs, read_bases
from .erasure import LEAST, MARGIN, Erasure
from .measured import measured, tally_facts
from .ranges import given_back, written_basis

WINDOWS = 20
"""The windows of a corpus that are taken by default."""


@dataclass(frozen=True, eq=False, repr=False)
class MemoryManagement(Answer):
    """Heads and neurons by how much their weights erase, and the running sums behind what was measured."""

    live: ClassVar[frozenset[str]] = frozenset({"model"})

    model: Model
    heads: tuple[Erasure, ...]
    neurons: tuple[Erasure, ...]
    tally: Tally | None = None

    def __iter__(self) -> Iterator[Erasure]:
        return iter((*self.heads, *self.neurons))

    @property
    def confirmed(self) -> tuple[Erasure, ...]:
        """The heads and neurons that runs confirm."""
        return tuple(found for found in self if found.confirmed)

    def headline(self) -> str:
        """Return whether weights alone were read or runs measured."""
        return f"erasing heads and neurons{measured(self.tally) or ' by the weights alone'}"

    def parts(self) -> Iterator[Part]:
        """Yield the heads, the neurons, what is confirmed, and bars."""
        yield model_facts(self.model)
        yield tally_facts(self.tally)
        yield self._listed("heads", "head", "erased (weights)", self.heads)
        if self.neurons:
            yield self._listed("neurons", "neuron", "-cosine of in and out", self.neurons)
        yield from self._verdict()
        kept = [one for one in self if not one.still]
        series = ["by weights", *(["on runs"] if self.tally is not None else [])]
        yield Figure(
            "bars", "erased",
            {
                "rows": [f"{one.component} of {one.writer}" for one in kept], "series": series,
                "values": [[one.weights, one.measured][: len(series)] for one in kept],
            },
            "share that is erased",
        )  # fmt: skip

    def _listed(self, name: str, kind: str, weights: str, found: tuple[Erasure, ...]) -> Table:
        head = [
            columns.text("component", kind),
            columns.text("writer"),
            columns.number("weights", weights, digits=3),
        ]
        of_heads = [columns.share("negative", "W_OV negative")] if kind == "head" else []
        runs = [
            columns.number("measured", "cancelled on runs"), columns.number("baseline", "random baseline", signed=False),
            columns.flag("confirmed"),
        ]  # fmt: skip
        if of_heads:
            runs += [
                columns.number("own", "of what it reads", digits=3), columns.share("read", "read of it"),
                columns.share("present", "to the present"),
            ]  # fmt: skip
        names = [each.name for each in (*head, *of_heads, *runs)]
        rows = [tuple(getattr(one, each) for each in names) for one in found]
        width = len(head) + len(of_heads) if self.tally is None else None
        return Table(
            [*head, *of_heads, *runs][:width], [row[:width] for row in rows], name, key=("component", "writer"), value="weights",
            shown=None,
        )  # fmt: skip

    def _verdict(self) -> Iterator[Note]:
        if self.tally is None:
            yield Note("nothing is confirmed without runs: give a corpus")
            return
        names = ", ".join(f"{one.component} of {one.writer}" for one in self.confirmed) or "none"
        yield Note(
            f"confirmed: {names}\na share of at least {LEAST:g} of what a head reads, and over {MARGIN:g} times the random "
            "baseline: the deviation of the\nsame outputs randomly rotated"
        )
        if self.heads:
            yield Note(
                "of what it reads: the share that it takes back at the same position because of it; read of it: the share of "
                "what\nthe writer wrote that the head reads; to the present: its mean attention to the present token; "
                "W_OV negative: of Σ|λ|"
            )
        still = [f"{one.component} of {one.writer}" for one in self if one.still]
        if still:
            more = ", …" if still[3:] else ""
            yield Note(f"not measured for {', '.join(still[:3])}{more}: what the writer writes does not vary")


def memory_management(
    model: Model,
    corpus: Corpus | Source | None = None,
    *,
    k: int = 10,
    limits: Limits = NO_LIMITS,
) -> MemoryManagement:
    """Return the `k` heads and `k` neurons whose weights erase most of what was written, measured on a corpus.

    Heads against the embedding and every earlier head or MLP; neurons against the whole stream that they read.
    Elhage et al. 2021, "Subspaces and Residual Stream Bandwidth": shares of what was written, 1 for all of it.
    Without a corpus nothing is measured; with one, on 20 windows at random lines, or those of a `Corpus`; see `Limits`
    for stopping and resuming. Costs a basis per writer and O(heads² · d_model²); on runs one decomposition per window, and k · d_model² numbers of
    memory. Raises PathexpError as `Ports` for post-norm models, and for a corpus without one whole window.

    >>> import pathexp as px
    >>> found = px.memory_management(px.load("attn-2l"), k=3)
    >>> len(found.heads), found.neurons, found.heads[0].measured is None
    (3, (), True)
    """
    check_model(model, "memory_management")
    expect("memory_management", k=(k, AMOUNT))
    with own_workers():  # bases and spectra are small factorizations
        heads, neurons = _with_spectra(model, _largest(_heads(model), k)), _largest(_neurons(model), k)
    if corpus is None:
        return MemoryManagement(model, heads, neurons)
    what = f"cancellation by {len(heads)} heads and {len(neurons)} neurons"
    bases, maps = (
        read_bases(model, heads),
        {one.component: Ports(model).through(one.component) for one in heads},
    )
    measure = partial(cancelled, model, heads, bases, maps, tuple(neuron_lines(model, neurons)))
    sums = Corpus.of(corpus, model, WINDOWS).accumulate(model, measure, what, limits, together=True)
    sums.mean("nothing")
    return MemoryManagement(
        model,
        tuple(head_on_runs(sums, i, found) for i, found in enumerate(heads)),
        tuple(neuron_on_runs(sums, i, found, model.config.d_model) for i, found in enumerate(neurons)),
        sums,
    )


# By the weights ----------------------------------------------------------------------------------------


def _largest(found: Iterator[Erasure], k: int) -> tuple[Erasure, ...]:
    return tuple(sorted(found, key=lambda pair: (-pair.weights, pair.component, pair.writer))[:k])


def _heads(model: Model) -> Iterator[Erasure]:
    ports, c = Ports(model), model.config
    if not c.n_layers:
        return
    heads = HeadSides(ports)
    mlps = [label for layer in range(c.n_layers) for label in mlp_labels(c, layer)]
    bases = dict(in_turn(lambda label: written_basis(ports.writer(label)), ("E", *heads.names, *mlps)))
    shares = given_back(heads.outputs, np.repeat(heads.values, heads.group, axis=0), bases)
    reads = [ports.place(component).reads for component in heads.names]
    for j, writer in enumerate(bases):
        writes = ports.place(writer).writes
        for i, component in enumerate(heads.names):
            if rank := bases[writer].shape[1] if reads[i] >= writes else 0:
                diluted = rank / min(rank, c.d_value)
                yield Erasure(component, writer, -float(shares[i, j]) * diluted)


def _with_spectra(model: Model, found: tuple[Erasure, ...]) -> tuple[Erasure, ...]:
    """The same with how much of W_OV's spectrum is negative, for each head once."""
    ports = Ports(model)
    components = dict.fromkeys(one.component for one in found)
    spectra = dict(in_turn(lambda label: spectrum(ports.through(label)), components))
    return tuple(replace(one, negative=_negative(spectra[one.component])) for one in found)


def _negative(found: Spectrum) -> float | None:
    return None if found.positive is None else 1 - found.positive


def _neurons(model: Model) -> Iterator[Erasure]:
    ports, c = Ports(model), model.config
    for layer in filter(c.has_dense, range(c.n_layers)):
        read = ports.reader(mlp_label(layer, "in")).dense()
        write = ports.writer(mlp_label(layer)).dense().T
        sizes = np.linalg.norm(read, axis=1) * np.linalg.norm(write, axis=1)
        cosines = np.sum(read * write, axis=1) / np.where(sizes > 0, sizes, 1.0)
        for neuron, cosine in enumerate(cosines):
            yield Erasure(neuron_label(layer, neuron), "stream", -float(cosine))

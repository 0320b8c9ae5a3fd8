"""What heads and neurons cancel on runs of what was written before them: moments of a window, and shares of their sums."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np

from ...algebra import LinearMap
from ...graph import Array
from ...graph.ports import Ports
from ...labels import mlp_label, read_label
from ...model import Model, Trace
from ..attribution.decompose import written_by
from ..corpus.tally import Tally, Tokens
from .erasure import Erasure
from .ranges import TINY, read_basis


def read_bases(model: Model, heads: tuple[Erasure, ...]) -> dict[str, Array]:
    """An orthonormal basis (d_model, r) of what the values of each head read."""
    ports = Ports(model)
    labels = {one.component for one in heads}
    return {label: read_basis(ports.reader(f"{label}.V")) for label in labels}


@dataclass(frozen=True, eq=False)
class Line:
    """The direction that one neuron writes: its output weights, (d_model), as a unit vector and a length."""

    layer: int
    neuron: int
    direction: Array
    length: float


def neuron_lines(model: Model, neurons: tuple[Erasure, ...]) -> Iterator[Line]:
    places = [tuple(map(int, found.component[1:].split("N"))) for found in neurons]
    ports = Ports(model)
    written = {layer: ports.writer(mlp_label(layer)).dense() for layer in {layer for layer, _ in places}}
    for layer, neuron in places:
        write = written[layer][:, neuron]
        length = float(np.linalg.norm(write))
        yield Line(layer, neuron, write / (length or 1.0), length)


def cancelled(
    model: Model,
    heads: tuple[Erasure, ...],
    bases: Mapping[str, Array],
    maps: Mapping[str, LinearMap],
    lines: tuple[Line, ...],
    window: Tokens,
) -> Mapping[str, Array]:
    """First and second moments of what each head writes beside its writer, and each neuron beside its stream."""
    sums: dict[str, Array] = {"nothing": np.zeros(())}
    trace = model.run(window)
    parts = written_by(trace, {label for found in heads for label in (found.component, found.writer)})
    for i, found in enumerate(heads):
        out, written = parts[found.component], parts[found.writer]
        sums |= {f"h{i}/out": out.sum(0), f"h{i}/written": written.sum(0)}
        sums |= {f"h{i}/met": written.T @ out, f"h{i}/size": np.array(np.vdot(written, written))}
        read, label = written @ bases[found.component], read_label(found.component)
        pattern = trace.patterns[label.layer or 0, label.index or 0]
        scale = np.asarray(trace.norm_scales.get(f"L{label.layer}.attn", 1.0)).reshape(-1)
        scale = scale * np.asarray(trace.norm_scales.get(f"L{label.layer}.kv_latent", 1.0)).reshape(-1)
        back = maps[found.component].apply(written) * (np.diag(pattern) * scale)[:, None]
        sums |= {f"h{i}/read": read.sum(0), f"h{i}/read size": np.array(np.vdot(read, read))}
        sums |= {
            f"h{i}/present": np.array(np.trace(pattern)),
            f"h{i}/back": np.array(np.vdot(back @ bases[found.component], read)),
        }
    for i, line in enumerate(lines):
        stream, adds = _before(trace, line.layer), _added(trace, line)
        along = stream @ line.direction
        sums |= {f"n{i}/stream": stream.sum(0), f"n{i}/direction": line.direction * len(window)}
        sums |= {f"n{i}/met": adds @ stream, f"n{i}/size": np.array(along @ along)}
        sums |= {f"n{i}/adds": adds.sum()}
    return sums


def _before(trace: Trace, layer: int) -> Array:
    """Return the stream that the MLP of a layer reads, before any norm, (n, d_model)."""
    entering = f"L{layer - 1}.out" if layer else "embed"
    return trace.residuals[entering if trace.config.parallel else f"L{layer}.mid"]


def _added(trace: Trace, line: Line) -> Array:
    """Return how far a neuron moves the stream along its direction, (n)."""
    after = trace.norm_scales.get(f"L{line.layer}.mlp_post", 1.0)
    found: Array = trace.mlp_hidden[line.layer, :, line.neuron] * line.length * after
    return found


def head_on_runs(sums: Tally, i: int, found: Erasure) -> Erasure:
    n = sums.tokens
    out, written = sums.sums[f"h{i}/out"], sums.sums[f"h{i}/written"]
    met = sums.sums[f"h{i}/met"] - np.outer(written, out) / n
    total, read = float(sums.sums[f"h{i}/size"]), sums.sums[f"h{i}/read"]
    varies = total - float(written @ written) / n
    varies_read = float(sums.sums[f"h{i}/read size"]) - float(read @ read) / n
    baseline = float(np.linalg.norm(met)) / np.sqrt(len(out))
    shared = _shared(found, -float(np.trace(met)), baseline, varies, total)
    share = varies_read / varies if varies > TINY * total else float("nan")
    size = float(sums.sums[f"h{i}/read size"])
    own = -float(sums.sums[f"h{i}/back"]) / size if size > TINY * total else float("nan")
    return replace(shared, own=own, read=share, present=float(sums.sums[f"h{i}/present"]) / n)


def neuron_on_runs(sums: Tally, i: int, found: Erasure, width: int) -> Erasure:
    n = sums.tokens
    stream, direction = sums.sums[f"n{i}/stream"], sums.sums[f"n{i}/direction"] / n
    met = sums.sums[f"n{i}/met"] - stream * sums.sums[f"n{i}/adds"] / n
    total = float(sums.sums[f"n{i}/size"])
    varies = total - float(stream @ direction) ** 2 / n
    return _shared(found, -float(met @ direction), float(np.linalg.norm(met)) / np.sqrt(width), varies, total)


def _shared(found: Erasure, taken: float, baseline: float, varies: float, total: float) -> Erasure:
    """As shares of what varies; NaN where that is no more than rounding."""
    whole = varies if varies > TINY * total else float("nan")
    return replace(found, measured=taken / whole, baseline=baseline / whole)

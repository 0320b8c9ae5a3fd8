"""Interventions in every architecture of the zoo: live against edited forward passes, frozen against path algebra."""

from dataclasses import replace

import numpy as np
import pytest

import pathexp as px
from pathexp.circuits.interventions.cuts import paths_along, paths_through
from pathexp.graph import Walk
from pathexp.labels import read_label
from pathexp.model.forward import rerun
from tests.zoo import FAMILIES, ZOO

EVERY = {**ZOO, **FAMILIES}


def intervene(trace, cut, **given):
    """One intervention, whatever the target."""
    (found,) = px.intervene(trace, trace.logit(0), cut=cut, **given)
    return found


DEEP = [name for name, make in EVERY.items() if make().config.n_layers > 1]


def close(a, b):
    np.testing.assert_allclose(a, b, atol=1e-10, rtol=1e-9)


def pair(name):
    model = EVERY[name]()
    n, rng = min(5, model.config.n_ctx), np.random.default_rng(3)
    return (model.run(rng.integers(0, model.config.d_vocab, n)) for _ in range(2))


def with_weights(model, **arrays):
    return px.Model(model.config, replace(model.weights, **arrays))


# The oracle: forward passes edited at named points, one for what the reader reads, one for what follows -------


def point(component):
    return f"L{component.layer}.{'mlp' if component.head is None else 'attn'}_result"


def outcome(component, trace):
    """What a component gives in a run, up to constants that are the same in all runs."""
    if component.label in trace.experts:
        return of_expert(component.label, trace)
    if component.head is None:
        return trace.residuals[point(component)]
    return trace.head_results[component.layer, component.head]


def of_expert(label, trace):
    """What an expert gives in a run: its weight times its neurons, written, zero where it is not chosen."""
    w, place, expert = trace.model.weights, read_label(label), trace.experts[label]
    of, index = ("shared", (place.layer,)) if place.index is None else ("experts", (place.layer, place.index))
    W, b = getattr(w, f"W_out_{of}")[index], getattr(w, f"b_out_{of}")
    result = np.zeros((len(trace), trace.config.d_model))
    for row, position in enumerate(expert.positions):
        hidden = expert.gates[row] * expert.pre[row] + expert.shift[row]
        result[position] = expert.weights[row] * (W @ hidden + (0 if b is None else b[index]))
    return result


def between(trace, writer, change):
    """The run in which a writer's result is changed and all other branches give what they gave."""
    keep = {p: (lambda x, p=p: trace.residuals[p]) for p in trace.residuals if p.endswith("_result")}
    return rerun(trace, keep | {point(writer): lambda x: trace.residuals[point(writer)] + change})


def read_by(trace, elsewhere, reader):
    """The run in which a reader (and its branch) reads what it reads elsewhere."""
    p = point(reader).replace("_result", "_in")
    return rerun(trace, {p: lambda x: elsewhere.residuals[p]})


def given(trace, reading, reader, inputs):
    """What the reader gives where only some of its inputs read otherwise."""
    if reader.head is None or inputs == "qkvm":
        return outcome(reader, reading)
    layer, head = reader.layer, reader.head
    looks, moves = (trace, reading) if inputs == "v" else (reading, trace)
    values = moves.values[layer, trace.config.kv_head(head)]
    return looks.patterns[layer, head] @ values @ trace.model.weights.W_O[layer, head].T


def edge_oracle(trace, writer, reader, change, inputs="qkvm"):
    reading = read_by(trace, between(trace, writer, change), reader)
    moved = given(trace, reading, reader, inputs) - outcome(reader, trace)
    return rerun(trace, {point(reader): lambda x: x + moved}).logits


def ends(trace):
    """A head of the first layer and the last components that read it."""
    components = list(px.freeze(trace).components())
    last = trace.config.n_layers - 1
    return components[0], [c for c in components if c.layer == last][-2:]


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", DEEP)
def test_an_edge_cut_or_patched_is_the_edited_forward_pass(name):
    trace, other = pair(name)
    writer, readers = ends(trace)
    for reader in readers:
        cut = paths_along(writer.label, reader.label)
        gone, patched = -outcome(writer, trace), outcome(writer, other) - outcome(writer, trace)
        close(intervene(trace, cut).live, edge_oracle(trace, writer, reader, gone))
        close(intervene(trace, cut, patch_from=other).live, edge_oracle(trace, writer, reader, patched))


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", DEEP)
def test_values_or_queries_and_keys_alone(name):
    trace, _ = pair(name)
    writer, readers = ends(trace)
    reader = next(
        c for c in px.freeze(trace).components() if c.layer == readers[0].layer and c.head is not None
    )
    gone = -outcome(writer, trace)
    by_values = edge_oracle(trace, writer, reader, gone, "v")
    close(intervene(trace, paths_along(writer.label, f"{reader.label}.V")).live, by_values)
    by_looks = edge_oracle(trace, writer, reader, gone, "qk")
    found = intervene(trace, paths_along(writer.label, reader.label))
    close(replace(found, cut=replace(found.cut, ports={reader.label: "qk"})).live, by_looks)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", EVERY)
def test_a_node_cut_or_patched_is_the_edited_forward_pass(name):
    trace, other = pair(name)
    for component in px.freeze(trace).components():
        for run in (None, other) if component.layer == 0 else (None,):
            there = left_of(component, trace) if run is None else outcome(component, run)
            change = there - outcome(component, trace)
            edited = rerun(trace, {point(component): lambda x, change=change: x + change})
            close(intervene(trace, paths_through(component.label), patch_from=run).live, edited.logits)


def left_of(component, trace):
    """What stays of a component that is cut: the output bias of an MLP, a source of its own."""
    bias = trace.model.weights.b_out if component.kind == "mlp" else None
    return bias[component.layer] if component.head is None and bias is not None else 0.0


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", EVERY)
def test_a_source_cut_is_the_model_without_its_weights(name):
    """Every constant and every embedding, by its paths: the model in which it is zero."""
    trace, _ = pair(name)
    model = trace.model
    sources = [s.label for s in px.freeze(trace).sources]
    kinds = dict.fromkeys(label.rpartition("_L")[0] or label for label in sources)
    weights = {"E": "W_E", "P": "W_pos"}
    for kind in kinds:
        if (kind == "P" and model.config.positions == "sinusoidal") or (kind == "E" and model.config.tied):
            continue
        if kind in ("b_attn", "b_mlp"):
            continue  # read by queries and gates as well, or by two branches: below
        labels = [label for label in sources if (label.rpartition("_L")[0] or label) == kind]
        if kind == "shift":
            unshifted = replace(model.config, experts=replace(model.config.experts, shift=0.0))
            without = px.Model(unshifted, model.weights).run(trace.tokens)
        else:
            arrays = {
                array: getattr(model.weights, array) for array in arrays_of(weights.get(kind, kind), labels)
            }
            without = with_weights(model, **{array: 0.0 * a for array, a in arrays.items()}).run(trace.tokens)
        found = intervene(trace, f"({' | '.join(labels)}) .* U")
        close(found.live, without.logits)


def arrays_of(name, labels):
    """The arrays that sources stand for: those of experts have arrays of their own."""
    ends = {"E": "_experts", "S": "_shared"}
    return {name + ends.get(read_label(label).kind if "_L" in label else "", "") for label in labels}


@pytest.mark.parametrize("name", EVERY)
def test_biases_of_norms_cut_are_the_norms_without(name):
    trace, _ = pair(name)
    model = trace.model
    sources = [s.label for s in px.freeze(trace).sources if s.label.startswith(("b_attn_L", "b_mlp_L"))]
    if not sources:
        return
    arrays = {kind: getattr(model.weights, kind) for kind in ("b_attn", "b_mlp")}
    without = {kind: 0.0 * array for kind, array in arrays.items() if array is not None}
    close(
        intervene(trace, f"({' | '.join(sources)}) .* U").live,
        with_weights(model, **without).run(trace.tokens).logits,
    )


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", EVERY)
def test_the_embedding_of_another_text_is_the_forward_pass_of_mixed_parts(name):
    trace, other = pair(name)
    point = "embed_in" if trace.config.embed_norm else "embed"
    if trace.config.embed_norm and trace.config.n_layers == 0:
        return
    change = trace.model.config.embedding_multiplier * (
        trace.model.weights.W_E[:, other.tokens] - trace.model.weights.W_E[:, trace.tokens]
    )
    mixed = rerun(trace, {point: lambda x: x + change.T})
    close(intervene(trace, paths_through("E"), patch_from=other).live, mixed.logits)


# Frozen: the exact linear algebra of paths ----------------------------------------------------------------


def queries(trace):
    labels = [c.label for c in px.freeze(trace).components()]
    yield "S? .* U"
    yield "E U"
    if labels:
        yield f"S? .* {labels[0]} .* U"
        yield f"S? .* {labels[-1]} U"
    if len(labels) > 3:
        yield (
            f"(E | P) .* {labels[0]} {labels[-1]} .* U"
            if "P" in px.freeze(trace).by_label
            else f"E {labels[0]} .* U"
        )


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", EVERY)
def test_frozen_is_the_exact_sum_of_kept_paths(name):
    trace, other = pair(name)
    for text in queries(trace):
        cut = px.query(text)
        kept = px.expand(trace, ~cut).logits()
        close(intervene(trace, cut).frozen, kept)
        starts = {source.label: source.start for source in px.freeze(other).sources}
        graph = px.freeze(trace)
        swapped = replace(
            graph, sources=tuple(replace(source, start=starts[source.label]) for source in graph.sources)
        )
        close(intervene(trace, cut, patch_from=other).frozen, kept + Walk(swapped, cut).logits())


@pytest.mark.sampled(16)
@pytest.mark.parametrize("name", [name for name in EVERY if EVERY[name]().config.n_layers <= 2])
@pytest.mark.parametrize("inputs", ["v", "m", "qk", "qkv"])
def test_frozen_sides_by_listing_paths(name, inputs):
    """A path counts if what follows the last component that reads the run as it was follows it on some kept path."""
    trace, _ = pair(name)
    graph = px.freeze(trace)
    heads = {c.label: c.head is not None for c in graph.components()}
    whole = {label for label, head in heads.items() if ("v" if head else "m") not in inputs}
    words = list(px.expand(trace).walk.words())
    values = {word: px.expand(trace)[" ".join(word)].logits() for word in words}

    def tail(word):
        last = max((place for place, label in enumerate(word) if label in whole), default=0)
        return word[last:]

    for text in queries(trace):
        kept = {word for word in words if px.expand(trace, ~px.query(text)).walk.automaton.accepts(word)}
        tails = {tail for word in kept for tail in (word[place:] for place in range(len(word)))}
        expected = sum(
            (values[word] for word in words if tail(word) in tails and (word in kept or tail(word) != word)),
            np.zeros_like(trace.logits),
        )
        close(intervene(trace, text, inputs=inputs).frozen, expected)


def test_queries_and_keys_alone_cannot_be_seen_frozen_but_what_goes_straight_out_can():
    trace, _ = pair("2L-plain")
    close(intervene(trace, paths_along("L0H0", "L1H1"), inputs="qk").frozen, trace.logits)
    straight = intervene(trace, "S? .* L0H0 U", inputs="qk")
    close(straight.frozen, trace.logits - px.expand(trace, "S? L0H0 U").logits())

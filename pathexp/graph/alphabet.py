"""The labels of one graph as the path language sees them, and what to say about a name that is not there."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cached_property

from ..errors import QueryError
from ..labels import find_label
from .language import ANY, MLP_PORTS, PORTS, Query
from .nodes import Component, Sink, Source
from .query import pointer


@dataclass(frozen=True)
class Alphabet:
    """The labels of a graph, and classes of components by name: `L0`, `H`, `M`.

    >>> alphabet = Alphabet(("E",), ("L0H0", "L0H1"), ("U",), {"H": frozenset({"L0H0", "L0H1"})})
    >>> alphabet.labels
    ('E', 'L0H0', 'L0H1', 'U')
    """

    sources: tuple[str, ...]
    components: tuple[str, ...]
    sinks: tuple[str, ...]
    classes: Mapping[str, frozenset[str]]

    @property
    def labels(self) -> tuple[str, ...]:
        """All labels: sources, components, sinks."""
        return self.sources + self.components + self.sinks

    @cached_property
    def columns(self) -> Mapping[str, int]:
        """The index of each label in `labels`."""
        return {label: column for column, label in enumerate(self.labels)}

    @cached_property
    def _hash(self) -> int:
        return hash((self.sources, self.components, self.sinks, frozenset(self.classes.items())))

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def _any(self) -> frozenset[str]:
        return frozenset(self.components)

    def meaning(self, name: str) -> frozenset[str]:
        """Return the labels that a label, a class name or `.` stands for; none if it is not known."""
        if name == ANY:
            return self._any
        return frozenset((name,)) if name in self.columns else self.classes.get(name, frozenset())

    def members(self, name: str) -> list[str]:
        """Return the members of a class in the order of the components."""
        return [label for label in self.components if label in self.classes[name]]


def check_names(query: Query, alphabet: Alphabet) -> None:
    """Raise QueryError at the first name that the graph does not have, or that stands for nothing in it."""
    for name in query.names():
        if not alphabet.meaning(name):
            text = str(query)
            place = re.search(rf"\b{re.escape(name)}\b", text)
            assert place is not None
            problem, advice = _empty(name) if name in alphabet.classes else _unknown(name, alphabet)
            raise QueryError(f"{problem}\n{pointer(text, place.start())}\n{advice}")


def _empty(name: str) -> tuple[str, str]:
    kind = {"H": "attention heads", "M": "MLPs"}.get(name, "such components")
    return (
        f"{name} stands for nothing here: this graph has no {kind}",
        f"Leave {name} out, or write . for any component.",
    )


def _unknown(name: str, alphabet: Alphabet) -> tuple[str, str]:
    if asked_for_port(name) and not has_ports(alphabet):
        return f"{name} names an edge by its port, and this graph keeps no ports apart", NO_PORTS
    whole, _, port = name.rpartition(".")
    mlps = alphabet.classes.get("M", frozenset())
    if port in MLP_PORTS and mlps & (alphabet.meaning(whole) if whole else mlps):
        return f"{name} names a port of MLPs, and in this contrast MLPs are whole", WHOLE_MLPS
    near = nearest(name, alphabet)
    advice = f"Nearest: {', '.join(near)}." if near else "Labels are case-sensitive: E, L0H3, U."
    return f"this graph has no node {name}: {_sizes(name, alphabet)}", advice


NO_PORTS = (
    "Patterns and gates are frozen here: write L0H2 for what the head moves. Edges through values, keys, queries and "
    "routers are in the difference of two runs, px.contrast(run, other)."
)
WHOLE_MLPS = (
    "Write L0M or M for a whole MLP, or make the contrast with px.contrast(run, other, mlp_ports=True)."
)


def asked_for_port(name: str) -> bool:
    """Return whether a name is a port, alone (`K`) or of a component (`L0H2.K`)."""
    return name.rpartition(".")[2] in PORTS


def has_ports(alphabet: Alphabet) -> bool:
    """Return whether a graph's components are kept apart by port."""
    return any(port in alphabet.classes for port in PORTS)


def _sizes(name: str, alphabet: Alphabet) -> str:
    """What there is where a name points: the layer's components, or the layers, or the ends."""
    layers = sorted(
        (c for c in alphabet.classes if re.fullmatch(r"L\d+", c)), key=lambda layer: int(layer[1:])
    )
    asked = re.match(r"[Ll]\d+", name)
    if asked and asked[0].upper() in layers:
        members = alphabet.members(asked[0].upper())
        return f"layer {asked[0][1:]} has {spanned(members, 'component')}"
    if asked:
        return f"it has {spanned(layers, 'layer')}"
    return (
        f"it has {spanned(alphabet.sources, 'source')}, {spanned(alphabet.components, 'component')} "
        f"and {spanned(alphabet.sinks, 'sink')}"
    )


def spanned(names: tuple[str, ...] | list[str], noun: str) -> str:
    """Return how many names there are and the first and last of them."""
    if not names:
        return f"no {noun}s"
    span = names[0] if len(names) == 1 else f"{names[0]} … {names[-1]}"
    return f"{len(names):,} {noun}{'s' if len(names) > 1 else ''} ({span})"


def nearest(name: str, alphabet: Alphabet, most: int = 3) -> list[str]:
    """Return the labels and class names that look most like a name, the likest first."""
    known = {label.casefold(): label for label in (*alphabet.classes, *alphabet.labels)}
    return [known[match] for match in get_close_matches(name.casefold(), known, most, 0.5)]


def alphabet(sources: tuple[Source, ...], components: Iterable[Component], sink: Sink) -> Alphabet:
    """Return the labels of a graph, with the classes S, H, M, L0, L1, …; where a layer has experts, L0M and L0E.

    Where components are kept apart by port, V, K and Q (value, gate) are classes, L0H2 is all of a head, and a dot
    narrows any class to a port, as in L1.K.
    """
    listed = tuple(components)
    classes: dict[str, set[str]] = {"S": {source.label for source in sources}, "H": set(), "M": set()}
    for component in listed:
        classes.setdefault(f"L{component.layer}", set()).add(component.label)
        if component.kind == "head":
            classes["H"].add(component.label)
        if component.kind in ("mlp", "neuron", "expert"):
            classes["M"].add(component.label)
    _add_experts(classes, (*sources, *listed))
    _add_ports(classes, listed)
    return Alphabet(
        sources=tuple(source.label for source in sources),
        components=tuple(component.label for component in listed),
        sinks=(sink.label,),
        classes={name: frozenset(members) for name, members in classes.items()},
    )


def _add_experts(classes: dict[str, set[str]], nodes: tuple[Source | Component, ...]) -> None:
    """Add, for each layer of experts, all of them (`L3M`) and those that a router chooses among (`L3E`)."""
    for node in nodes:
        found = find_label(node.label)
        if node.kind in ("expert", "mlp output") and found and found.kind in ("E", "S"):
            for letter in {"M", found.kind} - {"S"}:
                classes.setdefault(f"L{found.layer}{letter}", set()).add(node.label)


def _add_ports(classes: dict[str, set[str]], components: tuple[Component, ...]) -> None:
    """Add the classes of components that are kept apart by port, and every class narrowed to a port."""
    known = {component.label for component in components}
    by_port: dict[str, set[str]] = {}
    for component in components:
        if component.port:
            by_port.setdefault(component.port, set()).add(component.label)
            classes.setdefault(component.label.rpartition(".")[0], set()).add(component.label)
    for name, members in list(classes.items()):
        narrowed = {f"{name}.{port}": members & of for port, of in by_port.items()}
        classes |= {label: some for label, some in narrowed.items() if some and label not in known}
    classes |= by_port

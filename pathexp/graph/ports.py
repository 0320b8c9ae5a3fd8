"""Where components meet the stream: the map by which each writes to it, and by which each reads it.

A head's map is its W_OV, from the stream to the stream; its single weights go by `L0H1.O` (what it writes),
`L1H0.Q`, `L1H0.K` and `L1H0.V` (what it reads).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Literal, TypeAlias

from ..algebra import LinearMap, compose
from ..errors import GraphError, PathexpError
from ..labels import Label, find_label, head_label, read_label
from ..model import Config, Model
from .experts import Part, expert_weight, experts_of, mlp_labels
from .factors import Factors
from .from_weights import embedding, features, positions, unembedding
from .latents import compresses, refuse_keys
from .operators import Operator
from .reading import head_place

Norms: TypeAlias = Literal["folded", "raw"]
"""Whether the gains and centerings of norms, and multipliers, are part of what is read and written.

Scales 1/σ depend on a run and never are.
"""


@dataclass(frozen=True)
class Place:
    """Where something stands along the stream: at depth 2 · layer for heads, 2 · layer + 1 for MLPs."""

    label: str
    kind: Literal["source", "head", "mlp", "sink"]
    side: str
    reads: int
    """The depth at which it reads the stream."""
    writes: int
    """The depth from which on what it writes can be read."""


@dataclass(frozen=True, eq=False)
class Ports:
    """The maps of a model's components to and from its stream, by label.

    Raises PathexpError for norms other than "folded" and "raw", and for "folded" where norms stand on the
    stream itself, so that no gain belongs to one reader.
    """

    model: Model
    norms: Norms = "folded"

    def __post_init__(self) -> None:
        if not isinstance(self.norms, str) or self.norms not in ("folded", "raw"):
            raise PathexpError(f"norms are 'folded' into what reads them or left 'raw', not {self.norms!r}")
        c = self.model.config
        if self.norms == "folded" and c.norm_placement == "post" and c.norm and c.n_layers:
            raise PathexpError(
                "norms cannot be folded into the readers of a post-norm model: they stand on the stream between "
                "writer and reader; ask for norms='raw', or take the weight of a path of a run"
            )

    @property
    def folded(self) -> bool:
        """Whether norms are folded."""
        return self.norms == "folded"

    def place(self, label: str) -> Place:
        """Return where a label stands; GraphError names what there is if it stands nowhere."""
        found, c = find_label(str(label)) or Label(), self.model.config
        name, side = str(found.node), found.port
        if name in ("E", "P") and not side:
            return Place(label, "source", "", -1, 0)
        if name == "U" and not side:
            return Place(label, "sink", "", 2 * c.n_layers, 2 * c.n_layers + 1)
        if (self._has_mlp(found) or self._expert(found)) and side in ("", "in", "gate"):
            depth = 2 * (found.layer or 0)
            return Place(label, "mlp", side, depth + (c.parallel is None), depth + 2)
        if side in ("", "Q", "K", "V", "O") and found.kind == "H" and not found.name:
            layer, _ = head_place(c, name)
            return Place(
                label, "head", side, 2 * layer, 2 * layer + 1 if c.parallel is None else 2 * layer + 2
            )
        raise GraphError(
            f"{label!r} names nothing that reads or writes the stream: labels are E, P, L0H1 (or its L0H1.Q, .K, "
            ".V, .O), L0M (or L0M.in, L0M.gate), its neurons L0N17, experts L0E3 and L0S, and U"
            + _mlps_said(c)
        )

    def _has_mlp(self, found: Label) -> bool:
        """Whether there is an MLP, or a neuron, of that name."""
        if found.name or found.kind not in ("M", "N"):
            return False
        c, layer = self.model.config, found.layer or 0
        return layer < c.n_layers and c.has_dense(layer) and (found.index or 0) < c.d_mlp

    def _expert(self, found: Label) -> Part | None:
        """The expert of that name, where there is one."""
        if (found.layer or 0) >= self.model.config.n_layers:
            return None
        parts = experts_of(self.model.config, found.layer or 0)
        return next((part for part in parts if part.label == str(found.node)), None)

    @cached_property
    def make(self) -> Factors:
        """The factors of the weights."""
        return Factors.of_weights(self.model)

    def folds(self, operator: Operator) -> tuple[LinearMap, ...]:
        """Return what stands around a weight, where it is folded in."""
        return features(operator) if self.folded else ()

    # Writers -------------------------------------------------------------------------------------------

    def writer(self, label: str) -> LinearMap:
        """Return what a node writes to the stream as a map into it.

        `E` (d_model, d_vocab), `P` (d_model, n_ctx), a head's W_OV (d_model, d_model), `L0H1.O` (d_model,
        d_head), an MLP's W_out (d_model, d_mlp), a neuron's column of it. Raises GraphError for what writes nothing.
        """
        place = self.place(label)
        match place.kind, place.side:
            case "source", _:
                return self._source(label)
            case "head", "":
                return self.through(label)
            case "head", "O":
                layer, head = self._head(label)
                return compose(*self._written(layer, "attn"), self.make.w_o(layer, head).numbers())
            case "mlp", "":
                found = read_label(label)
                layer = there_is(found.layer)
                if part := self._expert(found):
                    out = expert_weight(self.make, "out", part)
                    return compose(*self._written(layer, "mlp"), out.numbers())
                out = (
                    self.make.w_out(layer)
                    if found.index is None
                    else self.make.neuron_out(layer, found.index)
                )
                return compose(*self._written(layer, "mlp"), out.numbers())
        raise GraphError(f"{label} does not write to the stream; writers are E, P, L0H1, L0H1.O and L0M")

    def _source(self, label: str) -> LinearMap:
        if label == "E":
            return embedding(self.model) if self.folded else self.make.w_e().numbers()
        c = self.model.config
        if c.positions != "learned":
            raise GraphError(f"no learned positions P are written to the stream: positions={c.positions!r}")
        return positions(self.model) if self.folded else self.make.w_pos().numbers()

    # Readers -------------------------------------------------------------------------------------------

    def reader(self, label: str) -> LinearMap:
        """Return what a node reads of the stream as a map out of it.

        A head's W_OV (d_model, d_model), or its side `.Q`, `.K`, `.V` (d_head, d_model), an MLP's `L0M` or
        `L0M.in` (d_mlp, d_model) and `L0M.gate`, a neuron's row of them, `U` (d_vocab, d_model).
        Raises GraphError for what reads nothing.
        """
        place = self.place(label)
        match place.kind, place.side:
            case "sink", _ if self.model.config.transform:
                raise PathexpError(
                    "U reads the stream of this model through a dense layer with an activation (transform=True), "
                    "which is no linear map of its weights; take the weight of a path of a run"
                )
            case "sink", _:
                return unembedding(self.model) if self.folded else self.make.w_u().numbers()
            case "head", "":
                return self.through(label)
            case "head", ("Q" | "K" | "V") as side:
                layer, head = self._head(label)
                if side == "K":
                    refuse_keys(self.model.config, label.partition(".")[0])
                latent = compresses(
                    self.model.config, side
                )  # whose gain is in the map, and whose scale is a run's
                gain = () if latent else self.folds(self.make.head_norm(side, layer, head))
                return compose(
                    *gain, self.make.w_read(side, layer, head).numbers(), *self._read(layer, "attn")
                )
            case "mlp", side:
                return self._mlp_in(label, "W_gate" if side == "gate" else "W_in")
        raise GraphError(f"{label} does not read the stream; readers are L0H1, L0H1.Q, .K, .V, L0M and U")

    def _mlp_in(self, label: str, name: str) -> LinearMap:
        found = read_label(label)
        layer = there_is(found.layer)
        if name == "W_gate" and not self.model.config.gated:
            raise GraphError(f"{label}: this model's MLPs have no gates")
        if part := self._expert(found):
            made = expert_weight(self.make, name.removeprefix("W_"), part)
            return compose(made.numbers(), *self._read(layer, "mlp"))
        made = (
            self.make.w_in(layer, name)
            if found.index is None
            else self.make.neuron_in(layer, found.index, name)
        )
        return compose(made.numbers(), *self._read(layer, "mlp"))

    # Heads passed through ------------------------------------------------------------------------------

    def through(self, label: str) -> LinearMap:
        """Return what a head moves, from the stream to the stream: W_O W_V, (d_model, d_model)."""
        place = self.place(label)
        if place.kind != "head" or place.side:
            raise GraphError(f"a route passes through heads such as L0H1, not {label!r}")
        layer, head = self._head(label)
        moved = self.make.w_ov(layer, head).numbers()
        return compose(*self._written(layer, "attn"), moved, *self._read(layer, "attn"))

    def _head(self, label: str) -> tuple[int, int]:
        return head_place(self.model.config, label.partition(".")[0])

    def _written(self, layer: int, branch: str) -> tuple[LinearMap, ...]:
        return self.folds(self.make.law.written(layer, branch))

    def _read(self, layer: int, branch: str) -> tuple[LinearMap, ...]:
        return self.folds(self.make.law.read(layer, branch))


def _mlps_said(config: Config) -> str:
    """How many neurons MLPs have, and which layers have experts."""
    layers = [layer for layer in range(config.n_layers) if config.is_sparse(layer)]
    dense = f"; its MLPs have {config.d_mlp} neurons" if config.d_mlp else ""
    sparse = f"; layers {layers} have experts" if layers else ""
    return dense + sparse or "; this model has no MLPs"


def there_is(layer: int | None) -> int:
    """Return the layer of a label that has one."""
    assert layer is not None, "only labels of components come here"
    return layer


def writers_of(model: Model) -> tuple[str, ...]:
    """The labels of everything that writes to the stream: E, P, heads and MLPs.

    >>> import pathexp as px
    >>> writers_of(px.random_model(layers=1, heads=2))
    ('E', 'P', 'L0H0', 'L0H1')
    """
    c = model.config
    found = ["E"] + ["P"] * (c.positions == "learned")
    for layer in range(c.n_layers):
        found += [head_label(layer, head) for head in range(c.n_heads)] + list(mlp_labels(c, layer))
    return tuple(found)


def readers_of(model: Model) -> tuple[str, ...]:
    """The labels of everything that reads the stream: Q, K and V of heads (shared ones once), MLPs, gates and U.

    Keys of latent attention are left out: they are no one map of the weights.

    >>> import pathexp as px
    >>> readers_of(px.random_model(layers=1, heads=2, kv_heads=1))
    ('L0H0.Q', 'L0H0.K', 'L0H0.V', 'L0H1.Q', 'U')
    """
    c, found = model.config, list[str]()
    sides = "QKV" if c.latent is None else "QV"
    for layer in range(c.n_layers):
        for head in range(c.n_heads):
            first = head % (c.n_heads // c.n_kv_heads) == 0
            found += [head_label(layer, head, side) for side in sides[: 3 if first else 1]]
        found += [f"{name}.{side}" for name in mlp_labels(c, layer) for side in ("in", "gate")[: 1 + c.gated]]
    return (*found, *["U"] * (not c.transform))

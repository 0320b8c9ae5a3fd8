"""Sizes and switches of a transformer, checked when they are made."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from ..arguments import SWITCH, check, check_fields, finite, one_of, whole
from ..errors import ConfigError
from .activations import GATES
from .latent import Latent
from .per_layer import head_slopes, read_rotary, rotaries, rotary_dict, windows, with_dims
from .positions import slopes
from .rotary import Rotary
from .routing import Experts

CHOICES: Mapping[str, tuple[str | None, ...]] = {
    "positions": ("none", "learned", "qk", "sinusoidal", "rotary", "alibi"),
    "norm": (None, "layernorm", "rmsnorm"),
    "norm_placement": ("pre", "post", "sandwich", "branch"),
    "qk_norm": (None, "head", "projection", "layernorm"),
    "activation": tuple(GATES),
    "transform_activation": (None, *GATES),
    "parallel": (None, "shared", "separate"),
}
_LEAST = {"n_layers": 0, "n_heads": 1, "n_kv_heads": 1, "d_model": 1, "d_head": 1, "d_vocab": 1, "n_ctx": 1}
_LEAST |= {"d_mlp": 0, "d_out": 1}
_SWITCHES = (
    "sinks",
    "final_norm",
    "embed_norm",
    "causal",
    "gated",
    "tied",
    "transform",
    "transform_norm",
    "first_norm",
)
_CAPS = ("attention_cap", "logit_cap")
_MULTIPLIERS = ("embedding_multiplier", "residual_multiplier", "logit_multiplier")


@dataclass(frozen=True, kw_only=True)
class Config:
    """The sizes and switches of a transformer; those left at None get the value written beside them.

    Positions: "none"; "learned" and "sinusoidal" (Vaswani et al. 2017, section 3.5) are added to the
    embedding; "qk" adds W_pos to what queries and keys read, after the norm, and never to the stream (Press
    et al. 2021, "Shortformer"); "rotary" turns queries and keys as ``rotary`` says, or as ``rotaries`` says for each layer (None: not at all); "alibi" takes a slope per
    head times the distance from the scores (Press et al. 2022); ``head_slopes`` gives slopes other than the paper's.

    Norms: ``norm`` is None, "layernorm" or "rmsnorm". ``norm_placement`` "pre": each branch reads through a
    norm; "post": the sum of stream and branch is normed (the original block); "sandwich": branches read
    through a norm and write through one; "branch": they only write through one. ``embed_norm``: after the
    embedding; ``final_norm``: before the unembedding; without ``first_norm`` the attention of the first layer reads the
    stream bare. ``qk_norm``: RMS norm of queries and keys, over each
    "head" or over the whole "projection", or a "layernorm" of each head, before they are turned.

    Attention: scores are cap(attention_scale · q·k), then slopes; ``causal`` or both ways; ``windows`` (one
    number, or one per layer, None: unlimited) lets a query see only keys less than so many positions away.

    ``sinks``: each head has a learned score (the weights ``sinks``) that takes its share in the softmax and brings nothing, so that rows of
    patterns add up to less than 1 (gpt-oss).

    MLP: ``d_mlp`` neurons (0: none); ``gated``: act(W_gate x) · (W_in x) instead of act(W_in x).
    ``parallel``: attention and MLP read the same stream, through one "shared" norm or "separate" ones.
    ``experts``: in some layers, or all, a mixture of experts in the place of the MLP; see `Experts`.

    ``latent``: keys and values, and perhaps queries, are made of a few numbers a position; see `Latent` (DeepSeek). Then
    rotary positions turn the first ``latent.d_shared`` numbers of queries and keys, and values have ``latent.d_value``.

    ``transform``: one dense layer stands before ``final_norm`` and the unembedding, with ``transform_activation``
    (None: ``activation``): the masked-token head of Devlin et al. 2019, "BERT", or a pooler. With ``transform_norm``
    it reads the stream through a norm of its own, "before_transform"; else in a post-norm model alone.

    Multipliers: of the token embedding, of what each branch adds, of the logits; then
    ``logit_cap``, cap · tanh(logits / cap). ``tied``: W_U is W_Eᵀ.

    Outputs: ``d_out`` is how many there are, ``d_vocab`` unless told otherwise. Where the two differ, outputs are no
    tokens (classes, digits, a reward) and go by their numbers.

    Raises ConfigError for a size or switch that is not known or does not fit the others.

    >>> config = Config(n_layers=2, n_heads=4, d_model=32, d_head=8, d_vocab=50, n_ctx=16, norm="rmsnorm")
    >>> config.n_kv_heads, config.final_norm, round(config.attention_scale, 4)
    (4, True, 0.3536)
    """

    n_layers: int
    n_heads: int
    d_model: int
    d_head: int
    d_vocab: int
    n_ctx: int
    n_kv_heads: int = None  # type: ignore[assignment]  # None: n_heads
    d_out: int = None  # type: ignore[assignment]  # None: d_vocab
    d_mlp: int = 0
    positions: str = "none"
    rotary: Rotary | None = None  # None: Rotary() where positions are rotary
    rotaries: tuple[Rotary | None, ...] | None = None  # one per layer, in the place of rotary
    head_slopes: tuple[float, ...] | None = None  # None: those of Press et al. where positions are alibi
    norm: str | None = None
    norm_placement: str = "pre"
    embed_norm: bool = False
    first_norm: bool = True
    final_norm: bool = None  # type: ignore[assignment]  # None: if there is a norm, and placed other than "post"
    norm_eps: float = 1e-5
    qk_norm: str | None = None
    attention_scale: float = None  # type: ignore[assignment]  # None: 1 / sqrt(d_head)
    attention_cap: float | None = None
    causal: bool = True
    windows: tuple[int | None, ...] | None = None
    sinks: bool = False
    latent: Latent | None = None
    activation: str = "gelu"
    gated: bool = False
    parallel: str | None = None
    experts: Experts | None = None
    transform: bool = False
    transform_norm: bool = False
    transform_activation: str | None = None  # None: activation, where there is a transform
    embedding_multiplier: float = 1.0
    residual_multiplier: float = 1.0
    logit_multiplier: float = 1.0
    logit_cap: float | None = None
    tied: bool = False

    def __post_init__(self) -> None:
        self._fill_in()
        self._check_each()
        self._set("experts", _experts(self))
        _check_latent(self)
        for problem in _misfits(self):
            raise ConfigError(problem)
        self._set("windows", windows(self.windows, self.n_layers))
        self._set("rotaries", rotaries(self.rotaries, self.n_layers, *self._turning))
        if self.positions == "rotary" and self.rotaries is None:
            self._set("rotary", with_dims(Rotary() if self.rotary is None else self.rotary, *self._turning))
        self._set("head_slopes", head_slopes(self.head_slopes, self.n_heads))

    def _set(self, name: str, value: object) -> None:
        object.__setattr__(self, name, value)

    def _fill_in(self) -> None:
        if self.n_kv_heads is None:
            self._set("n_kv_heads", self.n_heads)
        if self.d_out is None:
            self._set("d_out", self.d_vocab)
        if self.final_norm is None:
            self._set("final_norm", self.norm is not None and self.norm_placement != "post")
        if self.transform is True and self.transform_activation is None:
            self._set("transform_activation", self.activation)

    def _check_each(self) -> None:
        for name, least in _LEAST.items():
            self._set(name, int(check(name, getattr(self, name), whole(least), ConfigError)))
        for name, known in CHOICES.items():
            check(name, getattr(self, name), one_of(*known), ConfigError)
        for name in _SWITCHES:
            check(name, getattr(self, name), SWITCH, ConfigError)
        if self.attention_scale is None:
            self._set("attention_scale", 1 / math.sqrt(self.d_head))
        for name in ("attention_scale", *(cap for cap in _CAPS if getattr(self, cap) is not None)):
            self._set(name, float(check(name, getattr(self, name), finite(above=0), ConfigError)))
        for name in _MULTIPLIERS:
            self._set(name, float(check(name, getattr(self, name), finite(), ConfigError)))
        self._set("norm_eps", float(check("norm_eps", self.norm_eps, finite(least=0), ConfigError)))

    @property
    def _turning(self) -> tuple[int, str]:
        """How many numbers of a query or key rotary positions turn, unless told, and at most; and how that size is called."""
        return (self.d_head, "d_head") if self.latent is None else (self.latent.d_shared, "latent d_shared")

    @property
    def d_value(self) -> int:
        """How many numbers a head's values have: d_head, but for latent attention."""
        return self.d_head if self.latent is None else self.latent.d_value

    @property
    def predicts_tokens(self) -> bool:
        """Whether the outputs are the vocabulary: as many as there are tokens."""
        return self.d_out == self.d_vocab

    def kv_head(self, head: int) -> int:
        """The key/value head that query head ``head`` uses: head // (n_heads // n_kv_heads).

        >>> Config(n_layers=1, n_heads=4, n_kv_heads=2, d_model=8, d_head=2, d_vocab=5, n_ctx=4).kv_head(1)
        0
        """
        return head // (self.n_heads // self.n_kv_heads)

    def window(self, layer: int) -> int | None:
        """How far a query of a layer sees: keys less than so many positions away, or None for all."""
        return None if self.windows is None else self.windows[layer]

    def rotary_of(self, layer: int) -> Rotary | None:
        """How queries and keys of a layer are turned, None where they are not.

        >>> sizes = dict(n_layers=2, n_heads=1, d_model=8, d_head=4, d_vocab=5, n_ctx=4, positions="rotary")
        >>> Config(**sizes, rotaries=(Rotary(), None)).rotary_of(1) is None
        True
        """
        return self.rotary if self.rotaries is None else self.rotaries[layer]

    @property
    def has_mlps(self) -> bool:
        """Whether every layer has an MLP, or experts in its place, behind its attention."""
        return bool(self.d_mlp) or self.experts is not None

    def is_sparse(self, layer: int) -> bool:
        """Whether a layer has experts in the place of an MLP."""
        return self.experts is not None and layer in (self.experts.layers or ())

    def neurons(self, layer: int) -> int:
        """How many neurons stand behind the attention of a layer, those of all its experts together."""
        if self.experts is None or not self.is_sparse(layer):
            return self.d_mlp
        return self.experts.count * self.experts.width + self.experts.shared

    def has_dense(self, layer: int) -> bool:
        """Whether a layer has one MLP that every position uses."""
        return bool(self.d_mlp) and not self.is_sparse(layer)

    @property
    def alibi_slopes(self) -> tuple[float, ...] | None:
        """ALiBi's slope of each head: scores get minus slope times distance; None for other positions.

        >>> sizes = dict(n_layers=1, n_heads=4, d_model=8, d_head=2, d_vocab=5, n_ctx=4)
        >>> Config(**sizes, positions="alibi").alibi_slopes
        (0.25, 0.0625, 0.015625, 0.00390625)
        """
        if self.positions != "alibi":
            return None
        return self.head_slopes or tuple(slopes(self.n_heads).tolist())

    @property
    def block_norms(self) -> tuple[str, ...]:
        """The norms of one block, in the order in which they act: "attn", "attn_post", "mlp", "mlp_post".

        "attn" is what attention reads through; "attn_post" follows it: on the stream where placement is
        "post", on what attention adds otherwise. The weights are ``g_attn``, ``b_attn`` and so on.

        >>> sizes = dict(n_layers=1, n_heads=2, d_model=8, d_head=4, d_vocab=5, n_ctx=4, d_mlp=16)
        >>> Config(**sizes, norm="rmsnorm", norm_placement="sandwich").block_norms
        ('attn', 'attn_post', 'mlp', 'mlp_post')
        """
        if self.norm is None:
            return ()
        before, after = self.norm_placement in ("pre", "sandwich"), self.norm_placement != "pre"
        attention = ("attn",) * before + ("attn_post",) * after
        mlp = ("mlp",) * (before and self.parallel != "shared") + ("mlp_post",) * after
        return attention + mlp if self.has_mlps else attention

    def norms_of(self, layer: int) -> tuple[str, ...]:
        """The norms of one block, those of `block_norms` that this layer has.

        >>> sizes = dict(n_layers=2, n_heads=2, d_model=8, d_head=4, d_vocab=5, n_ctx=4, d_mlp=16)
        >>> [Config(**sizes, norm="rmsnorm", first_norm=False).norms_of(layer) for layer in (0, 1)]
        [('mlp',), ('attn', 'mlp')]
        """
        without = () if self.first_norm or layer else ("attn",)
        return tuple(name for name in self.block_norms if name not in without)

    def to_dict(self) -> dict[str, Any]:
        """The configuration as plain values for JSON.

        >>> config = Config(n_layers=0, n_heads=1, d_model=8, d_head=2, d_vocab=5, n_ctx=4)
        >>> Config.from_dict(config.to_dict()) == config
        True
        """
        of_layers = None if self.rotaries is None else [rotary_dict(rotary) for rotary in self.rotaries]
        experts = None if self.experts is None else self.experts.to_dict()
        return asdict(self) | {"rotary": rotary_dict(self.rotary), "rotaries": of_layers, "experts": experts}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Config:
        """The configuration that ``to_dict`` wrote; names that are not there keep their default.

        Raises ConfigError for a name that is not known or a size that is missing.
        """
        check_fields("Config", values, cls)
        of_layers = values.get("rotaries")
        if isinstance(of_layers, list | tuple):
            of_layers = tuple(read_rotary(rotary) for rotary in of_layers)
        experts = values.get("experts")
        read = {"rotary": read_rotary(values.get("rotary")), "rotaries": of_layers}
        read["experts"] = Experts.from_dict(experts) if isinstance(experts, Mapping) else experts
        latent = values.get("latent")
        read["latent"] = Latent.from_dict(latent) if isinstance(latent, Mapping) else latent
        return cls(**dict(values) | read)


def _misfits(c: Config) -> list[str]:
    """Switches that do not go together, in words."""
    rules = {
        f"n_kv_heads must divide n_heads so that every query head has its key/value head: "
        f"found n_heads={c.n_heads}, n_kv_heads={c.n_kv_heads}.": c.n_heads % c.n_kv_heads,
        "final_norm=True needs a norm; found norm=None. Give 'layernorm' or 'rmsnorm'.": (
            c.final_norm and c.norm is None
        ),
        "embed_norm=True needs a norm; found norm=None. Give 'layernorm' or 'rmsnorm'.": (
            c.embed_norm and c.norm is None
        ),
        f"norm_placement={c.norm_placement!r} needs a norm; found norm=None.": (
            c.norm_placement != "pre" and c.norm is None
        ),
        f"tied=True makes W_U the transpose of W_E, so d_out must be d_vocab: found d_out={c.d_out}, "
        f"d_vocab={c.d_vocab}.": c.tied and not c.predicts_tokens,
        "gated=True needs an MLP; found d_mlp=0.": c.gated and not c.has_mlps,
        f"parallel={c.parallel!r} needs an MLP; found d_mlp=0.": c.parallel and not c.has_mlps,
        f"parallel={c.parallel!r} is known with norm_placement='pre' only, found {c.norm_placement!r}.": (
            c.parallel and c.norm_placement != "pre"
        ),
        f"transform=True needs norm_placement='post' or transform_norm=True, found {c.norm_placement!r}.": (
            c.transform and c.norm_placement != "post" and not c.transform_norm
        ),
        "transform_norm=True needs a norm and transform=True.": (
            c.transform_norm and not (c.transform and c.norm)
        ),
        f"transform_activation={c.transform_activation!r} needs transform=True.": (
            c.transform_activation is not None and not c.transform
        ),
        "first_norm=False is known with norm_placement='pre' and branches one after the other.": (
            not c.first_norm and (c.norm is None or c.norm_placement != "pre" or c.parallel is not None)
        ),
        f"rotary={c.rotary!r} needs positions='rotary', found {c.positions!r}.": (
            c.rotary is not None and c.positions != "rotary"
        ),
        f"rotaries need positions='rotary', found {c.positions!r}.": (
            c.rotaries is not None and c.positions != "rotary"
        ),
        "rotary and rotaries are both given: one for all layers, or one for each.": (
            c.rotary is not None and c.rotaries is not None
        ),
        f"head_slopes={c.head_slopes!r} needs positions='alibi', found {c.positions!r}.": (
            c.head_slopes is not None and c.positions != "alibi"
        ),
    }
    return [problem for problem, found in rules.items() if found]


def _check_latent(c: Config) -> None:
    """Raise ConfigError for latent attention that does not fit the other switches."""
    if c.latent is None:
        return
    if not isinstance(c.latent, Latent):
        raise ConfigError(f"latent must be Latent or None, found {c.latent!r:.80}.")
    rules = {
        f"latent attention gives every head its own keys and values: found n_heads={c.n_heads}, "
        f"n_kv_heads={c.n_kv_heads}; make them equal.": c.n_kv_heads != c.n_heads,
        f"latent d_shared must be below d_head, so that a head has keys of its own: found d_shared={c.latent.d_shared}, "
        f"d_head={c.d_head}.": c.latent.d_shared >= c.d_head,
        f"latent attention norms its latents, not queries and keys: found qk_norm={c.qk_norm!r}.": c.qk_norm,
        "latent attention with positions='qk' is not known here; found both.": c.positions == "qk",
    }
    for problem, found in rules.items():
        if found:
            raise ConfigError(problem)


def _experts(c: Config) -> Experts | None:
    """The experts with every layer named that has some; the others have an MLP, and all have one where one has."""
    if c.experts is None:
        return None
    if not isinstance(c.experts, Experts):
        raise ConfigError(f"experts must be Experts or None, found {c.experts!r:.80}.")
    found = c.experts.in_layers(c.n_layers)
    if (found.limit is not None or found.shift) and not c.gated:
        raise ConfigError("experts with a limit or a shift have gates: set gated=True.")
    if not c.d_mlp and len(found.layers or ()) < c.n_layers:
        raise ConfigError(
            f"layers without experts have an MLP: found d_mlp=0 and experts in layers {list(found.layers or ())!r:.60} "
            f"of {c.n_layers}."
        )
    return found

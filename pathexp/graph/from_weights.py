"""What a model's weights alone say of its stream: the maps around heads and at both ends, the positions left out.

Such maps hold gains, centerings and multipliers, and leave out what depends on a run: the scales 1/σ of norms, and
constants. Elhage et al. 2021, appendix "Technical Details", "Handling Layer Normalization".
"""

from __future__ import annotations

from functools import reduce

import numpy as np
from numpy.typing import NDArray

from ..algebra import Chain, Dense, LinearMap, compose
from ..budget import BUDGET
from ..errors import GraphError, PathexpError
from ..model import Config, Model
from .ends import Ends
from .factors import Factors
from .operators import Array, Operator, Step

Ids = NDArray[np.int64]


def features(operator: Operator) -> tuple[LinearMap, ...]:
    """Return what an operator does to features, as maps of which the leftmost is applied last.

    Raises GraphError for an operator that is no product of position and feature, such as a gate.
    """
    if not all(isinstance(part, Step) for part in operator):
        raise GraphError("what is elementwise on positions and features has no map of its features alone")
    return tuple(factor.numbers() for part in operator if isinstance(part, Step) for factor in part.feature)


def embedding(model: Model) -> LinearMap:
    """Return the map from tokens to the stream, (d_model, d_vocab): W_E, with what follows it."""
    return BUDGET.get(model, "embedding", lambda: compose(*features(_ends(model).embedding())))


def positions(model: Model) -> LinearMap:
    """Return the map from learned positions to the stream, (d_model, n_ctx): W_pos, with what follows it."""
    return compose(*features(_ends(model).positions()))


def unembedding(model: Model) -> LinearMap:
    """Return the map from what the final norm reads to the logits, (d_out, d_model): W_U, with what stands before it."""
    return BUDGET.get(model, "unembedding", lambda: compose(*features(_ends(model).past_norm())))


def unembedding_rows(model: Model, tokens: Ids) -> Array:
    """Return what some logits read of what the final norm reads, (k, d_model): rows of `unembedding`.

    >>> import numpy as np, pathexp as px
    >>> model = px.random_model(norm="layernorm")
    >>> bool(np.allclose(unembedding_rows(model, np.array([2, 5])), unembedding(model).dense()[[2, 5]], atol=1e-14))
    True
    """
    whole = unembedding(model)
    table, *others = whole.factors if isinstance(whole, Chain) else (whole,)
    if not isinstance(table, Dense):
        one_hot = np.zeros((len(tokens), whole.target.size))
        one_hot[np.arange(len(tokens)), tokens] = 1
        return whole.T.apply(one_hot)
    return reduce(lambda rows, factor: factor.T.apply(rows), others, np.asarray(table.array[tokens]))


def reading(model: Model, layer: int, branch: str = "attn") -> tuple[LinearMap, ...]:
    """Return what a branch of a layer reads the stream through: nothing, or (gain, centering)."""
    return features(Factors.of_weights(model).law.read(layer, branch))


def writing(model: Model, layer: int, branch: str = "attn") -> tuple[LinearMap, ...]:
    """Return what a branch of a layer writes to the stream through: nothing, or a norm and a multiplier."""
    return features(Factors.of_weights(model).law.written(layer, branch))


def _ends(model: Model) -> Ends:
    return Ends(Factors.of_weights(model), "before")


def has_token_space(config: Config) -> bool:
    """Whether tables between tokens can be read off the weights: not where norms stand on the stream."""
    return not config.transform and (config.norm_placement != "post" or not config.n_layers)


def require_token_space(config: Config) -> None:
    """Raise PathexpError for a model whose norms stand on the stream, where no table is read off the weights.

    Or whose unembedding stands behind an activation.
    """
    if config.transform:
        raise PathexpError(
            "token tables cannot be read off the weights of a model with a layer before its unembedding "
            "(transform=True): its activation stands between. Expand a run instead: px.expand(trace)['E L0H0 U']"
        )
    if not has_token_space(config):
        raise PathexpError(
            "token tables cannot be read off the weights of a post-norm model: the norms on its stream stand "
            "between tokens and heads. Expand a run instead: px.expand(trace)['E L0H0 U'].weight"
        )

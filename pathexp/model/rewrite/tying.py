"""An unembedding with numbers of its own."""

from __future__ import annotations

from ..model import Model, check_model
from .draft import Draft
from .proof import Step, rewritten


def untie(model: Model) -> Model:
    """Give the unembedding a copy of the numbers it shares with the embedding; untied, the model itself.

    >>> import numpy as np, pathexp as px
    >>> loose = px.rewrite.untie(px.random_model(tied=True))
    >>> loose.config.tied, np.shares_memory(loose.weights.W_E, loose.weights.W_U)
    (False, False)
    """
    check_model(model, "rewrite.untie")
    return rewritten(model, "untie", [Step("untie", Draft.untie)] if model.config.tied else [])

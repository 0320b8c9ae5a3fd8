"""The difference of two runs as a residual graph: secants for all that is not linear."""

from .contrast import contrast
from .graph import Contrast
from .points import Place, places

__all__ = ["Contrast", "Place", "contrast", "places"]

"""The difference of two runs as a residual graph: secants for all that is not linear."""

from .choices import with_every_choice
from .contrast import SPLITS, contrast
from .ending import contrast_to, score_sides
from .graph import MEASURES, Contrast
from .points import Place, places

__all__ = [
    "MEASURES",
    "SPLITS",
    "Contrast",
    "Place",
    "contrast",
    "contrast_to",
    "places",
    "score_sides",
    "with_every_choice",
]

"""Circuits: one question a file, answered from weights, graphs and runs."""

from ..model.forward import rerun
from .interventions import Cut, Intervention, along, distance, intervene, through
from .running import Tally, tally

__all__ = [
    "Cut",
    "Intervention",
    "Tally",
    "along",
    "distance",
    "intervene",
    "rerun",
    "tally",
    "through",
]

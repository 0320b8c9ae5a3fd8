"""Circuits: one question a file, answered from weights, graphs and runs."""

from .running import Tally, tally

__all__ = [
    "Tally",
    "tally",
]

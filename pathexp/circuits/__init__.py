"""Circuits: one question a file, answered from weights, graphs and runs."""

from .flow import flow, inflow_shares, split
from .prune import prune

__all__ = ["flow", "inflow_shares", "prune", "split"]

"""Circuits: one question a file, answered from weights, graphs and runs."""

from .copying import Copying, Spectrum, copying, ov_spectrum, qk_spectrum, row_maximum_on_diagonal, spectrum
from .exchange import rebase_ov, rebase_qk, swap_ov, swap_qk, ungrouped
from .flow import flow, inflow_shares, split
from .heads import Head, head
from .prune import prune

__all__ = [
    "Copying",
    "Head",
    "Spectrum",
    "copying",
    "flow",
    "head",
    "inflow_shares",
    "ov_spectrum",
    "prune",
    "qk_spectrum",
    "rebase_ov",
    "rebase_qk",
    "row_maximum_on_diagonal",
    "spectrum",
    "split",
    "swap_ov",
    "swap_qk",
    "ungrouped",
]

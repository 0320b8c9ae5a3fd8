"""Circuits: one question a file, answered from weights, graphs and runs."""

from .copying import Copying, Spectrum, copying, ov_spectrum, qk_spectrum, row_maximum_on_diagonal, spectrum
from .exchange import rebase_ov, rebase_qk, swap_ov, swap_qk, ungrouped
from .flow import flow, inflow_shares, split
from .head_kinds import HeadKind, HeadKinds, head_kinds, repeated_runs
from .heads import Head, head
from .induction import Induction, InductionPair, KeyPath, explain_induction, induction_heads, induction_pairs
from .prune import prune
from .virtual import virtual_weight

__all__ = [
    "Copying",
    "Head",
    "HeadKind",
    "HeadKinds",
    "Induction",
    "InductionPair",
    "KeyPath",
    "Spectrum",
    "copying",
    "explain_induction",
    "flow",
    "head",
    "head_kinds",
    "induction_heads",
    "induction_pairs",
    "inflow_shares",
    "ov_spectrum",
    "prune",
    "qk_spectrum",
    "rebase_ov",
    "rebase_qk",
    "repeated_runs",
    "row_maximum_on_diagonal",
    "spectrum",
    "split",
    "swap_ov",
    "swap_qk",
    "ungrouped",
    "virtual_weight",
]

"""Circuits: one question a file, answered from weights, graphs and runs."""

from ..model.forward import rerun
from .heads.copying import (
    Copying,
    Spectrum,
    copying,
    ov_spectrum,
    qk_spectrum,
    row_maximum_on_diagonal,
    spectrum,
)
from .heads.head import Head, head
from .heads.head_edits import rebase_ov, rebase_qk, swap_ov, swap_qk, ungrouped
from .heads.head_types import HeadKind, HeadKinds, head_kinds
from .heads.induction import Induction, InductionPair, induction_heads, induction_pairs
from .heads.induction_score import KeyPath, explain_induction
from .heads.repeated_tokens import repeated_runs
from .interventions import Cut, Intervention, along, distance, intervene, through
from .running import Tally, tally

__all__ = [
    "Copying",
    "Cut",
    "Head",
    "HeadKind",
    "HeadKinds",
    "Induction",
    "InductionPair",
    "Intervention",
    "KeyPath",
    "Spectrum",
    "Tally",
    "along",
    "copying",
    "distance",
    "explain_induction",
    "head",
    "head_kinds",
    "induction_heads",
    "induction_pairs",
    "intervene",
    "ov_spectrum",
    "qk_spectrum",
    "rebase_ov",
    "rebase_qk",
    "repeated_runs",
    "rerun",
    "row_maximum_on_diagonal",
    "spectrum",
    "swap_ov",
    "swap_qk",
    "tally",
    "through",
    "ungrouped",
]

"""Circuits: one question a file, answered from weights, graphs and runs."""

from ..model.forward import rerun
from .bigrams import Bigrams, bigrams
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
from .raised import Raised, all_raised, happens, raised
from .running import Tally, tally
from .skip_trigrams import Bug, SkipTrigram, bugs, forced_bug, skip_trigrams
from .virtual_heads import VirtualHead, VirtualShare, virtual_heads, virtual_share

__all__ = [
    "Bigrams",
    "Bug",
    "Copying",
    "Cut",
    "Head",
    "HeadKind",
    "HeadKinds",
    "Induction",
    "InductionPair",
    "Intervention",
    "KeyPath",
    "Raised",
    "SkipTrigram",
    "Spectrum",
    "Tally",
    "VirtualHead",
    "VirtualShare",
    "all_raised",
    "along",
    "bigrams",
    "bugs",
    "copying",
    "distance",
    "explain_induction",
    "forced_bug",
    "happens",
    "head",
    "head_kinds",
    "induction_heads",
    "induction_pairs",
    "intervene",
    "ov_spectrum",
    "qk_spectrum",
    "raised",
    "rebase_ov",
    "rebase_qk",
    "repeated_runs",
    "rerun",
    "row_maximum_on_diagonal",
    "skip_trigrams",
    "spectrum",
    "swap_ov",
    "swap_qk",
    "tally",
    "through",
    "ungrouped",
    "virtual_heads",
    "virtual_share",
]

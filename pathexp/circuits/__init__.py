"""Circuits: one question a file, answered from weights, graphs and runs."""

from ..model.forward import rerun
from .basis import BasisKurtoses, BasisKurtosis, basis_kurtosis
from .bigrams import Bigrams, bigrams
from .bottleneck import Bottleneck, Bottlenecks, bottlenecks, effective_rank
from .composition import CompositionScores, composition_scores
from .composition_path import CompositionTable, PathComposition, composition_score, composition_table
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
from .importance import OrderImportance, order_importance
from .information import Information, information
from .interventions import Cut, Intervention, along, distance, intervene, through
from .lens import Lens, logit_lens
from .memory import Erasure, MemoryManagement, memory_management
from .order import OrderBlind, order_blind
from .privilege import Privilege, basis_privilege
from .raised import Raised, all_raised, happens, raised
from .running import Tally, tally
from .skip_trigrams import Bug, SkipTrigram, bugs, forced_bug, skip_trigrams
from .subspaces import Overlap, between, overlap, overlaps
from .superposition import Interference, directions_of, interference
from .turning import CoordinateStory, TurnedBasis, turn_basis
from .virtual import virtual_weight
from .virtual_heads import VirtualHead, VirtualShare, virtual_heads, virtual_share

__all__ = [
    "BasisKurtoses",
    "BasisKurtosis",
    "Bigrams",
    "Bottleneck",
    "Bottlenecks",
    "Bug",
    "CompositionScores",
    "CompositionTable",
    "CoordinateStory",
    "Copying",
    "Cut",
    "Erasure",
    "Head",
    "HeadKind",
    "HeadKinds",
    "Induction",
    "InductionPair",
    "Information",
    "Interference",
    "Intervention",
    "KeyPath",
    "Lens",
    "MemoryManagement",
    "OrderBlind",
    "OrderImportance",
    "Overlap",
    "PathComposition",
    "Privilege",
    "Raised",
    "SkipTrigram",
    "Spectrum",
    "Tally",
    "TurnedBasis",
    "VirtualHead",
    "VirtualShare",
    "all_raised",
    "along",
    "basis_kurtosis",
    "basis_privilege",
    "between",
    "bigrams",
    "bottlenecks",
    "bugs",
    "composition_score",
    "composition_scores",
    "composition_table",
    "copying",
    "directions_of",
    "distance",
    "effective_rank",
    "explain_induction",
    "forced_bug",
    "happens",
    "head",
    "head_kinds",
    "induction_heads",
    "induction_pairs",
    "information",
    "interference",
    "intervene",
    "logit_lens",
    "memory_management",
    "order_blind",
    "order_importance",
    "ov_spectrum",
    "overlap",
    "overlaps",
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
    "turn_basis",
    "ungrouped",
    "virtual_heads",
    "virtual_share",
    "virtual_weight",
]

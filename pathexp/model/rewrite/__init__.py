"""Rewrites of a model that never change what it computes; each refuses, with the reason, where it is not valid.

Every rewrite gives a new model, records itself in its ``history``, leaves the original as it is, and compares the
logits of both before it returns. Elhage et al. 2021, "Model Simplifications".
"""

from .basis import rotate
from .centering import center_unembedding, center_writing, layernorm_to_rmsnorm
from .difference import Difference, compare
from .draft import Draft
from .multipliers import fold_multipliers
from .norms import fold_norms
from .proof import Check, Step, check_steps, proven, rewritten
from .tying import untie
from .value_biases import fold_value_biases, unnormalized_rows

__all__ = [
    "Check",
    "Difference",
    "Draft",
    "Step",
    "center_unembedding",
    "center_writing",
    "check_steps",
    "compare",
    "fold_multipliers",
    "fold_norms",
    "fold_value_biases",
    "layernorm_to_rmsnorm",
    "proven",
    "rewritten",
    "rotate",
    "unnormalized_rows",
    "untie",
]

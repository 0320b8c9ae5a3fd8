"""Linear maps between named spaces, kept factored; knows nothing of transformers."""

from . import rules as rules  # registers what each kind knows with the operations
from .combine import add, compose, mixed_product, scale, tensor
from .composites import Chain, Kron, Scaled, Sum
from .entries import column, diagonal, entry, row
from .maps import Dense, Diagonal, Identity, LinearMap, Zero
from .operations import (
    adjoint_gap,
    dense,
    eigenvalues,
    eigenvectors,
    gain,
    norm,
    rank,
    singular_values,
    svd,
    trace,
    waist,
)
from .plan import Plan, plan
from .precision import in_double
from .spaces import Space
from .spectra import Eigenvalues, Eigenvectors, Svd, null_cutoff
from .stream import Progress, row_blocks, save_dense
from .top import Entries, top_entries

__all__ = [
    "Chain",
    "Dense",
    "Diagonal",
    "Eigenvalues",
    "Eigenvectors",
    "Entries",
    "Identity",
    "Kron",
    "LinearMap",
    "Plan",
    "Progress",
    "Scaled",
    "Space",
    "Sum",
    "Svd",
    "Zero",
    "add",
    "adjoint_gap",
    "column",
    "compose",
    "dense",
    "diagonal",
    "eigenvalues",
    "eigenvectors",
    "entry",
    "gain",
    "in_double",
    "mixed_product",
    "norm",
    "null_cutoff",
    "plan",
    "rank",
    "row",
    "row_blocks",
    "save_dense",
    "scale",
    "singular_values",
    "svd",
    "tensor",
    "top_entries",
    "trace",
    "waist",
]

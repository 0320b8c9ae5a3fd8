"""A prediction as a tree of exact sums over bundles of paths."""

from .balance import prepare
from .limits import Limits, Progress, reporter
from .node import TreeNode
from .tree import Direction, Tree, numbers_of, tree_of

__all__ = [
    "Direction",
    "Limits",
    "Progress",
    "Tree",
    "TreeNode",
    "numbers_of",
    "prepare",
    "reporter",
    "tree_of",
]

"""A prediction as a tree of exact sums over bundles of paths."""

from .limits import Limits, Progress, reporter
from .node import TreeNode
from .tree import Direction, Tree, tree_of

__all__ = ["Direction", "Limits", "Progress", "Tree", "TreeNode", "reporter", "tree_of"]

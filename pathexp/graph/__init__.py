"""The residual graph and the language over its paths."""

from .automaton import Alphabet, Automaton, check_paths, compile_query
from .build import MlpMode
from .cache import WeakCache
from .ends import CapMode
from .files import check_graph_file, save_graph
from .freeze import freeze
from .graph import ResidualGraph
from .kernel import BlockKernel, Indices, Stack, product_norm
from .network import empty_multigraph
from .nodes import Block, Component, One, OneHot, Sink, Source, Start, Values, start_value
from .operators import IDENTITY, Array, Dim, Factor, Gate, Operator, Step, chain, pull, push, word_map
from .pullback import Pullback, positions_needed
from .query import Query, everything, query
from .walk import Walk

__all__ = [
    "IDENTITY",
    "Alphabet",
    "Array",
    "Automaton",
    "Block",
    "BlockKernel",
    "CapMode",
    "Component",
    "Dim",
    "Factor",
    "Gate",
    "Indices",
    "MlpMode",
    "One",
    "OneHot",
    "Operator",
    "Pullback",
    "Query",
    "ResidualGraph",
    "Sink",
    "Source",
    "Stack",
    "Start",
    "Step",
    "Values",
    "Walk",
    "WeakCache",
    "chain",
    "check_graph_file",
    "check_paths",
    "compile_query",
    "empty_multigraph",
    "everything",
    "freeze",
    "positions_needed",
    "product_norm",
    "pull",
    "push",
    "query",
    "save_graph",
    "start_value",
    "word_map",
]

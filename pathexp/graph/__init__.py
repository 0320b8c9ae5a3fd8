"""The residual graph and the language over its paths."""

from .actions import Dyad, cost, feature_norm, frobenius_norm, spread
from .along_positions import is_local
from .alphabet import NO_PORTS, asked_for_port, has_ports
from .automaton import Alphabet, Automaton, check_paths, compile_query
from .build import MlpMode
from .cache import WeakCache
from .contrast import (
    MEASURES,
    SPLITS,
    Contrast,
    Place,
    contrast,
    contrast_to,
    places,
    score_sides,
    with_every_choice,
)
from .ending import graph_to
from .ends import CapMode
from .files import check_graph_file, save_graph
from .freeze import freeze
from .graph import ResidualGraph
from .kernel import BlockKernel, Bundle
from .measures import lengths, product_norm
from .mixing import mix_noise
from .network import empty_multigraph
from .nodes import Block, Component, Difference, One, OneHot, Sink, Source, Start, Values, start_value
from .operators import (
    IDENTITY,
    Action,
    Array,
    Dim,
    Factor,
    Gate,
    Operator,
    Parallel,
    Part,
    Step,
    chain,
    pull,
    push,
    word_map,
)
from .pullback import Pullback, positions_needed
from .query import Query, everything, query
from .stack import Indices, Stack
from .walk import Walk

__all__ = [
    "IDENTITY",
    "MEASURES",
    "NO_PORTS",
    "SPLITS",
    "Action",
    "Alphabet",
    "Array",
    "Automaton",
    "Block",
    "BlockKernel",
    "Bundle",
    "CapMode",
    "Component",
    "Contrast",
    "Difference",
    "Dim",
    "Dyad",
    "Factor",
    "Gate",
    "Indices",
    "MlpMode",
    "One",
    "OneHot",
    "Operator",
    "Parallel",
    "Part",
    "Place",
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
    "asked_for_port",
    "chain",
    "check_graph_file",
    "check_paths",
    "compile_query",
    "contrast",
    "contrast_to",
    "cost",
    "empty_multigraph",
    "everything",
    "feature_norm",
    "freeze",
    "frobenius_norm",
    "graph_to",
    "has_ports",
    "is_local",
    "lengths",
    "mix_noise",
    "places",
    "positions_needed",
    "product_norm",
    "pull",
    "push",
    "query",
    "save_graph",
    "score_sides",
    "spread",
    "start_value",
    "with_every_choice",
    "word_map",
]

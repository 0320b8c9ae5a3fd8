"""One panel a file: a subject and what was asked, as plain data in; plain data out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from ..subject import Subject
from .branch import branch
from .cut import cut
from .flow import flow
from .head import head, score
from .heads import heads
from .lens import lens
from .neurons import neurons
from .paths import paths
from .query import query
from .run import run, verify
from .tree import tree

Panel: TypeAlias = Callable[[Subject, Mapping[str, Any]], dict[str, Any]]

PANELS: Mapping[str, Panel] = {
    "run": run,
    "verify": verify,
    "tree": tree,
    "branch": branch,
    "paths": paths,
    "flow": flow,
    "heads": heads,
    "head": head,
    "score": score,
    "neurons": neurons,
    "lens": lens,
    "query": query,
    "cut": cut,
}
"""Every panel, by the name under which the page asks for it."""

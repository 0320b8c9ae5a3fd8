"""pathexp derive: path terms as symbols, from sizes alone."""

from __future__ import annotations

import argparse
from itertools import islice
from typing import Any

from ..errors import PathexpError
from ..expansion import Expansion, Term, expand
from ..graph import ResidualGraph
from ..report import count_of, table
from .arguments import CUT_SHORT, OK, show

HELP = "write path terms as symbols, from sizes alone"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--heads", type=int, default=2, help="heads per layer")
    parser.add_argument("--query", default="() | ~()", help="only paths that match")
    parser.add_argument("--max-terms", type=int, default=200, metavar="N", help="how many terms to write")
    parser.add_argument("--latex", action="store_true", help="write LaTeX in the papers' notation")
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(options: argparse.Namespace) -> int:
    """Lay out the graph, list its terms as symbols, and print; a list that is cut short has its own exit code."""
    if options.layers < 0 or options.heads < 1 or options.max_terms < 1:
        raise PathexpError(
            f"derive takes layers ≥ 0, heads ≥ 1 and max-terms ≥ 1, "
            f"not {options.layers}, {options.heads} and {options.max_terms}"
        )
    graph = ResidualGraph.attention_only(layers=options.layers, heads=options.heads)
    terms = expand(graph, options.query)
    listed = list(islice(terms, options.max_terms))
    show(lambda: _data(terms, listed), lambda: (_latex if options.latex else _text)(terms, listed), options)
    return OK if len(listed) == terms.count() else CUT_SHORT


def _data(terms: Expansion, listed: list[Term]) -> dict[str, Any]:
    return {
        "count": terms.count(),
        "count_by_order": list(terms.count_by_order()),
        "kept": len(listed),
        "truncated": len(listed) < terms.count(),
        "terms": [
            {"path": str(term.path), "order": term.order, "formula": term.formula, "latex": term.latex()}
            for term in listed
        ],
    }


def _latex(terms: Expansion, listed: list[Term]) -> str:
    cut = terms.count() - len(listed)
    body = " \\\\\n  &+ ".join(term.latex() for term in listed)
    rest = f" \\\\\n  &+ \\cdots \\text{{ ({cut:,} more of {terms.count():,} terms)}}" if cut else ""
    return f"\\begin{{aligned}}\nT = {{}}& {body}{rest}\n\\end{{aligned}}"


def _text(terms: Expansion, listed: list[Term]) -> str:
    count, cut = terms.count(), terms.count() - len(listed)
    orders = ", ".join(f"{n:,} of order {k}" for k, n in enumerate(terms.count_by_order()) if n)
    head = count_of(count, "path") + (f": {orders}" if orders else "")
    rows = [[str(term.path), str(term.order), term.formula] for term in listed]
    note = f"\n… {cut:,} more of {count:,}; --max-terms writes more" if cut else ""
    return f"{head}\n\n{table(['path', 'order', 'term'], rows, '<><')}{note}"

"""pathexp derive: path terms as symbols, from sizes alone."""

from __future__ import annotations

import argparse
import json

from ..errors import PathexpError
from ..expansion import Expansion, expand
from ..graph import ResidualGraph
from ..report import count_of, table
from .arguments import OK

HELP = "write path terms as symbols, from sizes alone"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--heads", type=int, default=2, help="heads per layer")
    parser.add_argument("--query", default=None, help="only paths that match")
    parser.add_argument("--max-terms", type=int, default=200, metavar="N", help="how many terms to write")
    parser.add_argument("--latex", action="store_true", help="write LaTeX in the papers' notation")
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(options: argparse.Namespace) -> int:
    """Lay out the graph, list its terms as symbols, and print."""
    if options.layers < 0 or options.heads < 1 or options.max_terms < 1:
        raise PathexpError(
            f"derive takes layers ≥ 0, heads ≥ 1 and max-terms ≥ 1, "
            f"not {options.layers}, {options.heads} and {options.max_terms}"
        )
    graph = ResidualGraph.attention_only(layers=options.layers, heads=options.heads)
    terms = expand(graph) if options.query is None else expand(graph).where(options.query)
    print(_derivation(terms, options))
    return OK


def _derivation(terms: Expansion, options: argparse.Namespace) -> str:
    count = terms.count()
    listed = [term for term, _ in zip(terms, range(options.max_terms), strict=False)]
    cut = count - len(listed)
    if options.json:
        written = [
            {"path": str(term.path), "order": term.order, "formula": term.formula, "latex": term.latex()}
            for term in listed
        ]
        data = {"count": count, "kept": len(listed), "truncated": cut > 0, "terms": written}
        return json.dumps(data | {"count_by_order": list(terms.count_by_order())}, indent=1)
    if options.latex:
        body = " \\\\\n  &+ ".join(term.latex() for term in listed)
        rest = f" \\\\\n  &+ \\cdots \\text{{ ({cut:,} more of {count:,} terms)}}" if cut else ""
        return f"\\begin{{aligned}}\nT = {{}}& {body}{rest}\n\\end{{aligned}}"
    rows = [[str(term.path), str(term.order), term.formula] for term in listed]
    orders = ", ".join(f"{n:,} of order {k}" for k, n in enumerate(terms.count_by_order()) if n)
    note = f"\n… {cut:,} more of {count:,}; --max-terms writes more" if cut else ""
    head = f"{count_of(count, 'path')}" + (f": {orders}" if orders else "")
    return f"{head}\n\n{table(['path', 'order', 'term'], rows, '<><')}{note}"

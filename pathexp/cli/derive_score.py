"""pathexp derive-score: the terms of an attention score as symbols, from sizes alone."""

from __future__ import annotations

import argparse
from itertools import islice
from typing import Any

from ..errors import PathexpError
from ..expansion.score_formulas import ScoreFormulas
from ..expansion.score_term import ScoreTerm
from ..graph import ResidualGraph
from ..report import count_of, table
from .arguments import CUT_SHORT, OK, show

HELP = "write the terms of an attention score as symbols, from sizes alone"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--heads", type=int, default=2, help="heads per layer")
    parser.add_argument("--head", default="L1H0", help="the head whose scores are asked about")
    parser.add_argument("--max-terms", type=int, default=200, metavar="N", help="how many terms to write")
    parser.add_argument("--latex", action="store_true", help="write LaTeX in the papers' notation")
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(options: argparse.Namespace) -> int:
    """Lay out both sides, list the terms, and print; a list that is cut short has its own exit code."""
    if options.layers < 1 or options.heads < 1 or options.max_terms < 1:
        raise PathexpError(
            f"derive-score takes layers, heads and max-terms of at least 1, "
            f"not {options.layers}, {options.heads} and {options.max_terms}"
        )
    terms = ScoreFormulas(ResidualGraph.attention_only(options.layers, options.heads), options.head)
    listed = list(islice(terms, options.max_terms))
    show(lambda: _data(terms, listed), lambda: (_latex if options.latex else _text)(terms, listed), options)
    return OK if len(listed) == terms.count() else CUT_SHORT


def _data(terms: ScoreFormulas, listed: list[ScoreTerm]) -> dict[str, Any]:
    return {
        "head": terms.head,
        "count": terms.count(),
        "kept": len(listed),
        "truncated": len(listed) < terms.count(),
        "terms": [
            {
                "query": str(term.query_term.path),
                "key": str(term.key_term.path),
                "kind": term.kind,
                "formula": term.formula,
                "latex": term.latex(),
            }
            for term in listed
        ],
    }


def _latex(terms: ScoreFormulas, listed: list[ScoreTerm]) -> str:
    cut = terms.count() - len(listed)
    body = " \\\\\n  &+ ".join(term.latex() for term in listed)
    rest = f" \\\\\n  &+ \\cdots \\text{{ ({cut:,} more of {terms.count():,} terms)}}" if cut else ""
    return f"\\begin{{aligned}}\n\\sqrt{{d_{{head}}}} \\, S = {{}}& {body}{rest}\n\\end{{aligned}}"


def _text(terms: ScoreFormulas, listed: list[ScoreTerm]) -> str:
    cut = terms.count() - len(listed)
    head = f"a score of {terms.head} is 1/√d_head times {count_of(terms.count(), 'term')} A ⊗ B ⊗ W"
    rows = [[str(t.query_term.path), str(t.key_term.path), t.kind, t.formula] for t in listed]
    note = f"\n… {cut:,} more of {terms.count():,}; --max-terms writes more" if cut else ""
    return f"{head}\n\n{table(['query path', 'key path', 'kind', 'term'], rows, '<<<<')}{note}"

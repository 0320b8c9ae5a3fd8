"""pathexp derive-score: the terms of an attention score as symbols, from sizes alone."""

from __future__ import annotations

import argparse
from itertools import islice
from typing import Any

from ..errors import PathexpError
from ..expansion.scores.derive_score import ScoreFormulas
from ..expansion.scores.term import POSITION_BIAS, ScoreTerm
from ..graph import ResidualGraph
from ..model import Config
from ..model.config import CHOICES
from ..report import count_of, table
from .arguments import CUT_SHORT, OK, add_loading_arguments, model_of, show

HELP = "write the terms of an attention score as symbols, from sizes alone"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--heads", type=int, default=2, help="heads per layer")
    parser.add_argument(
        "--positions",
        choices=[name for name in CHOICES["positions"] if name],
        default="none",
        help="how positions enter",
    )
    parser.add_argument(
        "--distance",
        type=int,
        default=1,
        metavar="N",
        help="under rotary: how far the key is before the query",
    )
    parser.add_argument(
        "--model", default=None, help="the sizes and switches of a bundled model or a file instead"
    )
    parser.add_argument("--head", default="L1H0", help="the head whose scores are asked about")
    parser.add_argument("--max-terms", type=int, default=200, metavar="N", help="how many terms to write")
    parser.add_argument("--latex", action="store_true", help="write LaTeX in the papers' notation")
    parser.add_argument("--json", action="store_true", help="print JSON")
    add_loading_arguments(parser)


def run(options: argparse.Namespace) -> int:
    """Lay out both sides, list the terms, and print; a list that is cut short has its own exit code."""
    if options.layers < 1 or options.heads < 1 or options.max_terms < 1:
        raise PathexpError(
            f"derive-score takes layers, heads and max-terms of at least 1, "
            f"not {options.layers}, {options.heads} and {options.max_terms}"
        )
    terms = _terms(options)
    listed = list(islice(terms, options.max_terms))
    show(lambda: _data(terms, listed), lambda: (_latex if options.latex else _text)(terms, listed), options)
    return OK if len(listed) == terms.count() else CUT_SHORT


def _terms(options: argparse.Namespace) -> ScoreFormulas:
    """The terms of a model, or of sizes alone."""
    if options.model is not None:
        return ScoreFormulas.of(model_of(options).config, options.head, options.distance)
    graph = ResidualGraph.attention_only(options.layers, options.heads)  # refuses sizes nobody can lay out
    if options.positions == "none":
        return ScoreFormulas(graph, options.head)
    config = Config(
        n_layers=options.layers, n_heads=options.heads, d_model=2 * options.heads, d_head=2, d_vocab=1,
        n_ctx=1, positions=options.positions,
    )  # fmt: skip
    return ScoreFormulas.of(config, options.head, options.distance)


def _data(terms: ScoreFormulas, listed: list[ScoreTerm]) -> dict[str, Any]:
    return {
        "head": terms.head,
        "position_bias": terms.position_bias,
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


def _scale(terms: ScoreFormulas) -> tuple[str, str, str]:
    """What multiplies all terms, and what a score is to be multiplied with, as text and as LaTeX."""
    c = terms.config
    if c is None or c.attention_scale * c.d_head**0.5 == 1.0:
        return "1/√d_head", "√d_head", r"\sqrt{d_{head}}"
    return f"{c.attention_scale:.4g}", f"{1 / c.attention_scale:.4g}", f"{1 / c.attention_scale:.4g}"


def _latex(terms: ScoreFormulas, listed: list[ScoreTerm]) -> str:
    cut, scale = terms.count() - len(listed), _scale(terms)[2]
    body = " \\\\\n  &+ ".join(term.latex() for term in listed)
    rest = f" \\\\\n  &+ \\cdots \\text{{ ({cut:,} more of {terms.count():,} terms)}}" if cut else ""
    if terms.position_bias:
        rest += f" \\\\\n  &- {scale} \\cdot \\mathrm{{slope}} \\cdot |i - j|"
    return f"\\begin{{aligned}}\n{scale} \\, S = {{}}& {body}{rest}\n\\end{{aligned}}"


def _text(terms: ScoreFormulas, listed: list[ScoreTerm]) -> str:
    cut, (scale, inverse, _) = terms.count() - len(listed), _scale(terms)
    head = f"a score of {terms.head} is {scale} times {count_of(terms.count(), 'term')} A ⊗ B ⊗ W"
    if terms.config is not None and terms.config.positions == "rotary":
        head += f", for a key {terms.distance} before its query"
    rows = [[str(t.query_term.path), str(t.key_term.path), t.kind, t.formula] for t in listed]
    if terms.position_bias:
        rows.append(["", "", POSITION_BIAS, f"-{inverse} · {terms.position_bias}"])
    note = f"\n… {cut:,} more of {terms.count():,}; --max-terms writes more" if cut else ""
    return f"{head}\n\n{table(['query path', 'key path', 'kind', 'term'], rows, '<<<<')}{note}"

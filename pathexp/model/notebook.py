"""Models and runs as notebooks show them: HTML without scripts, every word inert."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

from ..visible import inert, visible


def facts(headline: str, rows: Iterable[tuple[str, object]]) -> str:
    """Return a headline and a table of names and values.

    >>> facts("a <b>", [("layers", 2)])
    '<div class="pathexp"><p><b>a &lt;b&gt;</b></p><table><tbody><tr><th>layers</th><td>2</td></tr></tbody></table></div>'
    """
    body = "".join(f"<tr><th>{_word(name)}</th><td>{_word(str(value))}</td></tr>" for name, value in rows)
    return f'<div class="pathexp"><p><b>{_word(headline)}</b></p><table><tbody>{body}</tbody></table></div>'


def tokens(headline: str, strings: Sequence[str], predicted: Sequence[str]) -> str:
    """Return the tokens of a run, each with its position and, below, the token that is predicted after it."""
    cells = [
        f'<td style="text-align:left"><small>{place}</small><br><code>{escape(visible(token))}</code><br>'
        f"<small>→ <code>{escape(visible(following))}</code></small></td>"
        for place, (token, following) in enumerate(zip(strings, predicted, strict=True))
    ]
    rows = [cells[at : at + _ACROSS] for at in range(0, len(cells), _ACROSS)]
    body = "".join(f"<tr>{''.join(row)}</tr>" for row in rows)
    return f'<div class="pathexp"><p><b>{_word(headline)}</b></p><table><tbody>{body}</tbody></table></div>'


_ACROSS = 10
"""How many tokens stand in a row."""


def _word(said: str) -> str:
    return escape(inert(said))

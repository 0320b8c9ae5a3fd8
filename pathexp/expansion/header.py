"""What every answer about a model or a run begins with: which model, which text, which target."""

from __future__ import annotations

import numpy as np

from ..answer import Facts, visible
from ..graph import Contrast, Query, everything
from ..model import Model, Target, Trace


def amount(count: int, large: int = 10**7) -> str:
    """Return a number of paths: exact below `large`, else to two digits.

    >>> amount(46_596), amount(1_073_741_824 * 10**30)
    ('46,596', '1.1·10³⁹')
    """
    if count < large:
        return f"{count:,}"
    power = len(str(count)) - 1
    tenths = (count + 5 * 10 ** (power - 2)) // 10 ** (power - 1)
    tenths, power = (10, power + 1) if tenths == 100 else (tenths, power)
    return f"{tenths // 10}.{tenths % 10}·10{str(power).translate(_RAISED)}"


_RAISED = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")


def counted(number: int, noun: str, plural: str = "") -> str:
    """Return an amount, exact below 10¹⁵, with its noun in the right number.

    >>> counted(1, "path"), counted(2401, "path"), counted(2, "entry", "entries")
    ('1 path', '2,401 paths', '2 entries')
    """
    return f"{amount(number, 10**15)} {noun if number == 1 else plural or noun + 's'}"


def matching(query: Query) -> str:
    """Return what narrows paths down, with a space before it; nothing where a query accepts all.

    >>> from pathexp.graph import query
    >>> matching(query("E .* U")), matching(everything)
    (" matching 'E .* U'", '')
    """
    return "" if query == everything else f" matching {str(query)!r}"


def model_line(model: Model) -> str:
    """Return a model's name and sizes in one line."""
    c = model.config
    return (
        f"{model.name or 'model'}: {counted(c.n_layers, 'layer')} × {counted(c.n_heads, 'head')}, "
        f"d_model {c.d_model}, d_head {c.d_head}, vocabulary {c.d_vocab:,}"
    )


def text_line(trace: Trace) -> str:
    """Return the tokens of a run in one line."""
    return f"text     {' '.join(map(visible, trace.token_strings))}"


def prediction_line(trace: Trace, position: int) -> str:
    """Return what a run predicts after a position."""
    token = trace.top_token(position)
    chance = np.exp(trace.log_probs[position, token])
    return (
        f"predicts {visible(trace.model.output_string(token))} after token {position} "
        f"(logit {trace.logits[position, token]:.4f}, probability {chance:.3f})"
    )


def run_facts(trace: Trace, target: Target | None = None) -> Facts:
    """Return which run an answer is about, for machines: model, tokens, target."""
    facts: dict[str, str | int | float] = {
        "model": trace.model.name or "model",
        "tokens": " ".join(str(int(token)) for token in trace.tokens),
    }
    if target is not None:
        facts |= {"target": target.label, "position": target.position, "target_value": target.value}
    return Facts(facts)


def shown_target(graph: object, target: Target) -> Target:
    """Return a target as what the paths of a graph add up to: of a contrast, what it differs by."""
    return graph.difference(target) if isinstance(graph, Contrast) else target


def model_facts(model: Model) -> Facts:
    """Return which model an answer is about, for machines."""
    return Facts({"model": model.name or "model"})

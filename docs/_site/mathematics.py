"""Formulas as MathML, which browsers show by themselves: docutils converts them, and the site fetches no script for them."""

from __future__ import annotations

from html import escape
from typing import Any

from docutils import nodes
from docutils.utils.math import MathError
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.util import logging

SITE = "mathml"
"""The name of this renderer for `html_math_renderer`."""


def setup(app: Any) -> dict[str, bool]:
    """Register the renderer; Sphinx calls it."""
    app.add_html_math_renderer(SITE, inline_renderers=(inline, None), block_renderers=(block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def inline(translator: Any, node: nodes.Element) -> None:
    """Write a formula in a line."""
    _write(translator, node, as_block=False)


def block(translator: Any, node: nodes.Element) -> None:
    """Write a formula on lines of its own."""
    _write(translator, node, as_block=True)


def _write(translator: Any, node: nodes.Element, as_block: bool) -> None:
    tag = "div" if as_block else "span"
    translator.body.append(
        translator.starttag(node, tag, "", CLASS="math") + converted(node, as_block) + f"</{tag}>"
    )
    raise nodes.SkipNode


def converted(node: nodes.Element, as_block: bool) -> str:
    """Return a formula as MathML; one that cannot be converted is a warning, and stands as it was written."""
    try:
        return str(tex2mathml(node.astext(), as_block=as_block))
    except MathError as error:
        logging.getLogger(__name__).warning("formula %r: %s", node.astext(), error, location=node)
        return f"<code>{escape(node.astext())}</code>"

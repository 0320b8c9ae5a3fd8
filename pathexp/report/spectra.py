"""Spectra as pictures: eigenvalues of a head's circuits in the complex plane, one panel a head."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from ..circuits.heads.copying import Spectrum
from .svg import element, label, picture

_PANEL, _GAP, _HEAD = 150.0, 16.0, 34.0


def draw_spectra(spectra: Sequence[tuple[str, Spectrum]], title: str, columns: int = 8) -> str:
    """Return an SVG with one panel per (name, spectrum): eigenvalues in the complex plane, radii to the power ½.

    Each panel is scaled to its own largest eigenvalue. Positive real parts are drawn in red, negative ones in
    blue; the copying score stands above. Elhage et al. 2021, "Detecting Copying Behavior".

    >>> import pathexp as px
    >>> drawing = draw_spectra([("L1H0", px.copying(px.induction_model())[1].ov)], "OV")
    >>> drawing.startswith("<svg"), drawing.count("<circle")
    (True, 8)
    """
    rows = -(-len(spectra) // columns)
    across = min(columns, max(1, len(spectra)))
    width = _GAP + across * (_PANEL + _GAP)
    height = _HEAD + rows * (_PANEL + _HEAD + _GAP)
    body = [label(title, _GAP, 20, font_size=14, font_weight="bold")]
    for index, (name, found) in enumerate(spectra):
        row, column = divmod(index, columns)
        body += _panel(name, found, _GAP + column * (_PANEL + _GAP), _HEAD + row * (_PANEL + _HEAD + _GAP))
    return picture(body, width, height, title)


def _panel(name: str, found: Spectrum, x: float, y: float) -> Iterator[str]:
    score = found.reason or f"{found.score:+.3f}"
    yield label(f"{name}  {score}", x, y + 14, font_size=11)
    top, half = y + 22, _PANEL / 2
    yield element("rect", x=x, y=top, width=_PANEL, height=_PANEL, fill="none", stroke="#cccccc")
    for line in ((x, top + half, x + _PANEL, top + half), (x + half, top, x + half, top + _PANEL)):
        yield element("line", x1=line[0], y1=line[1], x2=line[2], y2=line[3], stroke="#eeeeee")
    for value in _spread(found.eigenvalues):
        color = "#b2182b" if value.real > 0 else "#2166ac"
        place = x + half + 0.92 * half * value.real, top + half - 0.92 * half * value.imag
        yield element("circle", cx=place[0], cy=place[1], r=2.5, fill=color, fill_opacity="0.75")


def _spread(values: np.ndarray) -> np.ndarray:
    """Eigenvalues with the largest of length 1 and lengths to the power ½, so that small ones can be told apart."""
    lengths = np.abs(values)
    return values / np.sqrt(lengths * lengths.max()) if len(values) else values

"""One chart a kind of figure, in Altair: colors that the color-blind tell apart, labels that thin out and never vanish."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ..errors import AnswerError
from ..visible import inert
from .boxes import arcs, boxes, ribbons
from .extras import extra
from .parts import Figure

POSITIVE, NEGATIVE, NEUTRAL = "#d55e00", "#0072b2", "#999999"
"""Vermillion and blue of Okabe and Ito 2008, "Color Universal Design", and gray."""
SERIES = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00")
WIDE, HIGH = 620, 420
LIMIT = 40
"""A picture of bars shows so many rows and sums up the others."""


def draw(figure: Figure, dark: bool = False) -> Any:
    """Return the Altair chart of a figure. Raises AnswerError for a kind that is not known, or data that is missing."""
    altair = extra("altair", "viz", "pictures")
    if figure.kind not in KINDS:
        raise AnswerError(f"unknown kind of figure {figure.kind!r}; choose from: {', '.join(KINDS)}")
    try:
        made = KINDS[figure.kind](altair, figure)
    except (KeyError, IndexError, TypeError) as error:
        raise AnswerError(f"figure {figure.name!r} of kind {figure.kind!r} lacks data: {error}") from None
    return _themed(made.properties(title=inert(figure.title)), dark)


def _themed(chart: Any, dark: bool) -> Any:
    ink, paper = ("#e8e8e8", "#16181d") if dark else ("#222222", "#ffffff")
    return (
        chart.configure(background=paper)
        .configure_title(anchor="start", color=ink, fontSize=13)
        .configure_axis(labelColor=ink, titleColor=ink, labelFontSize=11, titleFontSize=11, gridColor="#8884")
        .configure_legend(labelColor=ink, titleColor=ink)
        .configure_view(stroke=None)
    )


def _sign(altair: Any, field: str, unit: str) -> Any:
    return altair.Color(
        f"{field}:N", title=unit or "sign",
        scale=altair.Scale(domain=["positive", "negative"], range=[POSITIVE, NEGATIVE]),
    )  # fmt: skip


def _signed(value: float | None) -> str:
    return "negative" if value is not None and value < 0 else "positive"


def _bars(altair: Any, figure: Figure) -> Any:
    names, values = list(map(inert, figure.data["rows"])), figure.data["values"]
    series = figure.data.get("series") or [figure.unit or "value"]
    rows = [
        {"row": name, "series": each, "value": value, "sign": _signed(value), "place": place}
        for place, (name, line) in enumerate(zip(names, values, strict=True))
        for each, value in zip(series, line if isinstance(line, list) else [line], strict=True)
    ]
    shown, left = rows[: LIMIT * len(series)], len(names) - LIMIT
    height = max(min(len(names), LIMIT) * (10 + 8 * len(series)), 40)
    y = altair.Y("row:N", sort=list(dict.fromkeys(row["row"] for row in shown)), title=None)
    x = altair.X(
        "value:Q", title=(figure.unit or None) if left <= 0 else f"{figure.unit} ({left:,} more rows)".strip()
    )
    base = altair.Chart(altair.Data(values=shown)).mark_bar().encode(
        x=x, y=y, tooltip=["row:N", "series:N", "value:Q"]
    )  # fmt: skip
    if len(series) == 1:
        return base.encode(color=_sign(altair, "sign", figure.unit)).properties(width=WIDE, height=height)
    color = altair.Color("series:N", sort=list(series), scale=altair.Scale(range=list(SERIES)))
    return base.encode(color=color, yOffset=altair.YOffset("series:N", sort=list(series))).properties(
        width=WIDE, height=height
    )


def _heatmap(altair: Any, figure: Figure) -> Any:
    rows, columns = (list(map(inert, figure.data[name])) for name in ("rows", "columns"))
    cells = [
        {"row": r, "column": c, "value": value, "row_label": rows[r], "column_label": columns[c]}
        for r, line in enumerate(figure.data["values"])
        for c, value in enumerate(line)
        if value is not None
    ]
    largest = max((abs(cell["value"]) for cell in cells), default=1.0) or 1.0
    negative = any(cell["value"] < 0 for cell in cells)
    scale = altair.Scale(
        domain=[-largest, 0, largest] if negative else [0, largest],
        range=[NEGATIVE, "#f7f7f7", POSITIVE] if negative else ["#f7f7f7", NEGATIVE],
    )
    wide, high = (_side(len(labels)) for labels in (columns, rows))
    return (
        altair.Chart(altair.Data(values=cells))
        .mark_rect()
        .encode(
            x=altair.X("column:O", title=figure.data.get("column_axis"), axis=_thinned(altair, columns)),
            y=altair.Y("row:O", title=figure.data.get("row_axis"), axis=_thinned(altair, rows)),
            color=altair.Color("value:Q", scale=scale, title=figure.unit or "value"),
            tooltip=["row_label:N", "column_label:N", "value:Q"],
        )
        .properties(width=wide, height=high)
    )


def _side(count: int) -> int:
    return max(min(24 * count, 900), 24)


def _thinned(altair: Any, labels: list[str]) -> Any:
    """Return an axis whose labels are thinned where they would overlap; the first always stands."""
    every = max(1, -(-len(labels) // 60))
    words = ", ".join(_quoted(label) for label in labels)
    return altair.Axis(
        labelExpr=f"[{words}][datum.value]",
        values=list(range(0, len(labels), every)),
        labelLimit=140,
        labelOverlap=True,
    )


def _quoted(label: str) -> str:
    """Return a label as a text of Vega's expressions."""
    return "'" + label.replace("\\", "\\\\").replace("'", "\\'") + "'"


def _lines(altair: Any, figure: Figure) -> Any:
    errors: Mapping[str, list[float]] = figure.data.get("errors") or {}
    points = [
        {"x": x, "series": inert(name), "value": value, "low": value - error, "high": value + error}
        for name, values in figure.data["series"].items()
        for x, value, error in zip(
            figure.data["x"], values, errors.get(name, [0.0] * len(values)), strict=True
        )
        if value is not None
    ]
    scale = altair.Scale(type="log" if figure.data.get("log") else "linear", zero=False)
    along = altair.Scale(type=scale.type, zero=False, nice=False)
    x = altair.X("x:Q", title=figure.data.get("x_title", "x"), scale=along)
    names = list(map(inert, figure.data["series"]))
    key = altair.Legend(symbolType="stroke", symbolStrokeWidth=2, symbolSize=300)
    color = altair.Color(
        "series:N", sort=names, legend=key, scale=altair.Scale(domain=names, range=list(SERIES))
    )
    base = altair.Chart(altair.Data(values=points)).encode(x=x, color=color)
    y = altair.Y("value:Q", title=figure.unit or None, scale=scale)
    line = base.mark_line().encode(y=y, strokeDash=_dashes(altair, names)) + base.mark_circle(size=36).encode(
        y=y
    )
    made = base.mark_area(opacity=0.2).encode(y="low:Q", y2="high:Q") + line if errors else line
    return made.properties(width=WIDE, height=HIGH)


def _dashes(altair: Any, names: list[str]) -> Any:
    """Return strokes that tell series apart where they are more than colors: whole, then dashed, then dotted."""
    strokes = [_DASHES[min(place // len(SERIES), len(_DASHES) - 1)] for place in range(len(names))]
    return altair.StrokeDash("series:N", sort=names, scale=altair.Scale(domain=names, range=strokes))


_DASHES = ([1, 0], [7, 3], [2, 2])


def _scatter(altair: Any, figure: Figure) -> Any:
    data = figure.data
    sizes = data.get("sizes") or [1.0] * len(data["x"])
    points = [
        {"x": x, "y": y, "label": inert(label), "size": size}
        for x, y, label, size in zip(data["x"], data["y"], data["labels"], sizes, strict=True)
    ]
    scale = altair.Scale(zero=False)
    return (
        altair.Chart(altair.Data(values=points))
        .mark_circle(color=NEGATIVE, opacity=0.6)
        .encode(
            x=altair.X("x:Q", title=data.get("x_title", "x"), scale=scale),
            y=altair.Y("y:Q", title=data.get("y_title", "y"), scale=scale),
            size=altair.Size("size:Q", legend=None, scale=altair.Scale(range=[12, 200])),
            tooltip=["label:N", "x:Q", "y:Q", "size:Q"],
        )
        .properties(width=HIGH, height=HIGH)
    )


def _spectra(altair: Any, figure: Figure) -> Any:
    points = [
        {"series": inert(name), "real": real, "imaginary": imaginary}
        for name, values in figure.data["series"].items()
        for real, imaginary in values
    ]
    count = len(figure.data["series"])
    return (
        altair.Chart(altair.Data(values=points))
        .mark_circle(size=18, color=NEGATIVE)
        .encode(
            x=altair.X("real:Q", title="real part"), y=altair.Y("imaginary:Q", title="imaginary part"),
            tooltip=["series:N", "real:Q", "imaginary:Q"],
            facet=altair.Facet("series:N", columns=min(max(count, 1), 8), sort=list(figure.data["series"]), title=None),
        )
        .properties(width=90, height=90)
        .resolve_scale(x="independent", y="independent")
    )  # fmt: skip


def _rects(altair: Any, rows: list[dict[str, Any]], unit: str, wide: int, high: int) -> Any:
    data = altair.Data(values=rows)
    none = altair.Axis(labels=False, ticks=False, grid=False, domain=False, title=None)
    place = {
        "x": altair.X("x:Q", axis=none, scale=altair.Scale(nice=False)), "x2": "x2:Q",
        "y": altair.Y("y:Q", axis=none, scale=altair.Scale(nice=False, reverse=True)), "y2": "y2:Q",
    }  # fmt: skip
    drawn = altair.Chart(data).mark_rect(stroke="white", strokeWidth=0.5).encode(
        **place, color=_sign(altair, "sign", unit), opacity=altair.condition("datum.rest", altair.value(0.35), altair.value(0.9)),
        tooltip=["label:N", "value:Q", "paths:N"],
    )  # fmt: skip
    words = altair.Chart(altair.Data(values=[row for row in rows if row["said"]])).mark_text(
        align="left", dx=3, fontSize=11, color="black", clip=True
    ).encode(x=place["x"], y=altair.Y("middle:Q", axis=none), text="said:N")  # fmt: skip
    return (drawn + words).properties(width=wide, height=high)


def _flame(altair: Any, figure: Figure) -> Any:
    rows = boxes(figure.data["nodes"], WIDE + 280)
    depth = max((row["y2"] for row in rows), default=1)
    return _rects(altair, rows, figure.unit, WIDE + 280, int(26 * depth) + 10)


def _flow(altair: Any, figure: Figure) -> Any:
    points, rows = ribbons(figure.data["nodes"], figure.data["edges"])
    none = altair.Axis(labels=False, ticks=False, grid=False, domain=False, title=None)
    bands = altair.Chart(altair.Data(values=points)).mark_area(opacity=0.45).encode(
        x=altair.X("x:Q", axis=none), y=altair.Y("low:Q", axis=none, scale=altair.Scale(zero=False, reverse=True)),
        y2="high:Q", detail="edge:N", color=_sign(altair, "sign", figure.unit), tooltip=["edge:N", "flow:Q"],
    )  # fmt: skip
    return (bands + _rects(altair, rows, figure.unit, 900, 480)).properties(width=900, height=480)


def _arcs(altair: Any, figure: Figure) -> Any:
    points, marks = arcs(figure.data["tokens"], figure.data["edges"])
    none = altair.Axis(labels=False, ticks=False, grid=False, domain=False, title=None)
    bends = altair.Chart(altair.Data(values=points)).mark_line().encode(
        x=altair.X("x:Q", axis=none), y=altair.Y("y:Q", axis=none), detail="edge:N", order="step:Q",
        color=_sign(altair, "sign", figure.unit), tooltip=["edge:N", "flow:Q"],
        strokeWidth=altair.StrokeWidth("size:Q", scale=altair.Scale(range=[0.5, 8]), legend=None),
        strokeDash=altair.StrokeDash(
            "sign:N", title=figure.unit or "sign", scale=altair.Scale(domain=["positive", "negative"], range=[*_DASHES[:2]])
        ),
    )  # fmt: skip
    words = altair.Chart(altair.Data(values=marks)).mark_text(angle=45, align="left", fontSize=11).encode(
        x="x:Q", y="y:Q", text="token:N"
    )  # fmt: skip
    return (bends + words).properties(width=900, height=HIGH)


KINDS: Mapping[str, Callable[[Any, Figure], Any]] = {
    "bars": _bars, "heatmap": _heatmap, "attention": _heatmap, "lines": _lines, "flow": _flow, "flame": _flame,
    "spectra": _spectra, "arcs": _arcs, "scatter": _scatter,
}  # fmt: skip

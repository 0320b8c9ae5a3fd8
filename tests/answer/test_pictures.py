"""Pictures: geometry that adds up, every kind drawn, files that open without a network, labels that cannot act."""

from itertools import pairwise
from typing import get_args

import numpy as np
import pytest

from pathexp.answer import Figure, Report
from pathexp.answer.boxes import arcs, boxes, ribbons
from pathexp.answer.charts import KINDS
from pathexp.answer.parts import FigureKind
from pathexp.errors import AnswerError, PathexpError

HOSTILE = "</script><script>alert(1)</script>'\\\x1b"
NODES = [
    {"id": 0, "parent": None, "label": "S .* U", "query": "S .* U", "value": 2.0, "count": 9, "depth": 0},
    {"id": 1, "parent": 0, "label": HOSTILE, "query": "x", "value": 3.0, "count": 3, "depth": 1},
    {"id": 2, "parent": 0, "label": "L0H1", "query": "y", "value": -1.5, "count": 5, "depth": 1},
]
FIGURES = {
    "scatter": {"x": [1.0, 2.0], "y": [0.5, -1.0], "labels": ["a", HOSTILE], "sizes": [3, 4]},
    "bars": {"rows": ["a", HOSTILE], "values": [[1.0], [-2.0]]},
    "heatmap": {"rows": ["a", HOSTILE], "columns": ["b", "it's"], "values": [[1.0, -2.0], [None, 0.5]]},
    "attention": {"rows": ["a"], "columns": ["b", "c"], "values": [[0.3, 0.7]]},
    "lines": {"x": [0, 1, 2], "series": {HOSTILE: [1.0, 2.0, None]}, "errors": {HOSTILE: [0.1, 0.1, 0.1]}},
    "flow": {
        "nodes": [{"label": "E", "column": 0, "value": 1.0}, {"label": HOSTILE, "column": 1, "value": 1.0}],
        "edges": [{"source": "E", "target": HOSTILE, "flow": -1.0}],
    },
    "flame": {"nodes": NODES},
    "spectra": {"series": {"L0H0": [[0.5, 0.1], [0.5, -0.1]], HOSTILE: [[1.0, 0.0]]}},
    "arcs": {"tokens": ["a", HOSTILE, "c"], "edges": [{"source": 0, "target": 2, "flow": 1.0, "label": "L23 attention"}]},
}  # fmt: skip


def test_boxes_of_a_flame_graph_divide_their_parent() -> None:
    rows = boxes(NODES, 100.0)
    below = [row for row in rows if row["y"] == 1.0]
    assert len(rows) == 4 and below[-1]["rest"] and below[-1]["value"] == pytest.approx(0.5)
    assert sum(row["x2"] - row["x"] for row in below) == pytest.approx(100.0)
    sizes = [abs(row["value"]) for row in below]
    assert [row["x2"] - row["x"] for row in below] == pytest.approx([100 * s / sum(sizes) for s in sizes])


def test_ribbons_are_as_wide_as_their_flow_and_fit_their_boxes() -> None:
    points, rows = ribbons(**FIGURES["flow"])
    assert all(point["high"] - point["low"] == pytest.approx(1.0) for point in points)
    assert all(row["y2"] - row["y"] == pytest.approx(1.0) for row in rows)


def test_arcs_begin_and_end_at_their_tokens() -> None:
    points, marks = arcs(**FIGURES["arcs"])
    assert (points[0]["x"], points[-1]["x"]) == (0.0, 2.0) and points[0]["y"] == points[-1]["y"] == 0.0
    assert len(marks) == 3
    for point in points:  # half a circle around the middle, at equal angles
        assert np.hypot(point["x"] - 1.0, point["y"]) == pytest.approx(1.0)
    lengths = [np.hypot(b["x"] - a["x"], b["y"] - a["y"]) for a, b in pairwise(points)]
    assert max(lengths) == pytest.approx(min(lengths))


def test_arcs_that_lower_the_target_are_dashed() -> None:
    pytest.importorskip("altair")
    dash = (
        Report("x", (Figure("arcs", "picture", FIGURES["arcs"]),))
        .plot()
        .to_dict()["layer"][0]["encoding"]["strokeDash"]
    )
    assert dash["title"] == "sign" and "legend" not in dash  # one legend with the colors
    assert dash["scale"] == {"domain": ["positive", "negative"], "range": [[1, 0], [7, 3]]}


@pytest.mark.parametrize("kind", FIGURES)
def test_every_kind_is_drawn_and_its_labels_are_inert(kind, tmp_path) -> None:
    pytest.importorskip("altair")
    pytest.importorskip("vl_convert")
    found = Report("x", (Figure(kind, "picture", FIGURES[kind], f"title {HOSTILE}", "logits"),))
    assert found.plot().to_dict()["title"].startswith("title")
    found.save(str(tmp_path / "x.svg"))
    drawn = (tmp_path / "x.svg").read_text()
    assert drawn.startswith("<svg") and "<script" not in drawn and "\x1b" not in drawn
    found.save(str(tmp_path / "x.html"), dark=True)
    page = (tmp_path / "x.html").read_text()
    assert "</script><script>alert" not in page and 'src="http' not in page


@pytest.mark.parametrize("ending", ["svg", "png", "pdf", "html", "tex"])
def test_a_picture_that_cannot_be_written_whole_leaves_the_old_file(ending, tmp_path, monkeypatch) -> None:
    pytest.importorskip("altair")
    pytest.importorskip("vl_convert")
    file = tmp_path / f"picture.{ending}"
    found = Report("x", (Figure("flow", "picture", FIGURES["flow"]),))
    found.save(str(file))
    old = file.read_bytes()
    assert old.startswith(STARTS[ending])
    monkeypatch.setattr("os.fsync", no_room)
    with pytest.raises(AnswerError, match="No space left"):
        found.save(str(file))
    assert file.read_bytes() == old and list(tmp_path.iterdir()) == [file]


STARTS = {"svg": b"<svg", "png": b"\x89PNG", "pdf": b"%PDF", "html": b"<!DOCTYPE html>", "tex": b""}


def no_room(_file) -> None:
    raise OSError(28, "No space left on device")


def test_every_kind_that_a_part_may_have_can_be_drawn() -> None:
    assert set(get_args(FigureKind)) == set(KINDS) == set(FIGURES)


def test_large_heatmaps_keep_labels() -> None:
    pytest.importorskip("altair")
    names = [f"L{k // 30}H{k % 30}" for k in range(900)]
    figure = Figure("heatmap", "m", {"rows": names, "columns": ["a"], "values": np.ones((900, 1))})
    axis = Report("x", (figure,)).plot().to_dict()["encoding"]["y"]["axis"]
    assert 1 < len(axis["values"]) <= 61 and axis["values"][0] == 0 and "L0H0" in axis["labelExpr"]


def test_what_cannot_be_drawn_is_an_error(tmp_path) -> None:
    pytest.importorskip("altair")
    empty = Report("x", ())
    with pytest.raises(AnswerError, match="has no picture"):
        empty.plot()
    found = Report("x", (Figure("bars", "picture", FIGURES["bars"]), Figure("bars", "bad", {"rows": ["a"]})))
    with pytest.raises(AnswerError, match=r"choose from: picture, bad"):
        found.plot("other")
    with pytest.raises(AnswerError, match="lacks data"):
        found.plot("bad")
    with pytest.raises(AnswerError, match=r"\.svg, \.png, \.pdf, \.html"):
        found.save(str(tmp_path / "x.gif"))
    with pytest.raises(PathexpError, match="cannot write"):
        found.save(str(tmp_path / "nowhere" / "x.html"))

"""Pictures parse as XML, say what they show, and refuse what they cannot show."""

import xml.etree.ElementTree as ET

import numpy as np
import pytest

from pathexp.errors import SizeError, SpaceError
from pathexp.report.bars import bars
from pathexp.report.svg import grid, heat_map, safe

SVG = "{http://www.w3.org/2000/svg}"


def cells(svg: str) -> list[ET.Element]:
    return [node for node in ET.fromstring(svg).iter(f"{SVG}rect") if node.find(f"{SVG}title") is not None]


def test_every_cell_says_its_row_column_and_value():
    found = cells(heat_map([[1.0, -0.5], [0.0, np.nan]], ["a", "b"], ["x", "y"]))
    said = [cell.find(f"{SVG}title").text for cell in found]
    assert said == ["a · x: 1", "a · y: -0.5", "b · x: 0", "b · y: undefined"]
    assert [cell.get("fill") for cell in found] == ["#b2182b", "#90b2d6", "#ffffff", "#d9d9d9"]


@pytest.mark.parametrize("name", ["<script>", 'a"b', "a&b", "\x00\x1b[31m", "\u202e", "λ→", "]]>"])
def test_hostile_names_stay_text(name):
    svg = heat_map([[1.0]], [name], ["<b>"], title=name, row_name=name, column_name=name)
    root = ET.fromstring(svg)
    assert not [node for node in root.iter() if node.tag in (f"{SVG}script", f"{SVG}b")]
    assert safe(name) in svg


def test_an_all_positive_matrix_has_no_blue():
    assert "-" not in "".join(
        node.text or ""
        for node in ET.fromstring(heat_map([[1.0, 2.0]], ["a"], ["x", "y"])).iter(f"{SVG}text")
    )


def test_a_matrix_of_zeros_or_nothing_is_drawn():
    assert cells(heat_map([[0.0]], ["a"], ["x"]))[0].get("fill") == "#ffffff"
    assert not cells(heat_map(np.zeros((0, 0)), [], []))


def test_labels_that_do_not_fit_are_refused():
    with pytest.raises(SpaceError, match=r"\(1, 2\) was given 1 row and 1 column"):
        heat_map([[1.0, 2.0]], ["a"], ["x"])


def test_a_map_too_large_to_look_at_is_refused():
    with pytest.raises(SizeError, match="600 × 600"):
        heat_map(np.zeros((600, 600)), ["a"] * 600, ["x"] * 600)


def test_bars_say_their_rows_series_and_values():
    svg = bars(["a", "<b>"], [[1.0, -0.5], [0.0, 2.0]], ["x", "y"], title="t")
    said = [cell.find(f"{SVG}title").text for cell in cells(svg)]
    assert said == ["a, x: +1", "a, y: -0.5", "<b>, x: +0", "<b>, y: +2"]
    widths = [float(cell.get("width")) for cell in cells(svg)]
    assert widths[0] == pytest.approx(2 * widths[1], rel=1e-3) and widths[3] == pytest.approx(
        2 * widths[0], rel=1e-3
    )
    starts = [float(cell.get("x")) for cell in cells(svg)]
    assert starts[1] == pytest.approx(starts[0] - widths[1], abs=0.02)
    ET.fromstring(bars([], []))
    for values in ([1.0], [[1.0, np.nan], [0.0, 1.0]]):
        with pytest.raises(SpaceError, match="finite"):
            bars(["a", "b"], values, ["x", "y"])
    with pytest.raises(SizeError, match="limit"):
        bars([""] * 3000, [0.0] * 3000)


def test_a_grid_stands_in_rows():
    one, other = (
        heat_map(np.ones((2, 3)), "ab", "cde"),
        heat_map(np.ones((9, 1)), "abcdefghi", "x", title="tall"),
    )
    root = ET.fromstring(grid([[one, other], [one]], "both"))
    inner = root.findall(".//{*}g/{*}svg")
    sizes = [(float(each.get("width")), float(each.get("height"))) for each in inner]
    places = [each.get("transform") for each in root.findall("{*}g")]
    (width, height), (wide, tall), _ = sizes
    assert sizes[0] == sizes[2] and tall > height
    expected = [(0, 0), (width, 0), (0, tall)]
    read = [tuple(map(float, place[len("translate(") : -1].split())) for place in places]
    np.testing.assert_allclose(read, expected, atol=0.01)
    assert float(root.get("width")) == pytest.approx(width + wide, abs=0.02)
    assert float(root.get("height")) == pytest.approx(tall + height, abs=0.02)
    with pytest.raises(SpaceError, match="a grid takes pictures"):
        grid([["no picture"]], "none")

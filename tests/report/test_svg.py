"""Pictures parse as XML, say what they show, and refuse what they cannot show."""

import xml.etree.ElementTree as ET

import numpy as np
import pytest

from pathexp import head_kinds, load
from pathexp.errors import SizeError, SpaceError
from pathexp.report.circuit_pictures import draw_kinds
from pathexp.report.svg import heat_map, safe

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


def test_a_model_without_heads_has_a_picture_without_rows():
    assert not cells(draw_kinds(head_kinds(load("attn-0l"))))

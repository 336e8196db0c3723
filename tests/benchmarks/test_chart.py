"""The chart: well-formed, with every point where it belongs."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import pytest

from scripts.benchmarks.chart import HEIGHT, WIDTH, Line, Panel, Scale, grid, nice_top

SVG = "{http://www.w3.org/2000/svg}"


@pytest.mark.parametrize(
    ("value", "top"), [(0, 1), (0.7, 0.8), (1, 1), (1.1, 1.2), (76.8, 80), (81, 100), (6900, 8000)]
)
def test_a_scale_ends_at_the_next_round_number(value: float, top: float) -> None:
    assert nice_top(value) == pytest.approx(top)


def test_points_lie_along_a_logarithm_and_up_from_zero() -> None:
    scale = Scale(x=0, y=0, least=1, most=100, top=10)
    (left, bottom), (middle, half), (right, top) = (scale.at(one) for one in ((1, 0), (10, 5), (100, 10)))
    assert (bottom, half, top) == (HEIGHT, HEIGHT / 2, 0)
    assert middle == pytest.approx((left + right) / 2)
    assert 0 <= left < right <= WIDTH


def test_a_single_point_is_drawn_too() -> None:
    assert Scale(0, 0, 5, 5, 1).at((5, 1))[1] == 0


def test_the_picture_is_well_formed_and_shows_every_point_inside() -> None:
    lines = [Line("ours & others", [(1, 10), (10, 12)]), Line("nginx", [(1, 20), (10, 25)], muted=True)]
    drawn = ElementTree.fromstring(grid("Growth", [[Panel("calls", "sessions", lines)]]))
    _, _, width, height = (float(one) for one in drawn.attrib["viewBox"].split())
    dots = drawn.findall(f"{SVG}circle")
    assert len(dots) == 4
    assert all(0 < float(one.attrib["cx"]) < width and 0 < float(one.attrib["cy"]) < height for one in dots)
    said = [one.text for one in drawn.iter(f"{SVG}text")]
    assert {"Growth", "calls, by sessions", "ours & others", "12.0"} <= set(said)
    assert not re.search(r"nan|inf", grid("Growth", [[Panel("calls", "sessions", lines)]]))

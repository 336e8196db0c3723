"""Charts are well-formed SVG with every point at its position."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import pytest

from scripts.benchmarks.results.chart import HEIGHT, WIDTH, Line, Panel, Scale, grid, rounded_up

SVG = "{http://www.w3.org/2000/svg}"


@pytest.mark.parametrize(
    ("value", "top"), [(0, 1), (0.7, 0.8), (1, 1), (1.1, 1.2), (76.8, 80), (81, 100), (6900, 8000)]
)
def test_a_scale_ends_at_the_next_round_number(value: float, top: float) -> None:
    assert rounded_up(value) == pytest.approx(top)


def test_the_x_axis_is_logarithmic_and_the_y_axis_starts_at_zero() -> None:
    scale = Scale(x=0, y=0, min_x=1, max_x=100, max_y=10)
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
    texts = [one.text for one in drawn.iter(f"{SVG}text")]
    assert {"Growth", "calls, by sessions", "ours & others", "12.0"} <= set(texts)
    assert not re.search(r"nan|inf", grid("Growth", [[Panel("calls", "sessions", lines)]]))

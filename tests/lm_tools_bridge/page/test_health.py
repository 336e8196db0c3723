"""The health of the manager, and its charts."""

from __future__ import annotations

import re

from lm_tools_bridge.machine.own_process import OpenFiles
from lm_tools_bridge.page.health import Health, chart, health_html, read_health
from manager.admin.measures import MOST_MOMENTS, Moment


def points(svg: str) -> list[list[str]]:
    return [found.split() for found in re.findall(r'points="([^"]*)"', svg)]


def test_the_last_value_is_at_the_right_and_the_highest_at_the_top() -> None:
    [line] = points(chart("Calls", [0, 4, 2], str))
    assert line == ["114,29.0", "116,1.0", "118,15.0"]


def test_the_last_and_the_highest_value_are_text() -> None:
    html = chart("Calls", [0, 4, 2], lambda value: f"{value} /s")
    assert "<strong>2 /s</strong>, at most 4 /s" in html


def test_where_nothing_was_measured_the_line_is_broken() -> None:
    assert [len(line) for line in points(chart("p99", [1, 2, None, 3], str))] == [2, 2]


def test_a_chart_without_values_has_no_picture() -> None:
    assert "svg" not in chart("p99", [None, None], str)
    assert "svg" not in chart("p99", [], str)


def test_a_chart_of_zeros_is_a_line_at_the_bottom() -> None:
    [line] = points(chart("Errors", [0, 0], str))
    assert all(one.endswith(",29.0") for one in line)


def test_a_full_chart_begins_at_the_left() -> None:
    [line] = points(chart("Calls", [1.0] * MOST_MOMENTS, str))
    assert line[0].startswith("0,")


def test_lag_files_and_versions_are_shown() -> None:
    moments = [Moment(20, 10, 0.5, 50_000_000, 0.25), Moment(0, 0, None, None, 0.0)]
    html = health_html(Health(moments, OpenFiles(52, 1024), "3.13.1", "2.0.0", outdated=2))
    for expected in ("250 ms", "52 of 1,024", "3.13.1", "2.0.0", "outdated: 2", "at most 2.0", "at most 1.0"):
        assert expected in html


def test_the_health_of_this_process_is_read() -> None:
    found = read_health({"installation": {"version": "9"}, "instanceDetails": [{"outdated": True}, {}]}, ())
    assert (found.installed, found.outdated) == ("9", 1)
    assert found.files is None or found.files.used > 2


def test_the_first_moment_is_within_the_chart() -> None:
    [[first, last]] = points(chart("Memory", [5.0], str))
    places = [float(point.split(",")[0]) for point in (first, last)]
    assert 0 <= places[0] < places[1] == (MOST_MOMENTS - 1) * 2

"""What grows unseen: its figures, and when a quick run fails because of one."""

from __future__ import annotations

import pytest

from scripts.benchmarks.__main__ import QUICK, SECTIONS
from scripts.benchmarks.results.targets import MORE_IS_BETTER, RECORDED, broken
from scripts.benchmarks.scaling.unseen_growth import count_imports

LESS_IS_BETTER = sorted(RECORDED.keys() - MORE_IS_BETTER)
AS_RECORDED = dict(RECORDED)


def test_a_quick_run_measures_what_grows_unseen() -> None:
    assert "unseen-growth" in QUICK
    assert set(QUICK) <= set(SECTIONS)


def test_recorded_figures_meet_their_targets() -> None:
    assert broken(AS_RECORDED) == []


@pytest.mark.parametrize("name", LESS_IS_BETTER)
def test_a_figure_that_grows_by_more_than_a_tenth_fails(name: str) -> None:
    assert broken(AS_RECORDED | {name: 1.09 * RECORDED[name]}) == []
    assert [one.figure for one in broken(AS_RECORDED | {name: 1.11 * RECORDED[name]})] == [name]


@pytest.mark.parametrize("name", sorted(MORE_IS_BETTER))
def test_a_call_that_becomes_slower_by_more_than_a_tenth_fails(name: str) -> None:
    assert broken(AS_RECORDED | {name: RECORDED[name] / 1.09}) == []
    assert [one.figure for one in broken(AS_RECORDED | {name: RECORDED[name] / 1.11})] == [name]


def test_imports_are_counted_without_the_headline_and_other_lines() -> None:
    lines = [
        "import time: self [us] | cumulative | imported package",
        "import time:       120 |        120 |   _io",
        '{"event": "ready"}',
        "import time:        80 |        200 | io",
    ]
    assert count_imports(lines) == 2

"""The official suite finds at the pure endpoints what it finds at the server behind them."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import pytest

from support.conformance import LEGS, Run, expected_failures
from support.conformance_chain import BY_FOLDER, SOURCES, kinds_of

EACH_LEG = pytest.mark.parametrize("leg", LEGS)


@EACH_LEG
@pytest.mark.parametrize("endpoint", ["direct"])
def test_the_server_itself_does_everything(runs: Callable[[str, str], Run], leg: str, endpoint: str) -> None:
    run = runs(leg, endpoint)
    assert (run.passed, run.total) == (LEGS[leg].total, LEGS[leg].total), run.wrong


@pytest.mark.parametrize(
    ("endpoint", "leg"),
    [
        *itertools.product(SOURCES, LEGS),
        (f"http-both{BY_FOLDER}", "2025-11-25"),
        (f"http-both{BY_FOLDER}", "2026-07-28"),
    ],
)
def test_the_server_behind_us_is_as_it_is_directly(
    runs: Callable[[str, str], Run], leg: str, endpoint: str
) -> None:
    """What a client can notice of us is listed, each with its reason, in `expected`."""
    run = runs(leg, endpoint)
    less = run.less_than(runs(leg, "direct"))
    expected = expected_failures(LEGS[leg], run, *kinds_of(endpoint))
    unexpected = {key: why for key, why in less.items() if key not in expected}
    assert not unexpected
    assert less.keys() == expected.keys(), "an entry is out of date: this is as it is directly"

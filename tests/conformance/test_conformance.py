"""The official suite finds behind us what it finds at the server directly, and calls that can be tasks."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from support.processes.conformance_suite.conformance import LEGS, Run
from support.processes.conformance_suite.conformance_chain import SOURCES, TASK_SOURCES, endpoints_of, news

Runs = Callable[[str, str], Run]


@pytest.mark.parametrize("leg", [leg for leg in LEGS if leg != "tasks"])
@pytest.mark.parametrize("endpoint", ["direct"])
def test_the_server_itself_does_everything(runs: Runs, leg: str, endpoint: str) -> None:
    run = runs(leg, endpoint)
    assert (run.passed, run.total) == (LEGS[leg].total, LEGS[leg].total), run.wrong


@pytest.mark.parametrize(
    ("leg", "endpoint"),
    [(leg, endpoint) for leg in LEGS for endpoint in endpoints_of(leg) if endpoint.startswith(SOURCES)],
)
def test_the_server_behind_us_is_as_it_is_directly(runs: Runs, leg: str, endpoint: str) -> None:
    """What a client can notice of us is listed, each with its reason, in `expected`."""
    assert not news(LEGS[leg], endpoint, runs(leg, endpoint), runs(leg, "direct"))


@pytest.mark.parametrize("leg", ["tasks"])
@pytest.mark.parametrize("endpoint", TASK_SOURCES)
def test_tools_that_run_long_are_tasks(runs: Runs, leg: str, endpoint: str) -> None:
    """Script tools, and a server of either era; one of the scenarios the suite itself skips."""
    run = runs(leg, endpoint)
    assert (run.passed, run.total) == (LEGS[leg].total, LEGS[leg].total), run.wrong
    assert run.wrong == {}

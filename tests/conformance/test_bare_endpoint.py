"""The official suite at the fixed endpoint, which names no workspace: all that needs none is right."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from support.processes.conformance_suite.conformance import LEGS, NEED_NO_WORKSPACE, Run
from support.processes.conformance_suite.conformance_chain import news

Runs = Callable[[str, str], Run]
EACH_LEG = pytest.mark.parametrize(("leg", "endpoint"), [(leg, "bare") for leg in NEED_NO_WORKSPACE])
MESSAGES = "wire-schema-valid"


@EACH_LEG
def test_scenarios_that_need_no_workspace_pass(runs: Runs, leg: str, endpoint: str) -> None:
    run = runs(leg, endpoint).only(NEED_NO_WORKSPACE[leg])
    assert {check.scenario for check in run.checks} == set(NEED_NO_WORKSPACE[leg])
    assert run.passed == run.total > 0, run.wrong
    assert not news(LEGS[leg], endpoint, run, runs(leg, "direct"))


@EACH_LEG
def test_every_message_is_as_the_revision_says(runs: Runs, leg: str, endpoint: str) -> None:
    """Refusals too: all scenarios, whether they pass or not."""
    checks = [check for check in runs(leg, endpoint).checks if check.name == MESSAGES]
    assert checks or leg == "2025-03-26"
    assert [check.message for check in checks if check.status != "SUCCESS"] == []

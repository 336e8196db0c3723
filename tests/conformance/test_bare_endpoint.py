"""The official suite at the fixed endpoint, which names no workspace: all that needs none is right."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from support.conformance import Run

SINCE_2025_06_18 = (
    "server-initialize",
    "server-session-lifecycle",
    "logging-set-level",
    "ping",
    "tools-list",
    "resources-list",
    "prompts-list",
)
SINCE_2025_11_25 = ("dns-rebinding-protection", "server-sse-multiple-streams", "server-sse-polling")
NEED_NO_WORKSPACE = {
    "2025-03-26": ("server-session-lifecycle",),
    "2025-06-18": SINCE_2025_06_18,
    "2025-11-25": SINCE_2025_06_18 + SINCE_2025_11_25,
    "2026-07-28": (
        "tools-list",
        "resources-list",
        "prompts-list",
        "caching",
        "dns-rebinding-protection",
        "http-header-validation",
        "sep-2164-resource-not-found",
        "server-sse-multiple-streams",
        "input-required-result-missing-input-response",
        "input-required-result-tampered-state",
        "input-required-result-unsupported-methods",
        "input-required-result-validate-input",
    ),
}
"""Of the scenarios of a leg. The others need a server's own tools, prompts or resources."""
MESSAGES = "wire-schema-valid"


@pytest.mark.parametrize("leg", NEED_NO_WORKSPACE)
@pytest.mark.parametrize("endpoint", ["bare"])
def test_scenarios_that_need_no_workspace_pass(
    runs: Callable[[str, str], Run], leg: str, endpoint: str
) -> None:
    checks = [check for check in runs(leg, endpoint).checks if check.scenario in NEED_NO_WORKSPACE[leg]]
    assert {check.scenario for check in checks} == set(NEED_NO_WORKSPACE[leg])
    assert {check.key: check.message for check in checks if check.status == "FAILURE"} == {}


@pytest.mark.parametrize("leg", NEED_NO_WORKSPACE)
@pytest.mark.parametrize("endpoint", ["bare"])
def test_every_message_is_as_the_revision_says(
    runs: Callable[[str, str], Run], leg: str, endpoint: str
) -> None:
    """Refusals too: all scenarios, whether they pass or not."""
    checks = [check for check in runs(leg, endpoint).checks if check.name == MESSAGES]
    assert checks or leg == "2025-03-26"
    assert [check.message for check in checks if check.status != "SUCCESS"] == []

"""A call of a tool that its source does not offer now says why, and what helps."""

from __future__ import annotations

from typing import Any

import pytest

from support.processes.workspace_app import serving
from support.servers.mcp_sources.tool_source import ScriptedSource, tool


def down(state: Any, *, error: str | None = "no network", is_known: bool = True) -> ScriptedSource:
    source = ScriptedSource([tool("known")] if is_known else [], identity="stdio:up", namespace="up")
    source.state, source.error = state, error
    return source


@pytest.mark.parametrize("way", ["directly", "by execute_tool"])
@pytest.mark.parametrize("is_known", [True, False])
@pytest.mark.parametrize(
    ("state", "words"),
    [
        ("crash_looping", "ends again and again (crash_looping): no network"),
        ("auth_required", "does not accept the credentials, or has none (auth_required): no network"),
        ("failed", "cannot be started or reached (failed): no network"),
    ],
)
async def test_an_unlisted_tool_of_a_server_that_is_down_says_why_it_is_down(
    state: Any, words: str, is_known: bool, way: str
) -> None:
    """Also when its list is known: that is from the last time it answered."""
    async with serving([down(state, is_known=is_known)]) as served:
        inner = {"name": "up__other", "arguments": {}}
        refused = await served.caller.call(
            *(("up__other",) if way == "directly" else ("execute_tool", inner))
        )
    error = refused["structuredContent"]["error"]
    assert error["code"] == 47109
    assert words in refused["content"][0]["text"]
    assert error["details"] == {"source": "stdio:up", "state": state, "error": "no network"}


@pytest.mark.parametrize(
    ("state", "wait"), [("backoff", 1), ("crash_looping", 60), ("failed", None), ("auth_required", None)]
)
async def test_only_a_cause_that_passes_comes_with_a_time_to_wait(state: Any, wait: int | None) -> None:
    async with serving([down(state)]) as served:
        refused = await served.caller.call("up__other")
    error, text = refused["structuredContent"]["error"], refused["content"][0]["text"]
    assert error.get("retryAfterMs") == (None if wait is None else wait * 1000)
    assert (f"wait {wait} s, then retry" in text) is (wait is not None)
    assert ("ask the user to" in text) is (wait is None)


async def test_a_disabled_server_is_said_to_be_disabled() -> None:
    async with serving([down("disabled", error=None, is_known=False)]) as served:
        refused = await served.caller.call("up__other")
    text = refused["content"][0]["text"]
    assert text.startswith('Source "stdio:up" is disabled (disabled). Next step: ask the user to enable it')


async def test_a_name_of_no_server_stays_unknown() -> None:
    async with serving([down("failed")]) as served:
        error = await served.caller.error("tools/call", {"name": "unset__other"})
    assert (error["code"], error["data"]["details"]) == (-32602, {"nearest": []})

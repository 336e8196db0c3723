from __future__ import annotations

from typing import Any

import pytest

from support.projects.config_home import ENVIRON, ConfigHome
from workspace_server.config.model import StdioServer


def entry(home: ConfigHome, **more: Any) -> StdioServer:
    home.put(".mcp.json", {"mcpServers": {"s": {"command": "x", **more}}})
    (server,) = home.current().stdio
    return server


@pytest.mark.parametrize(
    ("written", "seconds"),
    [
        ({"startup_timeout_sec": 90}, 90.0),
        ({"startup_timeout_ms": 90_000}, 90.0),
        ({"startupTimeout": 90_000}, 90.0),
        ({"startupTimeout": 90}, 90.0),
        ({"initTimeout": 90_000}, 90.0),
        ({"connectTimeoutMs": 90_000}, 90.0),
        ({"start_timeout_s": 90}, 90.0),
        ({"timeout": 90_000}, 90.0),
        ({"timeout": 90_000, "startup_timeout_sec": 20}, 20.0),
        ({"timeout": 5_000}, None),
        ({"startup_timeout_sec": 10**9}, 3600.0),
        ({}, None),
    ],
)
def test_the_limit_of_a_start_is_read_by_the_names_of_all_clients(
    home: ConfigHome, written: dict[str, Any], seconds: float | None
) -> None:
    assert entry(home, **written).start_timeout_s == seconds
    assert home.codes() == []


def test_the_limit_of_calls_is_read_by_other_names(home: ConfigHome) -> None:
    assert entry(home, tool_timeout_sec=7).timeout_s == 7.0
    assert entry(home, requestTimeoutMs=7000).timeout_s == 7.0
    assert entry(home, tool_timeout_sec=7, timeout_s=9).timeout_s == 9.0


@pytest.mark.parametrize("value", ["90", True, -1, 0])
def test_a_limit_that_is_no_time_is_an_issue(home: ConfigHome, value: Any) -> None:
    home.put(".mcp.json", {"mcpServers": {"s": {"command": "x", "startup_timeout_sec": value}}})
    assert (home.current().stdio, home.codes()) == ((), ["CONFIG_ENTRY_SKIPPED"])


def test_one_setting_holds_for_all_entries_without_their_own(home: ConfigHome) -> None:
    home.user("start_timeout_s = 240\n")
    assert entry(home).start_timeout_s == 240.0
    assert entry(home, startup_timeout_sec=20).start_timeout_s == 20.0


def test_a_clients_variable_holds_where_nothing_else_is_set(home: ConfigHome) -> None:
    variables: dict[str, str] = home.configurations._variables.environ
    variables["MCP_TIMEOUT"] = "60000"
    try:
        assert entry(home).start_timeout_s == 60.0
        home.user("start_timeout_s = 240\n")
        assert entry(home).start_timeout_s == 240.0
    finally:
        del ENVIRON["MCP_TIMEOUT"]

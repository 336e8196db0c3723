"""Tests what becomes of an entry of ours: what an older version wrote changes, what its user added stays."""

from __future__ import annotations

from typing import Any

import pytest

from lm_tools_bridge.client_setup.change import state_of
from lm_tools_bridge.client_setup.clients import CLIENTS, client_named
from lm_tools_bridge.client_setup.entries import Endpoint, upgraded

HERE = "http://127.0.0.1:48123/mcp"
CODEX = {"command": "/opt/lmtb", "args": ["connect"], "required": True, "startup_timeout_sec": 45}
FORMER_CODEX = {
    "url": HERE,
    "env_http_headers": {"X-Workspace-Cwd": "PWD"},
    "required": True,
    "startup_timeout_sec": 45,
}


def wanted(name: str) -> Any:
    client = client_named(name)
    assert client is not None
    return client.entry(Endpoint(48123, "/opt/lmtb"))


@pytest.mark.parametrize("client", CLIENTS, ids=lambda client: client.id)
def test_what_is_written_today_stays(client: Any) -> None:
    entry = wanted(client.id)
    assert upgraded(entry, entry) == entry
    assert state_of({**entry, "timeout": 5}, entry) == "current"


FORMER = [
    ("codex", FORMER_CODEX, CODEX),
    ("codex", {"url": "http://127.0.0.1:9/mcp"}, CODEX),
    ("gemini-cli", {"httpUrl": HERE}, {"httpUrl": f"{HERE}?cwd=$PWD"}),
    ("gemini-cli", {"url": f"{HERE}?cwd=${{PWD}}"}, {"url": f"{HERE}?cwd=$PWD"}),
    ("opencode", {"type": "remote", "url": HERE, "enabled": True}, wanted("opencode")),
    ("copilot-cli", {"type": "http", "url": HERE, "tools": ["*"]}, wanted("copilot-cli")),
    ("copilot-cli", {"type": "http", "url": f"{HERE}?cwd=${{PWD}}", "tools": ["*"]}, wanted("copilot-cli")),
    ("grok", {"url": f"{HERE}?cwd=${{PWD}}", "enabled": True}, wanted("grok")),
    ("claude-code", {"type": "http", "url": HERE}, wanted("claude-code")),
    ("claude-code", {"type": "http", "url": "http://localhost:9/mcp?cwd=${PWD}"}, wanted("claude-code")),
    ("claude-desktop", {"command": "/gone/bin/lmtb", "args": ["connect"]}, wanted("claude-desktop")),
    ("cline", {"transport": {"type": "streamableHttp", "url": "http://127.0.0.1:9/mcp"}}, wanted("cline")),
    ("cline", {"url": "http://127.0.0.1:9/mcp"}, {"type": "streamableHttp", "url": HERE}),
]


@pytest.mark.parametrize(("name", "before", "after"), FORMER)
def test_what_an_older_version_wrote_becomes_what_is_written_today(
    name: str, before: Any, after: Any
) -> None:
    assert state_of(before, wanted(name)) == "outdated"
    assert upgraded(before, wanted(name)) == after
    assert state_of(after, wanted(name)) == "current"


ADDITIONS = [
    ("codex", {"enabled": False, "tool_timeout_sec": 900, "required": False, "startup_timeout_sec": 9}),
    ("codex", {"enabled_tools": ["lm_readFile"]}),
    ("gemini-cli", {"timeout": 5, "trust": True, "headers": {"X-A": "b"}}),
    ("opencode", {"enabled": False, "headers": {"X-A": "b"}}),
    ("copilot-cli", {"tools": ["lm_readFile"], "timeout": 5}),
    ("cline", {"disabled": True, "autoApprove": []}),
]


@pytest.mark.parametrize(("name", "added"), ADDITIONS)
def test_what_the_user_added_stays(name: str, added: dict[str, Any]) -> None:
    before = {**next(former for one, former, _ in FORMER if one == name), **added}
    after = upgraded(before, wanted(name))
    assert after == {**wanted(name), **added}


def test_headers_of_the_user_in_the_transport_stay() -> None:
    before = {"transport": {"type": "streamableHttp", "url": "http://[::1]:9/mcp", "headers": {"X-A": "b"}}}
    after = {"transport": {"type": "streamableHttp", "url": HERE, "headers": {"X-A": "b"}}}
    assert upgraded(before, wanted("cline")) == after


OWN = [
    ("claude-code", {"type": "http", "url": f"{HERE}?cwd=/home/me/p"}),
    ("claude-code", {"type": "http", "url": f"{HERE}?cwd=${{PWD}}&pin=true"}),
    ("claude-code", {"command": "/other/lmtb", "args": ["connect"]}),
    ("copilot-cli", {"type": "http", "url": "http://127.0.0.1:48123/w/p-1/mcp", "tools": ["*"]}),
    ("codex", {**FORMER_CODEX, "http_headers": {"X-A": "b"}}),
    ("codex", {"url": HERE, "env_http_headers": {"X-Workspace-Cwd": "OTHER"}}),
    ("codex", {"url": "http://127.0.0.1:48123/w/p-1/mcp"}),
    ("codex", {**CODEX, "args": ["connect", "--cwd", "/home/me/p"]}),
    ("codex", {**CODEX, "command": "lmtb"}),
]


@pytest.mark.parametrize(("name", "entry"), OWN)
def test_what_the_user_chose_is_no_reason_for_a_change(name: str, entry: Any) -> None:
    assert upgraded(entry, wanted(name)) == entry
    assert state_of(entry, wanted(name)) == "current"


@pytest.mark.parametrize("rest", ["/w/p-1/mcp", "/mcp?cwd=/home/me/p", "/mcp?cwd=${PWD}&pin=true"])
def test_only_the_port_of_an_address_of_the_user_is_corrected(rest: str) -> None:
    before = {"type": "http", "url": f"http://localhost:9{rest}"}
    assert upgraded(before, wanted("claude-code"))["url"] == f"http://127.0.0.1:48123{rest}"

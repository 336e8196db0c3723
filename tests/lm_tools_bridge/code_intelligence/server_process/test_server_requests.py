"""Every request of a language server gets an answer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from lm_tools_bridge.code_intelligence.server import RequestFailed
from lm_tools_bridge.code_intelligence.server_process.server_capabilities import ServerCapabilities
from lm_tools_bridge.code_intelligence.server_process.server_requests import ServerRequests

SETTINGS = {"python": {"analysis": {"mode": "workspace"}}, "ty.diagnostics": [1], "plain": False}


class Client:
    def __init__(self) -> None:
        self.capabilities = ServerCapabilities({})
        self.refreshed: list[str] = []
        self.requests = ServerRequests(
            SETTINGS, [Path("/a b")], lambda: self.capabilities, self.refreshed.append
        )

    def answer(self, method: str, params: Any = None) -> Any:
        return self.requests.answer(method, params)


@pytest.mark.parametrize(
    ("section", "value"),
    [
        ("python", {"analysis": {"mode": "workspace"}}),
        ("python.analysis", {"mode": "workspace"}),
        ("python.analysis.mode", "workspace"),
        ("ty.diagnostics", [1]),
        ("plain", False),
        ("plain.more", None),
        ("unknown", None),
        ("", SETTINGS),
        (None, SETTINGS),
        (7, SETTINGS),
    ],
)
def test_configuration_is_answered_section_by_section(section: Any, value: Any) -> None:
    items = [{"section": section, "scopeUri": "file:///a"}, {"section": "plain"}]
    assert Client().answer("workspace/configuration", {"items": items}) == [value, False]


@pytest.mark.parametrize("params", [None, [], {}, {"items": 5}, {"items": []}])
def test_configuration_of_nothing_is_nothing(params: Any) -> None:
    assert Client().answer("workspace/configuration", params) == []


def test_what_needs_nobody_is_answered() -> None:
    client = Client()
    assert client.answer("window/workDoneProgress/create", {"token": 1}) is None
    assert client.answer("window/showMessageRequest", {"type": 1, "message": "?", "actions": []}) is None
    assert client.answer("window/showDocument", {"uri": "https://x"}) == {"success": False}
    assert client.answer("workspace/workspaceFolders") == [{"uri": "file:///a%20b", "name": "a b"}]
    assert client.answer("workspace/applyEdit", {"edit": {}})["applied"] is False
    assert client.answer("workspace/diagnostic/refresh") is None
    assert client.refreshed == ["workspace/diagnostic/refresh"]


def test_registrations_are_taken() -> None:
    client = Client()
    client.answer("client/registerCapability", {"registrations": [{"id": "1", "method": "m/x"}]})
    assert client.capabilities.supports("m/x")
    client.answer("client/unregisterCapability", {"unregisterations": [{"id": "1", "method": "m/x"}]})
    assert not client.capabilities.supports("m/x")


@pytest.mark.parametrize("method", ["workspace/executeClientCommand", "", "x" * 10_000])
def test_unknown_requests_are_refused_as_json_rpc_says(method: str) -> None:
    with pytest.raises(RequestFailed) as raised:
        Client().answer(method, {})
    assert raised.value.code == -32601
    assert len(raised.value.message) < 200

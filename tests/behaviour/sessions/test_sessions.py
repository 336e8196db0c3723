"""Sessions (MCP ≤ 2025-11-25): opened, identified, recovered, ended."""

from __future__ import annotations

import json
from typing import Any

import pytest
from aiohttp import ClientSession

from lm_tools_bridge.protocol import headers, names
from manager.routing.state.session_table import is_well_formed
from support.clients.raw_clients import Answer, Client, SessionClient
from support.processes.managers.manager_in_process import RunningManager, make_project

INITIALIZE = {
    "protocolVersion": "2025-06-18",
    "capabilities": {},
    "clientInfo": {"name": "t", "version": "1"},
}
LIST = {"jsonrpc": "2.0", "id": "l", "method": names.TOOLS_LIST}
UNKNOWN = "an-id-nobody-has"
LEGACY = "2025-11-25"


async def send(http: ClientSession, url: str, message: dict[str, Any], **extra: str) -> Answer:
    """One message with exactly these headers; underscores stand for hyphens."""
    client = Client(http, url)
    client.extra = {name.replace("_", "-"): value for name, value in extra.items()}
    return await client.post(json.dumps(message).encode())


async def initialize(http: ClientSession, url: str, params: dict[str, Any], **extra: str) -> Answer:
    message = {"jsonrpc": "2.0", "id": 1, "method": names.INITIALIZE, "params": params}
    return await send(http, url, message, **extra)


async def test_initialize_opens_a_new_session_and_ignores_the_id_sent(
    manager: RunningManager, http: ClientSession
) -> None:
    """128 bits of chance, visible ASCII; an id of the client's own is ignored here."""
    first = await initialize(http, manager.address, INITIALIZE)
    second = await initialize(
        http, manager.address, INITIALIZE, Mcp_Session_Id=first.headers[headers.SESSION]
    )
    third = await initialize(http, manager.address, INITIALIZE, Mcp_Session_Id=UNKNOWN)
    identities = [answer.headers[headers.SESSION] for answer in (first, second, third)]
    assert len({*identities, UNKNOWN}) == 4
    assert all(is_well_formed(one) and len(one) >= 22 for one in identities)
    assert (await send(http, manager.address, LIST, Mcp_Session_Id=identities[0])).status == 200


@pytest.mark.parametrize(
    ("requested", "negotiated"),
    [
        ("2024-11-05", "2024-11-05"),
        ("2025-03-26", "2025-03-26"),
        ("2025-06-18", "2025-06-18"),
        ("2025-11-25", "2025-11-25"),
        ("2026-07-28", LEGACY),
        ("1999-01-01", LEGACY),
        (None, LEGACY),
        (7, LEGACY),
    ],
)
async def test_the_revision_is_the_requested_one_or_the_latest(
    manager: RunningManager, http: ClientSession, requested: object, negotiated: str
) -> None:
    params = {**INITIALIZE, "protocolVersion": requested}
    answer = await initialize(http, manager.address, params)
    assert answer.result["protocolVersion"] == negotiated


@pytest.mark.parametrize(
    ("version", "status"),
    [
        (None, 200),
        ("2024-11-05", 200),
        ("2025-03-26", 200),
        ("2025-11-25", 200),
        ("1900-01-01", 400),
        ("2025-11-26", 400),
        ("garbage", 400),
    ],
)
async def test_the_version_header_in_a_session_is_checked(
    manager: RunningManager, http: ClientSession, version: str | None, status: int
) -> None:
    opened = await initialize(http, manager.address, INITIALIZE)
    extra = {} if version is None else {"MCP_Protocol_Version": version}
    answer = await send(http, manager.address, LIST, Mcp_Session_Id=opened.headers[headers.SESSION], **extra)
    assert answer.status == status
    assert answer.message["id"] == "l"
    if status == 400:
        assert answer.error["code"] == -32600


async def test_initialize_declares_everything_a_workspace_can_offer(
    manager: RunningManager, http: ClientSession
) -> None:
    result = (await initialize(http, manager.address, INITIALIZE)).result
    assert result["serverInfo"]["name"] == "lm-tools-bridge-manager"
    assert result["capabilities"] == {
        "tools": {"listChanged": True},
        "resources": {"listChanged": True, "subscribe": True},
        "prompts": {"listChanged": True},
        "completions": {},
        "logging": {},
        "extensions": {
            "io.modelcontextprotocol/skills": {"directoryRead": True},
            "io.modelcontextprotocol/ui": {},
        },
        "experimental": {"codex/sandbox-state-meta": {}},
    }
    assert names.HANDSHAKE in result["instructions"]


@pytest.mark.parametrize("cwd", ["relative/path", "/nowhere/at/all", "/", "${PWD}", ""])
async def test_an_invalid_folder_does_not_fail_initialize(
    manager: RunningManager, http: ClientSession, cwd: str
) -> None:
    """The URL behaves like `/mcp`; later refusals name the folder."""
    client = await SessionClient.connect(http, manager.address + "?cwd=" + cwd)
    listed = (await client.ask(names.TOOLS_LIST)).result["tools"]
    assert [tool["name"] for tool in listed] == [names.HANDSHAKE, names.CALL_TOOL]
    refusal = (await client.call("calculator", {"expression": "1"})).refusal
    absent = cwd in ("", "${PWD}")
    assert refusal["reason"] in (
        {"workspace_not_set"} if absent else {"invalid_cwd", "workspace_not_matched"}
    )
    assert absent or cwd in refusal["message"]


SESSIONLESS = [
    (LIST, "l"),
    ({"jsonrpc": "2.0", "id": 0, "method": "ping"}, 0),
    ({"jsonrpc": "2.0", "id": "c", "method": names.TOOLS_CALL, "params": {"name": "calculator"}}, "c"),
    ({"jsonrpc": "2.0", "id": "d", "method": names.TOOLS_CALL, "params": {"name": names.CALL_TOOL}}, "d"),
]


@pytest.mark.parametrize(("message", "identity"), SESSIONLESS)
async def test_a_request_without_a_session_is_refused_and_not_forwarded(
    manager: RunningManager, http: ClientSession, message: dict[str, Any], identity: object
) -> None:
    """Also when exactly one session lives."""
    await SessionClient.connect(http, manager.address)
    missing = await send(http, manager.address, message)
    assert (missing.status, missing.message["id"]) == (400, identity)
    assert (missing.error["code"], missing.error["data"]["reason"]) == (-32600, "missing_session")
    for wrong in (UNKNOWN, "x" * 129, "blank in it", "café"):
        unknown = await send(http, manager.address, message, Mcp_Session_Id=wrong)
        assert (unknown.status, unknown.message["id"]) == (404, identity)
        assert (unknown.error["code"], unknown.error["data"]["reason"]) == (-32600, "unknown_session")
        assert headers.SESSION not in unknown.headers


NOTHING_TO_ANSWER = [
    {"jsonrpc": "2.0", "method": names.INITIALIZED},
    {"jsonrpc": "2.0", "method": "notifications/nobody-knows", "params": {"x": 1}},
    {"jsonrpc": "2.0", "method": names.CANCELLED, "params": {"requestId": "x"}},
    {"jsonrpc": "2.0", "method": names.CANCELLED},
    {"jsonrpc": "2.0", "method": names.INITIALIZE, "params": INITIALIZE},
    {"jsonrpc": "2.0", "method": names.HANDSHAKE, "params": {"cwd": "/"}},
    {"jsonrpc": "2.0", "method": names.TOOLS_CALL, "params": {"name": names.CALL_TOOL}},
    {"jsonrpc": "2.0", "id": "x", "result": {}},
    {"jsonrpc": "2.0", "id": 3, "error": {"code": 1, "message": "no"}},
]


@pytest.mark.parametrize("message", NOTHING_TO_ANSWER)
@pytest.mark.parametrize("session", ["none", "unknown", "known"])
async def test_notifications_and_responses_get_202(
    manager: RunningManager, http: ClientSession, message: dict[str, Any], session: str
) -> None:
    """Bound or not, known or not; a request's method without an id runs nothing."""
    known = (await SessionClient.connect(http, manager.address)).session or ""
    identity = {"none": {}, "unknown": {"Mcp_Session_Id": UNKNOWN}, "known": {"Mcp_Session_Id": known}}
    answer = await send(http, manager.address, message, **identity[session])
    assert (answer.status, answer.body) == (202, b"")
    assert headers.SESSION not in answer.headers
    async with http.get(manager.base + "/mcp/status") as response:
        status = await response.json()
    assert (status["sessions"], status["workspaces"], status["instances"]) == (1, 0, 0)


@pytest.mark.parametrize("sent", [None, "x" * 129, "blank in it", "café"])
@pytest.mark.parametrize("bare", [False, True])
async def test_a_handshake_without_a_usable_id_opens_a_session(
    manager: RunningManager, http: ClientSession, tmp_path: Any, sent: str | None, bare: bool
) -> None:
    """As a tool or as a method; the new id is in the header also when the handshake is refused."""
    extra = {} if sent is None else {"Mcp_Session_Id": sent}
    answer = await send(http, manager.address, handshake(str(tmp_path / "missing"), bare=bare), **extra)
    assert answer.status == 200
    recovered = answer.headers[headers.SESSION]
    assert recovered != sent
    assert is_well_formed(recovered)
    assert (await send(http, manager.address, LIST, Mcp_Session_Id=recovered)).status == 200


def handshake(cwd: str, *, bare: bool = False) -> dict[str, Any]:
    """The handshake, called as a tool or as a method."""
    if bare:
        return {"jsonrpc": "2.0", "id": 5, "method": names.HANDSHAKE, "params": {"cwd": cwd}}
    params = {"name": names.HANDSHAKE, "arguments": {"cwd": cwd}}
    return {"jsonrpc": "2.0", "id": 5, "method": names.TOOLS_CALL, "params": params}


@pytest.mark.parametrize(("version", "revision"), [(None, "2025-03-26"), ("2025-06-18", "2025-06-18")])
async def test_a_handshake_reuses_an_unknown_id(
    manager: RunningManager, http: ClientSession, tmp_path: Any, version: str | None, revision: str
) -> None:
    """Under the client's own id, in the payload too; the next call with it works."""
    project = make_project(tmp_path / "proj")
    extra = {} if version is None else {"MCP_Protocol_Version": version}
    answer = await send(http, manager.address, handshake(str(project)), Mcp_Session_Id=UNKNOWN, **extra)
    assert answer.headers[headers.SESSION] == answer.payload["mcpSessionId"] == UNKNOWN
    call = {"jsonrpc": "2.0", "id": 6, "method": names.TOOLS_CALL}
    params = {
        "name": names.CALL_TOOL,
        "arguments": {"name": "calculator", "arguments": {"expression": "6*7"}},
    }
    called = await send(http, manager.address, {**call, "params": params}, Mcp_Session_Id=UNKNOWN)
    assert called.payload == {"value": 42}
    async with http.get(manager.base + "/mcp/status") as response:
        (session,) = (await response.json())["sessionDetails"]
    assert session["protocolVersion"] == revision
    assert UNKNOWN not in json.dumps(session)

"""Every response carries its request's id byte for byte, errors included; null if none could be read."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import pytest
import pytest_asyncio

from lm_tools_bridge.protocol import names
from support.clients.raw_clients import Client, SessionClient
from support.projects.registered_setup import RegisteredSetup, registered_setup
from support.servers.scripted.scripted_workspace_server import broken_off, error, fixed

pytestmark = pytest.mark.asyncio(loop_scope="module")

IDS = ["0", "-7", "9007199254740993", "123456789012345678901234567890", '""', '"é \\u00e9\\n"', '"7"']
"""JSON text, so that a number that was read and written again, or an escape, shows."""


@dataclass(frozen=True)
class Case:
    """A request that fails."""

    method: str
    params: dict[str, Any]
    is_legacy: bool = True
    is_bound: bool = True
    forged: str | None = None
    """Replaces the session's id; empty for none."""


LEGACY = {
    "unknown method": Case("no/such", {}),
    "stateless method in a session": Case(names.DISCOVER, {}),
    "no workspace": Case(names.PROMPTS_GET, {"name": "x"}, is_bound=False),
    "no workspace for a call": Case(names.TOOLS_CALL, {"name": "x"}, is_bound=False),
    "arguments that do not fit": Case(names.SET_LEVEL, {"level": 3}),
    "bare handshake": Case(names.HANDSHAKE, {"cwd": "relative"}),
    "handshake": Case(names.TOOLS_CALL, {"name": names.HANDSHAKE, "arguments": {"cwd": "relative"}}),
    "callTool": Case(names.TOOLS_CALL, {"name": names.CALL_TOOL, "arguments": {}}),
    "error of the server": Case(names.TOOLS_CALL, {"name": "fails"}),
    "death of the server": Case(names.TOOLS_CALL, {"name": "dies"}),
    "rubbish of the server": Case(names.TOOLS_CALL, {"name": "raves"}),
    "no session": Case(names.PING, {}, forged=""),
    "unknown session": Case(names.PING, {}, forged="gone"),
}
MODERN = {
    "unknown method": Case("no/such", {}, is_legacy=False),
    "session method without a session": Case(names.PING, {}, is_legacy=False),
    "no workspace": Case(names.PROMPTS_GET, {"name": "x"}, is_legacy=False, is_bound=False),
    "error of the server": Case(names.TOOLS_CALL, {"name": "fails"}, is_legacy=False),
    "death of the server": Case(names.TOOLS_CALL, {"name": "dies"}, is_legacy=False),
    "rubbish of the server": Case(names.TOOLS_CALL, {"name": "raves"}, is_legacy=False),
    "revision nobody knows": Case(
        names.TOOLS_LIST, {"_meta": {names.META_VERSION: "2099-01-01"}}, is_legacy=False
    ),
    "capabilities that are none": Case(
        names.TOOLS_LIST, {"_meta": {names.META_CAPABILITIES: 1}}, is_legacy=False
    ),
}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def setup(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[RegisteredSetup]:
    async with registered_setup(tmp_path_factory.mktemp("ids")) as running:
        running.upstream.answers = {
            "fails": error(-32077, "no", status=400),
            "dies": broken_off(b'{"jsonrpc":"2.0",', 1000),
            "raves": fixed(b"<html>", 502, "text/html"),
        }
        yield running


async def client_of(setup: RegisteredSetup, case: Case) -> Client:
    if not case.is_legacy:
        return setup.modern(pure=case.is_bound)
    legacy = await setup.legacy(bound=case.is_bound)
    if case.forged is not None:
        legacy.session = case.forged or None
    return legacy


@pytest.mark.parametrize(
    "case", [*LEGACY.values(), *MODERN.values()], ids=[*LEGACY, *(f"stateless: {one}" for one in MODERN)]
)
async def test_every_error_has_the_id_of_its_request(setup: RegisteredSetup, case: Case) -> None:
    client = await client_of(setup, case)
    for identity in IDS:
        body = client.body(case.method, case.params, "ID").replace(b'"ID"', identity.encode())
        answer = await client.post(body)
        assert "error" in answer.message or answer.result["isError"], answer
        assert f'"id":{identity},'.encode() in answer.body


UNREADABLE = [
    b"{",
    b"[]",
    b'"7"',
    b'[{"jsonrpc":"2.0","id":7,"method":"ping"}]',
    *(
        b'{"jsonrpc":"2.0","id":%b,"method":"ping"}' % one
        for one in (b"null", b"7.5", b"7e0", b"true", b"{}", b"[7]")
    ),
]


@pytest.mark.parametrize("body", UNREADABLE)
async def test_an_unreadable_id_is_answered_with_null(setup: RegisteredSetup, body: bytes) -> None:
    """Present and null, as JSON-RPC 2.0 requires, whatever the headers are."""
    for client in (await setup.legacy(), SessionClient(setup.http, setup.manager.address)):
        answer = await client.post(body)
        assert answer.status == 400
        assert b'"id":null' in answer.body
        assert answer.error["code"] in (-32700, -32600)
        if answer.error["code"] == -32700:
            assert "; send " in answer.error["message"]


@pytest.mark.parametrize("body", [b'{"id":7}', b'{"jsonrpc":"1.0","id":7,"method":"ping"}'])
async def test_an_invalid_message_can_still_have_an_id(setup: RegisteredSetup, body: bytes) -> None:
    answer = await SessionClient(setup.http, setup.manager.address).post(body)
    assert (answer.status, answer.message["id"], answer.error["code"]) == (400, 7, -32600)

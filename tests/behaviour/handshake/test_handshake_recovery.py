"""A handshake restores a lost session; other requests with an unknown session id are refused."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from lm_tools_bridge.protocol import headers, names
from support.clients.raw_clients import SessionClient
from support.projects.registered_setup import RegisteredSetup, registered_setup

LOST = "83795f1e-eb58-4caa-9256-2a257a64e4b4"
FORMS = pytest.mark.parametrize("bare", [False, True], ids=["tool", "bare method"])


@pytest.fixture
async def setup(tmp_path: Path) -> AsyncIterator[RegisteredSetup]:
    async with registered_setup(tmp_path.resolve()) as running:
        yield running


class Stray(SessionClient):
    """A client that believes in a session nobody knows; with None it sends no id at all."""

    def header(self, body: bytes) -> dict[str, str]:
        return {key: value for key, value in super().header(body).items() if key not in self.without}

    without: tuple[str, ...] = (headers.VERSION,)


def stray(setup: RegisteredSetup, identity: str | None) -> Stray:
    client = Stray(setup.http, setup.manager.address)
    client.session = identity
    return client


async def handshake(client: SessionClient, cwd: Any, bare: bool) -> tuple[Any, Any]:
    """The answer, and its payload, whichever form it has."""
    if bare:
        answer = await client.ask(names.HANDSHAKE, {"cwd": str(cwd)})
        return answer, answer.message.get("result")
    answer = await client.handshake(cwd)
    return answer, answer.result.get("structuredContent")


async def revision_of(setup: RegisteredSetup, session: str) -> str:
    async with setup.http.get(f"{setup.manager.base}/mcp/status?format=json") as response:
        details = (await response.json())["sessionDetails"]
    (found,) = [one["protocolVersion"] for one in details if one["sessionId"].startswith(session[:8])]
    return str(found)


@FORMS
@pytest.mark.parametrize("identity", [None, "x" * 129, "two words", "tab\tinside"])
async def test_a_missing_or_malformed_id_gets_a_new_one(
    setup: RegisteredSetup, bare: bool, identity: str | None
) -> None:
    """In the header and in the payload; the next call with it works."""
    client = stray(setup, identity)
    answer, payload = await handshake(client, setup.upstream.root, bare)
    given = answer.headers[headers.SESSION]
    assert given != identity
    assert payload["mcpSessionId"] == given
    assert await revision_of(setup, given) == "2025-03-26"
    client.session = given
    assert (await client.call("echo")).headers[headers.WORKSPACE_SOURCE] == "session"


@FORMS
async def test_an_unknown_id_is_reused(setup: RegisteredSetup, bare: bool) -> None:
    """A session under the client's own id, and the next call with it works."""
    client = stray(setup, LOST)
    answer, payload = await handshake(client, setup.upstream.root, bare)
    assert answer.headers[headers.SESSION] == payload["mcpSessionId"] == LOST
    called = await client.call(names.CALL_TOOL, {"name": "echo"})
    assert called.result["content"]
    assert called.headers[headers.SESSION] == LOST


@FORMS
@pytest.mark.parametrize("identity", [None, LOST])
async def test_a_refused_handshake_recovers_the_session_too(
    setup: RegisteredSetup, bare: bool, identity: str | None
) -> None:
    """The id is in the header also on a refusal."""
    client = stray(setup, identity)
    answer, _ = await handshake(client, "relative", bare)
    assert answer.status == 200
    client.session = answer.headers[headers.SESSION]
    assert client.session if identity is None else client.session == LOST
    assert (await client.call("echo")).refusal["code"] == 47100


async def test_the_version_header_sets_the_recovered_revision(setup: RegisteredSetup) -> None:
    client = stray(setup, None)
    client.without = ()
    client.extra = {headers.VERSION: "2025-06-18"}
    client.revision = "2025-06-18"
    answer = await client.handshake(setup.upstream.root)
    assert await revision_of(setup, answer.headers[headers.SESSION]) == "2025-06-18"


@pytest.mark.parametrize("method", ["tools/list", "tools/call", "resources/list", "ping", "vendor/own"])
async def test_other_requests_with_an_unknown_id_get_404(setup: RegisteredSetup, method: str) -> None:
    """So that clients initialize anew; the id is echoed."""
    answer = await stray(setup, LOST).ask(method, {"name": "echo"}, identity="é-1")
    assert (answer.status, answer.error["code"]) == (404, -32600)
    assert answer.error["data"]["reason"] == "unknown_session"


@pytest.mark.parametrize("method", ["tools/list", "tools/call", "ping"])
async def test_other_requests_without_an_id_get_400(setup: RegisteredSetup, method: str) -> None:
    """Never attributed to the only session there is."""
    await setup.legacy()
    answer = await stray(setup, None).ask(method, {"name": "echo"}, identity=77)
    assert (answer.status, answer.error["code"]) == (400, -32600)
    assert answer.error["data"]["reason"] == "missing_session"


async def test_a_session_above_the_limit_is_refused(tmp_path: Path) -> None:
    """Initialize and recovery only; who is in stays in."""
    async with registered_setup(tmp_path, session_limit=2) as setup:
        inside = [await setup.legacy() for _ in range(2)]
        for answer in (
            await stray(setup, None).ask(names.INITIALIZE, {"protocolVersion": "2025-11-25"}),
            await stray(setup, LOST).handshake(setup.upstream.root),
        ):
            assert (answer.status, answer.error["code"]) == (503, 47111)
            assert int(answer.headers["Retry-After"]) > 0
        for client in inside:
            assert (await client.handshake(setup.upstream.root)).payload["ok"] is True

"""Stateless requests (MCP 2026-07-28): envelopes, discovery, listening, next to sessions on the same URL.

One manager with one workspace serves all tests of this file; no test changes what the next one sees.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from aiohttp import ClientSession
from mcp_types.methods import validate_server_result

from lm_tools_bridge.protocol import headers, jsonrpc, names
from support.clients.raw_clients import BOTH, JSON, Answer, SessionClient, StatelessClient
from support.clients.stateless_requests import REVISION
from support.processes.managers.manager_in_process import RunningManager, make_project, running_manager
from support.projects.registered_setup import raw_http

pytestmark = pytest.mark.asyncio(loop_scope="module")
COMPLETE_META = {names.META_VERSION: REVISION, names.META_CAPABILITIES: {}}
LEGACY = "2025-11-25"


@dataclass
class EndpointSetup:
    manager: RunningManager
    http: ClientSession
    project: Path
    workspace: str

    def url(self, endpoint: str) -> str:
        """One of the URLs of the MCP endpoint."""
        urls = {
            "fixed": self.manager.address,
            "query": f"{self.manager.address}?cwd={self.project}",
            "path": f"{self.manager.base}/w/{self.workspace}/mcp",
        }
        return urls[endpoint]

    async def send(self, message: object, sent: dict[str, str], endpoint: str = "fixed") -> Answer:
        """One body with exactly these headers beside the usual ones."""
        body = message if isinstance(message, bytes) else json.dumps(message).encode()
        extra = {"Content-Type": JSON, "Accept": BOTH, **sent}
        async with self.http.post(self.url(endpoint), data=body, headers=extra) as response:
            return Answer(response.status, response.headers, await response.read())


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def setup(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[EndpointSetup]:
    folder = tmp_path_factory.mktemp("modern").resolve()
    project = make_project(folder / "proj")
    async with running_manager(folder / "manager") as manager, raw_http() as http:
        client = StatelessClient(http, manager.address)
        workspace = (await client.handshake(project)).payload["workspace"]
        yield EndpointSetup(manager, http, project, workspace)


def request(method: str, params: dict[str, Any] | None = None, **meta: object) -> dict[str, Any]:
    """A request with exactly this `_meta`; without any where there is none."""
    inner = {**(params or {}), **({"_meta": meta} if meta else {})}
    return {"jsonrpc": "2.0", "id": "x", "method": method, "params": inner}


LIST = request(names.TOOLS_LIST, None, **COMPLETE_META)
CALL = request(names.TOOLS_CALL, {"name": "calculator", "arguments": {"expression": "1"}}, **COMPLETE_META)
GOOD = {headers.VERSION: REVISION, headers.METHOD: names.TOOLS_LIST}
CALLING = {headers.VERSION: REVISION, headers.METHOD: names.TOOLS_CALL, headers.NAME: "calculator"}


def meta_of(**changed: object) -> dict[str, Any]:
    """`tools/list` with one member of `_meta` changed; None leaves it out."""
    spelt = {
        "version": names.META_VERSION,
        "capabilities": names.META_CAPABILITIES,
        "client": names.META_CLIENT,
    }
    meta: dict[str, object] = dict(COMPLETE_META)
    for name, value in changed.items():
        meta.pop(spelt[name], None)
        if value is not None:
            meta[spelt[name]] = value
    return request(names.TOOLS_LIST, None, **meta)


ENVELOPES: dict[str, tuple[object, dict[str, str], int, int]] = {
    "no capabilities": (meta_of(capabilities=None), GOOD, 400, -32602),
    "capabilities no object": (meta_of(capabilities=[]), GOOD, 400, -32602),
    "client no object": (meta_of(client="me"), GOOD, 400, -32602),
    "version no string": (meta_of(version=7), GOOD, 400, -32602),
    "header names another version": (LIST, {**GOOD, headers.VERSION: LEGACY}, 400, -32020),
    "no version header": (LIST, {headers.METHOD: names.TOOLS_LIST}, 400, -32020),
    "no method header": (LIST, {headers.VERSION: REVISION}, 400, -32020),
    "another method": (LIST, {**GOOD, headers.METHOD: names.TOOLS_CALL}, 400, -32020),
    "method in capitals": (LIST, {**GOOD, headers.METHOD: "TOOLS/LIST"}, 400, -32020),
    "no name header": (CALL, {**CALLING, headers.NAME: ""}, 400, -32020),
    "another name": (CALL, {**CALLING, headers.NAME: names.CALL_TOOL}, 400, -32020),
    "base64 of another name": (CALL, {**CALLING, headers.NAME: "=?base64?YQ==?="}, 400, -32020),
    "broken base64": (CALL, {**CALLING, headers.NAME: "=?base64?!!?="}, 400, -32020),
    "base64 not canonical": (CALL, {**CALLING, headers.NAME: "=?base64?Y2FsY3VsYXRvcg?="}, 400, -32020),
    "duplicate method in the body": (
        b'{"jsonrpc":"2.0","id":"x","method":"tools/list","method":"tools/call","params":{}}',
        GOOD, 400, -32600,
    ),
    "method in the body with escapes": (
        b'{"jsonrpc":"2.0","id":"x","\\u006dethod":"tools/list","params":{}}', GOOD, 400, -32600,
    ),
    # edge cases: session request or stateless request
    "header modern, _meta legacy": (meta_of(version=LEGACY), GOOD, 400, -32020),
    "header and _meta of the future": (
        meta_of(version="2027-01-01"), {**GOOD, headers.VERSION: "2027-01-01"}, 400, -32022,
    ),
    "header and _meta of the past": (
        meta_of(version="1999-01-01"), {**GOOD, headers.VERSION: "1999-01-01"}, 400, -32022,
    ),
    "header and _meta legacy": (meta_of(version=LEGACY), {**GOOD, headers.VERSION: LEGACY}, 400, -32022),
    "header modern, no _meta": (request(names.TOOLS_LIST), GOOD, 400, -32602),
    "header of the future, no _meta": (
        request(names.TOOLS_LIST), {**GOOD, headers.VERSION: "2027-01-01"}, 400, -32602,
    ),
    "header garbage, no _meta": (request(names.TOOLS_LIST), {headers.VERSION: "garbage"}, 400, -32602),
    "nothing at all": (request(names.TOOLS_LIST), {}, 400, -32600),
    "initialize under a modern header": (request(names.INITIALIZE), {headers.VERSION: REVISION}, 400, -32020),
    "unknown session": (request(names.TOOLS_LIST), {headers.SESSION: "nobody"}, 404, -32600),
}  # fmt: skip


@pytest.mark.parametrize("endpoint", ["fixed", "query", "path"])
@pytest.mark.parametrize("case", ENVELOPES)
async def test_an_invalid_envelope_is_refused_with_its_id(
    setup: EndpointSetup, case: str, endpoint: str
) -> None:
    """Including requests that mix both protocol generations; the same at every URL."""
    message, sent, status, code = ENVELOPES[case]
    answer = await setup.send(message, sent, endpoint)
    assert (answer.status, answer.error["code"]) == (status, code), answer.message
    assert answer.message["id"] == ("x" if code != -32600 or isinstance(message, dict) else None)
    if code == -32022:
        assert answer.error["data"]["supported"] == [REVISION]
        assert answer.error["data"]["requested"] == sent[headers.VERSION]


@pytest.mark.parametrize(
    "sent",
    [
        GOOD,
        {**GOOD, headers.METHOD: f"  {names.TOOLS_LIST} "},
        {name.upper(): value for name, value in GOOD.items()},
        {**GOOD, headers.SESSION: "nobody", "Last-Event-ID": "7"},
    ],
)
async def test_a_valid_envelope_is_served_without_a_session(
    setup: EndpointSetup, sent: dict[str, str]
) -> None:
    """Client info is optional, a session id is neither looked at nor given out."""
    answer = await setup.send(LIST, sent)
    assert answer.status == 200
    assert answer.result["resultType"] == "complete"
    assert headers.SESSION not in answer.headers


@pytest.mark.parametrize(
    "body",
    [
        b'{"jsonrpc":"2.0","id":"x","result":{}}',
        b"[" + json.dumps(LIST).encode() + b"]",
        b'{"jsonrpc":"2.0","id":null,"method":"tools/list"}',
        b'{"jsonrpc":"2.0","id":1.5,"method":"tools/list"}',
        b'{"jsonrpc":"2.0","id":true,"method":"tools/list"}',
        b'{"jsonrpc":"2.0","id":{},"method":"tools/list"}',
    ],
)
@pytest.mark.parametrize("endpoint", ["fixed", "query", "path"])
async def test_a_body_that_is_not_a_request_is_refused(
    setup: EndpointSetup, body: bytes, endpoint: str
) -> None:
    answer = await setup.send(body, GOOD, endpoint)
    assert (answer.status, answer.error["code"]) == (400, -32600)


async def test_a_notification_is_accepted_and_has_no_effect(setup: EndpointSetup) -> None:
    message = {"jsonrpc": "2.0", "method": names.CANCELLED, "params": {"requestId": "x"}}
    answer = await setup.send(message, {headers.VERSION: REVISION, headers.METHOD: names.CANCELLED})
    assert (answer.status, answer.body) == (202, b"")


@pytest.mark.parametrize("endpoint", ["fixed", "query", "path"])
@pytest.mark.parametrize("method", [names.INITIALIZE, names.PING, names.SET_LEVEL, "roots/list", "no/such"])
async def test_removed_and_unknown_methods_are_404(setup: EndpointSetup, method: str, endpoint: str) -> None:
    """The body tells it from a lost session."""
    answer = await StatelessClient(setup.http, setup.url(endpoint)).ask(method)
    assert (answer.status, answer.error["code"]) == (404, jsonrpc.METHOD_NOT_FOUND)


@pytest.mark.parametrize("endpoint", ["fixed", "query", "path"])
@pytest.mark.parametrize("method", ["GET", "DELETE"])
async def test_there_are_no_streams_and_no_sessions(setup: EndpointSetup, method: str, endpoint: str) -> None:
    sent = {headers.VERSION: REVISION}
    async with setup.http.request(method, setup.url(endpoint), headers=sent) as response:
        assert (response.status, response.headers["Allow"]) == (405, "POST")


@pytest.mark.parametrize("endpoint", ["fixed", "query", "path"])
async def test_results_have_the_members_that_the_revision_requires(
    setup: EndpointSetup, endpoint: str
) -> None:
    """Type, server, cache hints; a list is the same however often it is asked for."""
    client = StatelessClient(setup.http, setup.url(endpoint))
    for method in (names.TOOLS_LIST, names.RESOURCES_LIST, names.TEMPLATES_LIST, names.PROMPTS_LIST):
        answer = await client.ask(method)
        validate_server_result(method, REVISION, answer.result)
        assert answer.result["resultType"] == "complete"
        assert answer.result["ttlMs"] >= 0
        assert answer.result["cacheScope"] == "private"
        assert answer.result["_meta"][names.META_SERVER]["name"]
        assert (await client.ask(method)).result == answer.result
    read = await client.ask(names.RESOURCES_READ, {"uri": names.URI_CALL_TOOL})
    assert ("error" in read.message) is (endpoint != "fixed")


async def test_a_handshake_binds_nothing(setup: EndpointSetup) -> None:
    """No session, the same list before and after; the guidance shows the handle."""
    client = StatelessClient(setup.http, setup.url("fixed"))
    before = (await client.ask(names.TOOLS_LIST)).result
    answer = await client.handshake(setup.project)
    assert answer.payload["workspace"] == setup.workspace
    assert "mcpSessionId" not in answer.payload
    assert headers.SESSION not in answer.headers
    assert setup.workspace in " ".join(answer.payload["guidance"]["nextSteps"])
    assert (await client.ask(names.TOOLS_LIST)).result == before
    assert (await client.call("calculator", {"expression": "1"})).refusal["code"] == 47100


@pytest.mark.parametrize("endpoint", ["query", "path"])
async def test_an_unknown_resource_is_an_error_with_its_uri(setup: EndpointSetup, endpoint: str) -> None:
    """Never empty contents."""
    client = StatelessClient(setup.http, setup.url(endpoint))
    for uri in ("lm-tools://tool/nobody", "lm-tools://schema/nobody", "file:///etc/passwd"):
        answer = await client.ask(names.RESOURCES_READ, {"uri": uri})
        assert (answer.status, answer.error["code"]) == (200, -32602)
        assert answer.error["data"]["uri"] == uri


async def test_sessions_and_stateless_requests_share_one_url(setup: EndpointSetup) -> None:
    """A session does not affect stateless requests, nor the other way round."""
    legacy = await SessionClient.connect(setup.http, setup.url("fixed"))
    modern = StatelessClient(setup.http, setup.url("query"))
    modern.extra = {headers.SESSION: legacy.session or ""}
    answers = await asyncio.gather(
        legacy.handshake(setup.project),
        *(modern.call("calculator", {"expression": str(number)}) for number in range(10)),
    )
    assert [one.payload["value"] for one in answers[1:]] == list(range(10))
    assert all(headers.SESSION not in one.headers for one in answers[1:])
    assert (await legacy.call("calculator", {"expression": "6*7"})).payload == {"value": 42}

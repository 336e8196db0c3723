"""Clients of a passed-through server get its own answers."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import pytest

from lm_tools_bridge.protocol import headers, jsonrpc, names
from lm_tools_bridge.protocol.errors import Reason, Refusal
from lm_tools_bridge.protocol.names import Era
from support.clients.stateless_requests import Caller, body_of, headers_of
from support.processes.workspace_app import Serving, serving
from support.servers.mcp_sources.app_source import SHOWS_APPS, app_only_tool, page_tool
from support.servers.mcp_sources.tool_source import ScriptedSource, tool
from workspace_server.call_context import CallContext
from workspace_server.config.model import Configuration, PolicyDeltas
from workspace_server.methods import pass_through
from workspace_server.source import HandshakeResult
from workspace_server.tool import CallOutcome, RpcError, Tool, ToolResult

SCHEMA = {
    "type": "object",
    "properties": {"where": {"type": "string", "x-mcp-header": "Where"}, "n": {"type": "integer"}},
    "required": ["n"],
}
OLDER = HandshakeResult(
    Era.LEGACY,
    "2025-11-25",
    {"tools": {}, "logging": {}, "vendor": {"x": 1}, "tasks": {"list": {}}},
    {"name": "theirs", "version": "9", "icons": [{"src": "data:,"}]},
    "Be kind.",
)
NEWER = HandshakeResult(Era.MODERN, "2026-07-28", {"tools": {}}, {"name": "theirs", "version": "9"})


class PassThroughSource(ScriptedSource):
    """A scripted server without namespace; `answer` gives its responses."""

    def __init__(self, *tools: Tool, handshake_result: HandshakeResult | None = OLDER) -> None:
        super().__init__(tools or (tool("z.last", SCHEMA), tool("a.first")), identity="stdio:theirs")
        self.kind = "stdio"
        self.said = handshake_result
        self.asked: list[tuple[str, dict[str, Any]]] = []
        self.outcome: CallOutcome = RpcError(-32601, "no such method")

    async def forward(
        self, method: str, params: Mapping[str, msgspec.Raw], context: CallContext
    ) -> CallOutcome:
        self.asked.append((method, {key: json.loads(bytes(raw)) for key, raw in params.items()}))
        return self.outcome

    async def handshake_result(self) -> HandshakeResult | None:
        return self.said


class EndpointCaller(Caller):
    """A client whose URL means the workspace."""

    extra: Mapping[str, str] = {}

    def open(self, method: str, params: dict[str, Any] | None = None, **meta: Any) -> Any:
        body = body_of(method, params, **meta)
        sent = {**headers_of(body), headers.PASS_THROUGH: "1", **self.extra}
        return self.session.post(self.url, data=json.dumps(body), headers=sent)

    async def whole(self, method: str, params: dict[str, Any] | None = None) -> tuple[int, dict[str, Any]]:
        """Status and message."""
        async with self.open(method, params) as response:
            return response.status, await response.json()


def at(served: Serving, query: str = "", **extra: str) -> EndpointCaller:
    caller = EndpointCaller(served.session, served.base + "/mcp" + query)
    caller.extra = extra
    return caller


async def test_discovery_says_what_a_server_of_the_older_era_said() -> None:
    """Under the revisions spoken here; its tasks are of a revision that is gone."""
    async with serving([PassThroughSource()]) as served:
        assert await at(served).result(names.DISCOVER) == {
            "resultType": "complete",
            "supportedVersions": ["2026-07-28"],
            "capabilities": {"tools": {}, "logging": {}, "vendor": {"x": 1}},
            "instructions": "Be kind.",
            "ttlMs": 0,
            "cacheScope": "private",
            "_meta": {names.META_SERVER: OLDER.server_info},
        }


async def test_discovery_passes_on_all_that_a_server_of_this_era_says() -> None:
    theirs = PassThroughSource(handshake_result=NEWER)
    said = {"resultType": "complete", "supportedVersions": ["2030-01-01", "2026-07-28"], "capabilities": {}}
    rest = {"ttlMs": 5, "cacheScope": "public", "vendor": [1], "_meta": {"x/y": 1}}
    theirs.outcome = jsonrpc.raw({**said, **rest})
    async with serving([theirs]) as served:
        found = (await at(served).message(names.DISCOVER))["result"]
    assert found == {**said, **rest, "supportedVersions": ["2026-07-28"]}


async def test_a_server_of_this_era_that_is_down_now_is_shown_as_it_was_known() -> None:
    theirs = PassThroughSource(handshake_result=NEWER)
    theirs.outcome = Refusal(Reason.SOURCE_UNAVAILABLE, "it is down", delivered="no")
    async with serving([theirs]) as served:
        found = await at(served).result(names.DISCOVER)
    assert (found["capabilities"], found["_meta"][names.META_SERVER]["name"]) == ({"tools": {}}, "theirs")


@pytest.mark.parametrize("hangs", [False, True])
async def test_a_server_that_is_down_or_slow_leaves_the_word_to_the_workspace(
    monkeypatch: pytest.MonkeyPatch, hangs: bool
) -> None:
    theirs = PassThroughSource(handshake_result=None)
    if hangs:
        monkeypatch.setattr(pass_through, "HANDSHAKE_S", 0.01)
        monkeypatch.setattr(theirs, "handshake_result", asyncio.Event().wait)
    async with serving([theirs]) as served:
        found = await at(served).result(names.DISCOVER)
    assert found["_meta"][names.META_SERVER]["name"] == names.WORKSPACE_SERVER


@pytest.mark.parametrize(
    ("method", "params"),
    [
        (names.TOOLS_LIST, {"cursor": "theirs", "vendor": {"x": [1]}}),
        (names.RESOURCES_LIST, {}),
        (names.TEMPLATES_LIST, {}),
        (names.RESOURCES_READ, {"uri": "lm-tools://names"}),
        (names.PROMPTS_LIST, {"cursor": "2"}),
        (names.PROMPTS_GET, {"name": "p", "arguments": {"a": "b"}}),
        (
            names.COMPLETE,
            {"ref": {"type": "ref/prompt", "name": "p"}, "argument": {"name": "a", "value": ""}},
        ),
        ("vendor/method", {"x": 1}),
    ],
)
async def test_requests_reach_the_server_as_they_came_and_its_bytes_come_back(
    method: str, params: dict[str, Any]
) -> None:
    theirs = PassThroughSource(handshake_result=NEWER)
    theirs.outcome = msgspec.Raw(
        b'{"resultType":"complete", "z":1e2,"big":12345678901234567890,"a":"\\u00e9"}'
    )
    async with serving([theirs]) as served, at(served).open(method, params) as response:
        body = await response.read()
    assert theirs.asked == [(method, params)]
    assert jsonrpc.members_of(body)["result"] == theirs.outcome


@pytest.mark.parametrize("meta", [None, {}, {"x/y": 1}, {names.META_SERVER: {"name": "z", "version": "1"}}])
async def test_results_of_the_older_era_say_whose_they_are(meta: dict[str, Any] | None) -> None:
    """What the server says of that itself stays."""
    theirs = PassThroughSource()
    own = {} if meta is None else {"_meta": meta}
    theirs.outcome = jsonrpc.raw({"resultType": "complete", **own, "vendor": '"_meta"'})
    async with serving([theirs]) as served:
        result = (await at(served).message("vendor/method"))["result"]
    expected = {names.META_SERVER: OLDER.server_info, **(meta or {})}
    assert result == {"resultType": "complete", "vendor": '"_meta"', "_meta": expected}


@pytest.mark.parametrize(
    ("outcome", "status", "code", "message"),
    [
        (RpcError(-32601, "none such", msgspec.Raw(b'{"x":1}')), 404, -32601, "none such"),
        (RpcError(-32602, "bad uri"), 200, -32602, "bad uri"),
        (RpcError(-32021, "missing"), 400, -32021, "missing"),
        (RpcError(-32020, "mismatch"), 400, -32020, "mismatch"),
        (RpcError(7, "its own"), 200, 7, "its own"),
        (ToolResult("Error: no object", is_error=True), 200, -32603, "Error: no object"),
    ],
)
async def test_its_errors_are_its_own(outcome: CallOutcome, status: int, code: int, message: str) -> None:
    theirs = PassThroughSource()
    theirs.outcome = outcome
    async with serving([theirs]) as served:
        found, answer = await at(served).whole(names.RESOURCES_READ, {"uri": "x:y"})
    assert (found, answer["error"]["code"], answer["error"]["message"]) == (status, code, message)
    assert answer["error"].get("data") == ({"x": 1} if code == -32601 else None)


async def test_a_server_that_is_down_is_refused_with_its_reason() -> None:
    theirs = PassThroughSource()
    theirs.outcome = Refusal(Reason.SOURCE_UNAVAILABLE, "it is down", delivered="no")
    async with serving([theirs]) as served:
        _, answer = await at(served).whole(names.PROMPTS_LIST)
    assert (answer["error"]["code"], answer["error"]["data"]["reason"]) == (47109, "source_unavailable")


async def test_a_server_that_does_not_answer_costs_its_time_only() -> None:
    theirs = PassThroughSource()
    theirs.timeout_s = 0.01

    async def never(*_: Any) -> CallOutcome:
        await asyncio.Event().wait()
        raise AssertionError

    theirs.forward = never  # played
    async with serving([theirs]) as served:
        for method, params in ((names.PROMPTS_LIST, {}), (names.PROMPTS_GET, {"name": "p"})):
            _, answer = await at(served).whole(method, params)
            assert answer["error"]["code"] == 47104


@pytest.mark.parametrize("method", sorted(names.LEGACY_ONLY))
async def test_methods_of_the_era_before_reach_no_server(method: str) -> None:
    """A server of that era would answer them."""
    theirs = PassThroughSource()
    async with serving([theirs]) as served:
        status, answer = await at(served).whole(method)
    assert (status, answer["error"]["code"], theirs.asked) == (404, -32601, [])


@pytest.mark.parametrize(("handshake_result", "asked"), [(NEWER, 1), (OLDER, 0)])
async def test_tasks_are_asked_about_where_the_server_knows_the_extension(
    handshake_result: HandshakeResult, asked: int
) -> None:
    """What 2025-11-25 calls by the same name is something else."""
    theirs = PassThroughSource(handshake_result=handshake_result)
    theirs.outcome = msgspec.Raw(b'{"resultType":"complete"}')
    async with serving([theirs]) as served:
        await at(served).whole("tasks/get", {"taskId": "t-1"})
    assert len(theirs.asked) == asked


async def test_calls_use_the_servers_own_names_and_arguments_are_not_checked() -> None:
    """Arguments are not checked here: a server's own error is the answer."""
    theirs = PassThroughSource()
    async with serving([theirs]) as served:
        for name in ("z.last", "a.first", "it lists no such tool"):
            result = await at(served, **{headers.UNMIRRORED: "1"}).call(name, {"n": "no integer"})
            assert result["structuredContent"] == {"ran": name}
        error = await at(served).error(names.TOOLS_CALL, {"name": "a.first", "arguments": []})
        assert error["code"] == -32602
    assert [name for name, _ in theirs.calls] == ["z.last", "a.first", "it lists no such tool"]


async def test_mirrored_arguments_must_fit_the_known_definition() -> None:
    theirs = PassThroughSource()
    params = {"name": "z.last", "arguments": {"n": 1, "where": "here"}}
    async with serving([theirs]) as served:
        status, answer = await at(served).whole(names.TOOLS_CALL, params)
        assert (status, answer["error"]["code"], theirs.calls) == (400, -32020, [])
        status, _ = await at(served, **{"Mcp-Param-Where": "here"}).whole(names.TOOLS_CALL, params)
    assert (status, len(theirs.calls)) == (200, 1)


@pytest.mark.parametrize("name", ["openllm_secret", "gone"])
async def test_a_forbidden_name_is_unknown_even_if_the_server_has_it(name: str) -> None:
    theirs = PassThroughSource()
    async with serving(
        [theirs], configuration=Configuration(deltas=PolicyDeltas(disabled=("gone",)))
    ) as served:
        error = await at(served).error(names.TOOLS_CALL, {"name": name})
    assert (error["data"]["reason"], theirs.calls) == ("tool_not_found", [])


def others() -> Sequence[ScriptedSource]:
    return [ScriptedSource([tool("mine")])]


@pytest.mark.parametrize(
    ("beside", "query", "extra", "as_is"),
    [
        ([], "", {}, True),
        ([], "?tool_mode=discovery", {}, False),
        ([], "", {"X-MCP-Show-All": "true"}, False),
        (others(), "", {}, False),
        ([ScriptedSource()], "", {}, True),
    ],
)
async def test_otherwise_the_workspace_answers_for_all_it_gathered(
    beside: Sequence[ScriptedSource], query: str, extra: dict[str, str], as_is: bool
) -> None:
    theirs = PassThroughSource()
    theirs.outcome = msgspec.Raw(b'{"resultType":"complete","ttlMs":0,"cacheScope":"private","tools":[]}')
    async with serving([theirs, *beside]) as served:
        shown = (await at(served, query, **extra).result(names.TOOLS_LIST))["tools"]
        gathered = (await served.caller.result(names.TOOLS_LIST))["tools"]
    assert (shown == [], bool(theirs.asked)) == (as_is, as_is)
    assert {"a_first", "z_last"} <= {one["name"] for one in gathered}


async def test_the_addresses_follow_what_is_configured() -> None:
    theirs, scripts = PassThroughSource(), ScriptedSource()
    async with serving([theirs, scripts]) as served:
        for tools, name in (((), "theirs"), ((tool("mine"),), names.WORKSPACE_SERVER), ((), "theirs")):
            scripts.tools = tools
            said = await at(served).result(names.DISCOVER)
            assert said["_meta"][names.META_SERVER]["name"] == name


async def test_before_it_is_trusted_the_workspace_speaks_for_itself() -> None:
    theirs = PassThroughSource()
    theirs.state, theirs.trust_path = "pending_trust", "/srv/proj"
    async with serving([theirs]) as served:
        said = await at(served).result(names.DISCOVER)
        refused = await at(served).call("z.last")
    assert said["_meta"][names.META_SERVER]["name"] == names.WORKSPACE_SERVER
    assert refused["structuredContent"]["error"]["reason"] == "workspace_pending_trust"


async def test_the_servers_own_list_goes_to_clients_that_show_apps_if_tools_are_for_apps_alone() -> None:
    """Others get the workspace's list, which leaves these tools out, and cannot call them."""
    theirs = PassThroughSource(page_tool("show"), app_only_tool("refresh"))
    theirs.outcome = jsonrpc.raw({"resultType": "complete", "tools": [], "ttlMs": 0, "cacheScope": "private"})
    async with serving([theirs]) as served:
        with_apps = await at(served).message(names.TOOLS_LIST, **SHOWS_APPS)
        assert with_apps["result"]["tools"] == []
        without = await at(served).message(names.TOOLS_LIST)
        assert [entry["name"] for entry in without["result"]["tools"]] == ["show"]
        assert len(theirs.asked) == 1
        call = {"name": "refresh", "arguments": {}}
        assert "result" in await at(served).message(names.TOOLS_CALL, call, **SHOWS_APPS)
        assert "error" in await at(served).message(names.TOOLS_CALL, call)
        assert theirs.calls == [("refresh", {})]

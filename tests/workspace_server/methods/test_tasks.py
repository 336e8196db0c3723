"""Tasks over real HTTP: creation, requests by id, notifications on streams."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
from aiohttp import ClientSession

from lm_tools_bridge.protocol import headers, jsonrpc, names
from lm_tools_bridge.protocol import tasks_extension as tasks
from lm_tools_bridge.protocol.errors import Reason, Refusal
from lm_tools_bridge.protocol.internal.call_reports import CallTiming
from lm_tools_bridge.protocol.names import Era
from support.clients.stateless_requests import Caller, body_of, events, headers_of
from support.processes.workspace_app import Serving, serving
from support.servers.mcp_sources.tool_source import OBJECT, ScriptedSource
from workspace_server.call_context import CallContext
from workspace_server.calls.approvals import Admitted
from workspace_server.source import HandshakeResult
from workspace_server.tasks.store import Store
from workspace_server.tasks.tasks import Tasks
from workspace_server.tool import CallOutcome, RpcError, Tool, ToolResult

WORKSPACE = "shop-0123456789ab"
KNOWS: dict[str, Any] = {names.META_CAPABILITIES: {"elicitation": {}, "extensions": {tasks.EXTENSION: {}}}}
REQUIRED: dict[str, Any] = {"requiredCapabilities": {"extensions": {tasks.EXTENSION: {}}}}


def declared(capabilities: dict[str, Any]) -> dict[str, Any]:
    """The member of `_meta` for a client with these capabilities."""
    return {names.META_CAPABILITIES: capabilities}


class Shop:
    """A source whose slow tools wait for the test, and a client of its workspace."""

    def __init__(self, served: Serving, source: ScriptedSource, go_on: asyncio.Event) -> None:
        self.served = served
        self.source = source
        self.go_on = go_on

    async def ask(self, method: str, params: dict[str, Any], **meta: Any) -> dict[str, Any]:
        """The message that answers a request of a client that knows tasks."""
        return await self.served.caller.message(method, params, **(meta or KNOWS))

    async def sent(self, body: dict[str, Any], header: dict[str, str]) -> dict[str, Any]:
        """The message that answers these bytes under these additional headers."""
        url, sent = self.served.caller.url, {**headers_of(body), **header}
        async with self.served.session.post(url, data=json.dumps(body), headers=sent) as response:
            answer: dict[str, Any] = await response.json()
            return answer

    async def begin(self, tool: str = "slow") -> str:
        """The id of the task that a call becomes."""
        result = (await self.ask(names.TOOLS_CALL, {"name": tool, "arguments": {}}))["result"]
        assert result["resultType"] == "task", result
        return str(result["taskId"])

    async def until(self, task: str, *states: str) -> dict[str, Any]:
        """The task once it is in one of these states."""
        async with asyncio.timeout(10):
            while True:
                result: dict[str, Any] = (await self.ask(tasks.GET, {"taskId": task}))["result"]
                assert result["resultType"] == "complete"
                if result["status"] in states:
                    return result
                await asyncio.sleep(0.005)


def slow_tool(name: str, **options: Any) -> Tool:
    return Tool(name, {"name": name, "inputSchema": OBJECT}, **options)


@asynccontextmanager
async def shop(folder: Path, **options: Any) -> AsyncIterator[Shop]:
    go_on = asyncio.Event()

    async def slow(arguments: Mapping[str, Any], context: CallContext) -> CallOutcome:
        await go_on.wait()
        return ToolResult("slow \u00fc ran", structured={"n": 1.0, "caller": context.caller})

    async def error(arguments: Mapping[str, Any], context: CallContext) -> CallOutcome:
        await go_on.wait()
        return RpcError(-32050, "broken", msgspec.Raw(b'{"why":1.50}'))

    async def asks(arguments: Mapping[str, Any], context: CallContext) -> CallOutcome:
        await asyncio.sleep(0.05)
        params = jsonrpc.raw({"message": "name?", "requestedSchema": {"type": "object", "properties": {}}})
        answer = await context.ask("elicitation/create", params)
        return ToolResult(bytes(answer).decode() if isinstance(answer, msgspec.Raw) else answer.message)

    async def passed(arguments: Mapping[str, Any], context: CallContext) -> CallOutcome:
        await go_on.wait()
        return msgspec.Raw(b'{"resultType": "complete", "content": [], "x": 1.50}')

    answers = {"slow": slow, "must": slow, "error": error, "asks": asks, "passed": passed, "plain": slow}
    use = {"must": "required", "plain": "forbidden"}
    source = ScriptedSource([slow_tool(name, task=use.get(name, "optional")) for name in answers])
    source.answers = dict(answers)
    kept = Tasks(WORKSPACE, Store(folder / "tasks"), immediate_s=0.02)
    async with serving([source], tasks=kept, **options) as served:
        yield Shop(served, source, go_on)


async def test_extension_is_declared(tmp_path: Path) -> None:
    async with shop(tmp_path) as one:
        capabilities = (await one.served.caller.result(names.DISCOVER))["capabilities"]
        assert capabilities["extensions"][tasks.EXTENSION] == {}


@pytest.mark.parametrize("tool", ["slow", "passed"])
async def test_result_of_a_task_is_byte_for_byte_what_the_waiting_caller_gets(
    tmp_path: Path, tool: str
) -> None:
    async with shop(tmp_path) as one:
        task = await one.begin(tool)
        assert (await one.ask(tasks.GET, {"taskId": task}))["result"]["status"] == "working"
        one.go_on.set()
        await one.until(task, "completed")
        async with one.served.caller.open(tasks.GET, {"taskId": task}, **KNOWS) as response:
            members = jsonrpc.members_of(jsonrpc.members_of(await response.read())["result"])
        async with one.served.caller.open(names.TOOLS_CALL, {"name": tool, "arguments": {}}) as response:
            waited = jsonrpc.members_of(await response.read())["result"]
        assert jsonrpc.bytes_of(members["result"]) == jsonrpc.bytes_of(waited)


async def test_error_of_a_task_is_byte_for_byte_what_the_waiting_caller_gets(tmp_path: Path) -> None:
    async with shop(tmp_path) as one:
        task = await one.begin("error")
        one.go_on.set()
        failed = await one.until(task, "failed")
        assert "result" not in failed
        assert failed["statusMessage"] == "broken"
        waited = await one.served.caller.error(names.TOOLS_CALL, {"name": "error", "arguments": {}})
        assert failed["error"] == waited == {"code": -32050, "message": "broken", "data": {"why": 1.5}}


@pytest.mark.parametrize(
    ("tool", "capabilities", "header"),
    [
        ("slow", {}, {}),
        ("slow", {"extensions": {"other": {}}}, {}),
        ("plain", KNOWS[names.META_CAPABILITIES], {}),
        ("slow", KNOWS[names.META_CAPABILITIES], {headers.CALLER: "c" * 32}),
    ],
)
async def test_other_calls_wait_for_their_result(
    tmp_path: Path, tool: str, capabilities: dict[str, Any], header: dict[str, str]
) -> None:
    """No task for a client that did not declare them, for a tool that is not marked, for a session."""
    async with shop(tmp_path) as one:
        body = body_of(names.TOOLS_CALL, {"name": tool, "arguments": {}}, 1, **declared(capabilities))
        call = asyncio.ensure_future(one.sent(body, header))
        await asyncio.sleep(0.1)
        assert not call.done()
        one.go_on.set()
        assert (await call)["result"]["resultType"] == "complete"


async def test_tool_that_must_be_a_task_refuses_clients_without_them(tmp_path: Path) -> None:
    async with shop(tmp_path) as one:
        call = {"name": "must", "arguments": {}}
        async with one.served.caller.open(names.TOOLS_CALL, call) as response:
            error = (await response.json())["error"]
            assert (response.status, error["code"], error["data"]) == (400, -32021, REQUIRED)
        assert one.source.calls == []
        assert (await one.begin("must")).startswith(f"{WORKSPACE}.")


@pytest.mark.parametrize("method", sorted(tasks.METHODS))
async def test_requests_about_tasks_need_the_extension(tmp_path: Path, method: str) -> None:
    async with shop(tmp_path) as one:
        params = {"taskId": f"{WORKSPACE}.{'0' * 32}", "inputResponses": {}}
        async with one.served.caller.open(method, params) as response:
            error = (await response.json())["error"]
            assert (response.status, error["code"], error["data"]) == (400, -32021, REQUIRED)
        error = (await one.ask(method, params))["error"]
        assert error["code"] == -32602


@pytest.mark.parametrize("method", ["tasks/list", "tasks/result"])
async def test_methods_of_older_revisions_do_not_exist(tmp_path: Path, method: str) -> None:
    async with shop(tmp_path) as one:
        assert (await one.ask(method, {"taskId": "x"}))["error"]["code"] == -32601


async def test_cancelling_is_acknowledged_and_done(tmp_path: Path) -> None:
    async with shop(tmp_path) as one:
        task = await one.begin()
        for _ in range(2):
            result = (await one.ask(tasks.CANCEL, {"taskId": task}))["result"]
            assert set(result) == {"resultType", "_meta"}
        assert set(await one.until(task, "cancelled")) == {
            "resultType", "taskId", "status", "createdAt", "lastUpdatedAt", "ttlMs", "pollIntervalMs", "_meta",
        }  # fmt: skip
        async with asyncio.timeout(10):
            await one.source.cancelled.wait()


async def test_task_that_asks_is_answered_by_update(tmp_path: Path) -> None:
    async with shop(tmp_path) as one:
        task = await one.begin("asks")
        asked = await one.until(task, "input_required")
        ((key, request),) = asked["inputRequests"].items()
        assert (request["method"], request["params"]["message"]) == ("elicitation/create", "name?")
        assert (await one.ask(tasks.UPDATE, {"taskId": task}))["error"]["code"] == -32602
        answer = {key: {"action": "accept", "content": {"name": "Ada"}}, "stray": {}}
        acknowledged = (await one.ask(tasks.UPDATE, {"taskId": task, "inputResponses": answer}))["result"]
        assert set(acknowledged) == {"resultType", "_meta"}
        over = await one.until(task, "completed")
        assert json.loads(over["result"]["content"][0]["text"]) == answer[key]


async def test_task_survives_its_client(tmp_path: Path) -> None:
    async with shop(tmp_path) as one:
        async with ClientSession() as session:
            caller = Caller(session, one.served.caller.url)
            call = {"name": "slow", "arguments": {}}
            task = (await caller.message(names.TOOLS_CALL, call, **KNOWS))["result"]["taskId"]
        one.go_on.set()
        assert (await one.until(task, "completed"))["result"]["structuredContent"]["n"] == 1.0


class Never:
    """A gate that admits no call."""

    async def admit(self, *_: Any) -> Admitted | Refusal:
        return Refusal(Reason.APPROVAL_DENIED, "no")


async def test_gate_comes_before_any_task(tmp_path: Path) -> None:
    async with shop(tmp_path, gate=Never()) as one:
        result = (await one.ask(names.TOOLS_CALL, {"name": "slow", "arguments": {}}))["result"]
        assert result["isError"] is True
        assert one.source.calls == []


async def test_stream_tells_of_the_tasks_it_was_asked_for(tmp_path: Path) -> None:
    async with shop(tmp_path) as one:
        task, other = await one.begin("asks"), await one.begin()
        unknown = f"{WORKSPACE}.{'0' * 32}"
        wanted = {"notifications": {"taskIds": [task, unknown, task]}}
        async with one.served.caller.open(names.LISTEN, wanted, **KNOWS) as response:
            (acknowledged,) = await events(response, 1)
            assert acknowledged["params"]["notifications"] == {"taskIds": [task]}
            asked = await one.until(task, "input_required")
            one.go_on.set()
            await one.until(other, "completed")
            answer = {key: {"action": "decline"} for key in asked["inputRequests"]}
            await one.ask(tasks.UPDATE, {"taskId": task, "inputResponses": answer})
            over = await one.until(task, "completed")
            found: list[dict[str, Any]] = []
            while not found or found[-1]["status"] != "completed":
                (event,) = await events(response, 1)
                assert event["method"] == tasks.CHANGED
                assert event["params"].pop("_meta") == {names.META_SUBSCRIPTION: 1}
                found.append(event["params"])
        assert {one["taskId"] for one in found} == {task}
        assert found[-1] == {key: value for key, value in over.items() if key not in {"resultType", "_meta"}}


@pytest.mark.parametrize("named", ["x", [1], {"x": 1}, None])
async def test_ids_of_something_else_than_tasks_are_invalid(tmp_path: Path, named: Any) -> None:
    async with shop(tmp_path) as one:
        answer = await one.ask(names.LISTEN, {"notifications": {"taskIds": named}})
        assert answer["error"]["code"] == -32602


async def test_streams_tell_of_tasks_only_to_clients_that_know_them(tmp_path: Path) -> None:
    async with shop(tmp_path) as one:
        wanted: dict[str, Any] = {"notifications": {"taskIds": []}}
        async with one.served.caller.open(names.LISTEN, wanted) as response:
            error = (await response.json())["error"]
            assert (response.status, error["code"], error["data"]) == (400, -32021, REQUIRED)


async def test_health_says_how_many_calls_go_on(tmp_path: Path) -> None:
    async with shop(tmp_path) as one:
        await one.begin()
        assert (await one.served.health())["tasks"] == 1


class Maker(ScriptedSource):
    """A server that makes tasks itself."""

    def __init__(self, identity: str, *known: str, era: Era = Era.MODERN) -> None:
        super().__init__([slow_tool(f"{identity}_make")], identity=identity)
        self.kind = "remote"
        self.makes = known
        self.asked: list[tuple[str, Mapping[str, Any]]] = []
        self.era = era
        self.fails: CallOutcome | None = None
        self.answers[f"{identity}_make"] = self._make

    async def _make(self, arguments: Mapping[str, Any], context: CallContext) -> CallOutcome:
        assert tasks.is_declared(context.capabilities)
        return msgspec.Raw(b'{"resultType": "task", "taskId": "%b", "x": 1.50}' % self.makes[0].encode())

    async def forward(
        self, method: str, params: Mapping[str, msgspec.Raw], context: CallContext
    ) -> CallOutcome:
        self.asked.append((method, {key: msgspec.json.decode(raw) for key, raw in params.items()}))
        if self.fails is not None:
            return self.fails
        if jsonrpc.text_of(params["taskId"]) in self.makes:
            return msgspec.Raw(b'{"resultType": "complete", "of": "%b"}' % self.id.encode())
        return RpcError(-32602, "unknown task")

    async def handshake_result(self) -> HandshakeResult:
        return HandshakeResult(self.era, "", {"extensions": {tasks.EXTENSION: {}}})


async def test_tasks_of_a_server_are_its_own(tmp_path: Path) -> None:
    first, second = Maker("first", "their-task"), Maker("second", "their-task")
    async with serving([first, second], tasks=Tasks(WORKSPACE, Store(tmp_path / "tasks"))) as served:
        call = {"name": "second_make", "arguments": {}}
        made = (await served.caller.message(names.TOOLS_CALL, call, **KNOWS))["result"]
        assert made == {"resultType": "task", "taskId": "their-task", "x": 1.5}
        for method in sorted(tasks.METHODS):
            params = {"taskId": "their-task", "inputResponses": {"k": {"n": 1}}}
            answer = await served.caller.message(method, params, **KNOWS)
            assert answer["result"] == {"resultType": "complete", "of": "second"}
        assert first.asked == []
        assert second.asked[-1] == (
            "tasks/update",
            {"taskId": "their-task", "inputResponses": {"k": {"n": 1}}},
        )


async def test_an_unknown_task_is_requested_from_servers_that_make_tasks(tmp_path: Path) -> None:
    older, first, second = Maker("older", era=Era.LEGACY), Maker("first"), Maker("second", "their-task")
    async with serving([older, first, second], tasks=Tasks(WORKSPACE, Store(tmp_path / "tasks"))) as served:
        answer = await served.caller.message(tasks.GET, {"taskId": "their-task"}, **KNOWS)
        assert answer["result"]["of"] == "second"
        assert len(first.asked) == 1
        await served.caller.message(tasks.GET, {"taskId": "their-task"}, **KNOWS)
        assert len(first.asked) == 1
        error = (await served.caller.message(tasks.GET, {"taskId": "nobodys"}, **KNOWS))["error"]
        assert error["code"] == -32602
        assert older.asked == []


@pytest.mark.parametrize(
    "trouble", [Refusal(Reason.CALL_TIMED_OUT, "too slow", delivered="unknown"), RpcError(-32603, "broken")]
)
async def test_trouble_of_a_server_does_not_make_a_task_its_own(tmp_path: Path, trouble: CallOutcome) -> None:
    first, second = Maker("first"), Maker("second", "their-task")
    first.fails = trouble
    async with serving([first, second], tasks=Tasks(WORKSPACE, Store(tmp_path / "tasks"))) as served:
        for _ in range(2):
            answer = await served.caller.message(tasks.GET, {"taskId": "their-task"}, **KNOWS)
            assert answer["result"]["of"] == "second"
        assert len(first.asked) == 1
        error = (await served.caller.message(tasks.GET, {"taskId": "nobodys"}, **KNOWS))["error"]
        assert error["message"].startswith(("too slow", "broken")), "the first may have it"


@asynccontextmanager
async def reported(here: Shop) -> AsyncIterator[Callable[[], Awaitable[dict[str, Any]]]]:
    """A lifeline, and a function that waits for the next task that has ended."""
    sent = {headers.SECRET: here.served.caller.secret}
    async with here.served.session.get(f"{here.served.base}{names.LIFELINE_PATH}", headers=sent) as response:

        async def next_end() -> dict[str, Any]:
            while True:
                (message,) = await events(response, 1)
                if message["method"] == names.TASKS_ENDED:
                    (end,) = message["params"]["tasks"]
                    return dict(end)

        yield next_end


@pytest.mark.parametrize(
    ("tool", "outcome", "code"), [("slow", "ok", None), ("error", "error", -32050), ("passed", "ok", None)]
)
async def test_the_manager_hears_how_a_task_ended(
    tmp_path: Path, tool: str, outcome: str, code: int | None
) -> None:
    async with shop(tmp_path) as here, asyncio.timeout(10), reported(here) as next_end:
        before = time.monotonic()
        task = await here.begin(tool)
        here.go_on.set()
        end = await next_end()
        assert (end["tool"], end["source"], end["outcome"], end["code"]) == (
            tool,
            here.source.id,
            outcome,
            code,
        )
        assert before <= end["begun"] <= end["ended"] - 0.02
        assert end["sent"] == len("{}")
        assert end["received"] > 10
        await here.until(task, "completed", "failed")


async def test_the_manager_hears_of_a_cancelled_task(tmp_path: Path) -> None:
    async with shop(tmp_path) as here, asyncio.timeout(10), reported(here) as next_end:
        task = await here.begin()
        await here.ask(tasks.CANCEL, {"taskId": task})
        end = await next_end()
        assert (end["outcome"], end["received"]) == ("cancelled", None)


async def test_an_end_waits_for_the_next_lifeline(tmp_path: Path) -> None:
    async with shop(tmp_path) as here, asyncio.timeout(10):
        here.go_on.set()
        task = await here.begin("asks")  # asks its client, who answers late
        await here.ask(tasks.CANCEL, {"taskId": task})
        await here.until(task, "cancelled")
        async with reported(here) as next_end:
            assert (await next_end())["tool"] == "asks"


async def test_the_answer_says_that_the_call_goes_on_as_a_task(tmp_path: Path) -> None:
    async with shop(tmp_path) as here:
        for tool, is_task in (("slow", True), ("plain", False)):
            if not is_task:
                here.go_on.set()
            body = body_of(names.TOOLS_CALL, {"name": tool, "arguments": {}}, 1, **KNOWS)
            sent = headers_of(body)
            url = here.served.caller.url
            async with here.served.session.post(url, data=json.dumps(body), headers=sent) as response:
                timing = CallTiming.from_value(response.headers[headers.TOOK].encode())
            assert timing is not None
            assert (timing.source, timing.is_task) == (here.source.id, is_task)

"""Repeated calls get the same bytes as parsed ones, and only while that is right."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import pytest

from lm_tools_bridge.protocol import headers, names
from lm_tools_bridge.protocol.errors import Reason, Refusal
from support.clients.stateless_requests import META, body_of, headers_of
from support.processes.workspace_app import Serving, serving
from support.servers.mcp_sources.tool_source import ScriptedSource, tool
from workspace_server.calls.gates.approvals import Approvals
from workspace_server.calls.gates.gate import CallGate
from workspace_server.calls.gates.rate_limit import RateLimiter
from workspace_server.calls.request_state import RequestStates
from workspace_server.config.model import Configuration
from workspace_server.http.repeated_calls import LEARN_EVERY, MAX_PATTERNS
from workspace_server.methods.table import Methods
from workspace_server.sources.builtin.source import BuiltinSource
from workspace_server.tool import CallOutcome, RpcError, ToolError, ToolResult
from workspace_server.workspace import Workspace

TEMPLATE = '{"jsonrpc":"2.0","id":%s,"method":"tools/call","params":{"name":"%s","arguments":%s,"_meta":%s}}'
PLAIN = json.dumps(META, separators=(",", ":"))
SUM = '{"expression":"1 + 1"}'
Answer = tuple[int, str | None, bytes]


def call(identity: str = "1", arguments: str = SUM, *, name: str = "calculator", meta: str = PLAIN) -> bytes:
    return (TEMPLATE % (identity, name, arguments, meta)).encode()


async def send(served: Serving, body: bytes, *, name: str = "calculator", **more: str) -> Answer:
    sent = {**headers_of(body_of(names.TOOLS_CALL, {"name": name})), **more}
    async with served.session.post(f"{served.base}/mcp", data=body, headers=sent) as response:
        return response.status, response.headers.get("Content-Type"), await response.read()


@contextmanager
def answered_again() -> Iterator[list[bool]]:
    """Whether an answer was found, for each call that was known."""
    found: list[bool] = []
    own = Methods.answer_repeated

    def noted(self: Methods, *args: Any) -> Any:
        answer = own(self, *args)
        found.append(answer is not None)
        return answer

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Methods, "answer_repeated", noted)
        yield found


async def warm(served: Serving, body: bytes | None = None, *, name: str = "calculator", **more: str) -> None:
    """Lists, and as many calls as it takes to know the next one."""
    await served.caller.result(names.TOOLS_LIST)
    for _ in range(3):
        await send(served, body or call(name=name), name=name, **more)


@asynccontextmanager
async def calculators(folder: Path, count: int = 1, **configured: Any) -> AsyncIterator[list[Serving]]:
    """So many servers, of which the first knows the call of a sum."""
    configuration = Configuration(**configured)
    gate = CallGate(Approvals(RequestStates("w")), RateLimiter())
    sources = [BuiltinSource(Workspace.of(folder)) for _ in range(count)]
    made = [serving([one], configuration=configuration, gate=gate) for one in sources]
    served = [await one.__aenter__() for one in made]
    try:
        await warm(served[0])
        for one in served[1:]:
            await one.caller.result(names.TOOLS_LIST)
        yield served
    finally:
        for each in made:
            await each.__aexit__(None, None, None)


async def test_a_call_is_known_whose_head_came_before(tmp_path: Path) -> None:
    async with calculators(tmp_path) as (served,):
        with answered_again() as found:
            _, _, said = await send(served, call("77", '{"expression":"2 * 3"}'))
    assert found == [True]
    assert said.startswith(b'{"jsonrpc":"2.0","id":77,"result":{')
    assert json.loads(said)["result"]["structuredContent"] == {"value": 6}


KNOWN = {
    "another id": call("2"),
    "a text as id": call('"a b"'),
    "an id of sixteen digits": call("1" * 16),
    "a negative id": call("-1"),
    "an id with a leading zero": call("01"),
    "an id with a fraction": call("1.0"),
    "no id": call("null"),
    "an id with escapes": call(r'"\u0061"'),
    "half a character as id": call(r'"\ud800"'),
    "two ids": call('1,"id":2'),
    "two methods": call('1,"method":"tools/list"'),
    "an id that closes the message": call('1,"x":{"id":2}'),
    "arguments twice": call(arguments=SUM + ',"arguments":{"expression":"3"}'),
    "an expression twice": call(arguments='{"expression":"1","expression":"2"}'),
    "escapes": call(arguments=r'{"expression":"1\t\u002b 1"}'),
    "an escaped quote": call(arguments=r'{"expression":"1\"}"}'),
    "other letters": call(arguments='{"expression":"1 × 1"}'),
    "half a character": call(arguments=r'{"expression":"\ud800"}'),
    "no expression": call(arguments="{}"),
    "too many arguments": call(arguments='{"expression":"1","more":2}'),
    "a number as expression": call(arguments='{"expression":1}'),
    "a nested argument": call(arguments='{"expression":[[{"a":1}]]}'),
    "deep arguments": call(arguments='{"expression":' + "[" * 90 + "]" * 90 + "}"),
    "too deep arguments": call(arguments='{"expression":' + "[" * 2000 + "]" * 2000 + "}"),
    "a large number": call(arguments='{"expression":1e999}'),
    "no arguments": call(arguments="null"),
    "a list as arguments": call(arguments="[]"),
    "text as arguments": call(arguments='"{}"'),
    "broken arguments": call(arguments='{"expression":"1"'),
    "arguments that close the parameters": call(arguments='{"expression":"1"}},"x":{"y":{}'),
    "a mistake": call(arguments='{"expression":"1 +"}'),
    "a division by zero": call(arguments='{"expression":"1/0"}'),
    "white space": call(arguments=' {"expression":"1"} '),
    "an exact large number": call(arguments='{"expression":"2**70"}'),
    "a long body": call(arguments=json.dumps({"expression": "1" * 20_000})),
    "an answer": call(arguments=SUM + ',"inputResponses":{}'),
    "a state": call(arguments=SUM + ',"requestState":"made up"'),
    "another tool": call(name="datetime"),
    "no such tool": call(name="nothing"),
    "another revision": call(meta=PLAIN.replace("2026", "2027")),
    "no meta": call(meta="{}"),
    "more meta": call(meta=PLAIN[:-1] + ',"x":1}'),
    "an array": b"[" + call() + b"]",
    "two messages": call() + call(),
    "nothing": b"",
}


@pytest.mark.parametrize("body", KNOWN.values(), ids=KNOWN)
async def test_bodies_with_a_known_head_get_the_answers_of_a_fresh_server(
    tmp_path: Path, body: bytes
) -> None:
    async with calculators(tmp_path, 2) as (warmed, new):
        assert await send(warmed, body) == await send(new, body)
        with answered_again() as found:
            assert await send(warmed, call("5")) == await send(new, call("5"))
        assert found == [True]


@pytest.mark.parametrize("name", ["progressToken", "claudecode/toolUseId"])
async def test_calls_that_are_marked_anew_each_time_are_known(tmp_path: Path, name: str) -> None:
    def marked(number: int) -> bytes:
        return call(str(number), meta=f'{PLAIN[:-1]},"{name}":"mark-{number}"}}')

    async with calculators(tmp_path, 2) as (warmed, new):
        await send(warmed, marked(1))
        with answered_again() as found:
            assert await send(warmed, marked(2)) == await send(new, marked(2))
        assert found == [True]


async def test_heads_that_never_come_again_leave_nothing(tmp_path: Path) -> None:
    async with calculators(tmp_path) as (served,):
        with answered_again() as found:
            for number in range(3):
                await send(served, call(), traceparent=f"00-{number}")
    assert found == []


async def test_of_calls_that_always_differ_only_a_few_are_learned(
    tmp_path: Path,
) -> None:
    async with calculators(tmp_path) as (served,):
        with pytest.MonkeyPatch.context() as patch:
            learned: list[bytes] = []
            patch.setattr("workspace_server.http.repeated_calls.derive_pattern", learned.append)
            for number in range(LEARN_EVERY):
                await send(served, call(meta=f'{PLAIN[:-1]},"new":{number}}}'))
        assert len(learned) == MAX_PATTERNS  # one of them is that of the sum, one comes in its time
        with answered_again() as found:
            await send(served, call())
    assert found == [True]


# -- what may change between two calls ----------------------------------------------------------------------


async def test_a_server_that_stops_refuses_calls_it_knows(tmp_path: Path) -> None:
    async with calculators(tmp_path, 2) as both:
        for one in both:
            one.life.stop("it is time")
        with answered_again() as found:
            first, second = [await send(one, call("3")) for one in both]
    assert first == second
    assert first[0] == 503
    assert found == []


def scripted(outcome: CallOutcome | Exception, **members: Any) -> ScriptedSource:
    """A source with one tool that is answered at once."""
    source = ScriptedSource([tool("a", **members)])

    def call_nowait(name: str, arguments: Any) -> CallOutcome:
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    source.cached_tools = lambda: source.tools  # it answers from memory
    source.nowait_tools = frozenset({"a", "b"})
    source.call_nowait = call_nowait
    return source


async def test_a_tool_that_is_no_longer_there_is_not_called() -> None:
    source = scripted(ToolResult("there"))
    async with serving([source]) as served:
        body = call(name="a", arguments="{}")
        await warm(served, body, name="a")
        source.tools = (tool("b"),)
        with answered_again() as found:
            _, _, said = await send(served, body, name="a")
            assert json.loads(said)["error"]["code"] == -32602
            source.tools = (tool("a"), tool("b"))
            for _ in range(3):
                assert b'"isError":false' in (await send(served, body, name="a"))[2]
        assert found == [False, False, False, True]


async def test_another_schema_counts_from_the_next_call_on() -> None:
    source = scripted(ToolResult("fits"))
    async with serving([source]) as served:
        body = call(name="a", arguments="{}")
        await warm(served, body, name="a")
        source.tools = (tool("a", {"type": "object", "required": ["x"]}),)
        _, _, said = await send(served, body, name="a")
        assert json.loads(said)["result"]["isError"] is True


OUTCOMES: dict[str, CallOutcome | Exception] = {
    "a result": ToolResult("x", structured={"n": 1}),
    "nothing": ToolResult(""),
    "a failure": ToolResult("x", is_error=True, structured={"n": "1"}),
    "what breaks the promise": ToolResult("x", structured={"n": "1"}),
    "a refusal": Refusal(Reason.OVERLOADED, "no", delivered="no"),
    "an error of the protocol": RpcError(-7, "no"),
    "an error": ToolError("no", {"why": 1}),
    "a fault": KeyError("x"),
    "meta of its own": ToolResult("x", structured={"n": 1}, meta={"a": 1}),
}


@pytest.mark.parametrize("outcome", OUTCOMES.values(), ids=OUTCOMES)
async def test_whatever_a_tool_gives_is_answered_as_ever(outcome: CallOutcome | Exception) -> None:
    promise = {"type": "object", "properties": {"n": {"type": "number"}}}
    body = call(name="a", arguments="{}")
    async with (
        serving([scripted(outcome, outputSchema=promise)]) as warmed,
        serving([scripted(outcome, outputSchema=promise)]) as new,
    ):
        await warm(warmed, body, name="a")
        await new.caller.result(names.TOOLS_LIST)
        with answered_again() as found:
            assert await send(warmed, body, name="a") == await send(new, body, name="a")
    assert found == [True]


async def test_mirrored_headers_are_compared_with_every_repeated_call() -> None:
    """Such calls are read."""
    schema = {"type": "object", "properties": {"x": {"type": "string", "x-mcp-header": "X"}}}
    source = scripted(ToolResult("said"))
    source.tools = (tool("a", schema),)
    async with serving([source]) as served:
        more = {"Mcp-Param-X": "one"}
        await warm(served, call(name="a", arguments='{"x":"one"}'), name="a", **more)
        with answered_again() as found:
            status, _, _ = await send(served, call(name="a", arguments='{"x":"two"}'), name="a", **more)
    assert (status, found) == (400, [])


async def test_defaults_of_the_user_are_filled_in(tmp_path: Path) -> None:
    schema = {"type": "object", "properties": {"x": {"type": "string"}}}
    source = scripted(ToolResult(""))
    source.tools = (tool("a", schema),)
    source.call_nowait = lambda name, arguments: ToolResult(str(arguments))
    configuration = Configuration(schema_defaults=(("a", "x", "mine"),))
    async with serving([source], configuration=configuration) as served:
        body = call(name="a", arguments="{}")
        await warm(served, body, name="a")
        with answered_again() as found:
            assert b"mine" in (await send(served, body, name="a"))[2]
    assert found == [True]


async def test_calls_that_leave_a_trace_are_read(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    async with calculators(tmp_path, debug="simple") as (served,):
        with answered_again() as found:
            await send(served, call("9"))
    assert found == []
    assert capfd.readouterr().err.count('"tool_call"') == 4


async def test_what_has_to_be_asked_about_is_never_known(tmp_path: Path) -> None:
    """Neither is what is denied."""
    for decision in ("ask", "deny"):
        async with calculators(tmp_path, approvals={"calculator": decision}) as (served,):
            with answered_again() as found:
                await send(served, call("9"))
        assert found == []


async def test_a_head_that_names_another_tool_is_another_head(tmp_path: Path) -> None:
    async with calculators(tmp_path) as (served,):
        status, _, said = await send(served, call(), name="datetime")
    assert status == 400
    assert headers.NAME.encode() in said

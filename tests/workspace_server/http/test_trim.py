"""What a workspace server says of its results, so that the manager need not read them for a session."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import msgspec
import pytest

from lm_tools_bridge.protocol import headers, names, sse
from lm_tools_bridge.protocol.internal.result_trim import ResultTrim
from manager.forwarding.forwarded_call import answered
from manager.routing import legacy_result
from manager.sessions import round_trips
from support.clients import exchanges
from support.clients.stateless_requests import body_of, headers_of
from support.processes.workspace_app import Serving, serving
from support.servers.mcp_sources.tool_source import ScriptedSource, tool
from workspace_server.call_context import CallContext
from workspace_server.tool import CallOutcome, ToolError, ToolResult

EXCHANGE = exchanges.legacy(exchanges.call("t", {}))
TEXT = {"content": [{"type": "text", "text": 'é }},"_meta":{ \\'}]}
SERVER = {names.META_SERVER: {"name": "s", "version": "1"}}
"""As somebody else's server says who it is."""


def theirs(**members: Any) -> msgspec.Raw:
    return msgspec.Raw(json.dumps(members, separators=(",", ":")).encode())


SAID: Mapping[str, CallOutcome] = {
    "text": ToolResult("done"),
    "structured": ToolResult("done", structured={"_meta": 1, "ttlMs": 2}),
    "failed": ToolResult("no", is_error=True),
    "theirs": theirs(resultType="complete", **TEXT),
    "theirs, signed": theirs(resultType="complete", **TEXT, structuredContent={"a": [1]}, _meta=SERVER),
    "theirs, of the older era": theirs(**TEXT),
}
UNSAID: Mapping[str, CallOutcome] = {
    "with a meta": ToolResult("done", meta={"a": 1}),
    "theirs, with a meta": theirs(resultType="complete", **TEXT, _meta={**SERVER, "a": 1}),
    "theirs, in another order": theirs(**TEXT, resultType="complete"),
    "theirs, no object": theirs(resultType="complete", **TEXT, structuredContent=[1]),
    "theirs, asks": theirs(resultType="input_required", inputRequests={}, requestState="s"),
}


async def answer(served: Serving, method: str, params: dict[str, Any]) -> tuple[bytes, str | None]:
    body = body_of(method, params)
    async with served.session.post(f"{served.base}/mcp", json=body, headers=headers_of(body)) as response:
        return await response.read(), response.headers.get(headers.RESULT_TRIM)


async def answer_of(outcome: CallOutcome) -> tuple[bytes, str | None]:
    source = ScriptedSource([tool("t")])

    async def returns_outcome(arguments: Mapping[str, Any], context: CallContext) -> CallOutcome:
        return outcome

    source.answers["t"] = returns_outcome
    async with serving([source]) as served:
        return await answer(served, names.TOOLS_CALL, {"name": "t", "arguments": {}})


@pytest.mark.parametrize("name", SAID)
async def test_who_cuts_a_result_as_the_header_says_gets_what_a_reader_gets(name: str) -> None:
    body, said = await answer_of(SAID[name])
    trim = ResultTrim.from_header((said or "").encode())
    assert trim is not None
    identity = json.dumps(json.loads(body)["id"]).encode()
    found = answered(body, identity)
    assert found is not None
    read = round_trips.final_response(EXCHANGE, found)
    assert read is not None
    assert legacy_result.for_session_client(body, 0, len(body), identity, trim) == read
    assert b"complete" not in read


@pytest.mark.parametrize("name", UNSAID)
async def test_nothing_is_said_of_a_result_that_has_to_be_read(name: str) -> None:
    assert (await answer_of(UNSAID[name]))[1] is None


async def test_nothing_is_said_of_anything_but_results_of_tools() -> None:
    async def fails(arguments: Mapping[str, Any], context: CallContext) -> CallOutcome:
        raise ToolError("no")

    source = ScriptedSource([tool("t")])
    source.answers["t"] = fails
    async with serving([source]) as served:
        assert (await answer(served, names.TOOLS_LIST, {}))[1] is None
        assert (await answer(served, names.DISCOVER, {}))[1] is None
        assert (await answer(served, names.TOOLS_CALL, {"name": "nothing"}))[1] is None
        assert (await answer(served, names.TOOLS_CALL, {"name": "t", "arguments": {}}))[1] is not None


async def test_the_event_that_an_answer_is_says_it_in_a_comment() -> None:
    source = ScriptedSource([tool("t")])

    async def work(arguments: Mapping[str, Any], context: CallContext) -> CallOutcome:
        await context.progress(1, 2, "half")
        return ToolResult("done")

    source.answers["t"] = work
    async with (
        serving([source]) as served,
        served.caller.open(names.TOOLS_CALL, {"name": "t"}, progressToken="p") as response,
    ):
        said = await response.read()
        assert headers.RESULT_TRIM not in response.headers
    before, comment, behind = said.partition(b": Lm-Tools-Bridge-Trim: ")
    assert before.startswith(b"event: message\ndata: ")
    stream = comment + behind
    event = sse.single_event(stream, 0, len(stream))
    assert event is not None
    trim = ResultTrim.from_comment(event.comment)
    message = stream[event.start : event.end]
    identity = json.dumps(json.loads(message)["id"]).encode()
    found = answered(message, identity)
    assert trim is not None
    assert found is not None
    read = round_trips.final_response(EXCHANGE, found)
    assert legacy_result.for_session_client(stream, event.start, event.end, identity, trim) == read

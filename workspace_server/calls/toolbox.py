"""Calls tools for programs that are no MCP client: scripts, and programs on the internal channel.

The input requests of a call that a script makes go to the client that called the script. A source with a
session asks through the context. A source of MCP 2026-07-28 ends its call with input requests, so the call is
repeated here with the answers, as a client would. The script's own call is the one that is suspended
(`suspended_calls.py`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from lm_tools_bridge.protocol import input_requests, jsonrpc
from lm_tools_bridge.protocol.inbound import Rejection
from workspace_server import naming
from workspace_server.call_context import CallContext
from workspace_server.calls.call import Call, Way
from workspace_server.calls.request import Outcome, internal_request
from workspace_server.calls.suspended_calls import Work
from workspace_server.catalog.toolset import Toolset
from workspace_server.catalog.view import Mode, View, mode_of
from workspace_server.source import Source
from workspace_server.tool import CallOutcome, RpcError
from workspace_server.tool_search.definitions import MAX_RESULTS
from workspace_server.tool_search.search_tool import Hit, read_hits

# Ends the loop of a server that asks again whatever it is answered. A person answers few questions in a row.
MAX_REPEATS: Final = 10


async def run_nested(context: CallContext, work: Work) -> CallOutcome:
    """The outcome of the call, after at most `MAX_REPEATS` input requests of its source."""
    for _ in range(MAX_REPEATS):
        outcome = await work(context)
        interim = input_requests.input_required_members(outcome)
        if interim is None:
            return outcome
        answers = await _answers(context, jsonrpc.members_of(interim.get("inputRequests", b"")))
        if isinstance(answers, RpcError):
            return answers
        context = replace(context, params=input_requests.repeated(context.params, interim, answers))
    return RpcError(jsonrpc.INTERNAL_ERROR, f"the tool asked {MAX_REPEATS} times and has no result")


async def _answers(
    context: CallContext, requests: Mapping[str, msgspec.Raw]
) -> dict[str, msgspec.Raw] | RpcError:
    """The client's answers by key, or the first error among them."""

    async def ask(request: msgspec.Raw) -> msgspec.Raw | RpcError:
        members = jsonrpc.members_of(request)
        method = jsonrpc.text_of(members.get("method", b"")) or ""
        return await context.ask(method, members.get("params", msgspec.Raw()))

    replies = await asyncio.gather(*map(ask, requests.values()))
    answers: dict[str, msgspec.Raw] = {}
    for key, answer in zip(requests, replies, strict=True):
        if isinstance(answer, RpcError):
            return answer
        answers[key] = answer
    return answers


# All sources are asked at the same time, for at most `DEADLINE_S` seconds. Hits that this client may not call
# are left out.

# The search of our own tools is done in milliseconds, so its caller waits only for the others.
DEADLINE_S: Final = 2.0


async def find_remote_hits(view: View, arguments: Mapping[str, Any]) -> Sequence[Hit]:
    """The hits of all sources that forward unlisted names, under the names these tools have here."""
    query = arguments.get("query")
    sources = [source for source in view.snapshot.sources if source.accepts_unlisted]
    if not sources or not isinstance(query, str) or not query.strip():
        return ()
    results = await asyncio.gather(
        *(source.nested_search(query, MAX_RESULTS, DEADLINE_S) for source in sources)
    )
    return [
        hit
        for source, result in zip(sources, results, strict=True)
        if result is not None
        for hit in read_hits(result, _offered_name(source))
        if view.forwarded(hit.name) is not None
    ]


def _offered_name(source: Source) -> Callable[[str], str]:
    return lambda name: naming.prefix_of(source) + name


Run = Callable[[Call], Awaitable[Outcome]]


class InternalToolbox:
    """The tools for a program of the user, on the internal channel."""

    def __init__(self, toolset: Toolset, run: Run) -> None:
        self._toolset = toolset
        self._run = run

    async def listed(self) -> list[Mapping[str, Any]]:
        """All callable tools (see `call_context.Toolbox`)."""
        return (await self._toolset.current()).listed(Mode.SHOW_ALL)

    async def call(self, name: str, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        """See `call_context.Toolbox`."""
        view = await self._toolset.current()
        call = Call(internal_request(name), view, name, jsonrpc.raw(arguments), Way.INTERNAL)
        return _as_members(await self._run(call))


class NestedToolbox:
    """The tools for a script: with the view and the rights of the script's caller."""

    def __init__(self, call: Call, context: CallContext, run: Run) -> None:
        self._call = call
        self._context = context
        self._run = run

    async def listed(self) -> list[Mapping[str, Any]]:
        """See `call_context.Toolbox`."""
        mode = mode_of(self._call.request.header, self._call.request.query)
        return self._call.view.for_models().listed(Mode.NORMAL if mode is Mode.DISCOVERY else mode)

    async def call(self, name: str, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        """See `call_context.Toolbox`."""
        inner = self._call.nested(name, jsonrpc.raw(arguments), self._context)
        return _as_members(await self._run(inner))


def _as_members(outcome: Outcome) -> Mapping[str, Any]:
    """`{"result": …}` or `{"error": …}`."""
    if isinstance(outcome, Rejection):
        error: Mapping[str, Any] = msgspec.json.decode(outcome.body())["error"]
        return {"error": error}
    return {"result": msgspec.json.decode(outcome) if isinstance(outcome, msgspec.Raw) else outcome}

"""Runs a call that a script makes: its input requests go to the client that called the script.

A source with a session asks through the context. A source of MCP 2026-07-28 ends its call with input
requests, so the call is repeated here with the answers, as a client would. The script's own call is the one
that is suspended (`suspended_calls.py`). A `tool_search` is forwarded to sources that have one of their own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from lm_tools_bridge.protocol import input_requests, jsonrpc
from workspace_server import naming
from workspace_server.call_context import CallContext
from workspace_server.calls.suspended_call import Work
from workspace_server.catalog.view import View
from workspace_server.source import Source
from workspace_server.tool import CallOutcome, RpcError
from workspace_server.tool_search.definitions import MAX_RESULTS
from workspace_server.tool_search.hits import Hit, read_hits

MAX_REPEATS: Final = 10


async def run(context: CallContext, work: Work) -> CallOutcome:
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

DEADLINE_S: Final = 2.0


async def hits(view: View, arguments: Mapping[str, Any]) -> Sequence[Hit]:
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

"""A call that another call makes, from a script: its questions are questions of that one.

A source of the older era asks through the context by itself. One of the newer era ends with its questions, so
it is called again here with the answers, as a client would; the call around it is what is held
(`suspended_calls.py`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Final

import msgspec
from msgspec.structs import replace

from protocol import input_requests, jsonrpc
from workspace_server.call_context import CallContext
from workspace_server.calls.suspended_call import Work
from workspace_server.tool import CallOutcome, RpcError

MAX_ROUNDS: Final = 10


async def run(context: CallContext, work: Work) -> CallOutcome:
    """The outcome of the call, asking whoever called the one around it as often as it takes."""
    for _ in range(MAX_ROUNDS):
        outcome = await work(context)
        members = input_requests.input_required_members(outcome)
        if members is None:
            return outcome
        answers = await _answers(context, jsonrpc.members_of(members.get("inputRequests", b"")))
        if isinstance(answers, RpcError):
            return answers
        state = {"requestState": members["requestState"]} if "requestState" in members else {}
        others = {key: raw for key, raw in context.params.items() if key != "requestState"}
        context = replace(context, params={**others, "inputResponses": jsonrpc.raw(answers), **state})
    return RpcError(jsonrpc.INTERNAL_ERROR, f"the tool asked {MAX_ROUNDS} times and has no result")


async def _answers(
    context: CallContext, requests: Mapping[str, msgspec.Raw]
) -> dict[str, msgspec.Raw] | RpcError:
    async def ask(request: msgspec.Raw) -> msgspec.Raw | RpcError:
        members = jsonrpc.members_of(request)
        method = jsonrpc.text_of(members.get("method", b"")) or ""
        return await context.ask(method, members.get("params", msgspec.Raw()))

    given = await asyncio.gather(*map(ask, requests.values()))
    answers: dict[str, msgspec.Raw] = {}
    for key, answer in zip(requests, given, strict=True):
        if isinstance(answer, RpcError):
            return answer
        answers[key] = answer
    return answers

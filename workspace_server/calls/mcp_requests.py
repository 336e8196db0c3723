"""Any other request than `tools/call` that is put to a server for a client: `prompts/get`, `resources/read` …

Who is asked, and by which of its names, others decide. The result comes back as the bytes that came.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from protocol import jsonrpc, names
from protocol.errors import Reason, Refusal
from protocol.inbound import Rejection
from workspace_server.call_context import CallContext
from workspace_server.calls import outcomes
from workspace_server.calls.call import Call
from workspace_server.calls.deadline import Deadline
from workspace_server.calls.dispatch import Calls
from workspace_server.calls.request import McpRequest, Outcome
from workspace_server.calls.request_state import StateBinding
from workspace_server.catalog.view import View
from workspace_server.source import Source
from workspace_server.tool import CallOutcome, RpcError

_WITH_ROUNDS: Final = frozenset({names.PROMPTS_GET, names.RESOURCES_READ})
"""Requests in whose middle a server may ask its client something."""
_OF_A_ROUND: Final = ("inputResponses", "requestState")


async def relay(
    calls: Calls,
    asked: McpRequest,
    view: View,
    source: Source,
    params: Mapping[str, msgspec.Raw],
    *,
    longest_s: float = math.inf,
) -> CallOutcome:
    """What the source gives, in rounds where it asks back, and within its time.

    Args:
        calls: keeps what is under way.
        asked: the request.
        view: what it was found in.
        source: who is asked.
        params: the parameters by the source's own names; `_meta` and what belongs to a round are added.
        longest_s: what it may take at most, if that is less than its own time.
    """
    method, given = asked.request.method, {k: raw for k, raw in params.items() if k not in _OF_A_ROUND}
    seconds = min(longest_s, source.timeout_s or view.configuration.call_timeout_s)
    given.pop("_meta", None)

    async def work(context: CallContext) -> CallOutcome:
        answers = {key: context.params[key] for key in _OF_A_ROUND if key in context.params}
        try:
            async with Deadline(seconds, context) as (timed, limit):
                return await source.relay(method, {**given, **answers}, timed)
        except TimeoutError:
            if not limit.expired():
                raise
            text = f"{source.id} did not answer {method} within {seconds:g} s"
            return Refusal(Reason.CALL_TIMED_OUT, text, delivered="unknown")

    context = Call(asked, view, asked.inbound.name or "", msgspec.Raw(b"{}")).context()
    if method not in _WITH_ROUNDS:
        return await work(context)
    arguments: Any = {key: msgspec.json.decode(raw) for key, raw in given.items()}
    bound = StateBinding(method, asked.inbound.name or "", arguments, source.id, context.caller)
    return await calls.conversations.run(bound, context, work)


def answer(asked: McpRequest, outcome: CallOutcome) -> Outcome:
    """The outcome as its caller gets it; no tool is concerned, so whatever failed is an error."""
    match outcome:
        case msgspec.Raw():
            return outcome
        case Refusal():
            return asked.refuse(outcome)
        case RpcError():
            return outcomes.rejection(outcome, asked.request.id)
        case _:
            return Rejection(200, jsonrpc.INTERNAL_ERROR, outcome.text, asked.request.id)

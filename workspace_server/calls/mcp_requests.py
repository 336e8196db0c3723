"""Sends a client's other requests to a source: prompts, resources, completions.

The callers choose the source and translate names. Results come back as the bytes that the source sent.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from lm_tools_bridge.protocol import jsonrpc, names
from lm_tools_bridge.protocol.errors import Refusal
from lm_tools_bridge.protocol.inbound import Rejection
from workspace_server.call_context import CallContext
from workspace_server.calls import outcomes
from workspace_server.calls.call import Call
from workspace_server.calls.dispatch import Calls
from workspace_server.calls.request import McpRequest, Outcome
from workspace_server.calls.request_state import StateBinding
from workspace_server.calls.running_calls import run_limited, step_for
from workspace_server.catalog.view import View
from workspace_server.source import Source
from workspace_server.tool import CallOutcome, RpcError

_MAY_ASK: Final = frozenset({names.PROMPTS_GET, names.RESOURCES_READ})
"""Methods during which a server may send input requests (MCP 2026-07-28)."""
_RESUMING: Final = ("inputResponses", "requestState")


async def forward(
    calls: Calls,
    request: McpRequest,
    view: View,
    source: Source,
    params: Mapping[str, msgspec.Raw],
    *,
    time_limit_s: float = math.inf,
) -> CallOutcome:
    """The source's outcome. A source that asks the client something suspends the request.

    Args:
        calls: keeps suspended calls.
        request: the client's request.
        view: the view in which the source was found.
        source: the source.
        params: the parameters with the source's own names. `_meta`, answers and state come from `request`.
        time_limit_s: a limit below the source's own, in seconds.
    """
    method, members = request.method, {k: raw for k, raw in params.items() if k not in _RESUMING}
    seconds = min(time_limit_s, source.timeout_s or view.configuration.call_timeout_s)
    members.pop("_meta", None)
    name = request.inbound.name or ""

    async def send(timed: CallContext) -> CallOutcome:
        resuming = {key: timed.params[key] for key in _RESUMING if key in timed.params}
        return await source.forward(method, {**members, **resuming}, timed)

    async def work(context: CallContext) -> CallOutcome:
        return await run_limited(seconds, context, send, explain_timeout)

    def explain_timeout() -> tuple[str, str]:
        text = f"{source.id} did not answer {method} within {seconds:g} s"
        setting = source.limit_setting if source.timeout_s else view.configuration.call_timeout_setting
        return text, step_for(setting)

    context, began = Call(request, view, name, msgspec.Raw(b"{}")).context(), time.monotonic()
    if method not in _MAY_ASK:
        outcome = await work(context)
    else:
        arguments: Any = {key: msgspec.json.decode(raw) for key, raw in members.items()}
        binding = StateBinding(method, name, arguments, source.id, context.caller)
        outcome = await calls.suspended_calls.run(binding, context, work)
    request.clock.add(source.id, time.monotonic() - began)
    return outcome


def answer(request: McpRequest, outcome: CallOutcome) -> Outcome:
    """The answer for the client. Every failure is a JSON-RPC error, since no tool is involved."""
    match outcome:
        case msgspec.Raw():
            return outcome
        case Refusal():
            return request.refuse(outcome)
        case RpcError():
            return outcomes.rejection(outcome, request.id)
        case _:
            return Rejection(200, jsonrpc.INTERNAL_ERROR, outcome.text, request.id)

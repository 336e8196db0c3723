"""Tells the observer of calls that the manager answers itself: handshakes, calls that reach no server."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator
from contextlib import aclosing

import msgspec

from lm_tools_bridge.protocol import jsonrpc
from manager.answers.call_origin import origin_of
from manager.answers.exchange import Events, Exchange, Relayed, Reply
from manager.call_observer import CallDetails, EndedCall, ObserveCall
from manager.forwarding.answer_facts import facts_of
from manager.forwarding.messages import begins_as_result, is_response


def observed_reply(observe_call: ObserveCall, exchange: Exchange, reply: Reply) -> Reply:
    """The reply to a call, whose end the observer is told. A forwarded call tells it itself."""
    if exchange.is_forwarded or isinstance(reply, Relayed):
        return reply
    if isinstance(reply, Events):
        return Events(_observed_messages(observe_call, exchange, reply.messages))
    _tell_end(observe_call, exchange, reply.body)
    return reply


async def _observed_messages(
    observe_call: ObserveCall, exchange: Exchange, messages: AsyncGenerator[bytes]
) -> AsyncGenerator[bytes]:
    async with aclosing(messages):
        async for message in messages:
            if begins_as_result(message) or is_response(message):
                _tell_end(observe_call, exchange, message)
            yield message


def _tell_end(observe_call: ObserveCall, exchange: Exchange, response: bytes) -> None:
    origin = origin_of(exchange)
    if origin is None:
        return
    members = jsonrpc.members_of(response)
    facts = facts_of(response, members)
    reason, code = _refusal(members)
    details = CallDetails(code=code or facts.code)
    outcome = reason or facts.outcome
    observe_call(
        EndedCall(origin, None, None, time.monotonic(), outcome, received=facts.size, details=details)
    )


def _refusal(members: dict[str, msgspec.Raw]) -> tuple[str | None, int | None]:
    """The reason and the code of a refusal, in an error or in a tool's result."""
    error = members.get("error")
    if error is None:
        content = jsonrpc.members_of(members.get("result", b"{}")).get("structuredContent", b"{}")
        error = jsonrpc.members_of(content).get("error")
    if error is None:
        return None, None
    found = jsonrpc.members_of(error)
    data = jsonrpc.members_of(found.get("data", b"{}"))
    reason = jsonrpc.text_of(found.get("reason") or data.get("reason") or b"null")
    code = jsonrpc.bytes_of(found["code"]) if "code" in found else b""
    return reason, int(code) if code.lstrip(b"-").isdigit() else None

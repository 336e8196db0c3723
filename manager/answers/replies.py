"""The kinds of replies to a request, and how results and refusals are written for its protocol revision.

`relay/writer.py` writes a reply as HTTP. The observer of calls is told of forwarded calls by their
`ForwardedCall`, and here of those that the manager answers itself.
"""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import aclosing
from typing import Any, Final

import msgspec

from lm_tools_bridge.protocol import jsonrpc, names
from lm_tools_bridge.protocol import skills_extension as skills
from lm_tools_bridge.protocol.errors import ALWAYS_ERRORS, Reason, Refusal
from manager import __version__
from manager.answers.exchange import Exchange, origin_of
from manager.call_observer import CallDetails, EndedCall, ObserveCall
from manager.forwarding.answer import Answer
from manager.forwarding.forwarded_call import begins_as_result, facts_of, is_response
from manager.http.open_streams import StreamEndings
from manager.routing import legacy_result
from manager.routing.state.clients import RequestRecord

SERVER_INFO: Final = {
    "name": "lm-tools-bridge-manager",
    "title": "LM Tools Bridge",
    "version": __version__,
}
INSTRUCTIONS: Final = (
    "The project is not known yet. First call lmToolsBridge.requestWorkspaceMCPServer with cwd = the absolute"
    " path of your project: its answer names the tools of the project and of the MCP servers behind it. Call"
    " them by name, or through lmToolsBridge.callTool with name, arguments and the workspace handle from that"
    " answer."
)
CACHEABLE: Final = frozenset(
    {names.DISCOVER, names.TOOLS_LIST, names.PROMPTS_LIST, names.RESOURCES_LIST, names.TEMPLATES_LIST,
     names.RESOURCES_READ, skills.LIST, skills.GET}
)  # fmt: skip


def result(exchange: Exchange, value: Mapping[str, Any]) -> bytes:
    """The response body for a result of the manager, which may include those of a workspace server.

    Stateless results have a type and the server's identity; session results must not have them.
    """
    if not exchange.is_modern:
        return jsonrpc.result(exchange.message.id, legacy_result.convert_result(value))
    meta = {names.META_SERVER: SERVER_INFO, **_meta_of(value)}
    complete: dict[str, Any] = {"resultType": "complete", **value, "_meta": meta}
    if exchange.message.method in CACHEABLE:
        complete |= {"ttlMs": 0, "cacheScope": "private"}
    return jsonrpc.result(exchange.message.id, complete)


def _meta_of(value: Mapping[str, Any]) -> Mapping[str, Any]:
    meta = value.get("_meta", {})
    return jsonrpc.members_of(meta) if isinstance(meta, msgspec.Raw) else meta


def refusal(exchange: Exchange, refused: Refusal) -> bytes:
    """The response body for a refusal: a tool result where a model can read it, else a JSON-RPC error."""
    if exchange.is_tool_call and refused.reason not in ALWAYS_ERRORS:
        return result(exchange, refused.as_tool_result())
    return refused.as_error(exchange.message.id)


def refuse(exchange: Exchange, refused: Refusal) -> Plain:
    """The reply for a refusal."""
    if refused.reason is Reason.TOO_MANY_SESSIONS:
        if refused.retry_after_ms is not None:
            exchange.headers["Retry-After"] = str(max(1, refused.retry_after_ms // 1000))
        return Plain(refused.as_error(exchange.message.id), 503)
    return Plain(refusal(exchange, refused))


def method_not_found(exchange: Exchange) -> Plain:
    """The reply to an unknown method: HTTP 404 for a stateless request, 200 in a session."""
    body = jsonrpc.error(
        exchange.message.id, jsonrpc.METHOD_NOT_FOUND, f"method not found: {exchange.message.method[:100]}"
    )
    return Plain(body, 404 if exchange.is_modern else 200)


class Plain(msgspec.Struct, frozen=True):
    """A complete answer.

    Attributes:
        body: One JSON-RPC message, or empty with status 202.
    """

    body: bytes = b""
    status: int = 200


class Events(msgspec.Struct, frozen=True):
    """Messages of one line each: the manager's notifications and requests, then the response."""

    messages: AsyncGenerator[bytes]


class Ending(msgspec.Struct, frozen=True):
    """How a stream that does not end by itself is ended: by `endings`, with `farewell` as its response.

    Attributes:
        seen: the record of its request, which says while the stream is open.
    """

    endings: StreamEndings
    farewell: bytes
    seen: RequestRecord | None = None


class IdleStream(msgspec.Struct, frozen=True):
    """An event stream with a single message that stays open until it is ended."""

    message: bytes
    ending: Ending


class Relayed(msgspec.Struct, frozen=True):
    """A workspace server's answer, relayed as it arrives.

    Attributes:
        again: Sends the request once more with further parameters, after an input request of the server.
        give_up: Cancels the suspended call with this `requestState`, if the request is not sent again.
        ending: How a listen stream is ended.
    """

    answer: Answer
    again: Callable[[Mapping[str, msgspec.Raw]], Awaitable[Answer | Refusal]]
    give_up: Callable[[msgspec.Raw], Awaitable[None]]
    ending: Ending | None = None


Reply = Plain | Events | Relayed


AnyReply = Reply | IdleStream
"""Replies including those of stateless requests only."""


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
    error_members = jsonrpc.members_of(error)
    data = jsonrpc.members_of(error_members.get("data", b"{}"))
    reason = jsonrpc.text_of(error_members.get("reason") or data.get("reason") or b"null")
    code = jsonrpc.bytes_of(error_members["code"]) if "code" in error_members else b""
    return reason, int(code) if code.lstrip(b"-").isdigit() else None

"""Says who sent a request: for the table of clients, and for the observer of calls.

A call's origin is who called what, from where, when, in which W3C trace context (Trace Context, Level 1). The
observer is told of forwarded calls by their `ForwardedCall`, and here of those that the manager answers.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing
from functools import lru_cache, partial
from typing import Final

import msgspec

from lm_tools_bridge.protocol import headers, jsonrpc, names
from lm_tools_bridge.protocol.names import ASSUMED_LEGACY
from lm_tools_bridge.protocol.trace_context import BITS, NAME
from manager.answers.exchange import Events, Exchange, Relayed, Reply
from manager.call_observer import CallDetails, CallLabel, CallOrigin, EndedCall, ObserveCall
from manager.forwarding.forwarded_call import facts_of
from manager.forwarding.messages import begins_as_result, is_response
from manager.routing.state.clients import Client, RequestRecord

_HEADER: Final = NAME.encode()
_random_bits: Final = random.Random(os.urandom(32)).getrandbits  # noqa: S311  unique, not secret
make_trace_number: Final[Callable[[], int]] = partial(_random_bits, BITS)
"""Draws the number of a new trace context (`make_traceparent`). Should it ever be 0, none is sent."""


def brought_trace(exchange: Exchange) -> str:
    """The `traceparent` that a call brought: in its `_meta`, else in its headers; empty if it has none."""
    own = exchange.inbound.meta.get(NAME)
    if own is not None:
        return jsonrpc.text_of(own) or ""
    sent = (value for name, value in exchange.passed_headers if name.lower() == _HEADER)
    return next(sent, b"").decode("latin-1")


OBSERVED_METHODS: Final = frozenset(
    {names.TOOLS_CALL, names.PROMPTS_GET, names.RESOURCES_READ, names.COMPLETE}
)
"""The methods whose requests are calls, of which an observer is told."""
_NAMED: Final = frozenset({names.TOOLS_CALL, names.PROMPTS_GET})
"""Those with a name that is told. The address of a resource may say as much as its content."""


def origin_of(exchange: Exchange, params: Mapping[str, msgspec.Raw] | None = None) -> CallOrigin | None:
    """The origin of a client's call; None if nobody observes it.

    Args:
        params: the parameters of the call in `callTool`, if that was unwrapped.
    """
    client, method = exchange.observed_client, exchange.message.method
    if client is None or method not in OBSERVED_METHODS:
        return None
    call_params = exchange.params if params is None else params
    name = None
    if method in _NAMED:
        name = exchange.inbound.name if params is None else jsonrpc.text_of(params.get("name", b"null"))
    label = CallLabel(
        client.info,
        client.era,
        client.revision,
        exchange.headers.get(headers.WORKSPACE_ID, ""),
        method,
        name or "",
        "",
        exchange.headers.get(headers.WORKSPACE_SOURCE, ""),
    )
    session = exchange.session
    sent = len(jsonrpc.bytes_of(call_params["arguments"])) if "arguments" in call_params else 0
    return CallOrigin(
        label,
        None if session is None else session.id,
        exchange.begun or time.monotonic(),
        sent,
        "" if exchange.made_trace else brought_trace(exchange),
        exchange.made_trace,
        exchange.asked_s,
    )


MAX_INFO: Final = 1024
"""Largest `clientInfo` in bytes that is kept; a larger one is dropped."""
MAX_METHOD: Final = 100


@lru_cache(maxsize=256)
def _info(name: str | None, version: str | None) -> bytes:
    return jsonrpc.dumps({"name": name, "version": version})


def client_record(exchange: Exchange, now: float) -> tuple[Client, RequestRecord]:
    """The client's row in the table of clients, and the record of its request at monotonic time `now`."""
    session = exchange.session
    if session is None:
        client_info = exchange.inbound.meta.get(names.META_CLIENT)
        info = b"" if client_info is None else jsonrpc.bytes_of(client_info)
        revision = exchange.inbound.revision or ASSUMED_LEGACY
    else:
        info = _info(session.client_name, session.client_version)
        revision = session.revision
    client = Client(info if len(info) <= MAX_INFO else b"", exchange.inbound.era.value, revision)
    return client, RequestRecord(now, exchange.message.method[:MAX_METHOD], exchange.claims, exchange.headers)


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

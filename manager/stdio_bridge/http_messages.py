"""Builds the HTTP requests that carry the client's messages, and reads the messages of the responses.

Message bodies are sent unchanged. Responses are JSON bodies or event streams.
"""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from typing import Any, Final

import msgspec

from lm_tools_bridge.protocol import headers, jsonrpc, names, sse
from lm_tools_bridge.protocol.errors import Reason, Refusal
from lm_tools_bridge.protocol.jsonrpc import Request, Response
from lm_tools_bridge.protocol.names import LATEST_MODERN
from lm_tools_bridge.protocol.param_headers import ANNOTATION, Mirrored, annotated, mirror
from manager.stdio_bridge.manager_connection import Header, HttpMessage
from manager.upstream.failures import ResponseTooLarge, UpstreamFailure
from manager.upstream.response import UpstreamResponse

MAX_MESSAGE: Final = 128 * 1024 * 1024
"""Bytes of the largest message that is forwarded; the manager's own limit is smaller by default."""
# A manager that is replaced is back soon; a longer wait is left to the client, which may have a deadline.
_MAX_RETRY_AFTER_S: Final = 5


class ResponseLost(Exception):
    """The HTTP response broke off or held no JSON-RPC response. The request may have been executed."""


def is_stream(response: UpstreamResponse) -> bool:
    """Whether the HTTP response is an event stream."""
    kind = response.head.content_type
    return response.head.status == 200 and kind == b"text/event-stream"


async def events_of(response: UpstreamResponse) -> AsyncGenerator[sse.Event]:
    """Yield the events of a stream as they come, until it ends.

    Raises:
        ResponseLost: it broke off.
    """
    decoder = sse.Decoder(MAX_MESSAGE)
    try:
        async for chunk in response.chunks():
            for event in decoder.feed(chunk):
                yield event
    except (UpstreamFailure, sse.EventTooLarge) as failure:
        raise ResponseLost(str(failure)) from failure
    finally:
        response.abandon()


async def body_of(response: UpstreamResponse) -> bytes:
    """Read the whole body, on one line.

    Raises:
        ResponseLost: it broke off.
    """
    try:
        return sse.single_line(await response.read(MAX_MESSAGE))
    except (UpstreamFailure, ResponseTooLarge) as failure:
        raise ResponseLost(str(failure)) from failure


async def messages_of(response: UpstreamResponse) -> AsyncGenerator[bytes]:
    """Yield the messages of an HTTP response, each on one line.

    Raises:
        ResponseLost: it broke off.
    """
    if not is_stream(response):
        yield await body_of(response)
        return
    async with aclosing(events_of(response)) as events:
        async for event in events:
            if event.data:
                yield sse.single_line(event.data)


async def response_in(response: UpstreamResponse) -> bytes:
    """Read the JSON-RPC response among the messages; the whole body if there is none.

    Raises:
        ResponseLost: it broke off.
    """
    response_message = b""
    async for message in messages_of(response):
        if not isinstance(jsonrpc.parse(response_message), Response):
            response_message = message
    return response_message


def retry_after(response: UpstreamResponse) -> int | None:
    """Seconds after which to repeat a request that a stopping manager refused; None for other responses."""
    after = response.head.header(b"retry-after") or b""
    if response.head.status == 503 and after.isdigit() and int(after) <= _MAX_RETRY_AFTER_S:
        return int(after)
    return None


def error_for(identity: bytes, status: int, body: bytes) -> bytes:
    """A JSON-RPC error for an HTTP response without one; admission refusals are plain JSON objects."""
    members = jsonrpc.members_of(body)
    nested = jsonrpc.members_of(members.get("error", b"{}"))
    message = jsonrpc.text_of(nested.get("message", members.get("error", msgspec.Raw(b"null"))))
    text = message or f"the manager answered with HTTP status {status}"
    if status in {403, 413, 431}:
        return jsonrpc.error(identity, jsonrpc.INVALID_REQUEST, text)
    return Refusal(Reason.INVALID_UPSTREAM_ANSWER, text, delivered="unknown").as_error(identity)


_JSON: Final[tuple[Header, ...]] = (
    (b"Content-Type", b"application/json"),
    (b"Accept", b"application/json, text/event-stream"),
)
_TOKEN: Final = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+\Z")


def session_headers(session: str | None, revision: str | None) -> tuple[Header, ...]:
    """The headers of a request in a session, or of `initialize` without one."""
    head = list(_JSON)
    if session is not None:
        head.append((headers.SESSION.encode(), session.encode()))
    if revision is not None:
        head.append((headers.VERSION.encode(), revision.encode()))
    return tuple(head)


def revision_of(request: Request) -> str | None:
    """The protocol revision in a stateless request's `_meta`; None for a request of a session."""
    if names.META_VERSION.encode() not in request.params:
        return None
    meta = jsonrpc.members_of(jsonrpc.members_of(request.params).get("_meta", b"{}"))
    return jsonrpc.text_of(meta[names.META_VERSION]) if names.META_VERSION in meta else None


def stateless_notification(body: bytes) -> HttpMessage:
    """A notification outside any session."""
    return HttpMessage(b"POST", (*_JSON, (headers.VERSION.encode(), LATEST_MODERN.encode())), body)


class StatelessRequests:
    """Builds stateless requests, and remembers which arguments the listed tools mirror in headers."""

    def __init__(self) -> None:
        self._mirrored: dict[str, tuple[Mirrored, ...]] = {}

    def message(self, request: Request, revision: str) -> HttpMessage:
        """The HTTP request for a request of the client."""
        head = {
            headers.VERSION: headers.encode_value(revision),
            headers.METHOD: headers.encode_value(request.method),
        }
        params: Mapping[str, msgspec.Raw] = {}
        if request.method in names.NAMED_PARAM:
            params = jsonrpc.members_of(request.params)
            name = jsonrpc.text_of(params.get(names.NAMED_PARAM[request.method], msgspec.Raw(b"null")))
            if name is not None:
                head[headers.NAME] = headers.encode_value(name)
            if request.method == names.TOOLS_CALL and name in self._mirrored:
                arguments = _decoded(params.get("arguments", msgspec.Raw(b"{}")))
                head |= mirror(self._mirrored[name], arguments)
        own = ((name.encode(), value.encode()) for name, value in head.items())
        return HttpMessage(b"POST", (*_JSON, *own), request.body)

    def note_tools(self, response: bytes, *, first: bool) -> None:
        """Read from a page of `tools/list` which arguments go into headers.

        Args:
            response: the JSON-RPC response.
            first: whether this is the first page, which replaces what was known.
        """
        if first:
            self._mirrored.clear()
        if ANNOTATION.encode() not in response:
            return
        tools = _decoded(jsonrpc.members_of(response).get("result", msgspec.Raw(b"{}"))).get("tools")
        for tool in tools if isinstance(tools, list) else ():
            if isinstance(tool, dict) and isinstance(tool.get("name"), str):
                parameters = tuple(
                    parameter
                    for parameter in annotated(tool.get("inputSchema"))
                    if _TOKEN.match(parameter.header)
                )
                if parameters:
                    self._mirrored[tool["name"]] = parameters


def _decoded(raw: msgspec.Raw) -> dict[str, Any]:
    try:
        value = msgspec.json.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}

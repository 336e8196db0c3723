"""Sends HTTP requests to the manager's endpoint, reads their messages, and names how they fail."""

from __future__ import annotations

import io
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

import aiohttp

from lm_tools_bridge.protocol import headers, jsonrpc, sse
from lm_tools_bridge.protocol.names import USUAL_PORT

DEFAULT: Final = f"http://127.0.0.1:{USUAL_PORT}/mcp"
CLIENT_NAME: Final = "lmtb-agent"
CAPABILITIES: Final[Mapping[str, Any]] = {"elicitation": {"form": {}, "url": {}}}
"""What the agent can do for servers: show forms, and open pages after a yes."""
_MODE: Final = "tool_mode"


def address_of(endpoint: str, *, discovery: bool) -> str:
    """The address to send to: in discovery mode the lists hold little more than `tool_search`."""
    parts = urlsplit(endpoint)
    query = [pair for pair in parse_qsl(parts.query, keep_blank_values=True) if pair[0] != _MODE]
    if discovery:
        query.append((_MODE, "discovery"))
    return urlunsplit(parts._replace(query=urlencode(query)))


def is_loopback(endpoint: str) -> bool:
    """Whether the endpoint is on this machine, so that a manager may be started for it."""
    return urlsplit(endpoint).hostname in {"127.0.0.1", "localhost", "::1"}


def client_headers(cwd: str) -> dict[str, str]:
    """The headers that every request carries: accepted formats, and the folder the agent works in."""
    return {
        "Content-Type": "application/json",
        "Accept": "application/json, text/event-stream",
        headers.WORKSPACE_CWD: headers.encode_value(cwd),
    }


class Undelivered(Exception):
    """The request certainly had no effect, so it may be sent again. The message says why, for a person.

    `retry_after_s`: how long the manager asked to wait, None where it said nothing.
    """

    def __init__(self, cause: str, retry_after_s: float | None = None) -> None:
        super().__init__(cause)
        self.retry_after_s = retry_after_s


class SessionEnded(Undelivered):
    """The manager does not know the session (any more); a new one has to be opened."""


class Refused(Exception):
    """The manager refuses the request; sending it again would not help."""


class AnswerLost(Exception):
    """The connection ended before the response came: the request may have been executed."""


MAX_MESSAGE: Final = 32 * 1024 * 1024
"""Bytes of the largest message that is read."""
CONNECT_S: Final = 5.0
"""The manager is on this machine and accepts at once, unless it hangs."""
_MAX_REFUSAL: Final = 64 * 1024  # bytes: a refusal is a JSON-RPC error of a few hundred
_MAX_RETRY_AFTER_S: Final = 30
"""A person waits for the call: a longer pause is told as an error."""
_TIMEOUT: Final = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_S)


class Transport:
    """One address of the manager. Deadlines are the caller's, except for connecting.

    Args:
        http: the HTTP session of the agent; not closed here.
        address: where requests go; may be changed.
        cwd: the folder that the agent works in.
        own_headers: reads the fields by which a program of the user passes where the manager requires tokens:
            they change with each start of the manager.
    """

    def __init__(
        self,
        http: aiohttp.ClientSession,
        address: str,
        cwd: str,
        own_headers: Callable[[], Mapping[str, str]] = dict,
    ) -> None:
        self.address = address
        self._http = http
        self._headers = client_headers(cwd)
        self._own_headers = own_headers

    @asynccontextmanager
    async def send(
        self, method: str, body: bytes | None, extra: Mapping[str, str]
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """Send one request; the response is closed at the end of the block.

        Raises:
            Undelivered: no connection, or the manager asks to come again.
            SessionEnded: the session is unknown.
            Refused: any other status than success.
            AnswerLost: the connection ended before the response began.
        """
        try:
            response = await self._http.request(
                method,
                self.address,
                data=None if body is None else io.BytesIO(body),  # bytes of more than 1 MiB are warned of
                headers={**self._headers, **self._own_headers(), **extra},
                timeout=_TIMEOUT,
                allow_redirects=False,
            )
        except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError) as error:
            raise Undelivered(f"the manager at {self.address} cannot be reached: {_reason(error)}") from None
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise AnswerLost(f"the connection to the manager was lost: {_reason(error)}") from None
        try:
            if response.status >= 300:
                raise await _refusal(response)
            yield response
        finally:
            response.close()


async def messages(
    response: aiohttp.ClientResponse, note_id: Callable[[str], None] = lambda _: None
) -> AsyncGenerator[bytes]:
    """Yield the messages of a response as they come: one in a JSON body, any number in an event stream.

    Args:
        note_id: gets the id of each event, by which a stream that breaks off can be resumed.

    Raises:
        AnswerLost: the response broke off, or a message is too large.
    """
    if response.content_type != "text/event-stream":
        body = await _body(response, MAX_MESSAGE)
        if body:
            yield body
        return
    decoder = sse.Decoder(MAX_MESSAGE)
    try:
        async for chunk in response.content.iter_any():
            for event in decoder.feed(chunk):
                if event.id is not None:
                    note_id(event.id)
                if event.data:
                    yield event.data
    except (aiohttp.ClientError, TimeoutError, OSError, sse.EventTooLarge) as error:
        raise AnswerLost(f"the response of the manager broke off: {_reason(error)}") from None


async def _body(response: aiohttp.ClientResponse, limit: int) -> bytes:
    parts, size = [], 0
    try:
        async for chunk in response.content.iter_any():
            parts.append(chunk)
            size += len(chunk)
            if size > limit:
                raise AnswerLost(f"the response of the manager is larger than {limit} bytes")
    except (aiohttp.ClientError, TimeoutError, OSError) as error:
        raise AnswerLost(f"the response of the manager broke off: {_reason(error)}") from None
    return b"".join(parts)


async def _refusal(response: aiohttp.ClientResponse) -> Exception:
    """The exception for a response whose status is no success."""
    text = _message_in(await _body(response, _MAX_REFUSAL))
    cause = text or f"the manager answered with HTTP status {response.status}"
    if response.status == 404:
        return SessionEnded(cause)
    if response.status in {429, 503}:
        after = response.headers.get("Retry-After", "")
        return Undelivered(cause, float(min(int(after), _MAX_RETRY_AFTER_S)) if after.isdecimal() else None)
    return Refused(cause)


def _message_in(body: bytes) -> str | None:
    """The text of a refusal: in a JSON-RPC error, or in a plain object."""
    members = jsonrpc.members_of(body)
    error = members.get("error")
    if error is None:
        return None
    nested = jsonrpc.members_of(error)
    return jsonrpc.text_of(nested["message"]) if "message" in nested else jsonrpc.text_of(error)


def _reason(error: BaseException) -> str:
    """What the system said, without addresses and types."""
    inner = error.os_error if isinstance(error, aiohttp.ClientConnectorError) else error
    return getattr(inner, "strerror", None) or str(inner) or type(inner).__name__


def session_headers(session: str, revision: str) -> dict[str, str]:
    """The headers of a request in a session."""
    return {headers.SESSION: session, headers.VERSION: revision}

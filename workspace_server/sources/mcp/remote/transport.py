"""Runs the SDK's client transport for one remote server, with the interface of `mcp/rpc/transport.py`."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import json
import logging
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from typing import Any, Final, Literal, cast

import anyio
import httpx2
import mcp_types as types
from mcp.client.sse import sse_client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.inbound import (
    MCP_METHOD_HEADER,
    MCP_NAME_HEADER,
    MCP_PROTOCOL_VERSION_HEADER,
    encode_header_value,
    mcp_param_headers,
    x_mcp_header_map,
)
from mcp.shared.message import ClientMessageMetadata, SessionMessage
from pydantic import ValidationError

from lm_tools_bridge.protocol import jsonrpc, names
from lm_tools_bridge.protocol.names import Era
from workspace_server.sources.mcp.failures import TransportEnded, Unavailable
from workspace_server.sources.mcp.remote.failures import HttpFailure
from workspace_server.sources.mcp.remote.http_transport import MARK, MAX_MESSAGE, GuardedTransport
from workspace_server.sources.mcp.remote.network import CheckedBackend
from workspace_server.sources.mcp.rpc.transport import RequestFailed, ResponseStreamMessage

__all__ = ["CheckedBackend", "GuardedTransport", "RemoteTransport"]

Way = Literal["http", "sse"]
Schemas = Callable[[str], Mapping[str, Any] | None]
"""The input schema of a tool by its name at the server, None for an unknown one."""
# Closing sends a DELETE, which a server that is gone never answers.
CLOSE_S: Final = 3.0
logging.getLogger("mcp").addHandler(logging.NullHandler())
logging.getLogger("mcp").propagate = False  # its lines quote what servers sent; failures are reported by us
_SENT: contextvars.ContextVar[int | str | None] = contextvars.ContextVar("sent", default=None)
"""The id of the request that is being sent: the SDK reads its answer in a copy of the context it was sent in,
and says in which one a message was read."""
_MISDIRECTED: Final = "answered with the response to another request"
_STREAM_LOST: Final = ("SSE stream ended", "SSE stream failed", "Failed to parse")
"""How the SDK words that the answer to a request was lost on the way; it says so with codes servers use,
too."""


class RemoteTransport:
    """The connection. All of the SDK runs in one task of ours, which enters and leaves its scopes."""

    def __init__(
        self,
        url: str,
        way: Way,
        guarded: Callable[[Callable[[bytes, HttpFailure], None] | None], GuardedTransport],
        schemas: Schemas,
    ) -> None:
        """Make it; `open` connects.

        Args:
            url: the endpoint. way: Streamable HTTP, or the older HTTP with SSE. guarded: makes the HTTP
            below; gets what is to be told of failures where marked errors cannot travel. schemas: for
            arguments that are mirrored into headers.
        """
        self._url = url
        self._way = way
        self._guarded = guarded(self._lost if way == "sse" else None)
        self._schemas = schemas
        self._modern = False
        self._revision: str | None = None
        self._inbox: asyncio.Queue[bytes | ResponseStreamMessage | RequestFailed | TransportEnded] = (
            asyncio.Queue(1)
        )
        self._tasks: set[asyncio.Task[None]] = set()
        self._write: Any = None
        self._closing = asyncio.Event()
        self._connected: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._owner = asyncio.create_task(self._own(), name="remote-connection")

    @property
    def failure(self) -> HttpFailure | None:
        """The last failure."""
        return self._guarded.failure

    async def open(self) -> None:
        """Connect.

        Raises:
            Unavailable: that did not work.
        """
        await asyncio.shield(self._connected)

    async def send(self, message: bytes) -> None:
        """As `Transport.send`."""
        try:
            parsed = types.jsonrpc_message_adapter.validate_json(message, by_name=False)
        except ValidationError:
            raise Unavailable("cannot be sent this: it contains half a character") from None
        metadata = ClientMessageMetadata(headers=self._headers(parsed))
        _SENT.set(parsed.id if isinstance(parsed, types.JSONRPCRequest) else None)
        try:
            await self._write.send(SessionMessage(parsed, metadata))
        except (anyio.ClosedResourceError, anyio.BrokenResourceError):
            raise TransportEnded("the connection is closed") from None

    async def receive(self) -> bytes | ResponseStreamMessage | RequestFailed:
        """As `Transport.receive`."""
        item = await self._inbox.get()
        if isinstance(item, TransportEnded):
            self._inbox.put_nowait(item)  # for whoever asks again
            raise item
        return item

    def negotiated(self, era: Era, revision: str) -> None:
        """The headers follow the revision."""
        self._modern = era is Era.MODERN
        self._revision = revision

    async def close(self) -> None:
        """End the session, also at the server, and every request in flight."""
        self._closing.set()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(asyncio.shield(self._owner), CLOSE_S)
        self._owner.cancel()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(self._owner, *self._tasks, return_exceptions=True)
        if not self._connected.done():
            self._connected.cancel()

    async def _own(self) -> None:
        """Run the connection in one task, because anyio's scopes must be left where they were entered."""
        end = TransportEnded("the connection has ended")
        try:
            async with AsyncExitStack() as stack:
                read, self._write = await self._enter(stack)
                self._connected.set_result(None)
                pump = asyncio.create_task(self._pump(read), name="remote-pump")
                closing = asyncio.create_task(self._closing.wait(), name="remote-closing")
                try:
                    await asyncio.wait({pump, closing}, return_when=asyncio.FIRST_COMPLETED)
                finally:
                    pump.cancel()
                    closing.cancel()
                    await asyncio.gather(pump, closing, return_exceptions=True)
        except Exception as error:  # noqa: BLE001  the SDK raises much, groups included
            end = TransportEnded(self.failure.text if self.failure else f"{type(error).__name__}")
        finally:
            if not self._connected.done():
                self._connected.set_exception(self.failure or Unavailable(end.reason))
                self._connected.exception()  # somebody may have given up waiting
            await self._finish(end)

    async def _enter(self, stack: AsyncExitStack) -> tuple[Any, Any]:
        if self._way == "sse":
            return cast(
                tuple[Any, Any],
                await stack.enter_async_context(sse_client(self._url, httpx_client_factory=self._client)),
            )
        client = await stack.enter_async_context(self._client())
        transport = streamable_http_client(self._url, http_client=client, max_sse_event_size=MAX_MESSAGE)
        return await stack.enter_async_context(transport)

    def _client(self, headers: Any = None, timeout: Any = None, auth: Any = None) -> httpx2.AsyncClient:
        """The SDK's HTTP client; the arguments are those its transports pass."""
        return httpx2.AsyncClient(
            transport=self._guarded, trust_env=False, timeout=None, follow_redirects=False
        )

    async def _pump(self, read: Any) -> None:
        async for item in read:
            if isinstance(item, SessionMessage):
                beside = _beside(read.last_context, item.message) if self._way == "http" else None
                await self._inbox.put(beside or self._text(item.message))
            else:
                await self._inbox.put(b"unreadable")  # counted as junk

    def _text(self, message: Any) -> bytes | RequestFailed:
        if isinstance(message, types.JSONRPCResponse):
            return _encode({"jsonrpc": "2.0", "id": message.id, "result": message.result})
        if isinstance(message, types.JSONRPCError) and type(message.id) is int:
            if message.error.code == MARK and isinstance(key := message.error.data, str):
                failure = self._guarded.lost.pop(key, None)
                if failure is not None:
                    return RequestFailed(message.id, failure)
            if message.error.code in (types.CONNECTION_CLOSED, types.PARSE_ERROR):
                text = message.error.message
                if text.startswith(_STREAM_LOST):
                    return RequestFailed(message.id, HttpFailure(*_stream_failure(text)))
        return _encode(message.model_dump(by_alias=True, mode="json", exclude_unset=True))

    def _lost(self, identity: bytes, failure: HttpFailure) -> None:
        if identity.isdigit():
            task = asyncio.create_task(
                self._inbox.put(RequestFailed(int(identity), failure)), name="remote-lost"
            )
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _finish(self, end: TransportEnded) -> None:
        """Replace unread items by the end, so that the reader does not wait for ever."""
        while not self._inbox.empty():
            self._inbox.get_nowait()
        self._inbox.put_nowait(end)

    def _headers(self, message: Any) -> dict[str, str]:
        """The HTTP headers of a message."""
        method = getattr(message, "method", None)
        params = getattr(message, "params", None) or {}
        meta = params.get("_meta") or {}
        version = meta.get(names.META_VERSION) if self._modern or method == names.DISCOVER else None
        if version is None:
            revision = self._revision if method != names.INITIALIZE else None
            return {} if revision is None else {MCP_PROTOCOL_VERSION_HEADER: revision}
        headers = {MCP_PROTOCOL_VERSION_HEADER: version, MCP_METHOD_HEADER: str(method)}
        name_member = names.NAMED_PARAM.get(str(method))
        if name_member is not None and isinstance(name := params.get(name_member), str):
            headers[MCP_NAME_HEADER] = encode_header_value(name)
            schema = self._schemas(name) if method == names.TOOLS_CALL else None
            if schema is not None:
                headers |= mcp_param_headers(x_mcp_header_map(schema), params.get("arguments") or {})
        return headers


def _beside(
    context: contextvars.Context | None, message: Any
) -> ResponseStreamMessage | RequestFailed | None:
    """A message on the response stream of a request that is not its response, or None.

    The response to another request is one that nobody will get: the stream has no second one.
    """
    number = None if context is None else context.get(_SENT)
    if type(number) is not int:
        return None
    if isinstance(message, types.JSONRPCError) and message.id is None:
        message.id = number  # the server could not read the request
    if isinstance(message, types.JSONRPCResponse | types.JSONRPCError):
        if message.id == str(number):
            message.id = number  # both official SDKs take an id that comes back as text
        is_other = message.id != number
        return RequestFailed(number, HttpFailure("failing", _MISDIRECTED, "unknown")) if is_other else None
    return ResponseStreamMessage(
        number, _encode(message.model_dump(by_alias=True, mode="json", exclude_unset=True))
    )


def _stream_failure(text: str) -> tuple[Literal["failing", "too_large"], str, Literal["unknown"]]:
    if "byte limit" in text:
        return "too_large", f"answered with more than {MAX_MESSAGE // 2**20} MiB", "unknown"
    if text.startswith("Failed to parse"):
        return "failing", "answered with something that is no JSON-RPC message", "unknown"
    return "failing", "broke off its answer", "unknown"


def _encode(message: Mapping[str, Any]) -> bytes:
    try:
        return jsonrpc.dumps(message)
    except (OverflowError, ValueError, TypeError):  # numbers of any length
        return json.dumps(message, ensure_ascii=False).encode("utf-8", "replace")

"""JSON-RPC over one transport: ids, progress tokens, cancellation, and routing of the server's messages.

Every request gets an id of ours, and whatever comes back reaches the call it belongs to or nobody. A pending
request holds the events that its caller has not taken yet.
`mcp/session.py` decides what is requested; `server_requests.py` answers the server's requests.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import count
from typing import Any, Final, Generic, TypeVar

import msgspec

from lm_tools_bridge.protocol import jsonrpc, names
from lm_tools_bridge.protocol.errors import Reason
from workspace_server import log
from workspace_server.call_context import Client
from workspace_server.results import clean_text
from workspace_server.sources.mcp.failures import TransportEnded, Unavailable
from workspace_server.sources.mcp.invalid_output import InvalidOutput
from workspace_server.sources.mcp.rpc import messages
from workspace_server.sources.mcp.rpc.hang_check import HangCheck
from workspace_server.sources.mcp.rpc.messages import InvalidResponse, Notification, Request, Response
from workspace_server.sources.mcp.rpc.server_requests import ServerRequests, are_of_one_client
from workspace_server.sources.mcp.rpc.transport import RequestFailed, ResponseStreamMessage, Transport
from workspace_server.sources.read_throttle import ReadThrottle
from workspace_server.tool import RpcError

MAX_PROGRESS: Final = 256
"""Notifications of one call that wait for a slow caller; further ones are dropped."""
MAX_PROGRESS_BYTES: Final = 4 * 1024 * 1024
"""Their bytes together; a single one may be larger."""

_Notification = tuple[str, Mapping[str, msgspec.Raw]]
Event = Response | InvalidResponse | Unavailable | _Notification


T = TypeVar("T")


class EventQueue(Generic[T]):
    """A queue with one reader."""

    __slots__ = ("_coming", "_events")

    def __init__(self) -> None:
        self._events: deque[T] = deque()
        self._coming: asyncio.Future[None] | None = None

    def __len__(self) -> int:
        return len(self._events)

    def put(self, event: T) -> None:
        """Add an event."""
        self._events.append(event)
        coming, self._coming = self._coming, None
        if coming is not None and not coming.done():  # it is, where the reader was cancelled
            coming.set_result(None)

    async def get(self) -> T:
        """Remove and return the oldest event; wait for one if there is none."""
        while not self._events:
            self._coming = asyncio.get_running_loop().create_future()
            await self._coming
        return self._events.popleft()


@dataclass(slots=True)
class PendingRequest:
    """One request in flight; `client` is None for requests of our own."""

    client: Client | None
    _size: int = 0
    _events: EventQueue[Event] = field(default_factory=EventQueue)

    def complete(self, event: Response | InvalidResponse | Unavailable) -> None:
        """Add the response, or why there is none."""
        self._events.put(event)

    def wants(self, method: str, params: Mapping[str, msgspec.Raw]) -> bool:
        """Whether its client wants this notification."""
        return self.client is not None and self.client.wants(method, params)

    def notify(self, method: str, params: Mapping[str, msgspec.Raw]) -> bool:
        """Add a notification, in order with the response; False if too much waits already."""
        event = method, params
        size = self._size + _bytes(event)
        if len(self._events) >= MAX_PROGRESS or (self._size and size > MAX_PROGRESS_BYTES):
            return False
        self._size = size
        self._events.put(event)
        return True

    async def next(self) -> Event:
        """Wait for the next event and take it."""
        event = await self._events.get()
        if isinstance(event, tuple):
            self._size -= _bytes(event)
        return event


def _bytes(event: _Notification) -> int:
    return sum(len(jsonrpc.bytes_of(raw)) for raw in event[1].values())


# Status shows these; older ones are dropped, as a server may log without end.
MAX_LOG_MESSAGES: Final = 20
# Lines before the handshake that show what a program is which does not speak MCP.
_EARLY_LINES: Final = 8
_EARLY_BYTES: Final = 2048
"""What is kept to explain a handshake that fails. A banner has a few lines; the answer comes after it."""

Notified = Callable[[str, msgspec.Raw], None]
"""Gets method and parameters of notifications that belong to no single request."""


class InvalidResponseError(Exception):
    """The answer was no valid JSON, or neither a result nor an error."""


class RpcConnection:
    """The JSON-RPC connection of one session. Owns its transport.

    Attributes:
        ended: why the connection ended; None while it is open.
        unmatched: how many responses and progress notifications no request waited for.
        log_messages: the last log messages of the server as (level, text).
        early_lines: the first that came during the handshake, cut; None once it is over.
    """

    def __init__(
        self,
        transport: Transport,
        *,
        source: str,
        root: str,
        junk: InvalidOutput,
        on_notification: Notified,
        hang_check: HangCheck | None = None,
    ) -> None:
        self._transport = transport
        self._hang_check = hang_check or HangCheck(time.monotonic, float("inf"))
        self._source = source
        self._junk = junk
        self._on_notification = on_notification
        self._on_end: Callable[[str], None] | None = None
        self._numbers = count(1)
        self._throttle = ReadThrottle()
        self._waiting: dict[bytes, PendingRequest] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._server_requests = ServerRequests(root, self._send_quietly, source)
        self.ended: TransportEnded | None = None
        self.unmatched = 0
        self.log_messages: deque[tuple[str, str]] = deque(maxlen=MAX_LOG_MESSAGES)
        self.early_lines: list[bytes] | None = []
        self._reader = asyncio.create_task(self._read(), name=f"read-{source}")

    @property
    def in_flight(self) -> int:
        """How many requests are in flight."""
        return len(self._waiting)

    @property
    def roots_sent(self) -> bool:
        """Whether the server was told the workspace's root."""
        return self._server_requests.roots_sent

    def watch(self, on_end: Callable[[str], None]) -> None:
        """Call `on_end` with the reason when the connection ends by itself; at once if it has ended."""
        self._on_end = on_end
        if self.ended is not None:
            asyncio.get_running_loop().call_soon(on_end, self.ended.reason)

    def next_id(self) -> int:
        """The id of the next request, also its progress token."""
        return next(self._numbers)

    async def request(
        self, number: int, method: str, params: Mapping[str, Any], client: Client | None = None
    ) -> msgspec.Raw | RpcError:
        """Send one request and return its response; the client gets related notifications before it.

        Cancelling the task sends `notifications/cancelled`, except for `initialize`.

        Raises:
            Unavailable: there will be no response.
            InvalidResponseError: the response cannot be read.
        """
        if self.ended is not None:
            raise Unavailable(self.ended.reason)
        key = b"%d" % number
        waiting = self._waiting[key] = PendingRequest(client)
        sent_at = self._hang_check.now()
        try:
            await self._transport.send(messages.request(number, method, params))
            while True:
                event = await waiting.next()
                if isinstance(event, Response):
                    return event.outcome
                if isinstance(event, Unavailable):
                    raise event
                if isinstance(event, InvalidResponse):
                    raise InvalidResponseError
                if client is not None:
                    await client.notify(*event)
        except TransportEnded as end:
            self._end(end)
            raise Unavailable(end.reason) from end
        except Unavailable:
            raise
        except BaseException:  # cancelled, or the receiver of the progress has gone
            if method != names.INITIALIZE and key in self._waiting:
                cancelled = {"requestId": number, "reason": "nobody waits for the answer any more"}
                self._send_later(jsonrpc.notification(names.CANCELLED, cancelled))
            if method != names.PING:
                self._hang_check.given_up(sent_at, self._ping, lambda why: self._end(TransportEnded(why)))
            raise
        finally:
            self._waiting.pop(key, None)

    async def notify(self, method: str, params: Mapping[str, Any] | None = None) -> None:
        """Send one notification; raises as `Transport.send`."""
        await self._transport.send(jsonrpc.notification(method, params))

    async def close(self) -> None:
        """Close the transport. Requests in flight fail with `Unavailable`; `on_end` is not called."""
        self._on_end = None
        self._end(TransportEnded("the connection was closed"))
        self._hang_check.stop()
        self._reader.cancel()
        for task in self._tasks:
            task.cancel()
        try:
            await self._server_requests.close()
            await self._transport.close()
        finally:
            await asyncio.gather(self._reader, *self._tasks, return_exceptions=True)

    async def _read(self) -> None:
        end = TransportEnded("the connection failed")
        try:
            while True:
                arrived = await self._transport.receive()
                self._hang_check.heard()
                if isinstance(arrived, RequestFailed):
                    self._complete(b"%d" % arrived.id, arrived.failure)
                    continue
                related_to, text = (
                    (arrived.id, arrived.text)
                    if isinstance(arrived, ResponseStreamMessage)
                    else (None, arrived)
                )
                if self.early_lines is not None and len(self.early_lines) < _EARLY_LINES:
                    self.early_lines.append(text[:_EARLY_BYTES])
                if not self._handle(text, related_to):
                    await self._throttle.unsolicited(len(text))
        except TransportEnded as reason:
            end = reason
        except Exception as fault:  # noqa: BLE001  whatever a transport does, nobody may wait for ever
            log.fault("transport_failed", fault, source=self._source)
        self._end(end)

    def _end(self, end: TransportEnded) -> None:
        """Fail all requests in flight, once."""
        if self.ended is not None:
            return
        self.ended = end
        failure = _unavailable(end)
        for key in tuple(self._waiting):
            self._complete(key, failure)
        if self._on_end is not None:
            self._on_end(end.reason)

    def _handle(self, text: bytes, related_to: int | None) -> bool:
        """Whether a request waited for this message; `related_to` is the request on whose stream it came."""
        message = messages.read(text)
        if isinstance(message, Response):
            return self._complete(message.id, message)
        if isinstance(message, InvalidResponse) and self._refuse(message):
            return True
        if isinstance(message, Notification):
            return self._handle_notification(message, related_to)
        if isinstance(message, Request):
            candidates = [client.context for client, _ in reversed(self._candidates(related_to))]
            if not self._server_requests.handle(message, candidates):
                self.unmatched += 1
        elif self._junk.add(text, time.monotonic()):
            log.info("source_junk", source=self._source, first=self._junk.first)
        return False

    def _refuse(self, unreadable: InvalidResponse) -> bool:
        """Fail the requests that an unreadable answer names; returns whether one of them was in flight."""
        waited_for = [key for key in unreadable.ids if key in self._waiting]
        for key in waited_for:
            self._complete(key, unreadable)
        return bool(waited_for)

    def _complete(self, key: bytes, event: Response | InvalidResponse | Unavailable) -> bool:
        waiting = self._waiting.pop(key, None)
        if waiting is None:
            self.unmatched += 1
            return False
        waiting.complete(event)
        return True

    def _handle_notification(self, message: Notification, related_to: int | None) -> bool:
        params = jsonrpc.members_of(message.params)
        match message.method:
            case names.PROGRESS:
                token = messages.own_id(jsonrpc.bytes_of(params.get("progressToken", msgspec.Raw())))
                waiting = self._waiting.get(token)
                return self._forward(waiting, message.method, params)
            case names.MESSAGE | names.ELICITED:
                if message.method == names.MESSAGE:
                    self._record_log_message(params)
                candidates = self._candidates(related_to)
                if not are_of_one_client([client.context for client, _ in candidates]):
                    return False
                return self._forward(candidates[-1][1], message.method, params)
            case names.CANCELLED:
                self._server_requests.cancelled(message.params)
            case _:
                self._on_notification(message.method, message.params)
        return False

    def _record_log_message(self, params: Mapping[str, msgspec.Raw]) -> None:
        level = jsonrpc.text_of(params.get("level", b"")) or "info"
        data = jsonrpc.bytes_of(params.get("data", msgspec.Raw()))[:500].decode(errors="replace")
        self.log_messages.append((clean_text(level[:20]), clean_text(data)))

    def _forward(
        self, waiting: PendingRequest | None, method: str, params: Mapping[str, msgspec.Raw]
    ) -> bool:
        """Queue a notification for the client of a request, if it wants it."""
        if waiting is None or not waiting.wants(method, params):
            self.unmatched += method == names.PROGRESS
            return False
        return waiting.notify(method, params)

    def _candidates(self, related_to: int | None) -> list[tuple[Client, PendingRequest]]:
        """The requests in flight that a message without an id may belong to.

        Over HTTP the stream tells. Otherwise any request in flight may be meant, most likely the last one.
        Suspended calls count only if there is no other: a server that waits for an answer sends nothing, and
        the client may never answer.
        """
        keys = tuple(self._waiting) if related_to is None else (b"%d" % related_to,)
        under_way = [self._waiting[key] for key in keys if key in self._waiting]
        all_of_them = [(pending.client, pending) for pending in under_way if pending.client is not None]
        return [
            candidate for candidate in all_of_them if not candidate[0].context.is_suspended()
        ] or all_of_them

    async def _ping(self) -> None:
        with suppress(InvalidResponseError):  # even that is an answer
            await self.request(self.next_id(), names.PING, {})

    def _send_later(self, message: bytes) -> None:
        """Send in the background; failures are ignored."""
        task = asyncio.create_task(self._send_quietly(message), name=f"send-{self._source}")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _send_quietly(self, message: bytes) -> None:
        try:
            await self._transport.send(message)
        except TransportEnded as end:
            self._end(end)
        except Unavailable:
            pass


def _unavailable(end: TransportEnded) -> Unavailable:
    """The failure of requests in flight when their connection ends."""
    reason = Reason.RESPONSE_TOO_LARGE if end.too_large else Reason.SOURCE_UNAVAILABLE
    return Unavailable(end.reason, "unknown", reason)

"""Questions and answers over one connection: ids, progress tokens, requests of the server, cancellation.

Every request gets an id of ours, and whatever comes back reaches the call it belongs to or nobody (T-91,
T-92, T-94). What is asked, and in which era, is `session.py`.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any, Final

import msgspec

from protocol import jsonrpc, names
from protocol.errors import Reason
from workspace_server import log
from workspace_server.results import clean_text
from workspace_server.source import RpcError
from workspace_server.upstream import messages
from workspace_server.upstream.failures import TransportEnded, Unavailable
from workspace_server.upstream.junk import Junk
from workspace_server.upstream.messages import Asked, Broken, Reply, Told
from workspace_server.upstream.pace import Pace
from workspace_server.upstream.transport import Lost, Transport

MAX_PROGRESS: Final = 256
"""Progress notifications of one call that wait for a slow caller; further ones are dropped."""
MAX_REPLIES: Final = 64
"""Requests of the server that are being answered at once; further ones get no answer."""
MAX_SAID: Final = 20
_MESSAGE: Final = "notifications/message"

Listener = Callable[[Mapping[str, msgspec.Raw]], Awaitable[None]]
"""Hears the progress of one request; `progressToken` is ours."""
_Heard = Mapping[str, msgspec.Raw]


class BrokenAnswer(Exception):
    """The answer was no valid JSON, or neither a result nor an error."""


@dataclass(slots=True)
class _Waiting:
    """A request under way."""

    wants_progress: bool
    events: asyncio.Queue[Reply | Broken | Unavailable | _Heard] = field(default_factory=asyncio.Queue)


class Exchange:
    """The traffic of one session. Owns its transport.

    Attributes:
        ended: why it is over, None while it lives.
        roots_told: whether the server asked for the roots.
        strays: answers and progress that nobody waited for (T-94).
        said: the last log messages of the server as (level, text).
    """

    def __init__(
        self,
        transport: Transport,
        *,
        source: str,
        root: str,
        junk: Junk,
        on_notification: Callable[[str], None],
    ) -> None:
        self._transport = transport
        self._source = source
        self._root = root
        self._junk = junk
        self._on_notification = on_notification
        self._on_end: Callable[[str], None] | None = None
        self._numbers = count(1)
        self._pace = Pace()
        self._waiting: dict[bytes, _Waiting] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self.ended: TransportEnded | None = None
        self.roots_told = False
        self.strays = 0
        self.said: deque[tuple[str, str]] = deque(maxlen=MAX_SAID)
        self._reader = asyncio.create_task(self._read(), name=f"read-{source}")

    @property
    def busy(self) -> int:
        """How many requests are under way."""
        return len(self._waiting)

    def watch(self, on_end: Callable[[str], None]) -> None:
        """Call `on_end` with the reason when it ends by itself; at once if it has."""
        self._on_end = on_end
        if self.ended is not None:
            asyncio.get_running_loop().call_soon(on_end, self.ended.reason)

    def number(self) -> int:
        """The id of the next request, which is its progress token, too."""
        return next(self._numbers)

    async def ask(
        self, number: int, method: str, params: Mapping[str, Any], listener: Listener | None = None
    ) -> msgspec.Raw | RpcError:
        """One request and its answer; its progress is heard before that.

        Cancelling it tells the server (`notifications/cancelled`), except about `initialize` (L18).

        Raises:
            Unavailable: there will be no answer.
            BrokenAnswer: there was one, but it cannot be read.
        """
        if self.ended is not None:
            raise Unavailable(self.ended.reason)
        key = b"%d" % number
        waiting = self._waiting[key] = _Waiting(listener is not None)
        try:
            await self._transport.send(messages.request(number, method, params))
            while True:
                event = await waiting.events.get()
                if isinstance(event, Reply):
                    return event.outcome
                if isinstance(event, Unavailable):
                    raise event
                if isinstance(event, Broken):
                    raise BrokenAnswer
                if listener is not None:
                    await listener(event)
        except TransportEnded as end:
            self._over(end)
            raise Unavailable(end.reason) from end
        except Unavailable:
            raise
        except BaseException:  # cancelled, or whoever heard the progress has gone
            if method != names.INITIALIZE and key in self._waiting:
                cancelled = {"requestId": number, "reason": "nobody waits for the answer any more"}
                self._send_later(jsonrpc.notification(names.CANCELLED, cancelled))
            raise
        finally:
            self._waiting.pop(key, None)

    async def tell(self, method: str, params: Mapping[str, Any] | None = None) -> None:
        """One notification; raises as `Transport.send`."""
        await self._transport.send(jsonrpc.notification(method, params))

    async def close(self) -> None:
        """Stop, and close the transport. What is under way ends as `Unavailable`; `on_end` is not called."""
        self._on_end = None
        self._over(TransportEnded("the connection was closed"))
        self._reader.cancel()
        for task in self._tasks:
            task.cancel()
        try:
            await self._transport.close()
        finally:
            await asyncio.gather(self._reader, *self._tasks, return_exceptions=True)

    async def _read(self) -> None:
        end = TransportEnded("the connection failed")
        try:
            while True:
                text = await self._transport.receive()
                if isinstance(text, Lost):
                    self._settle(b"%d" % text.id, text.failure)
                elif not self._take(text):
                    await self._pace.unasked(len(text))
        except TransportEnded as reason:
            end = reason
        except Exception as fault:  # noqa: BLE001  whatever a transport does, nobody may wait for ever
            log.fault("transport_failed", fault, source=self._source)
        self._over(end)

    def _over(self, end: TransportEnded) -> None:
        """Once: everybody who waits learns of it."""
        if self.ended is not None:
            return
        self.ended = end
        failure = _failure(end)
        for key in tuple(self._waiting):
            self._settle(key, failure)
        if self._on_end is not None:
            self._on_end(end.reason)

    def _take(self, text: bytes) -> bool:
        """Whether somebody waited for it."""
        message = messages.read(text)
        if isinstance(message, Reply | Broken):
            return self._settle(message.id, message)
        if isinstance(message, Told):
            return self._hear(message)
        if isinstance(message, Asked):
            self._answer(message)
        elif self._junk.add(text, time.monotonic()):
            log.info("source_junk", source=self._source, first=self._junk.first)
        return False

    def _settle(self, key: bytes, event: Reply | Broken | Unavailable) -> bool:
        waiting = self._waiting.pop(key, None)
        if waiting is None:
            self.strays += 1
            return False
        waiting.events.put_nowait(event)
        return True

    def _hear(self, message: Told) -> bool:
        if message.method == names.PROGRESS:
            return self._progress(jsonrpc.members_of(message.params))
        if message.method == _MESSAGE:
            params = jsonrpc.members_of(message.params)
            level = jsonrpc.text_of(params.get("level", msgspec.Raw(b"null"))) or "info"
            data = jsonrpc.bytes_of(params.get("data", msgspec.Raw()))[:500].decode(errors="replace")
            self.said.append((clean_text(level[:20]), clean_text(data)))
        else:
            self._on_notification(message.method)
        return False

    def _progress(self, params: _Heard) -> bool:
        waiting = self._waiting.get(jsonrpc.bytes_of(params.get("progressToken", msgspec.Raw())))
        if waiting is None or not waiting.wants_progress:
            self.strays += 1
            return False
        if waiting.events.qsize() >= MAX_PROGRESS:
            return False
        waiting.events.put_nowait(params)
        return True

    def _answer(self, asked: Asked) -> None:
        """Requests of the server: what concerns a caller is refused until it can be passed on (T-86)."""
        if len(self._tasks) >= MAX_REPLIES:
            self.strays += 1
            return
        if asked.method == names.PING:
            reply = jsonrpc.result(asked.id, {})
        elif asked.method == "roots/list":
            self.roots_told = True
            root = Path(self._root)
            reply = jsonrpc.result(asked.id, {"roots": [{"uri": root.as_uri(), "name": root.name or "/"}]})
        else:
            text = f"{clean_text(asked.method[:100])} is not offered"
            reply = jsonrpc.error(asked.id, jsonrpc.METHOD_NOT_FOUND, text)
        self._send_later(reply)

    def _send_later(self, message: bytes) -> None:
        """Send without making anybody wait; a message that cannot be sent any more is not missed."""
        task = asyncio.create_task(self._send_quietly(message), name=f"send-{self._source}")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _send_quietly(self, message: bytes) -> None:
        try:
            await self._transport.send(message)
        except TransportEnded as end:
            self._over(end)
        except Unavailable:
            pass


def _failure(end: TransportEnded) -> Unavailable:
    """What calls under way learn of the end of their connection (T-96, T-103)."""
    reason = Reason.RESPONSE_TOO_LARGE if end.too_large else Reason.SOURCE_UNAVAILABLE
    return Unavailable(end.reason, "unknown", reason)

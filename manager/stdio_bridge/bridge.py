"""What the client sends, line by line, and the table of the requests it still waits for.

How a request gets its answer is `request_relay.py`. Here is what holds for all of them: ids, bounds,
cancelling, order, and the end.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Final

import msgspec

from manager.stdio_bridge.http_requests import modern_notification, revision_of
from manager.stdio_bridge.manager_connection import ManagerConnection, Unreachable
from manager.stdio_bridge.request_relay import Relay, Waiting
from manager.stdio_bridge.responses import Lost, body_of
from manager.stdio_bridge.session import Session
from manager.stdio_bridge.stdio import MAX_LINE, ClientGone, TooLong
from manager.upstream.response import UpstreamFailure
from protocol import jsonrpc, names
from protocol.errors import Reason, Refusal
from protocol.jsonrpc import Malformed, Notification, Request

FAREWELL_S: Final = 2.0
"""How long calls in flight may take when the client has ended its input."""
MAX_HELD: Final = 256 * 1024 * 1024
"""Bytes of everything that waits to be sent or answered."""
_COST: Final = 64 * 1024
"""What each request counts beside its bytes."""
_INSIST_S: Final = (0.5, 2.0)
"""After how long a cancellation is repeated: it may have overtaken the request on another connection."""
_FULL: Final = Refusal(Reason.OVERLOADED, "too many requests at once", delivered="no", retry_after_ms=1000)


class Bridge:
    """One client's messages, on their way to the manager and back."""

    def __init__(self, link: ManagerConnection, write: Callable[[bytes], Awaitable[None]]) -> None:
        """`write` takes messages for the client, each on one line."""
        self._link = link
        self._write = write
        self._session = Session(link, write)
        self._relay = Relay(link, self._session, write)
        self._requests: dict[bytes, Waiting] = {}
        self._held = 0
        self._tasks: set[asyncio.Task[None]] = set()
        self._outbox: asyncio.Queue[bytes] = asyncio.Queue()
        self._own(self._post_all(), "outbox")

    async def take(self, line: bytes | TooLong) -> None:
        """Take the client's next message; waits for no answer.

        Raises:
            ClientGone: nobody reads any more.
        """
        if isinstance(line, TooLong):
            text = f"a message is longer than {MAX_LINE} bytes"
            await self._write(jsonrpc.error(None, jsonrpc.INVALID_REQUEST, text))
            return
        message = jsonrpc.parse(line)
        if isinstance(message, Malformed):
            await self._write(jsonrpc.error(message.id, message.code, message.message))
        elif isinstance(message, Request):
            await self._take_request(message)
        elif isinstance(message, Notification) and message.method == names.CANCELLED:
            self._cancel(message, line)
        elif self._held + len(line) <= MAX_HELD:
            self._held += len(line)
            self._outbox.put_nowait(line)

    async def finish(self) -> None:
        """Let calls in flight end for a moment, then end everything."""
        waiting = [
            one.task for one in self._requests.values() if one.task and one.request.method != names.LISTEN
        ]
        if waiting:
            await asyncio.wait(waiting, timeout=FAREWELL_S)
        tasks = set(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._session.end()
        await self._link.close()

    def _own(self, work: Awaitable[None], name: str) -> asyncio.Task[None]:
        task: asyncio.Task[None] = asyncio.ensure_future(work)
        task.set_name(name)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    # -- requests --------------------------------------------------------------------------------------

    async def _take_request(self, request: Request) -> None:
        key, cost = jsonrpc.id_key(request.id), len(request.body) + _COST
        if key in self._requests:
            text = "this id is still being answered; use a new one"
            await self._write(jsonrpc.error(request.id, jsonrpc.INVALID_REQUEST, text))
            return
        if self._held + cost > MAX_HELD:
            await self._write(_FULL.as_error(request.id))
            return
        waiting = self._requests[key] = Waiting(request, revision_of(request))
        self._held += cost

        def over(_: object) -> None:  # also where it is cancelled before it has begun
            del self._requests[key]
            self._held -= cost

        waiting.task = self._own(self._answer(waiting), f"request {request.method}")
        waiting.task.add_done_callback(over)

    async def _answer(self, waiting: Waiting) -> None:
        with suppress(ClientGone):
            await self._relay.answer(waiting)

    def _cancel(self, notification: Notification, line: bytes) -> None:
        named = jsonrpc.members_of(notification.params).get("requestId", msgspec.Raw(b"null"))
        target = jsonrpc.bytes_of(named)
        waiting = self._requests.get(jsonrpc.id_key(target)) if jsonrpc.is_valid_id(target) else None
        if waiting is None or waiting.task is None or waiting.cancelled:
            return
        waiting.cancelled = True
        if waiting.revision is not None:
            waiting.task.cancel()  # its connection closes, which is how this era cancels over HTTP
        else:
            self._own(self._insist(waiting.task, line), "cancellation")

    async def _insist(self, task: asyncio.Task[None], line: bytes) -> None:
        """Cancel in the legacy era: the manager ends the request, if it still has it."""
        for pause in _INSIST_S:
            await self._post(line)
            await asyncio.wait({task}, timeout=pause)
            if task.done():
                return
        await self._post(line)

    # -- what wants no answer --------------------------------------------------------------------------

    async def _post_all(self) -> None:
        """Send notifications and answers of the client, in order."""
        while True:
            line = await self._outbox.get()
            await self._post(line)
            self._held -= len(line)
            message = jsonrpc.parse(line)
            if isinstance(message, Notification) and message.method == names.INITIALIZED:
                self._session.listen()

    async def _post(self, line: bytes) -> None:
        """Send what gets no answer. Where it is lost, nobody is waiting for it."""
        opened = self._session.opened
        message = modern_notification(line) if opened is None else self._session.message(line, opened)
        with suppress(Unreachable, UpstreamFailure, Lost):
            await body_of(await self._link.send(message))

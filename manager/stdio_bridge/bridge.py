"""Runs `lmtb connect`: takes the client's messages from stdin and keeps the table of its pending requests.

It ends when stdin ends, a signal arrives, or the client closes stdout. `request_relay.py` answers each
request. This module has what concerns all of them: ids, memory limits, cancellation, order, shutdown.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Final

import msgspec

from lm_tools_bridge.machine.own_token import own_headers
from lm_tools_bridge.protocol import jsonrpc, names
from lm_tools_bridge.protocol.errors import Reason, Refusal
from lm_tools_bridge.protocol.jsonrpc import Malformed, Notification, Request
from manager.client import Control
from manager.configuration.paths import Paths
from manager.stdio_bridge.http_messages import ResponseLost, body_of, revision_of, stateless_notification
from manager.stdio_bridge.manager_connection import ManagerConnection, Unreachable, folder_query
from manager.stdio_bridge.manager_start import ManagerStarter
from manager.stdio_bridge.request_relay import PendingRequest, RequestRelay
from manager.stdio_bridge.session import Session
from manager.stdio_bridge.stdio import MAX_LINE, ClientGone, LineTooLong, Output, read_lines
from manager.upstream.failures import UpstreamFailure

DRAIN_S: Final = 2.0
"""Seconds that pending requests may still take after the end of stdin."""
MAX_PENDING_BYTES: Final = 256 * 1024 * 1024
"""Bytes of all messages that wait to be sent or answered."""
_REQUEST_COST: Final = 64 * 1024
"""Bytes that each request counts in addition to its size."""
_CANCEL_AGAIN_S: Final = (0.5, 2.0)
"""Seconds after which a cancellation is repeated: it may overtake its request on another connection."""
_FULL: Final = Refusal(
    Reason.OVERLOADED,
    f"too many requests at once: more than {MAX_PENDING_BYTES // 2**20} MiB wait in lmtb connect (fixed)",
    delivered="no",
    retry_after_ms=1000,
)


class Bridge:
    """Forwards one client's messages to the manager, and the manager's to the client."""

    def __init__(self, manager: ManagerConnection, write: Callable[[bytes], Awaitable[None]]) -> None:
        """`write` sends a message to the client, given on one line."""
        self._manager = manager
        self._write = write
        self._session = Session(manager, write)
        self._relay = RequestRelay(manager, self._session, write)
        self._pending: dict[bytes, PendingRequest] = {}
        self._pending_bytes = 0
        self._opening: asyncio.Task[None] | None = None  # answers the client's last `initialize`
        self._tasks: set[asyncio.Task[None]] = set()
        self._outbox: asyncio.Queue[bytes] = asyncio.Queue()
        self._own(self._send_outbox(), "outbox")

    async def take(self, line: bytes | LineTooLong) -> None:
        """Handle the client's next message without pending for its response.

        Raises:
            ClientGone: the client has closed stdout.
        """
        if isinstance(line, LineTooLong):
            text = f"the message is longer than {MAX_LINE} bytes"
            await self._write(jsonrpc.error(None, jsonrpc.INVALID_REQUEST, text))
            return
        message = jsonrpc.parse(line)
        if isinstance(message, Malformed):
            await self._write(jsonrpc.error(message.id, message.code, message.message))
        elif isinstance(message, Request):
            await self._take_request(message)
        elif isinstance(message, Notification) and message.method == names.CANCELLED:
            self._cancel(message, line)
        elif self._pending_bytes + len(line) <= MAX_PENDING_BYTES:
            self._pending_bytes += len(line)
            self._outbox.put_nowait(line)

    async def finish(self) -> None:
        """Give pending requests `DRAIN_S` to finish, then cancel them and close the session."""
        pending = [
            request.task
            for request in self._pending.values()
            if request.task and request.request.method != names.LISTEN
        ]
        if pending:
            await asyncio.wait(pending, timeout=DRAIN_S)
        tasks = set(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._session.end()
        await self._manager.close()

    def _own(self, work: Awaitable[None], name: str) -> asyncio.Task[None]:
        task: asyncio.Task[None] = asyncio.ensure_future(work)
        task.set_name(name)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    # -- requests --------------------------------------------------------------------------------------

    async def _take_request(self, request: Request) -> None:
        key, cost = jsonrpc.id_key(request.id), len(request.body) + _REQUEST_COST
        if key in self._pending:
            text = "this id is still being answered; use a new one"
            await self._write(jsonrpc.error(request.id, jsonrpc.INVALID_REQUEST, text))
            return
        if self._pending_bytes + cost > MAX_PENDING_BYTES:
            await self._write(_FULL.as_error(request.id))
            return
        pending = self._pending[key] = PendingRequest(request, revision_of(request))
        self._pending_bytes += cost

        def done(_: object) -> None:  # also called if the task is cancelled before it starts
            del self._pending[key]
            self._pending_bytes -= cost

        pending.task = self._own(self._answer(pending, self._opening), f"request {request.method}")
        pending.task.add_done_callback(done)
        if request.method == names.INITIALIZE:
            self._opening = pending.task

    async def _answer(self, pending: PendingRequest, opening: asyncio.Task[None] | None) -> None:
        """Answer a request; one of a session that is being opened is held until that is done.

        Some clients do not wait for the answer to `initialize`.
        """
        if opening is not None and pending.revision is None:
            await asyncio.wait({opening})
        with suppress(ClientGone):
            await self._relay.answer(pending)

    def _is_held(self, pending: PendingRequest) -> bool:
        opening = self._opening
        is_later = pending.revision is None and pending.task is not opening
        return opening is not None and not opening.done() and is_later

    def _cancel(self, notification: Notification, line: bytes) -> None:
        request_id = jsonrpc.members_of(notification.params).get("requestId", msgspec.Raw(b"null"))
        target = jsonrpc.bytes_of(request_id)
        pending = self._pending.get(jsonrpc.id_key(target)) if jsonrpc.is_valid_id(target) else None
        if pending is None or pending.task is None or pending.cancelled:
            return
        pending.cancelled = True
        if pending.revision is not None or self._is_held(pending):
            pending.task.cancel()  # closing the connection cancels a request in MCP 2026-07-28
        else:
            self._own(self._cancel_in_session(pending.task, line), "cancellation")

    async def _cancel_in_session(self, task: asyncio.Task[None], line: bytes) -> None:
        """Send a session's cancellation until the manager has ended the request."""
        for pause in _CANCEL_AGAIN_S:
            await self._post(line)
            await asyncio.wait({task}, timeout=pause)
            if task.done():
                return
        await self._post(line)

    # -- notifications and responses -------------------------------------------------------------------

    async def _send_outbox(self) -> None:
        """Send the client's notifications and responses, in order."""
        while True:
            line = await self._outbox.get()
            if self._opening is not None:
                await asyncio.wait({self._opening})
            await self._post(line)
            self._pending_bytes -= len(line)
            message = jsonrpc.parse(line)
            if isinstance(message, Notification) and message.method == names.INITIALIZED:
                self._session.open_server_stream()

    async def _post(self, line: bytes) -> None:
        """Send a message that gets no response. A failure is ignored: nobody waits for it."""
        opened = self._session.opened
        message = stateless_notification(line) if opened is None else self._session.message(line, opened)
        with suppress(Unreachable, UpstreamFailure, ResponseLost):
            await body_of(await self._manager.send(message))


_STDIN, _STDOUT = 0, 1


def run(paths: Paths, folder: str) -> None:
    """Serve the client on stdin and stdout, for the workspace of `folder`, until it disconnects."""
    asyncio.run(_serve(paths, folder))


async def _serve(paths: Paths, folder: str) -> None:
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    output = Output(_STDOUT)
    connection = ManagerConnection(
        Control(paths.control_socket),
        ManagerStarter(paths),
        folder_query(folder),
        lambda: own_headers(paths.runtime_dir),
    )
    bridge = Bridge(connection, output.write)
    ends = {
        asyncio.create_task(work, name=name)
        for work, name in (
            (read_lines(_STDIN, bridge.take), "stdin"),
            (output.closed.wait(), "stdout"),
            (stop.wait(), "signals"),
        )
    }
    try:
        await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in ends:
            task.cancel()
        await bridge.finish()

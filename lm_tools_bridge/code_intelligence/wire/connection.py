"""Exchanges JSON-RPC messages with a language server over the pipes of its process.

Everything is bounded: messages, requests in flight, answers that wait, and the time that a flood takes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from contextlib import suppress
from itertools import count
from typing import Any, Final

import msgspec

from lm_tools_bridge.code_intelligence.server import RequestFailed, RequestTimedOut, ServerGone
from lm_tools_bridge.code_intelligence.wire import messages
from lm_tools_bridge.code_intelligence.wire.messages import Notification, Request, Response
from lm_tools_bridge.protocol import jsonrpc
from lm_tools_bridge.protocol.content_length import ContentLengthSplitter, TooLarge, frame
from workspace_server import log
from workspace_server.processes.child_process import (
    ChildProcess,
    PipeWriteError,
    exit_reason,
    kill_after_exit,
    reason_of_end,
)
from workspace_server.sources.read_throttle import ReadThrottle

MAX_MESSAGE: Final = 64 * 1024 * 1024
"""Bytes: some hundred thousand locations, more than a tool can show of any answer."""
MAX_DROPPED: Final = 1024 * 1024 * 1024
"""A message up to this size is dropped, and only its request fails. A larger one ends the connection."""
MAX_IN_FLIGHT: Final = 256
"""Requests that wait for answers: tools ask a few dozen at once; a server that lags this far hangs."""
MAX_OUTGOING: Final = 256
"""So many answers to the server may wait; then nothing is read until one is written."""
REQUEST_S: Final = 30.0
"""Servers answer within seconds once they have read the project; slower ones are pinged."""
WRITE_S: Final = 30.0
"""A server that reads nothing for so long hangs: it may compute, but it always reads."""
LAST_WORDS_S: Final = 0.1
"""What a process wrote before it ended is still read, unless something it left behind goes on for longer."""
CANCEL: Final = "$/cancelRequest"
# codes of ours in the range that JSON-RPC leaves to implementations; no language server gets them
OVERLOADED: Final = -32099
TOO_LARGE: Final = -32098

OnNotification = Callable[[str, Any], None]
OnRequest = Callable[[str, Any], Any]
"""Returns the result, or raises `RequestFailed`. Must not block."""

_Outcome = msgspec.Raw | Exception


class Connection:
    """The connection to one server. Owns its process: `close` leaves nothing of it behind.

    Attributes:
        ended: why the connection ended, for a person; None while it is open.
        heard_at: when the server sent something last, in seconds of the event loop's clock.
        ignored: how many messages nobody waited for or could read.
    """

    def __init__(
        self,
        child: ChildProcess,
        name: str,
        *,
        on_notification: OnNotification,
        on_request: OnRequest,
        on_end: Callable[[str], None] = lambda reason: None,
        write_s: float = WRITE_S,
        max_message: int = MAX_MESSAGE,
        max_dropped: int = MAX_DROPPED,
        hidden: Iterable[str] = (),
    ) -> None:
        """Begin to read.

        Args:
            child: the process, just started.
            name: of the server, for texts and logs.
            on_notification: gets each notification, decoded. Must not block.
            on_request: answers the server's requests.
            on_end: called once with the reason when the connection ends by itself.
            write_s: how long the server may take to read a message.
            max_message: largest message in bytes.
            max_dropped: see `MAX_DROPPED`.
            hidden: values that stand in no text about how it ended.
        """
        self.ended: str | None = None
        self.heard_at = float("-inf")
        self.ignored = 0
        self._child = child
        self._name = name
        self._on_notification = on_notification
        self._on_request = on_request
        self._on_end = on_end
        self._write_s = write_s
        self._hidden = tuple(hidden)
        self._max_message = max_message
        self._splitter = ContentLengthSplitter(max_message, max_dropped)
        self._throttle = ReadThrottle()
        self._numbers = count(1)
        self._waiting: dict[bytes, asyncio.Future[_Outcome]] = {}
        self._outgoing: asyncio.Queue[bytes] = asyncio.Queue(MAX_OUTGOING)
        self._loop = asyncio.get_running_loop()
        self._tasks = [
            asyncio.create_task(self._read_messages(), name=f"read-{name}"),
            asyncio.create_task(self._write_outgoing(), name=f"write-{name}"),
            asyncio.create_task(kill_after_exit(self._child), name=f"watch-{name}"),
        ]

    @property
    def in_flight(self) -> int:
        """How many requests wait for their answers."""
        return len(self._waiting)

    async def request(self, method: str, params: Any = None, *, timeout_s: float = REQUEST_S) -> Any:
        """Send a request and return its decoded result. A request given up is cancelled at the server.

        Args:
            method: as in LSP.
            params: anything that JSON can express; None for a request without parameters.
            timeout_s: how long it may take, in seconds.

        Raises:
            RequestFailed: the server refused it, or its answer is too large or cannot be read.
            RequestTimedOut: there was no answer in time.
            ServerGone: the connection has ended, or ended meanwhile.
        """
        self._check_open()
        if len(self._waiting) >= MAX_IN_FLIGHT:
            raise RequestFailed(OVERLOADED, f"{MAX_IN_FLIGHT} requests wait for {self._name} already")
        number = next(self._numbers)
        key = b"%d" % number
        outcome = self._waiting[key] = self._loop.create_future()
        try:
            async with asyncio.timeout(timeout_s):
                await self._write_message(messages.message(method, params, number))
                answer = await outcome
        except TimeoutError:
            text = f"{self._name} did not answer {method} within {timeout_s:g} s"
            raise RequestTimedOut(text) from None
        finally:
            if self._waiting.pop(key, None) is not None:
                self._cancel(number)
        if isinstance(answer, Exception):
            raise answer
        return messages.value(answer)

    async def notify(self, method: str, params: Any = None) -> None:
        """Send a notification; waits while the server does not read, at most `write_s`.

        Raises:
            ServerGone: the connection has ended, or ends with this.
        """
        self._check_open()
        await self._write_message(messages.message(method, params))

    async def close(self, *, polite_s: float = 2.0, term_s: float = 2.0) -> None:
        """End the process and everything it started, as `ChildProcess.stop`. Requests in flight fail.

        `on_end` is not called. A caller that is cancelled ends the process at once.
        """
        self._on_end = lambda reason: None
        self._end("was stopped")
        for task in self._tasks:
            task.cancel()
        try:
            await self._child.stop(polite_s=polite_s, term_s=term_s)
        finally:
            await asyncio.gather(*self._tasks, return_exceptions=True)

    def fail(self, reason: str) -> None:
        """End the connection because the server misbehaves, e.g. hangs. The caller must still `close` it."""
        self._end(reason)

    def _check_open(self) -> None:
        if self.ended is not None:
            raise ServerGone(f"{self._name} {self.ended}")

    async def _write_message(self, message: bytes) -> None:
        try:
            await self._child.write(frame(message), self._write_s)
        except PipeWriteError as failure:
            await asyncio.sleep(0)  # the process may just have ended, which says more
            self._end(exit_reason(self._child, self._hidden) or str(failure).removeprefix("it "))
            raise ServerGone(f"{self._name} {self.ended}") from None

    def _cancel(self, number: int) -> None:
        if self.ended is None:
            with suppress(asyncio.QueueFull):  # a courtesy
                self._outgoing.put_nowait(messages.message(CANCEL, {"id": number}))

    async def _write_outgoing(self) -> None:
        with suppress(ServerGone):
            while True:
                await self._write_message(await self._outgoing.get())

    async def _read_messages(self) -> None:
        reason = "failed"
        try:
            while chunk := await self._child.read():
                self.heard_at = self._loop.time()
                for message in self._splitter.feed(chunk):
                    await self._handle(message)
                if self._splitter.broken is not None:
                    reason = f"sent something that is not LSP: {self._splitter.broken}"
                    break
            else:
                reason = await reason_of_end(self._child, self._hidden)
        except Exception as fault:  # noqa: BLE001  whatever goes wrong here, nobody may wait for ever
            log.fault("language_server_reader_failed", fault, server=self._name)
        self._end(reason)

    async def _handle(self, body: bytes | TooLarge) -> None:
        if isinstance(body, TooLarge):
            text = f"its answer has {body.length} bytes; the limit is {self._max_message}"
            if not self._complete(messages.answered_id(body.start), RequestFailed(TOO_LARGE, text)):
                await self._throttle.unsolicited(body.length)
            return
        message = messages.read_message(body)
        if isinstance(message, Response):
            if self._complete(message.id, message.result):
                return
        elif isinstance(message, Notification):
            self._hear(message)
        elif isinstance(message, Request):
            await self._outgoing.put(self._answer(message))
        else:
            text = "its answer is not a valid JSON-RPC response"
            self._complete(message.id, RequestFailed(jsonrpc.PARSE_ERROR, text))
        await self._throttle.unsolicited(len(body))

    def _complete(self, key: bytes | None, outcome: _Outcome) -> bool:
        waiting = None if key is None else self._waiting.pop(key, None)
        if waiting is None:
            self.ignored += 1
            return False
        if not waiting.done():
            waiting.set_result(outcome)
        return True

    def _hear(self, message: Notification) -> None:
        try:
            self._on_notification(message.method, messages.value(message.params))
        except RequestFailed:
            self.ignored += 1
        except Exception as fault:  # noqa: BLE001  one notification must not end the connection
            log.fault("language_server_notification_failed", fault, server=self._name)

    def _answer(self, request: Request) -> bytes:
        try:
            return jsonrpc.result(
                request.id, self._on_request(request.method, messages.value(request.params))
            )
        except RequestFailed as refusal:
            return jsonrpc.error(request.id, refusal.code, refusal.message)
        except Exception as fault:  # noqa: BLE001  the server waits for an answer
            log.fault("language_server_request_failed", fault, server=self._name)
            return jsonrpc.error(request.id, jsonrpc.INTERNAL_ERROR, "internal error")

    def _end(self, reason: str) -> None:
        """Fail all requests in flight, once."""
        if self.ended is not None:
            return
        self.ended = reason
        for key in tuple(self._waiting):
            self._complete(key, ServerGone(f"{self._name} {reason}"))
        self._on_end(reason)

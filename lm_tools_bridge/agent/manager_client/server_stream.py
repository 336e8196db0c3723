"""Reads the session's server stream, and answers what servers ask: pings, and elicitation by the person."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing, nullcontext
from typing import Any, Final

import msgspec

from lm_tools_bridge.agent.manager_client.elicitation import RunningCall
from lm_tools_bridge.agent.manager_client.session import Opened, Session
from lm_tools_bridge.agent.manager_client.transport import (
    AnswerLost,
    Refused,
    SessionEnded,
    Transport,
    Undelivered,
    messages,
)
from lm_tools_bridge.backoff import backoff
from lm_tools_bridge.protocol import headers, jsonrpc, names
from lm_tools_bridge.protocol.jsonrpc import Notification, Request

MAX_OPEN: Final = 16
"""Questions that may wait for their turn; further ones are refused."""
Elicit = Callable[[Mapping[str, Any], RunningCall | None], Awaitable[Mapping[str, Any]]]
"""Asks the person what an elicitation wants to know and returns its result."""


class ServerRequests:
    """Questions of servers, one at a time; each runs as a task, so that a stream is read on meanwhile."""

    def __init__(self, session: Session, elicit: Elicit) -> None:
        self._session = session
        self._elicit = elicit
        self._turn = asyncio.Lock()
        self._open: dict[bytes, asyncio.Task[None]] = {}
        self._of: dict[asyncio.Task[None], RunningCall | None] = {}

    def handle(self, message: Request | Notification, opened: Opened, call: RunningCall | None) -> None:
        """Begin to answer a request; take one back that its server has cancelled. Others are ignored."""
        if isinstance(message, Notification):
            if message.method == names.CANCELLED:
                self._take_back(message)
            return
        work = self._work(message, opened, call)
        task = asyncio.create_task(work, name=f"answer {message.method}")
        self._open[message.id] = task
        self._of[task] = call
        task.add_done_callback(lambda _: self._forget(message.id, task))

    async def end_of(self, call: RunningCall) -> None:
        """Cancel the open questions of a call that has ended."""
        await self._cancel([task for task, asking in self._of.items() if asking is call])

    async def close(self) -> None:
        """Cancel all open questions."""
        await self._cancel(list(self._of))

    async def _cancel(self, tasks: Sequence[asyncio.Task[None]]) -> None:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _take_back(self, cancelled: Notification) -> None:
        request_id = jsonrpc.members_of(cancelled.params).get("requestId")
        task = None if request_id is None else self._open.get(jsonrpc.bytes_of(request_id))
        if task is not None:
            task.cancel()

    def _forget(self, identity: bytes, task: asyncio.Task[None]) -> None:
        if self._open.get(identity) is task:
            del self._open[identity]
        self._of.pop(task, None)
        if not task.cancelled():
            task.exception()  # retrieved: the server waits no longer than its own deadline

    async def _work(self, request: Request, opened: Opened, call: RunningCall | None) -> None:
        await self._session.notify(await self._answer(request, call), opened)

    async def _answer(self, request: Request, call: RunningCall | None) -> bytes:
        if request.method == names.PING:
            return jsonrpc.result(request.id, {})
        if request.method != names.ELICIT:
            return jsonrpc.error(
                request.id, jsonrpc.METHOD_NOT_FOUND, f"the agent does not answer {request.method}"
            )
        if len(self._of) > MAX_OPEN:
            return jsonrpc.error(request.id, jsonrpc.INVALID_REQUEST, "too many questions are open")
        with nullcontext() if call is None else call.paused():
            async with self._turn:
                return jsonrpc.result(request.id, await self._elicit(_params(request), call))


def _params(request: Request) -> Mapping[str, Any]:
    try:
        params = msgspec.json.decode(request.params or b"{}")
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return {}
    return params if isinstance(params, dict) else {}


STEADY_S: Final = 5.0
"""Seconds after which a stream counts as having worked, so that the pause starts small again."""

OnMessage = Callable[[Request | Notification, Opened], None]


class ServerStream:
    """The stream of whatever session is open; opened again with back-off whenever it ends.

    Args:
        session: opened again here, if the manager has lost it: so the agent comes back by itself.
        changed: called when notifications may have been missed.
        on_message: handles a message of the stream.
    """

    def __init__(
        self, session: Session, transport: Transport, changed: Callable[[], None], on_message: OnMessage
    ) -> None:
        self._session = session
        self._transport = transport
        self._changed = changed
        self._on_message = on_message
        self._task: asyncio.Task[None] | None = None
        self._last_event: str | None = None

    def start(self) -> None:
        """Read from now on. Idempotent."""
        if self._task is None:
            self._task = asyncio.create_task(self._run(), name="server stream of the manager")

    async def stop(self) -> None:
        """Read no longer. Idempotent."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def _run(self) -> None:
        clock = asyncio.get_running_loop().time
        attempt = 0
        last_opened: Opened | None = None
        while True:
            began = clock()
            try:
                opened = await self._session.ensure()
                if opened is not last_opened:
                    last_opened, self._last_event = opened, None
                await self._read(opened)
            except SessionEnded:  # also if the endpoint knows no path of ours, before any session
                if last_opened is not None:
                    self._session.forget(last_opened)
            except (Undelivered, Refused, AnswerLost):
                pass
            attempt = 1 if clock() - began > STEADY_S else attempt + 1
            await asyncio.sleep(backoff(attempt, random.random()))  # noqa: S311  spreads clients only

    async def _read(self, opened: Opened) -> None:
        resume = {} if self._last_event is None else {headers.LAST_EVENT_ID: self._last_event}
        async with self._transport.send("GET", None, {**opened.headers, **resume}) as response:
            self._changed()  # between two streams something may have changed
            async with aclosing(messages(response, self._note)) as received:
                async for data in received:
                    message = jsonrpc.parse(data)
                    if isinstance(message, Request | Notification):
                        self._on_message(message, opened)

    def _note(self, identity: str) -> None:
        self._last_event = identity

"""Sends one JSON-RPC request and waits for its response, over new sessions and resumed streams."""

from __future__ import annotations

import asyncio
import itertools
import random
from collections.abc import Awaitable, Callable, Mapping
from contextlib import aclosing
from typing import Any, Final

import aiohttp

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
from lm_tools_bridge.protocol.jsonrpc import Notification, Request, Response

RESUMES: Final = 8
"""Times that a stream which breaks off is opened again for one response."""
# a manager that restarts is back within a second or two: longer pauses would only be waited for
_FIRST_PAUSE_S: Final = 0.1
_LONGEST_PAUSE_S: Final = 2.0

OnMessage = Callable[[Request | Notification, Opened], Awaitable[None]]
"""Handles a message that the server sends before the response; must return soon."""


class Rpc:
    """Requests of the agent. Ids are never used twice.

    Args:
        session: the session they belong to.
        transport: sends them.
        absent_s: seconds that a request waits for a manager which cannot be reached.
    """

    def __init__(self, session: Session, transport: Transport, absent_s: float) -> None:
        self._session = session
        self._transport = transport
        self._absent_s = absent_s
        self._ids = itertools.count(1)
        self._notices: set[asyncio.Task[None]] = set()

    async def request(
        self, method: str, params: Mapping[str, Any], on_message: OnMessage, *, absent_s: float | None = None
    ) -> bytes:
        """Send a request and return its response as JSON text.

        What was never delivered is sent again: to a new session, or to a manager that comes back. Cancelling
        the task sends `notifications/cancelled`.

        Raises:
            Undelivered: no manager was reached in time, so nothing ran.
            Refused: the manager refuses the request.
            AnswerLost: the response is lost; the request may have been executed.
        """
        clock = asyncio.get_running_loop().time
        deadline = clock() + (self._absent_s if absent_s is None else absent_s)
        for attempt in itertools.count(1):
            opened = None
            try:
                opened = await self._session.ensure()
                return await self._once(opened, method, params, on_message)
            except Undelivered as failure:
                if isinstance(failure, SessionEnded) and opened is not None:
                    self._session.forget(opened)
                pause = failure.retry_after_s or _pause(attempt)
                if clock() + pause > deadline:
                    raise
                await asyncio.sleep(pause)
        raise AssertionError("unreachable")

    async def close(self) -> None:
        """Wait until the notices about cancelled requests are sent."""
        await asyncio.gather(*self._notices, return_exceptions=True)

    async def _once(
        self, opened: Opened, method: str, params: Mapping[str, Any], on_message: OnMessage
    ) -> bytes:
        identity = b"%d" % next(self._ids)
        body = jsonrpc.request(identity, method, params)
        try:
            return await self._answer(opened, identity, body, on_message)
        except asyncio.CancelledError:
            self._cancel(opened, identity)
            raise

    def _cancel(self, opened: Opened, identity: bytes) -> None:
        """Tell the server that nobody waits any more; in a task, because ours is being cancelled."""
        params = {"requestId": int(identity), "reason": "cancelled by the user, or out of time"}
        body = jsonrpc.notification(names.CANCELLED, params)
        notice = asyncio.create_task(self._session.notify(body, opened), name="cancel a request")
        self._notices.add(notice)
        notice.add_done_callback(self._notices.discard)

    async def _answer(self, opened: Opened, identity: bytes, body: bytes, on_message: OnMessage) -> bytes:
        reading = _Reading(identity, opened, on_message)
        async with self._transport.send("POST", body, opened.headers) as response:
            answer = await reading.read(response)
        for attempt in range(1, RESUMES + 1):
            if answer is not None:
                return answer
            if reading.last_event is None:
                break
            await asyncio.sleep(_pause(attempt))
            answer = await self._resumed(opened, reading)
        if answer is None:
            raise AnswerLost("the manager sent no response")
        return answer

    async def _resumed(self, opened: Opened, reading: _Reading) -> bytes | None:
        """Read on from the last event; None if the stream broke off again or no manager is there."""
        extra = {**opened.headers, headers.LAST_EVENT_ID: reading.last_event or ""}
        try:
            async with self._transport.send("GET", None, extra) as response:
                return await reading.read(response)
        except (SessionEnded, Refused) as ended:
            raise AnswerLost(f"the response is lost: {ended}") from None
        except (Undelivered, AnswerLost):
            return None


class _Reading:
    """Reads streams until the response to one request is found; remembers where the last one ended."""

    def __init__(self, identity: bytes, opened: Opened, on_message: OnMessage) -> None:
        self._identity = identity
        self._opened = opened
        self._on_message = on_message
        self.last_event: str | None = None

    async def read(self, response: aiohttp.ClientResponse) -> bytes | None:
        """The response; None if the stream ended without it and can be resumed."""
        try:
            async with aclosing(messages(response, self._note)) as received:
                async for data in received:
                    message = jsonrpc.parse(data)
                    if isinstance(message, Response) and message.id == self._identity:
                        return data
                    if isinstance(message, Request | Notification):
                        await self._on_message(message, self._opened)
        except AnswerLost:
            if self.last_event is None:
                raise
        return None

    def _note(self, identity: str) -> None:
        self.last_event = identity


def _pause(attempt: int) -> float:
    return backoff(attempt, random.random(), first_s=_FIRST_PAUSE_S, longest_s=_LONGEST_PAUSE_S)  # noqa: S311  spreads clients

"""Reads the session's server stream: list changes, and questions that belong to no call."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from contextlib import aclosing
from typing import Final

from lm_tools_bridge.agent.manager_client.failures import AnswerLost, Refused, SessionEnded, Undelivered
from lm_tools_bridge.agent.manager_client.session import Opened, Session
from lm_tools_bridge.agent.manager_client.transport import Transport, messages
from lm_tools_bridge.backoff import backoff
from lm_tools_bridge.protocol import headers, jsonrpc
from lm_tools_bridge.protocol.jsonrpc import Notification, Request

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

"""Sends HTTP requests to the user's manager: finds it, starts it if needed, retries until it answers.

The manager's address comes from the user's control socket, so that a message never goes to another program
on that port.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Final
from urllib.parse import quote, urlsplit

from lm_tools_bridge.backoff import backoff
from manager.client import Control, ControlRefusal, ManagerFault, NoManager
from manager.stdio_bridge.manager_start import ManagerStarter
from manager.upstream.failures import Blame, UpstreamFailure
from manager.upstream.pool import Pool
from manager.upstream.response import ResponseHead, UpstreamResponse

TIMEOUT_S: Final = 60.0
"""Seconds that a client's request waits for a manager."""
# A manager that is replaced hands its socket over, so the first try again mostly succeeds.
_FIRST_PAUSE_S: Final = 0.05
# A client waits for this request, so the manager is found soon after it serves.
_LONGEST_PAUSE_S: Final = 0.25
# Nobody waits for these streams, and a bridge may live for days without a manager.
_BACKGROUND_PAUSE_S: Final = 2.0
# Connections that are kept for the next calls: clients seldom have more calls at a time.
_MOST_IDLE: Final = 8

Header = tuple[bytes, bytes]


def _pause(attempt: int, longest_s: float) -> float:
    """Seconds until the next try; spread, because all bridges of a user lose their manager at once."""
    return backoff(attempt, random.random(), first_s=_FIRST_PAUSE_S, longest_s=longest_s)  # noqa: S311  no secret: it only spreads pauses


class Unreachable(Exception):
    """No manager could be reached in time, so nothing was delivered. The message is shown to the user."""


@dataclass(frozen=True, slots=True)
class HttpMessage:
    """One HTTP request to the manager's MCP endpoint."""

    method: bytes
    head: Sequence[Header]
    body: bytes = b""


@dataclass(frozen=True, slots=True)
class _RunningManager:
    """One running manager. Pid and start distinguish it from a successor, whose own token is another."""

    address: str
    run: tuple[object, object]
    target: bytes
    pool: Pool
    head: Sequence[Header]


class ManagerConnection:
    """Sends requests to one user's manager, for one workspace folder."""

    def __init__(
        self,
        control: Control,
        starter: ManagerStarter,
        query: str,
        own_headers: Callable[[], Mapping[str, str]] = dict,
    ) -> None:
        """Make the connection; it is opened for the first message.

        Args:
            query: that of the endpoint's URL, e.g. `cwd=/home/me/project`; it may be empty.
            own_headers: reads the header fields by which a program of this user passes.
        """
        self._own_headers = own_headers
        self._control = control
        self._starter = starter
        self._query = query
        self._manager: _RunningManager | None = None
        self._is_stale = True
        self._find_lock = asyncio.Lock()
        self._start_lock = asyncio.Lock()

    async def send(self, message: HttpMessage) -> UpstreamResponse:
        """Deliver once, as soon as a manager can be reached; start one if none runs.

        Raises:
            Unreachable: no manager was reached within `TIMEOUT_S`, or none can be started.
            UpstreamFailure: the connection ended before the response began; the manager may have the message.
        """
        deadline = time.monotonic() + TIMEOUT_S
        attempts = count(1)
        while True:
            problem = await self._try_to_start() if self._is_stale else None
            response = None if problem else await self._attempt(message)
            if response is not None:
                return response
            if problem or time.monotonic() > deadline:
                raise Unreachable(problem or "the manager cannot be reached")
            await asyncio.sleep(_pause(next(attempts), _LONGEST_PAUSE_S))

    async def send_in_background(self, message: HttpMessage) -> UpstreamResponse:
        """Like `send`, but start no manager and wait without limit for one."""
        attempts = count(1)
        while True:
            response = await self._attempt(message)
            if response is not None:
                return response
            await asyncio.sleep(_pause(next(attempts), _BACKGROUND_PAUSE_S))

    async def close(self) -> None:
        """Close all connections."""
        if self._manager is not None:
            await self._manager.pool.close()

    async def _attempt(self, message: HttpMessage) -> UpstreamResponse | None:
        """The response; None if the message was not delivered."""
        manager = await self._find()
        if manager is None:
            return None
        try:
            return await manager.pool.request(
                message.method, manager.target, (*message.head, *manager.head), message.body
            )
        except UpstreamFailure as failure:
            self._is_stale = True
            if failure.blame is Blame.MAYBE_DELIVERED:
                raise
            return None

    async def _find(self) -> _RunningManager | None:
        """The running manager, looked up only after a failure."""
        async with self._find_lock:
            if self._is_stale:
                manager = await asyncio.to_thread(self._look_up)
                self._is_stale = manager is None
                self._manager = manager or self._manager
            return None if self._is_stale else self._manager

    def _look_up(self) -> _RunningManager | None:
        try:
            status = self._control.get("/status")
        except (NoManager, ManagerFault, ControlRefusal):
            return None
        address, run = status.get("address"), (status.get("pid"), status.get("startedAt"))
        if not isinstance(address, str):
            return None
        if self._manager is not None and (self._manager.address, self._manager.run) == (address, run):
            return self._manager
        # the former pool stays open: that manager may be answering its last calls
        parts = urlsplit(address)
        head = [(name.encode(), value.encode()) for name, value in self._own_headers().items()]
        pool = Pool(
            parts.hostname or "127.0.0.1",
            parts.port or 80,
            verify=_is_manager,
            max_idle=_MOST_IDLE,
            verify_headers=head,
        )
        target = f"{parts.path}?{self._query}" if self._query else parts.path
        return _RunningManager(address, run, target.encode(), pool, head)

    async def _try_to_start(self) -> str | None:
        """Start a manager if none answers; returns why none can be started, None otherwise."""
        if await self._find() is not None:
            return None
        async with self._start_lock:
            return await asyncio.to_thread(self._starter.start, time.monotonic())


def folder_query(cwd: str) -> str:
    """The query that names a folder. The path's bytes are percent-encoded: it need not be UTF-8."""
    return f"cwd={quote(os.fsencode(cwd), safe='/')}"


def _is_manager(head: ResponseHead, body: bytes) -> bool:
    """Whether this is a manager's answer to a health request."""
    try:
        value = json.loads(body)
    except (ValueError, RecursionError):
        return False
    return head.status == 200 and isinstance(value, dict) and value.get("ok") is True

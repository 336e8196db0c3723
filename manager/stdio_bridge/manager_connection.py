"""The way to the manager: where it is now, connections to it, and patience while it is not there.

It asks the user's control socket for the address, so that a stranger on the port never gets a message, and
starts a manager where a client's request wants one. It does not know what is sent.
"""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final
from urllib.parse import quote, urlsplit

from manager.client import Control, ControlRefusal, ManagerFault, NoManager
from manager.stdio_bridge.manager_start import Starter
from manager.upstream.pool import Pool
from manager.upstream.response import Blame, ResponseHead, UpstreamFailure, UpstreamResponse

PATIENCE_S: Final = 60.0
"""How long a client's request waits for a manager."""
_FIRST_PAUSE_S: Final = 0.05
_LONGEST_PAUSE_S: Final = 0.25
_BACKGROUND_PAUSE_S: Final = 2.0
_MOST_IDLE: Final = 8

Header = tuple[bytes, bytes]


class Unreachable(Exception):
    """No manager could be reached in time: nothing was delivered. The message is for people."""


@dataclass(frozen=True, slots=True)
class Message:
    """One HTTP request to the manager's endpoint."""

    method: bytes
    head: Sequence[Header]
    body: bytes = b""


@dataclass(frozen=True, slots=True)
class _Manager:
    """One running manager: its process tells it from the next one on the same port."""

    address: str
    pid: object
    target: bytes
    pool: Pool


class ManagerConnection:
    """Sends to the manager of one user, on behalf of one folder."""

    def __init__(self, control: Control, starter: Starter, query: str) -> None:
        """`query` is that of the endpoint's address, e.g. `cwd=/home/me/project`; it may be empty."""
        self._control = control
        self._starter = starter
        self._query = query
        self._manager: _Manager | None = None
        self._in_doubt = True
        self._asking = asyncio.Lock()
        self._starting = asyncio.Lock()

    async def send(self, message: Message) -> UpstreamResponse:
        """Send once, as soon as a manager can be reached; one is started if none runs.

        Raises:
            Unreachable: that took longer than `PATIENCE_S`, or none can be started.
            UpstreamFailure: the connection ended before the answer began; the manager may have the message.
        """
        deadline = time.monotonic() + PATIENCE_S
        pause = _FIRST_PAUSE_S
        while True:
            problem = await self._try_to_start() if self._in_doubt else None
            response = None if problem else await self._attempt(message)
            if response is not None:
                return response
            if problem or time.monotonic() > deadline:
                raise Unreachable(problem or "the manager cannot be reached")
            await asyncio.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE_S)

    async def send_when_there(self, message: Message) -> UpstreamResponse:
        """As `send`, but start nothing and wait for ever: what is in the background revives no manager."""
        pause = _FIRST_PAUSE_S
        while (response := await self._attempt(message)) is None:
            await asyncio.sleep(pause)
            pause = min(2 * pause, _BACKGROUND_PAUSE_S)
        return response

    async def close(self) -> None:
        """Close all connections."""
        if self._manager is not None:
            await self._manager.pool.close()

    async def _attempt(self, message: Message) -> UpstreamResponse | None:
        """The answer; None where the message was not delivered."""
        manager = await self._find()
        if manager is None:
            return None
        try:
            return await manager.pool.request(message.method, manager.target, message.head, message.body)
        except UpstreamFailure as failure:
            self._in_doubt = True
            if failure.blame is Blame.MAYBE_DELIVERED:
                raise
            return None

    async def _find(self) -> _Manager | None:
        """The manager that runs, asked for only when in doubt."""
        async with self._asking:
            if self._in_doubt:
                found = await asyncio.to_thread(self._ask)
                self._in_doubt = found is None
                self._manager = found or self._manager
            return None if self._in_doubt else self._manager

    def _ask(self) -> _Manager | None:
        try:
            status = self._control.get("/status")
        except (NoManager, ManagerFault, ControlRefusal):
            return None
        address, pid = status.get("address"), status.get("pid")
        if not isinstance(address, str):
            return None
        if self._manager is not None and (self._manager.address, self._manager.pid) == (address, pid):
            return self._manager
        # an old one is not closed here: it may be answering its last calls
        parts = urlsplit(address)
        pool = Pool(parts.hostname or "127.0.0.1", parts.port or 80, verify=_is_well, max_idle=_MOST_IDLE)
        target = f"{parts.path}?{self._query}" if self._query else parts.path
        return _Manager(address, pid, target.encode(), pool)

    async def _try_to_start(self) -> str | None:
        """Start a manager if none answers; why that is hopeless."""
        if await self._find() is not None:
            return None
        async with self._starting:
            return await asyncio.to_thread(self._starter.start, time.monotonic())


def folder_query(cwd: str) -> str:
    """The query that says a folder; percent-encoded bytes, because a path need not be UTF-8."""
    return f"cwd={quote(os.fsencode(cwd), safe='/')}"


def _is_well(head: ResponseHead, body: bytes) -> bool:
    """Whether this answers a health request as a manager does."""
    try:
        value = json.loads(body)
    except (ValueError, RecursionError):
        return False
    return head.status == 200 and isinstance(value, dict) and value.get("ok") is True

"""The connections of the manager's port: how many, how long, and how they end.

What happens on one of them is `front.py`. One clock watches over the deadlines of all, so that a request costs
no timer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Final

from manager.routing.door import DoorRules
from manager.routing.heads import Heads
from manager.web.front import Front, Shared
from manager.web.incoming import Incoming
from manager.web.limits import Limits
from manager.web.peers import PeerCheck
from manager.web.refusal_log import RefusalLog

LONGEST_PERIOD_S: Final = 1.0


class Connections:
    """The open connections of one manager, and what holds for all of them."""

    def __init__(
        self, rules: DoorRules, limits: Limits, log: RefusalLog, peer_check: PeerCheck | None = None
    ) -> None:
        self.rules = rules
        self.limits = limits
        self.log = log
        self.peer_check = peer_check
        self.open: set[Front] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._clock: asyncio.TimerHandle | None = None

    def factory(
        self,
        server: Callable[[], asyncio.Protocol],
        serve: Callable[[Incoming], Coroutine[Any, Any, None]] | None,
    ) -> Callable[[], Front]:
        """A protocol factory for connections; from now on their deadlines are kept.

        Args:
            server: makes the protocol that serves a request which is not for an MCP route.
            serve: answers a request at an MCP route; without it, all requests are the server's.
        """
        shared = Shared(
            Heads(self.rules),
            self.rules,
            self.limits,
            self.log,
            self.peer_check,
            server,
            None if serve is None else lambda incoming: self._start(serve, incoming),
            self._admit,
            self.open.discard,
        )
        if self._clock is None:
            self._tick()
        return lambda: Front(shared)

    async def close(self) -> None:
        """End all connections but the server's own; what is being answered gets its time first."""
        if self._clock is not None:
            self._clock.cancel()
        for one in self._ours():
            if one.is_idle:
                one.abort()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=self.limits.shutdown_s)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for one in self._ours():
            one.abort()

    def _ours(self) -> list[Front]:
        return [one for one in self.open if not one.is_handed_over]

    def _admit(self, front: Front) -> bool:
        """Take a new connection in, or say that there are too many."""
        if len(self.open) >= self.limits.connections:
            return False
        self.open.add(front)
        return True

    def _start(self, serve: Callable[[Incoming], Coroutine[Any, Any, None]], incoming: Incoming) -> None:
        task = asyncio.get_running_loop().create_task(serve(incoming), name="request")
        incoming.on_gone = task.cancel
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _tick(self) -> None:
        loop = asyncio.get_running_loop()
        limits = self.limits
        shortest = min(limits.head_s, limits.body_s, limits.keepalive_s, limits.linger_s)
        now = loop.time()
        for one in tuple(self.open):
            if now >= one.deadline:
                one.late()
        self._clock = loop.call_later(min(LONGEST_PERIOD_S, shortest / 4), self._tick)

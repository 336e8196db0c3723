"""The gate on every connection: no request reaches the HTTP server before its whole head was judged.

aiohttp has no deadline for a head, answers 400 in plain text where 431 is meant, and sends
`100 Continue` before any middleware runs. The gate stands in front of its protocol as an ordinary
`asyncio.Protocol`: it collects one head at a time under a deadline and a cap, applies the door's rules, and
passes the bytes on unchanged. It counts the body by `Content-Length`, so that a pipelined head is judged like
the first; behind a chunked body the boundary is not visible, so such a connection serves no further request.

It does not parse bodies, route, or keep idle connections: those close by aiohttp's own keep-alive timer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final, cast

from manager.routing.door import DoorRefusal, DoorRules, RequestFacts, refuse
from manager.routing.head import MALFORMED, body_length, may_become_head, parse_head, render_refusal
from manager.web.limits import Limits
from manager.web.refusal_log import RefusalLog

MAX_PIPELINED: Final = 64 * 1024
"""Bytes a client may send ahead while its last request is still being answered; more ends the connection."""

_HEAD_END: Final = b"\r\n\r\n"
_LATE: Final = DoorRefusal(408, "the request's head did not arrive in time; send it at once")
_FULL: Final = DoorRefusal(
    503, "too many open connections; close idle ones, then retry", (("Retry-After", "1"),)
)


class Connections:
    """The open connections of one manager, and what holds for all of them."""

    def __init__(self, rules: DoorRules, limits: Limits, log: RefusalLog) -> None:
        self.rules = rules
        self.limits = limits
        self.log = log
        self.open: set[HeadGate] = set()

    def gated(self, server: Callable[[], asyncio.Protocol]) -> Callable[[], HeadGate]:
        """A protocol factory that puts the gate before each protocol of `server`."""
        return lambda: HeadGate(self, server)

    def admit(self, gate: HeadGate) -> bool:
        """Take a new connection in, or say that there are too many."""
        if len(self.open) >= self.limits.connections:
            return False
        self.open.add(gate)
        return True

    def forget(self, gate: HeadGate) -> None:
        """The connection has ended."""
        self.open.discard(gate)


class HeadGate(asyncio.Protocol):
    """One connection. `message_done` is called by the middleware when a request's answer is written."""

    def __init__(self, connections: Connections, server: Callable[[], asyncio.Protocol]) -> None:
        self.peer_allowed: bool | None = None
        """The verdict about the peer, which cannot change while the connection lives; None before it."""
        self.chunked = False
        """The current body has no known end: the answer to it must close the connection."""
        self._connections = connections
        self._server = server
        self._inner: asyncio.Protocol | None = None
        self._transport: asyncio.Transport
        self._timer: asyncio.TimerHandle | None = None
        self._pending = bytearray()
        self._body_left = 0
        self._busy = False
        self._refused = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """A new connection: served, or told that there are too many."""
        # Not an isinstance check: uvloop's transports do not inherit from asyncio's.
        self._transport = cast("asyncio.Transport", transport)
        if not self._connections.admit(self):
            self._refuse(_FULL, None)
            return
        self._inner = self._server()
        self._inner.connection_made(transport)
        self._arm()

    def connection_lost(self, exc: Exception | None) -> None:
        """Release everything."""
        self._disarm()
        self._refused = True
        self._connections.forget(self)
        if self._inner is not None:
            self._inner.connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Sort bytes into body (passed on), head (collected) and, after a refusal, waste."""
        if self._refused:
            return
        if self.chunked or len(data) <= self._body_left:
            self._body_left -= 0 if self.chunked else len(data)
            self._forward(data)
            return
        if self._body_left:
            left, self._body_left = self._body_left, 0
            self._forward(data[:left])
            data = data[left:]
        self._pending += data
        if len(self._pending) > MAX_PIPELINED and self._busy:
            self._transport.abort()
        self._next_head()

    def eof_received(self) -> bool | None:
        """The peer has finished sending."""
        return None if self._inner is None or self._refused else self._inner.eof_received()

    def pause_writing(self) -> None:
        """Passed on."""
        if self._inner is not None:
            self._inner.pause_writing()

    def resume_writing(self) -> None:
        """Passed on."""
        if self._inner is not None:
            self._inner.resume_writing()

    def message_done(self) -> None:
        """The current request is answered; judge the next head if it is here already."""
        self._busy = False
        self._next_head()

    def _next_head(self) -> None:
        # RFC 9112 2.2: an empty line before the request line is ignored.
        while self._pending.startswith(b"\r\n") and not self._busy:
            del self._pending[:2]
        if not self._pending or self._busy or self._refused or self.chunked:
            return
        end = self._pending.find(_HEAD_END) + len(_HEAD_END)
        if end < len(_HEAD_END):
            self._wait_for_more()
            return
        head = bytes(self._pending[:end])
        del self._pending[:end]
        self._disarm()
        self._judge(head)

    def _wait_for_more(self) -> None:
        rules = self._connections.rules
        if len(self._pending) > rules.head_cap:
            self._refuse(rules.head_too_large, None)
        elif not may_become_head(self._pending) and self._pending != b"\r":
            self._refuse(MALFORMED, None)
        elif self._timer is None:
            self._arm()

    def _judge(self, head: bytes) -> None:
        rules = self._connections.rules
        facts = rules.head_too_large if len(head) > rules.head_cap else parse_head(head)
        if isinstance(facts, DoorRefusal):
            self._refuse(facts, None)
            return
        refusal = refuse(facts, rules)
        if refusal is not None:
            self._refuse(refusal, facts)
            return
        self._pass_on(head, body_length(facts))

    def _pass_on(self, head: bytes, length: int | None) -> None:
        self._busy = True
        self.chunked = length is None
        take = len(self._pending) if length is None else min(length, len(self._pending))
        self._body_left = 0 if length is None else length - take
        body = bytes(self._pending[:take])
        del self._pending[:take]
        self._forward(head + body)

    def _forward(self, data: bytes) -> None:
        if self._inner is not None:
            self._inner.data_received(data)

    def _refuse(self, refusal: DoorRefusal, facts: RequestFacts | None) -> None:
        self._refused = True
        self._pending.clear()
        self._disarm()
        self._connections.log.note(refusal)
        self._transport.write(render_refusal(refusal, facts))
        if self._transport.can_write_eof():
            self._transport.write_eof()
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(self._connections.limits.linger_s, self._transport.abort)

    def _arm(self) -> None:
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(self._connections.limits.head_s, self._late)

    def _disarm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _late(self) -> None:
        self._timer = None
        if self._pending:
            self._refuse(_LATE, None)
        else:
            self._transport.close()

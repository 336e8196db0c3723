"""One connection of the control socket: answers heartbeats that say nothing new, and gives others to aiohttp.

Registered servers send a heartbeat each second, often over a new connection. Making a connection of aiohttp
takes most of the time that such a heartbeat costs.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from lm_tools_bridge.http_server.byte_budget import SMALL, ByteBudget
from lm_tools_bridge.http_server.connection import HttpConnection
from lm_tools_bridge.http_server.connection_state import Event
from lm_tools_bridge.http_server.deadline import Deadlines
from lm_tools_bridge.http_server.limits import Limits
from lm_tools_bridge.http_server.open_connections import Connections, ServerContext
from lm_tools_bridge.http_server.refusal import AdmissionRefusal
from lm_tools_bridge.http_server.request import http_date
from lm_tools_bridge.http_server.request_head import (
    Framing,
    HeadReader,
    ReadHead,
    RequestHead,
    framing,
    refuse_framing,
)
from lm_tools_bridge.http_server.response_head import Fields, fixed_lines, render_head
from lm_tools_bridge.machine.peer_uid import unix_peer_pid
from manager import __version__
from manager.admin.control.renewals import TIMES

LIMITS: Final = Limits(first_s=75.0, connections=None)
"""Limits of connections that aiohttp has not got."""
HEAD_CAP: Final = 16 * 1024
_TOO_LARGE: Final = AdmissionRefusal(431, f"the head is larger than {HEAD_CAP:,} bytes; send less")
_ANY_LENGTH: Final = 2**62  # longer bodies are refused by aiohttp's application
_HEARTBEAT: Final = ("POST", "/heartbeat")
_JSON: Final = "application/json"
_SERVER: Final[Fields] = (("Server", f"lm-tools-bridge/{__version__}"),)
_RENEWED: Final = json.dumps({"ok": True, **TIMES}).encode()
_fixed_lines: Final = fixed_lines(_SERVER)

Renew = Callable[[Mapping[str, Any]], bool]
IsPeerAllowed = Callable[[asyncio.BaseTransport | None], bool]


@dataclass(frozen=True, slots=True)
class ControlHead:
    """The head of a request to the control socket."""

    parsed: RequestHead
    framing: Framing


class ControlHeadReader(HeadReader[ControlHead]):
    """The heads of the control socket: whoever may connect may name any host."""

    def admit(self, raw: bytes, parsed: RequestHead) -> ControlHead | AdmissionRefusal:
        """Refuse a head whose framing is ambiguous."""
        fields: dict[bytes, bytes] = {}
        for name, value in parsed.headers:
            key = name.lower()
            fields[key] = fields[key] + b", " + value if key in fields else value
        refusal = refuse_framing(fields, _ANY_LENGTH)
        return ControlHead(parsed, framing(raw, parsed)) if refusal is None else refusal


def control_connections(
    connections: Connections,
    make_aiohttp_protocol: Callable[[], asyncio.Protocol],
    renew: Renew,
    is_peer_allowed: IsPeerAllowed,
) -> Callable[[], ControlConnection]:
    """Make a protocol factory for connections of the control socket.

    Args:
        connections: those that aiohttp has not got.
        make_aiohttp_protocol: makes the protocol that serves a connection with other requests.
        renew: renews a registration by a heartbeat; False if aiohttp's application has to look at it.
        is_peer_allowed: whether the process at the other end may use the control socket.
    """
    heads = ControlHeadReader(HEAD_CAP, _TOO_LARGE, _ANY_LENGTH)
    deadlines = Deadlines(asyncio.get_running_loop())
    server = ServerContext(heads, SMALL, connections, deadlines, ByteBudget())
    return lambda: ControlConnection(server, make_aiohttp_protocol, renew, is_peer_allowed)


class ControlConnection(HttpConnection[ControlHead]):
    """A connection until its first request that is more than a renewal: from then on it is aiohttp's."""

    __slots__ = ("_is_admitted", "_is_peer_allowed", "_make_aiohttp_protocol", "_renew")

    def __init__(
        self,
        server: ServerContext[ControlHead],
        make_aiohttp_protocol: Callable[[], asyncio.Protocol],
        renew: Renew,
        is_peer_allowed: IsPeerAllowed,
    ) -> None:
        super().__init__(server)
        self._make_aiohttp_protocol = make_aiohttp_protocol
        self._renew = renew
        self._is_peer_allowed = is_peer_allowed
        self._is_admitted = False  # the peer of a connection never changes

    def take_over(self, read: ReadHead[ControlHead]) -> bool:
        """Give every request but a small heartbeat to aiohttp."""
        parsed, length = read.head.parsed, read.length
        if (parsed.method, parsed.target) == _HEARTBEAT and length is not None and length <= SMALL:
            return False
        self._hand_over(self.parser.raw_head)
        return True

    def serve(self, read: ReadHead[ControlHead], body: bytes) -> None:
        """Answer a heartbeat of an allowed peer that renews a registration; give others to aiohttp."""
        if not self._renews(body):
            self._hand_over(self.parser.raw_head + body)
            return
        is_last = read.head.framing.is_last
        self.move(Event.REQUEST_READ)
        lines = _fixed_lines(200, _JSON, (), is_last=is_last)
        head = b"%b\r\nContent-Length: %d\r\nDate: %b\r\n\r\n"
        self.send((head % (lines, len(_RENEWED), http_date(int(time.time()))) + _RENEWED,))
        self.answered(is_last=is_last)

    def render_refusal(self, refusal: AdmissionRefusal, head: RequestHead | None) -> bytes:
        """Render a refusal of a request that could not be read, in the shape of the control plane."""
        body = json.dumps({"ok": False, "reason": "bad_request", "message": refusal.reason}).encode()
        closing = (("Content-Length", str(len(body))), ("Connection", "close"))
        return render_head(refusal.status, (("Content-Type", _JSON), *closing, *_SERVER)) + body

    def _renews(self, body: bytes) -> bool:
        try:
            payload = msgspec.json.decode(body)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return False
        return isinstance(payload, dict) and self._may_renew(payload) and self._renew(payload)

    def _may_renew(self, payload: Mapping[str, Any]) -> bool:
        """Whether the peer may renew the registration that the heartbeat names.

        The process that serves a registration was examined when it was registered, and its exit is watched:
        examining it again for each connection would take longer than the rest of the answer.
        """
        if self._is_admitted or _peer_pid(self.transport) == payload.get("pid", -1):
            return True
        self._is_admitted = self._is_peer_allowed(self.transport)
        return self._is_admitted

    def _hand_over(self, begin: bytes) -> None:
        """Make the connection aiohttp's, from the request that begins with these bytes on."""
        received, is_paused = begin + self.parser.take_rest(), self.backpressure.is_paused
        transport, protocol = self.transport, self._make_aiohttp_protocol()
        transport.set_protocol(protocol)
        super().connection_lost(None)
        protocol.connection_made(transport)
        if is_paused:
            protocol.pause_writing()
        protocol.data_received(received)


def _peer_pid(transport: asyncio.BaseTransport) -> int | None:
    sock = transport.get_extra_info("socket")
    return None if sock is None else unix_peer_pid(sock)

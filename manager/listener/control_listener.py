"""Listens on the control socket, makes it again if somebody removes it, and serves its connections.

Registered servers send a heartbeat each second, often over a new connection. Making a connection of aiohttp
takes most of the time that such a heartbeat costs, so heartbeats that say nothing new are answered here, and
only other requests go to aiohttp.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol

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
from lm_tools_bridge.machine.private_files import make_private
from manager import __version__
from manager.admin.control.renewals import TIMES, Renewals
from manager.listener.aiohttp_server import LazyAiohttpServer
from manager.log import logger
from manager.startup.port import leave_signposts, private_socket, remove_signposts

if TYPE_CHECKING:
    from aiohttp import web

LIMITS: Final = Limits(first_s=75.0, connections=None)
"""Limits of connections that aiohttp has not got."""
HEAD_CAP: Final = 16 * 1024
"""Bytes of a head, as at the port of the manager (`MAX_REQUEST_HEAD`) and in aiohttp."""
_TOO_LARGE: Final = AdmissionRefusal(431, f"the head is larger than {HEAD_CAP:,} bytes; send less")
_ANY_LENGTH: Final = 2**62  # longer bodies are refused by aiohttp's application
_HEARTBEAT: Final = ("POST", "/heartbeat")
_JSON: Final = "application/json"
_SERVER: Final[Fields] = (("Server", f"lm-tools-bridge/{__version__}"),)
_RENEWED: Final = json.dumps({"ok": True, **TIMES}).encode()
_fixed_lines: Final = fixed_lines(_SERVER)

Renew = Callable[[Mapping[str, Any]], bool]
IsPeerAllowed = Callable[[asyncio.BaseTransport | None], bool]


class ControlHead(msgspec.Struct, frozen=True):
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


BACKLOG: Final = 1024
"""Connections that wait to be accepted. When the manager is back after a restart, all registered servers
connect at once, and at a unix socket one too many fails at once: more than a user has."""


class ControlServices(Protocol):
    """The operations of `Services` that connections need."""

    def renew(self, session_id: str) -> bool:
        """See `Services.renew`."""

    def peer_allowed(self, transport: asyncio.BaseTransport | None) -> bool:
        """See `Services.peer_allowed`."""


class ControlListener:
    """The control socket of this manager, which holds the lock: whatever has its name is a leftover.

    Args:
        path: of the socket.
        services: what renews registrations, and decides who may use the socket.
        make_runner: makes the server of all requests but renewals.
        former_dirs: folders in which programs of earlier versions look for the socket.
    """

    def __init__(
        self,
        path: Path,
        services: ControlServices,
        make_runner: Callable[[Renewals], web.AppRunner],
        former_dirs: Sequence[Path] = (),
    ) -> None:
        self._path = path
        self._former_dirs = former_dirs
        self._services = services
        self._renewals = Renewals(services.renew)
        self._http = LazyAiohttpServer(lambda: make_runner(self._renewals))
        self._connections = Connections(LIMITS)
        self._server: asyncio.Server | None = None
        self._inode = 0
        self._is_closed = False

    async def open(self) -> None:
        """Begin to listen. Raises OSError if that is impossible."""
        self._path.unlink(missing_ok=True)
        sock = private_socket(self._path)
        self._inode = self._path.lstat().st_ino
        loop = asyncio.get_running_loop()
        try:
            make = control_connections(
                self._connections, self._http.protocol, self._renewals.renews, self._services.peer_allowed
            )
            self._server = await loop.create_server(make, sock=sock, backlog=BACKLOG)
        except BaseException:
            sock.close()
            raise
        leave_signposts(self._path, self._former_dirs)

    async def load(self) -> None:
        """Load what requests need before the first of them arrives."""
        await self._http.load()

    async def reopen_if_removed(self) -> None:
        """Make the socket and its folder again if they are gone or replaced. Raises what `open` raises."""
        if self._is_closed or self._is_in_place():
            return
        logger().warning("control_socket.removed", path=str(self._path))
        make_private(self._path.parent)
        if self._server is not None:
            self._server.close()
        await self.open()
        logger().info("control_socket.made_again", path=str(self._path))

    async def close(self) -> None:
        """Stop listening for good and remove the socket; requests under way may finish first."""
        self._is_closed = True
        if self._server is not None:
            self._server.close()
        if self._is_in_place():
            self._path.unlink(missing_ok=True)
            remove_signposts(self._path, self._former_dirs)
        await self._connections.close()
        await self._http.close()

    def _is_in_place(self) -> bool:
        try:
            return self._path.lstat().st_ino == self._inode
        except OSError:
            return False

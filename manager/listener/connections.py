"""The open connections of the manager's port: their limits, their admission rules, their factory."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from lm_tools_bridge.http_server.byte_budget import ByteBudget
from lm_tools_bridge.http_server.deadline import Deadlines
from lm_tools_bridge.http_server.limits import Limits
from lm_tools_bridge.http_server.open_connections import Connections as OpenConnections
from lm_tools_bridge.http_server.open_connections import ServerContext
from lm_tools_bridge.machine.own_process import connections_within, raise_limit
from manager.configuration.settings import Settings
from manager.guests import GuestGate
from manager.http.open_streams import KeepAlives
from manager.http.request import HttpRequest
from manager.listener.connection import ClientConnection, ConnectionContext, RefusalLog
from manager.listener.peer_identity import PeerCheck
from manager.log import logger
from manager.relay.fast_path import FastPath
from manager.routing.admission import AdmissionRules, ClientHeadReader


class Connections(OpenConnections):
    """The open connections of the manager's port.

    Attributes:
        rules: of admission.
        log: of refusals.
        peer_check: whether the peer of a connection is served; None to serve all.
        gate: decides about guests; None where there are none.
        buffers: the bytes of large requests and responses; without a limit where None is given.
    """

    def __init__(
        self,
        rules: AdmissionRules,
        limits: Limits,
        log: RefusalLog,
        peer_check: PeerCheck | None = None,
        buffers: ByteBudget | None = None,
        *,
        gate: GuestGate | None = None,
    ) -> None:
        super().__init__(limits)
        self.buffers = buffers or ByteBudget()
        self.rules = rules
        self.log = log
        self.peer_check = peer_check
        self.gate = gate

    def factory(
        self,
        make_aiohttp_protocol: Callable[[], asyncio.Protocol],
        serve: Callable[[HttpRequest], None] | None,
        fast_path: FastPath | None = None,
    ) -> Callable[[], ClientConnection]:
        """Make a protocol factory for connections.

        Args:
            make_aiohttp_protocol: makes the protocol for a request that is not for an MCP route.
            serve: answers a request at an MCP route; None where aiohttp serves all routes.
            fast_path: answers calls that are like earlier ones, if there is one.
        """
        loop = asyncio.get_running_loop()
        heads = ClientHeadReader(self.rules)
        server = ServerContext(heads, self.rules.body_cap, self, Deadlines(loop), self.buffers)
        context = ConnectionContext(
            server=server,
            limits=self.limits,
            log=self.log,
            peer_check=self.peer_check,
            make_aiohttp_protocol=make_aiohttp_protocol,
            serve=serve,
            fast_path=fast_path,
            keep_alives=KeepAlives(loop),
            gate=self.gate,
        )
        return lambda: ClientConnection(context)


def connection_limits(settings: Settings) -> Limits:
    """The limits of the manager's port. Raises this process's limit of open files; logs if it is low."""
    files = raise_limit()
    most = connections_within(files, settings.connection_limit)
    if most < settings.connection_limit:
        hint = "allow more open files: ulimit -n, or LimitNOFILE= of the service"
        logger().warning("connections.limited", most=most, open_files=files, hint=hint)
    return Limits(
        head_s=settings.header_timeout_s,
        body_s=settings.body_timeout_s,
        room_s=settings.body_timeout_s / 3,
        unread_s=settings.client_read_timeout_s,
        keepalive_s=settings.keep_alive_s,
        connections=most,
    )

"""The open connections of the manager's port, their admission rules, and the factory that makes them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from lm_tools_bridge.http_server.byte_budget import ByteBudget
from lm_tools_bridge.http_server.deadline import Deadlines
from lm_tools_bridge.http_server.limits import Limits
from lm_tools_bridge.http_server.open_connections import Connections as OpenConnections
from lm_tools_bridge.http_server.open_connections import ServerContext
from manager.guests import GuestGate
from manager.http.keep_alives import KeepAlives
from manager.http.request import HttpRequest
from manager.listener.connection import ClientConnection
from manager.listener.connection_context import ConnectionContext
from manager.listener.peer_identity import PeerCheck
from manager.listener.refusal_log import RefusalLog
from manager.relay.fast_path import FastPath
from manager.routing.request_heads.admission import AdmissionRules
from manager.routing.request_heads.reader import ClientHeadReader


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

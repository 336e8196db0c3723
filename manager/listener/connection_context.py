"""What all connections of the manager's port share."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from lm_tools_bridge.http_server.limits import Limits
from lm_tools_bridge.http_server.open_connections import ServerContext
from lm_tools_bridge.http_server.refusal import AdmissionRefusal
from manager.guests import Guest, GuestGate
from manager.http.faults import log_fault
from manager.http.keep_alives import KeepAlives
from manager.http.request import HttpRequest
from manager.listener.peer_identity import PeerCheck, judge
from manager.listener.refusal_log import RefusalLog
from manager.relay.fast_path import FastPath
from manager.routing.request_heads.reader import ClientHead

_CHECK_FAILED: Final = AdmissionRefusal(500, "Internal Server Error")


@dataclass(frozen=True, slots=True)
class ConnectionContext:
    """What all connections of the manager's port share.

    Attributes:
        server: head reader, caps and deadlines.
        limits: deadlines of connections.
        log: of refusals.
        peer_check: whether the peer of a connection is served; None to serve all.
        make_aiohttp_protocol: makes the protocol for a request that is not for an MCP route.
        serve: answers a request at an MCP route; None where aiohttp serves all routes.
        fast_path: answers calls that are like earlier ones, if there is one.
        keep_alives: sends comments on event streams that are silent.
        gate: decides about guests; None where there are none.
    """

    server: ServerContext[ClientHead]
    limits: Limits
    log: RefusalLog
    peer_check: PeerCheck | None
    make_aiohttp_protocol: Callable[[], asyncio.Protocol]
    serve: Callable[[HttpRequest], None] | None
    fast_path: FastPath | None
    keep_alives: KeepAlives
    gate: GuestGate | None = None

    def judge_peer(
        self, transport: asyncio.BaseTransport, end: Callable[[], None]
    ) -> AdmissionRefusal | Guest | None:
        """Decide about the peer of a connection, once; see `peer_identity.judge`."""
        try:
            return judge(self.peer_check, self.gate, transport, end)
        except Exception as fault:  # noqa: BLE001  if the check fails, nobody is served
            log_fault(fault)
            return _CHECK_FAILED

"""What all connections of a manager's port have in common."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any, Final

from http_server.deadline import Deadlines
from manager.http.faults import log_fault
from manager.http.keep_alives import KeepAlives
from manager.http.limits import Limits
from manager.http.request import HttpRequest
from manager.listener.peer_identity import FOREIGN, PeerCheck
from manager.listener.refusal_log import RefusalLog
from manager.route_cache.route_cache import FastPath
from manager.routing.request_heads.admission import AdmissionRefusal, AdmissionRules
from manager.routing.request_heads.reader import Heads

_BROKEN: Final = AdmissionRefusal(500, "Internal Server Error")


@dataclass(frozen=True, slots=True)
class ConnectionContext:
    """Made once for them.

    `server` makes a protocol for a request that is not for an MCP route; `serve` answers one that is, and is
    None where there are no such routes; `fast` knows which of these requests need not be served. `admit`
    takes a connection in, `forget` lets it go. `run` starts a task that ends with the connections at the
    latest.
    """

    heads: Heads
    rules: AdmissionRules
    limits: Limits
    log: RefusalLog
    peer_check: PeerCheck | None
    server: Callable[[], asyncio.Protocol]
    serve: Callable[[HttpRequest], None] | None
    fast: FastPath | None
    admit: Callable[..., bool]
    forget: Callable[..., None]
    run: Callable[[Coroutine[Any, Any, None]], asyncio.Task[None]]
    keep_alives: KeepAlives
    deadlines: Deadlines

    def stranger(self, transport: asyncio.BaseTransport) -> AdmissionRefusal | None:
        """Why the peer of a connection is not served; None where it is."""
        try:
            return None if self.peer_check is None or self.peer_check(transport) else FOREIGN
        except Exception as fault:  # noqa: BLE001  whatever it is, nobody gets in
            log_fault(fault)
            return _BROKEN

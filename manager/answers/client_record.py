"""Records a client and its request for `lmtb whoami`: who sent it, and its claims about its workspace."""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from lm_tools_bridge.protocol import jsonrpc, names
from lm_tools_bridge.protocol.versions import ASSUMED_LEGACY
from manager.answers.exchange import Exchange
from manager.routing.state.clients import Client, RequestRecord

MAX_INFO: Final = 1024
"""Largest `clientInfo` in bytes that is kept; a larger one is dropped."""
MAX_METHOD: Final = 100


@lru_cache(maxsize=256)
def _info(name: str | None, version: str | None) -> bytes:
    return jsonrpc.dumps({"name": name, "version": version})


def client_record(exchange: Exchange, now: float) -> tuple[Client, RequestRecord]:
    """The client's row in the table of clients, and the record of its request at monotonic time `now`."""
    session = exchange.session
    if session is None:
        client_info = exchange.inbound.meta.get(names.META_CLIENT)
        info = b"" if client_info is None else jsonrpc.bytes_of(client_info)
        revision = exchange.inbound.revision or ASSUMED_LEGACY
    else:
        info = _info(session.client_name, session.client_version)
        revision = session.revision
    client = Client(info if len(info) <= MAX_INFO else b"", exchange.inbound.era.value, revision)
    return client, RequestRecord(now, exchange.message.method[:MAX_METHOD], exchange.claims, exchange.headers)

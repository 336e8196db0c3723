"""Decides how long a tool list may wait for sources, by how long the client waits at its start."""

from __future__ import annotations

import time

import msgspec

from manager.answers.exchange import Exchange
from manager.routing.client_profiles import first_list_s, list_wait_s
from manager.settings import Settings, first_list_overrides
from protocol import headers, jsonrpc, names


class ListBudget:
    """The time that a client's start leaves for lists.

    Args:
        settings: with the user's own values for clients.
    """

    def __init__(self, settings: Settings) -> None:
        self._overrides = first_list_overrides(settings)

    def header(self, exchange: Exchange) -> tuple[bytes, bytes]:
        """The header that tells the workspace server how long this tool list may wait for its sources."""
        session = exchange.session
        opened_at = None if session is None else session.opened_at
        since_start_s = None if opened_at is None else time.monotonic() - opened_at
        seconds = list_wait_s(self._first_list_s(exchange), since_start_s)
        return headers.LIST_WAIT.encode(), str(round(seconds * 1000)).encode()

    def _first_list_s(self, exchange: Exchange) -> float:
        return first_list_s(_client_name(exchange), self._overrides)


def _client_name(exchange: Exchange) -> str | None:
    """The name in the `clientInfo` of the session, of `initialize`, or of the stateless request."""
    if exchange.session is not None:
        return exchange.session.client_name
    info = exchange.inbound.meta.get(names.META_CLIENT) or exchange.params.get("clientInfo")
    name = None if info is None else jsonrpc.members_of(info).get("name")
    return None if name is None else jsonrpc.text_of(msgspec.Raw(name))

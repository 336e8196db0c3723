"""Decides what a client's lists wait for, and what they leave out, by the profile of the client."""

from __future__ import annotations

import time

from manager.answers.exchange import Exchange
from manager.routing.client_profiles import discover_wait_s, first_list_s, list_wait_s, profile_of
from manager.settings import Settings, first_list_overrides
from protocol import headers, jsonrpc, names


class ListAdaptation:
    """Adapts lists to clients.

    Args:
        settings: with the user's own values for clients.
    """

    def __init__(self, settings: Settings) -> None:
        self._overrides = first_list_overrides(settings)
        self._hides_own = settings.hide_own_servers

    def headers(self, exchange: Exchange) -> tuple[tuple[bytes, bytes], ...]:
        """The headers that tell the workspace server how long a list may wait, and what it leaves out."""
        name, session = _client_name(exchange), exchange.session
        opened_at = None if session is None else session.opened_at
        since_start_s = None if opened_at is None else time.monotonic() - opened_at
        added = [_list_wait(list_wait_s(first_list_s(name, self._overrides), since_start_s))]
        own_files = profile_of(name).own_files
        if own_files and self._hides_own:
            added.append((headers.OWN_FILES.encode(), ",".join(own_files).encode()))
        return tuple(added)

    def discover_header(self, exchange: Exchange) -> tuple[bytes, bytes]:
        """The header that tells the workspace server how long `server/discover` may wait for new sources."""
        return _list_wait(discover_wait_s(first_list_s(_client_name(exchange), self._overrides)))


def _list_wait(seconds: float) -> tuple[bytes, bytes]:
    return headers.LIST_WAIT.encode(), str(round(seconds * 1000)).encode()


def _client_name(exchange: Exchange) -> str | None:
    """The name in the `clientInfo` of the session, of `initialize`, or of the stateless request."""
    if exchange.session is not None:
        return exchange.session.client_name
    info = exchange.inbound.meta.get(names.META_CLIENT) or exchange.params.get("clientInfo")
    name = None if info is None else jsonrpc.members_of(info).get("name")
    return None if name is None else jsonrpc.text_of(name)

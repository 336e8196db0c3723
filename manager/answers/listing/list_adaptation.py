"""Decides what a client's lists wait for, what they leave out, and how they are written, by its profile."""

from __future__ import annotations

import time
from collections.abc import Sequence

from lm_tools_bridge.protocol import headers
from lm_tools_bridge.protocol.internal.client_traits import OwnServers, encode
from manager.answers.exchange import Exchange
from manager.answers.listing.own_servers import OwnServersLookup
from manager.routing.client_needs import needs_of
from manager.routing.client_profiles import ClientProfile, ClientProfiles, discover_wait_s, list_wait_s
from manager.routing.client_traits import client_traits, leaves_its_folder
from manager.supervision.workspace import Workspace


class ListAdaptation:
    """Adapts lists to clients.

    Args:
        profiles: what clients can do.
        own_servers: which servers they start themselves, which lists leave out.
    """

    def __init__(self, profiles: ClientProfiles, own_servers: OwnServersLookup) -> None:
        self._profiles = profiles
        self._own_servers = own_servers

    def offers_call_tool(self, exchange: Exchange) -> bool:
        """Whether the first page of a workspace's own tools ends with `callTool`.

        It does for clients whose agents change their folder without a word: sub-agents in worktrees share the
        connection, and nothing in their requests tells them apart.
        """
        is_first_page = "cursor" not in exchange.params
        return is_first_page and leaves_its_folder(self._profiles.of(*exchange.client))

    async def headers(self, exchange: Exchange, workspace: Workspace) -> tuple[tuple[bytes, bytes], ...]:
        """The headers that tell the workspace server how long a list may wait, and what the client needs."""
        profile, session = self._profiles.of(*exchange.client), exchange.session
        opened_at = None if session is None else session.opened_at
        since_start_s = None if opened_at is None else time.monotonic() - opened_at
        own_servers = await self._own_servers.find(exchange, workspace)
        return self._complete(profile, own_servers, list_wait_s(profile.first_list_s, since_start_s))

    async def discover_headers(
        self, exchange: Exchange, workspace: Workspace
    ) -> tuple[tuple[bytes, bytes], ...]:
        """The same for `server/discover`, whose instructions name servers that wait for trust."""
        profile = self._profiles.of(*exchange.client)
        own_servers = await self._own_servers.find(exchange, workspace)
        return self._complete(profile, own_servers, discover_wait_s(profile.first_list_s))

    def _complete(
        self, profile: ClientProfile, own_servers: Sequence[OwnServers], wait_s: float
    ) -> tuple[tuple[bytes, bytes], ...]:
        added = [_list_wait(wait_s), *needs_of(profile)]
        if traits := client_traits(profile).encode():
            added.append((headers.CLIENT_TRAITS.encode(), traits.encode()))
        if own := encode(own_servers):
            added.append((headers.OWN_FILES.encode(), own.encode()))
        return tuple(added)


def _list_wait(seconds: float) -> tuple[bytes, bytes]:
    return headers.LIST_WAIT.encode(), str(round(seconds * 1000)).encode()

"""Decides what a client's lists wait for, what they leave out, and how they are written, by its profile.

Left out are servers of a project's files that the client starts itself, as far as it is known that it does:
most clients start all of them, but Claude Code asks its user about each, and keeps the answers in its files.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Final

from lm_tools_bridge.protocol import headers
from lm_tools_bridge.protocol.internal.client_traits import OwnServers, encode
from manager.answers.exchange import Exchange
from manager.disk import claude_approvals
from manager.disk.claude_approvals import Approvals, read_approvals
from manager.disk.disk_lookups import DiskLookups
from manager.routing.client_profiles import (
    ClientProfile,
    ClientProfiles,
    client_traits,
    discover_wait_s,
    leaves_its_folder,
    list_wait_s,
    needs_of,
)
from manager.supervision.workspace import Workspace

_ASKS_ITS_USER: Final = "Claude Code"
"""Title of the client whose files tell what its user answered."""
_MAX_REMEMBERED: Final = 256
"""Clients in workspaces whose own servers are remembered for the status, which shows fewer (64 clients). All
are forgotten at once: the next list finds them again."""

OwnServersList = tuple[OwnServers, ...]


class OwnServersLookup:
    """Knows what each client starts itself, and what it was last found to start in each workspace.

    Args:
        profiles: what clients can do.
        home: the user's home folder, if there is one.
        environ: the manager's environment, which may name another folder of Claude Code.
        is_wanted: whether these servers are left out at all.
    """

    def __init__(
        self,
        profiles: ClientProfiles,
        home: Path | None,
        environ: Mapping[str, str] = os.environ,
        *,
        is_wanted: bool,
    ) -> None:
        self._profiles = profiles
        self._home = home
        self._environ = environ
        self._is_wanted = is_wanted
        self._lookups = DiskLookups()
        self._last: dict[tuple[str | None, str | None, str], OwnServersList] = {}

    async def find(self, exchange: Exchange, workspace: Workspace) -> OwnServersList:
        """The servers of this workspace that the client of a request starts itself."""
        profile = self._profiles.of(*exchange.client)
        if not (self._is_wanted and profile.own_files) or workspace.remote is not None:
            return ()
        approvals = Approvals(all_allowed=True)
        if profile.title == _ASKS_ITS_USER and claude_approvals.FILE in profile.own_files:
            approvals = await self._approvals(Path(workspace.root, exchange.folder))
        own_servers = tuple(
            approvals.own_servers(exchange.user_agent) if file == claude_approvals.FILE else OwnServers(file)
            for file in profile.own_files
        )
        if len(self._last) >= _MAX_REMEMBERED:
            self._last.clear()
        self._last[(*exchange.client, workspace.id)] = own_servers
        return own_servers

    def last(self, name: str | None, version: str | None, workspace: str | None) -> OwnServersList:
        """What a client was last found to start itself in a workspace; nothing if it has not listed there."""
        return () if workspace is None else self._last.get((name, version, workspace), ())

    async def _approvals(self, folder: Path) -> Approvals:
        if self._home is None:
            return Approvals()
        read = partial(read_approvals, self._environ, self._home, folder)
        approvals = await self._lookups.run(folder, read)
        return approvals if isinstance(approvals, Approvals) else Approvals()


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
        if exchange.server:
            return False  # who wants one server alone wants no way to the others
        is_first_page = "cursor" not in exchange.params
        return is_first_page and leaves_its_folder(self._profiles.of(*exchange.client))

    def traits_header(self, exchange: Exchange) -> tuple[tuple[bytes, bytes], ...]:
        """The header that tells what is special about the client; none if nothing is."""
        return _traits_header(self._profiles.of(*exchange.client))

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
        added = [_list_wait(wait_s), *needs_of(profile), *_traits_header(profile)]
        if own := encode(own_servers):
            added.append((headers.OWN_FILES.encode(), own.encode()))
        return tuple(added)


def _traits_header(profile: ClientProfile) -> tuple[tuple[bytes, bytes], ...]:
    traits = client_traits(profile).encode()
    return ((headers.CLIENT_TRAITS.encode(), traits.encode()),) if traits else ()


def _list_wait(seconds: float) -> tuple[bytes, bytes]:
    return headers.LIST_WAIT.encode(), str(round(seconds * 1000)).encode()

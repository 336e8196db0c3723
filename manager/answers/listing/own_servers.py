"""Finds out which servers of a project's files a client starts itself: only what is known to run is left out.

Most clients start all servers of their files. Claude Code asks its user about each; what was answered is in
its own files.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Final

from lm_tools_bridge.protocol.internal.client_traits import OwnServers
from manager.answers.exchange import Exchange
from manager.disk import claude_approvals
from manager.disk.claude_approvals import Approvals, read_approvals
from manager.disk.disk_lookups import DiskLookups
from manager.routing.client_profiles import ClientProfiles
from manager.supervision.workspace import Workspace

_ASKS_ITS_USER: Final = "Claude Code"
"""Title of the client whose files tell what its user answered."""
_MAX_REMEMBERED: Final = 256

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

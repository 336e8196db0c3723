"""Finds workspaces on other hosts: the manager there knows which project a folder belongs to."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Final, Protocol

from lm_tools_bridge.protocol.errors import Refusal
from lm_tools_bridge.remote_hosts.address import RemoteAddress
from lm_tools_bridge.remote_hosts.far_approvals import FarApprovals
from lm_tools_bridge.remote_hosts.far_manager import line_refusal, resolve
from lm_tools_bridge.remote_hosts.line_failures import LineFailure
from lm_tools_bridge.remote_hosts.link import Link
from lm_tools_bridge.remote_hosts.projects import RemoteProjects
from lm_tools_bridge.remote_hosts.remote_supervisor import RemoteSupervisor
from manager.routing.workspace.workspace_id import workspace_id
from manager.state_file.tables import WorkspaceRow
from manager.supervision.dependencies import Dependencies
from manager.supervision.workspace import Workspace

VALID_S: Final = 60.0
"""How long the project of a folder is known without asking its host again."""
MAX_CACHED: Final = 1024


class KnownWorkspaces(Protocol):
    """The table of all workspaces, as far as it is needed here."""

    def __iter__(self) -> Iterator[Workspace]:
        """All workspaces."""

    def get(self, identity: str) -> Workspace | None:
        """The workspace with this id."""

    async def add(self, identity: str, root: str, supervisor: RemoteSupervisor) -> Workspace:
        """Make a workspace known."""


class RemoteWorkspaces:
    """The workspaces of a table that are on other hosts."""

    def __init__(self, workspaces: KnownWorkspaces, dependencies: Dependencies) -> None:
        folders = dependencies.folders
        config, runtime = (None, None) if folders is None else (Path(folders.config), Path(folders.runtime))
        self._workspaces = workspaces
        self._dependencies = dependencies
        approvals = FarApprovals(self._at, dependencies.waiting_calls)
        self._projects = RemoteProjects(dependencies, config, runtime, approvals.hear)
        self._cached: dict[str, tuple[float, Workspace]] = {}

    def links(self) -> Iterator[Link]:
        """The lines to hosts that were used since the start."""
        return iter(self._projects)

    async def connect(self, name: str) -> None:
        """Make a line to the host of this name, if the user has added one."""
        found = await self._projects.address_of(f"{name}:/")
        if isinstance(found, tuple):
            await found[1].ensure(urgent=True)

    async def renew(self, name: str) -> None:
        """End the line to the host of this name, unless calls are in flight: the next one is made anew."""
        for link in [one for one in self.links() if one.name == name]:
            users = (one for one in self._workspaces if one.remote is not None and one.remote.link is link)
            if not any(one.supervisor.figures.in_flight for one in users):
                await link.disconnect()

    async def forget_removed(self) -> None:
        """End the lines to hosts that the user has removed, and to those that were described anew."""
        await self._projects.forget_removed()
        self._cached.clear()
        await self._relink()

    async def disconnect_idle(self, limit_s: float, now: float) -> None:
        """End lines that no project holds, and that nobody has asked for in so many seconds."""
        idle = [link for link in self.links() if not link.on_change and now - link.used_at >= limit_s]
        await asyncio.gather(*(link.disconnect() for link in idle))

    async def find(self, text: str, *, urgent: bool) -> Workspace | Refusal | None:
        """The workspace of a remote address; None if the text is none.

        Args:
            urgent: whether to try a host again that failed just now.
        """
        if (known := self.cached(text)) is not None:
            return known
        found = await self._projects.address_of(text)
        if found is None or isinstance(found, Refusal):
            return found
        await self._relink()
        address, link = found
        line = await link.ensure(urgent=urgent)
        if isinstance(line, LineFailure):
            return self._nearest(address) or line_refusal(link, line)
        match = await resolve(link, address)
        if isinstance(match, Refusal):
            return match
        workspace = await self._known(RemoteAddress(address.host, match.workspace_folders[0]), link)
        if workspace.remote is not None:
            workspace.remote.far_id = match.workspace
        if len(self._cached) >= MAX_CACHED:
            self._cached.clear()
        self._cached[text] = (self._dependencies.now(), workspace)
        return workspace

    def cached(self, text: str) -> Workspace | None:
        """The workspace of an address that was found less than `VALID_S` ago."""
        found = self._cached.get(text)
        return found[1] if found is not None and self._dependencies.now() - found[0] < VALID_S else None

    def with_far_id(self, far_id: str) -> Workspace | None:
        """The only workspace that has this id at the manager of its host."""
        found = [one for one in self._workspaces if one.remote is not None and one.remote.far_id == far_id]
        return found[0] if len(found) == 1 else None

    async def supervisor(self, row: WorkspaceRow) -> RemoteSupervisor | None:
        """What stands for the server of a workspace of the previous manager; None if it is a local one."""
        return await self._projects.supervisor(row.id, row.root)

    async def close(self) -> None:
        """Close all lines."""
        await self._projects.close()

    def _at(self, address: RemoteAddress) -> Workspace | None:
        return self._workspaces.get(workspace_id(str(address)))

    async def _known(self, address: RemoteAddress, link: Link) -> Workspace:
        root = str(address)
        identity = workspace_id(root)
        workspace = self._workspaces.get(identity)
        if workspace is None:
            made = RemoteSupervisor(identity, address, link, self._dependencies)
            return await self._workspaces.add(identity, root, made)
        if workspace.remote is not None and workspace.remote.link is not link:
            await workspace.remote.stop()
            workspace.remote.link = link  # added again, perhaps with another command
        return workspace

    async def _relink(self) -> None:
        """Give projects whose line was closed, or whose host was not known, what leads there now."""
        found = [one.remote for one in self._workspaces if one.remote is not None]
        stale = [one for one in found if isinstance(one.link, Refusal) or one.link.is_closed]
        links = {host: await self._projects.link_to(host) for host in {one.address.host for one in stale}}
        for one in stale:
            await one.stop()
            one.link = links[one.address.host]

    def _nearest(self, address: RemoteAddress) -> Workspace | None:
        """The known workspace that the folder lies in, while its host cannot be asked."""
        above = [one for one in self._workspaces if one.remote and _contains(one.remote.address, address)]
        return max(above, key=lambda one: len(one.root), default=None)


def _contains(root: RemoteAddress, address: RemoteAddress) -> bool:
    inside = address.path == root.path or address.path.startswith(root.path.rstrip("/") + "/")
    return root.host == address.host and inside

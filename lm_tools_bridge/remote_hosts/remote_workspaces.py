"""Finds workspaces on other hosts: the manager there knows which project a folder belongs to."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from lm_tools_bridge.protocol.errors import Refusal
from lm_tools_bridge.remote_hosts.address import RemoteAddress
from lm_tools_bridge.remote_hosts.far_approvals import FarApprovals
from lm_tools_bridge.remote_hosts.far_manager import resolve
from lm_tools_bridge.remote_hosts.line_failures import LineFailure
from lm_tools_bridge.remote_hosts.lines import Lines
from lm_tools_bridge.remote_hosts.link import Link
from lm_tools_bridge.remote_hosts.refusals import line_refusal
from lm_tools_bridge.remote_hosts.remote_supervisor import RemoteSupervisor
from manager.routing.matching import workspace_id
from manager.state_file import WorkspaceRow
from manager.supervision.dependencies import Dependencies
from manager.supervision.remote_hosts import KnownWorkspaces
from manager.supervision.workspace import Workspace

VALID_S: Final = 60.0
"""How long the project of a folder is known without asking its host again."""
MAX_CACHED: Final = 1024
"""Clients may name any number of folders; one takes a few hundred bytes."""


class RemoteWorkspaces:
    """The workspaces of a table that are on other hosts (`manager/supervision/remote_hosts.py`)."""

    def __init__(self, workspaces: KnownWorkspaces, dependencies: Dependencies) -> None:
        folders = dependencies.folders
        config, runtime = (None, None) if folders is None else (Path(folders.config), Path(folders.runtime))
        self._workspaces = workspaces
        self._dependencies = dependencies
        approvals = FarApprovals(self._at, dependencies.waiting_calls)
        self._lines = Lines(dependencies, config, runtime, approvals.hear)
        self._cached: dict[str, tuple[float, Workspace]] = {}

    def links(self) -> Iterator[Link]:
        """The lines to hosts that were used since the start."""
        return iter(self._lines)

    def lines(self) -> list[dict[str, Any]]:
        """The lines to hosts that were used since the start, for status."""
        return [link.as_json() for link in self.links()]

    async def change_lines(self, connect: str | None, renew: str | None) -> None:
        """End the lines to removed hosts; renew and make those to the hosts of these names."""
        await self.forget_removed()
        if renew is not None:
            await self.renew(renew)
        if connect is not None:
            await self.connect(connect)

    async def connect(self, name: str) -> None:
        """Make a line to the host of this name, if the user has added one."""
        target = await self._lines.address_of(f"{name}:/")
        if isinstance(target, tuple):
            await target[1].ensure(urgent=True)

    async def renew(self, name: str) -> None:
        """End the line to the host of this name, unless calls are in flight: the next one is made anew."""
        for link in [link for link in self.links() if link.name == name]:
            if not any(server.figures.in_flight for server in self._servers() if server.link is link):
                await link.disconnect()

    async def forget_removed(self) -> None:
        """End the lines to hosts that the user has removed, and to those that were described anew."""
        await self._lines.forget_removed()
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
        if (workspace := self.cached(text)) is not None:
            return workspace
        target = await self._lines.address_of(text)
        if target is None or isinstance(target, Refusal):
            return target
        await self._relink()
        address, link = target
        line = await link.ensure(urgent=urgent)
        if isinstance(line, LineFailure):
            return self._nearest(address) or line_refusal(link, line)
        match = await resolve(link, address)
        if isinstance(match, Refusal):
            return match
        root = RemoteAddress(address.host, match.workspace_folders[0])
        workspace = await self._known_workspace(root, link, match.workspace)
        if len(self._cached) >= MAX_CACHED:
            self._cached.clear()
        self._cached[text] = (self._dependencies.now(), workspace)
        return workspace

    def cached(self, text: str) -> Workspace | None:
        """The workspace of an address that was found less than `VALID_S` ago."""
        entry = self._cached.get(text)
        return entry[1] if entry is not None and self._dependencies.now() - entry[0] < VALID_S else None

    def with_far_id(self, far_id: str) -> Workspace | None:
        """The only workspace that has this id at the manager of its host."""
        servers = [server for server in self._servers() if server.far_id == far_id]
        return self._workspaces.get(servers[0].workspace) if len(servers) == 1 else None

    async def restore(self, row: WorkspaceRow) -> RemoteSupervisor | None:
        """What stands for the server of a workspace of the previous manager; None if it is on no host."""
        return await self._lines.supervisor(row.id, row.root)

    async def close(self) -> None:
        """Close all lines."""
        await self._lines.close()

    def _at(self, address: RemoteAddress) -> Workspace | None:
        return self._workspaces.get(workspace_id(str(address)))

    def _servers(self) -> Iterator[RemoteSupervisor]:
        servers = (workspace.supervisor for workspace in self._workspaces)
        return (server for server in servers if isinstance(server, RemoteSupervisor))

    async def _known_workspace(self, address: RemoteAddress, link: Link, far_id: str) -> Workspace:
        root = str(address)
        identity = workspace_id(root)
        workspace = self._workspaces.get(identity)
        if workspace is None:
            server = RemoteSupervisor(identity, address, link, self._dependencies)
            workspace = await self._workspaces.add(identity, root, server)
        if isinstance(workspace.supervisor, RemoteSupervisor):
            await workspace.supervisor.use_link(link)
            workspace.supervisor.far_id = far_id
        return workspace

    async def _relink(self) -> None:
        """Give projects whose line was closed, or whose host was not known, what leads there now."""
        stale = [
            server for server in self._servers() if isinstance(server.link, Refusal) or server.link.is_closed
        ]
        links = {host: await self._lines.link_to(host) for host in {server.address.host for server in stale}}
        for server in stale:
            await server.use_link(links[server.address.host])

    def _nearest(self, address: RemoteAddress) -> Workspace | None:
        """The known workspace that the folder lies in, while its host cannot be asked."""
        above = [server for server in self._servers() if _contains(server.address, address)]
        nearest = max(above, key=lambda server: len(server.root), default=None)
        return None if nearest is None else self._workspaces.get(nearest.workspace)


def _contains(root: RemoteAddress, address: RemoteAddress) -> bool:
    inside = address.path == root.path or address.path.startswith(root.path.rstrip("/") + "/")
    return root.host == address.host and inside

"""Connects projects on other hosts with the daemon.

Most users have none, so the rest of the feature is loaded with the first one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from manager.admin.control.control_messages import read_object, refusal, refuse_own_child, success
from manager.features import AddedRoutes, DaemonPart, DaemonParts
from manager.http import lazy_aiohttp as web

if TYPE_CHECKING:
    from lm_tools_bridge.protocol.errors import Refusal
    from lm_tools_bridge.remote_hosts.remote_workspaces import RemoteWorkspaces
    from manager.state_file import WorkspaceRow
    from manager.supervision.dependencies import Dependencies
    from manager.supervision.remote_hosts import KnownWorkspaces, MakeRemoteHosts
    from manager.supervision.workspace import RemoteServer, Workspace


FOR_ANYONE: Final = frozenset({"POST /lines"})
"""Every program may list the lines; the handler refuses changes."""


class LateRemoteHosts:
    """Finds projects on other hosts by `RemoteWorkspaces`, which is made when it is needed."""

    def __init__(self, workspaces: KnownWorkspaces, dependencies: Dependencies) -> None:
        self._workspaces = workspaces
        self._dependencies = dependencies
        self._loaded: RemoteWorkspaces | None = None

    def load(self) -> RemoteWorkspaces:
        """The workspaces on other hosts."""
        if self._loaded is None:
            from lm_tools_bridge.remote_hosts.remote_workspaces import RemoteWorkspaces  # noqa: PLC0415  late

            self._loaded = RemoteWorkspaces(self._workspaces, self._dependencies)
        return self._loaded

    async def find(self, text: str, *, urgent: bool) -> Workspace | Refusal | None:
        """The workspace of an address, see `RemoteWorkspaces.find`."""
        return await self.load().find(text, urgent=urgent)

    async def restore(self, row: WorkspaceRow) -> RemoteServer | None:
        """What stands for the server of a workspace of the previous manager."""
        return await self.load().restore(row)

    def cached(self, text: str) -> Workspace | None:
        """The workspace of an address that was found a short while ago."""
        return None if self._loaded is None else self._loaded.cached(text)

    def with_far_id(self, far_id: str) -> Workspace | None:
        """The only workspace that has this id at the manager of its host."""
        return None if self._loaded is None else self._loaded.with_far_id(far_id)

    def lines(self) -> list[dict[str, Any]]:
        """The lines to hosts that were used since the start, for status."""
        return [] if self._loaded is None else self._loaded.lines()

    async def disconnect_idle(self, limit_s: float, now: float) -> None:
        """End lines that nobody uses."""
        if self._loaded is not None:
            await self._loaded.disconnect_idle(limit_s, now)

    async def close(self) -> None:
        """Close all lines."""
        if self._loaded is not None:
            await self._loaded.close()


class RemoteHostsPart(DaemonPart):
    """Finds projects on other hosts, and serves the verb `lmtb remote`."""

    def __init__(self) -> None:
        self._hosts: LateRemoteHosts | None = None
        self._parts: DaemonParts | None = None

    def connect(self, parts: DaemonParts) -> None:
        """Use these parts of the daemon from now on."""
        self._parts = parts

    def remote_hosts(self) -> MakeRemoteHosts:
        """Makes what finds projects on other hosts."""
        return self._make

    def _make(self, workspaces: KnownWorkspaces, dependencies: Dependencies) -> LateRemoteHosts:
        self._hosts = LateRemoteHosts(workspaces, dependencies)
        return self._hosts

    def control_routes(self) -> AddedRoutes:
        """The lines to other hosts, and the endpoint for lines from there."""
        return AddedRoutes([web.post("/lines", self._lines), web.post("/tunnel", self._tunnel)], FOR_ANYONE)

    async def _tunnel(self, _: web.Request) -> web.Response:
        """Listen for managers on other hosts, and say where."""
        assert self._parts is not None  # noqa: S101  narrows the type: parts are connected before routes
        try:
            return success(path=str(await self._parts.open_private_endpoint()))
        except OSError as error:
            return refusal(503, "no_tunnel", message=str(error))

    async def _lines(self, request: web.Request) -> web.Response:
        """The lines to other hosts; `connect` and `renew` name hosts whose lines are made or renewed first.

        Either, and `forget`, first end the lines to hosts that the user has removed or described anew.
        """
        payload = await read_object(request)
        if isinstance(payload, web.Response):
            return payload
        if payload and (refused := await refuse_own_child(request)) is not None:
            return refused
        connect, renew = (
            name if isinstance(name, str) else None for name in map(payload.get, ("connect", "renew"))
        )
        assert self._hosts is not None  # noqa: S101  narrows the type: routes are made after workspaces
        if connect is not None or renew is not None or payload.get("forget") is True:
            await self._hosts.load().change_lines(connect, renew)
        return success(lines=self._hosts.lines())

"""Defines what finds projects on other hosts: a feature provides it.

Without that feature, `NoRemoteHosts` refuses their addresses.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Protocol

from lm_tools_bridge.protocol.errors import Reason, Refusal
from manager.routing.remote_address import is_remote_address
from manager.state_file import WorkspaceRow
from manager.supervision.dependencies import Dependencies
from manager.supervision.workspace import ProjectServer, RemoteServer, Workspace


class KnownWorkspaces(Protocol):
    """The table of all workspaces, as far as projects on other hosts need it."""

    def __iter__(self) -> Iterator[Workspace]:
        """All workspaces."""

    def get(self, identity: str) -> Workspace | None:
        """The workspace with this id."""

    async def add(self, identity: str, root: str, server: ProjectServer) -> Workspace:
        """Make a workspace known."""


class RemoteHosts(Protocol):
    """Finds projects on other hosts."""

    async def find(self, text: str, *, urgent: bool) -> Workspace | Refusal | None:
        """The workspace of an address; None if the text is no address of a host.

        Args:
            urgent: whether to try a host again that failed just now.
        """

    def cached(self, text: str) -> Workspace | None:
        """The workspace of an address that was found a short while ago."""

    def with_far_id(self, far_id: str) -> Workspace | None:
        """The only workspace that has this id at the manager of its host."""

    async def restore(self, row: WorkspaceRow) -> RemoteServer | None:
        """What stands for the server of a workspace of the previous manager; None if it is on no host."""

    def lines(self) -> list[dict[str, Any]]:
        """The lines to hosts, for status."""

    async def disconnect_idle(self, limit_s: float, now: float) -> None:
        """End lines that no project holds, and that nobody has asked for in so many seconds."""

    async def close(self) -> None:
        """End all lines."""


MakeRemoteHosts = Callable[[KnownWorkspaces, Dependencies], RemoteHosts]


class NoRemoteHosts:
    """Stands for other hosts in an installation that reaches none."""

    async def find(self, text: str, *, urgent: bool) -> Workspace | Refusal | None:
        """The refusal of an address; None for other texts."""
        if not is_remote_address(text):
            return None
        excerpt = text[:200].encode("utf-8", "replace").decode()
        return Refusal(
            Reason.HOST_NOT_ADDED,
            f"host not added: this installation reaches no other hosts: {excerpt}",
            "pass a folder of this machine",
            delivered="no",
            details={"cwd": excerpt},
        )

    def cached(self, text: str) -> None:
        """None is known."""

    def with_far_id(self, far_id: str) -> None:
        """None is known."""

    async def restore(self, row: WorkspaceRow) -> None:
        """None can be reached."""

    def lines(self) -> list[dict[str, Any]]:
        """There are none."""
        return []

    async def disconnect_idle(self, limit_s: float, now: float) -> None:
        """There are no lines."""

    async def close(self) -> None:
        """There are no lines."""

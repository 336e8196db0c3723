"""Defines the services of the control plane and their results; `control_socket.py` is their HTTP."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from typing import Literal, Protocol

import msgspec

from lm_tools_bridge.protocol.errors import Refusal
from lm_tools_bridge.protocol.internal.registration import Allocate, Heartbeat
from manager.disk.folder import CwdProblem
from manager.routing.state.port_leases import PortExhausted
from manager.routing.state.registrations import HeartbeatOutcome
from manager.startup.replacement import Unusable

StartedBy = Literal["service", "background", "foreground"]
"""Who runs the manager: systemd; nobody, since `lmtb up` or a bridge started it; a terminal or supervisor."""


class Status(msgspec.Struct, frozen=True, rename="camel"):
    """The manager itself, as `/status` on the control socket shows it.

    `now` is the time in ms since 1970, `address` the MCP endpoint's URL, None for a manager
    without a port. `path` is the PATH that workspace
    servers inherit, so that a command line finds the same programs; the TCP port never shows it. `prefix` is
    the folder of its Python environment; `started_at` is in ms since 1970.
    """

    version: str
    pid: int
    now: int
    address: str | None
    path: str | None = None
    prefix: str | None = None
    started_by: StartedBy | None = None
    started_at: int | None = None


class ListedInstance(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """One instance as `/list` shows it; times in ms since 1970. Never contains a secret."""

    session_id: str
    workspace: str | None
    pid: int
    workspace_folders: tuple[str, ...]
    workspace_file: str | None
    host: str
    port: int
    last_seen: int
    started_at: int
    owner: Literal["manager", "external", "remote"]
    kind: str
    state: str


class ResolvedWorkspace(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """The workspace of a folder; `session_id`, `host` and `port` are None while it is stopped."""

    session_id: str | None
    workspace: str
    host: str | None
    port: int | None
    workspace_folders: tuple[str, ...]
    workspace_file: str | None
    state: str


ServerQuestion = Literal["inspect", "refresh", "restart_sources", "calls", "stop_call", "answer_approval"]
"""Requests to the server of a folder's workspace. Those about calls start none."""


class Services(Protocol):
    """The operations of the control plane."""

    @property
    def port(self) -> int:
        """The manager's own TCP port, which no server may register."""

    def peer_allowed(self, transport: asyncio.BaseTransport | None) -> bool:
        """Whether the peer of a connection is this user, by the uid of its socket. False if unknown."""

    def owns_process(self, pid: int) -> bool:
        """Whether a process of this user with this pid runs."""

    def status(self) -> Status:
        """Version, process and address of the manager."""

    def list_instances(self) -> Iterable[ListedInstance]:
        """Every instance, the manager's own and registered ones."""

    def allocate(self, message: Allocate) -> int | PortExhausted:
        """Reserve a port, or return the one that the sender's live instance has."""

    async def heartbeat(self, message: Heartbeat) -> HeartbeatOutcome:
        """Register or renew an instance, and end the sender's port reservation."""

    def renew(self, session_id: str) -> bool:
        """Renew a registration by a heartbeat that equals the last one; False if it needs a complete one."""

    def bye(self, session_id: str) -> None:
        """Remove an instance and its port reservation; unknown ids are ignored."""

    async def resolve(self, cwd: str) -> ResolvedWorkspace | CwdProblem | None:
        """Find the workspace of a folder, None where there is none. Starts nothing and waits for nothing."""

    async def ready(self, cwd: str) -> Refusal | None:
        """Start the server of a folder's workspace without a pause, and wait for it; None if it runs."""

    async def ask_server(
        self, cwd: str, ask: ServerQuestion, subject: str | None, *, starts: bool = True
    ) -> bytes | Refusal:
        """Send a request to the server of a folder's workspace: about one source, or the number of a call.

        Returns its JSON answer unchanged.

        Args:
            starts: whether the server is started if needed. Requests about calls start none.
        """

    async def ask_host(self, cwd: str, target: str, members: Mapping[str, object]) -> bytes | Refusal | None:
        """Have the manager on a project's host change a setting there.

        Returns:
            Its JSON answer unchanged; None if the project is on this machine.
        """

    async def restart(self, reason: str | None, *, keep_servers: bool) -> str | Unusable:
        """Check that the installed program can take over, begin that, and return its version."""

    def shutdown(self, reason: str | None, *, keep_servers: bool) -> None:
        """Begin the stop and return at once, so that this request can still be answered."""

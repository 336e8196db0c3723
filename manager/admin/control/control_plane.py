"""Implements the services behind the control socket on the parts of the running daemon (`services.py`)."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Final
from urllib.parse import urlencode

import msgspec

from lm_tools_bridge.machine.own_children import is_confined_peer
from lm_tools_bridge.machine.own_process import own_uid
from lm_tools_bridge.machine.peer_process import is_of_this_user
from lm_tools_bridge.machine.peer_uid import unix_peer_uid
from lm_tools_bridge.protocol import names
from lm_tools_bridge.protocol.errors import Reason, Refusal
from lm_tools_bridge.protocol.internal.registration import Allocate, Heartbeat
from manager import __version__
from manager.admin.control.services import (
    ListedInstance,
    ResolvedWorkspace,
    ServerQuestion,
    StartedBy,
    Status,
)
from manager.disk.folder import CwdProblem, CwdProblemKind
from manager.routing.matching import workspace_id
from manager.routing.state.port_leases import PortExhausted
from manager.routing.state.registrations import HeartbeatOutcome
from manager.startup import replacement
from manager.startup.port import is_bindable
from manager.startup.replacement import Unusable
from manager.supervision.instance import Instance
from manager.supervision.presence import serving
from manager.supervision.registered_servers import RegisteredServers
from manager.supervision.workspace import Workspace
from manager.supervision.workspaces import Workspaces
from manager.upstream.failures import ResponseTooLarge, UpstreamFailure

# A person waits for the answer; a server that takes longer is told to be silent.
SERVER_TIMEOUT_S: Final = 30.0
# Far above any list of tools; a larger answer is refused instead of held in memory.
MAX_ANSWER: Final = 16 * 1024 * 1024
_REQUESTS: Final[Mapping[ServerQuestion, tuple[bytes, bytes, str]]] = {
    "inspect": (b"GET", names.INSPECT_PATH.encode(), "source"),
    "refresh": (b"POST", names.REFRESH_PATH.encode(), "source"),
    "restart_sources": (b"POST", names.RESTART_PATH.encode(), "source"),
    "calls": (b"GET", names.CALLS_PATH.encode(), "source"),
    "stop_call": (b"POST", names.STOP_CALL_PATH.encode(), "number"),
    "answer_approval": (b"POST", names.ANSWER_APPROVAL_PATH.encode(), "answer"),
}
"""Method and path of each request, and the name of its subject in the query."""
_START_NONE: Final[frozenset[ServerQuestion]] = frozenset({"calls", "stop_call", "answer_approval"})


class ControlPlane(msgspec.Struct):
    """Implements `services.Services`.

    `stop(reason, keep_servers, restarts)` begins the daemon's stop. `path` is the PATH that workspace
    servers inherit.
    """

    port: int
    workspaces: Workspaces
    registered_servers: RegisteredServers
    stop: Callable[[str, bool, bool], None]
    started_by: StartedBy
    path: str | None = None
    started_at: int = msgspec.field(default_factory=lambda: int(time.time() * 1000))
    now: Callable[[], float] = time.monotonic

    def peer_allowed(self, transport: asyncio.BaseTransport | None) -> bool:
        """Whether the peer is this user, and no confined script. Admission has checked those on the port."""
        sock = None if transport is None else transport.get_extra_info("socket")
        if sock is None:
            return False
        if sock.family.name != "AF_UNIX":
            return True
        return unix_peer_uid(sock) == own_uid() and not is_confined_peer(sock)

    def owns_process(self, pid: int) -> bool:
        """Whether a process of this user with this pid runs."""
        return is_of_this_user(pid)

    def status(self) -> Status:
        """Version, process and address of the manager."""
        return Status(
            version=__version__,
            pid=os.getpid(),
            now=int(time.time() * 1000),
            address=f"http://127.0.0.1:{self.port}/mcp" if self.port else None,
            path=self.path,
            prefix=sys.prefix,
            started_by=self.started_by,
            started_at=self.started_at,
        )

    def list_instances(self) -> Iterable[ListedInstance]:
        """Every instance, the manager's own and registered ones."""
        for workspace in self.workspaces:
            if workspace.supervisor.instance is not None:
                yield self._listed_instance(workspace, workspace.supervisor.instance)
        registrations = self.registered_servers.registrations
        for record in registrations.records():
            yield ListedInstance(
                session_id=record.session_id,
                workspace=None,
                pid=record.pid,
                workspace_folders=record.workspace_folders,
                workspace_file=record.workspace_file,
                host=record.host,
                port=record.port,
                last_seen=self._wall_ms(registrations.last_seen(record.session_id)),
                started_at=self._wall_ms(record.registered_at),
                owner="external",
                kind=record.kind,
                state=record.state.value,
            )

    def allocate(self, message: Allocate) -> int | PortExhausted:
        """Reserve a port, or return the one that the sender's live instance has."""
        used_ports = [
            workspace.supervisor.instance.port
            for workspace in self.workspaces
            if workspace.supervisor.instance
        ]
        return self.registered_servers.allocate(message, used_ports, self.port, is_bindable)

    async def heartbeat(self, message: Heartbeat) -> HeartbeatOutcome:
        """Register or renew an instance, and end the sender's port reservation."""
        return await self.registered_servers.heartbeat(message)

    def renew(self, session_id: str) -> bool:
        """Renew a registration by a heartbeat that equals the last one; False if it needs a complete one."""
        return self.registered_servers.renew(session_id)

    def bye(self, session_id: str) -> None:
        """Remove an instance and its port reservation."""
        self.registered_servers.bye(session_id)

    async def resolve(self, cwd: str) -> ResolvedWorkspace | CwdProblem | None:
        """Find the workspace of a folder. Starts nothing and waits for nothing."""
        workspace = await self.workspaces.find(cwd, ambient=False)
        if isinstance(workspace, Workspace):
            return self._resolved(workspace)
        if (
            isinstance(workspace, Refusal)
            and workspace.details is not None
            and "problem" in workspace.details
        ):
            return CwdProblem(CwdProblemKind(workspace.details["problem"]))
        return None

    async def ready(self, cwd: str) -> Refusal | None:
        """Start the server of a folder's workspace without a pause, and wait for it; None if it runs."""
        workspace = await self._find_workspace(cwd)
        if isinstance(workspace, Refusal):
            return workspace
        ready = await self.workspaces.ready(workspace, urgent=True)
        return ready if isinstance(ready, Refusal) else None

    async def ask_server(
        self, cwd: str, ask: ServerQuestion, subject: str | None, *, starts: bool = True
    ) -> bytes | Refusal:
        """Send a request to the server of a folder's workspace; its JSON answer.

        Args:
            starts: whether the server is started for it; requests about calls start none.
        """
        is_about_calls = ask in _START_NONE
        workspace = (self._remote_root(cwd) if is_about_calls else None) or await self._find_workspace(cwd)
        if isinstance(workspace, Refusal):
            return workspace
        if workspace.remote is not None:
            return await workspace.remote.ask(ask, subject, starts=starts and not is_about_calls)
        if is_about_calls or not starts:
            running = workspace.supervisor.instance if is_about_calls else serving(self.workspaces, workspace)
            instance = running or Refusal(Reason.WORKSPACE_SERVER_OFFLINE, "no server runs")
        else:
            instance = await self.workspaces.ready(workspace, urgent=True)
        if isinstance(instance, Refusal):
            return instance
        method, target, query = _REQUESTS[ask]
        if subject is not None:
            target += b"?" + urlencode({query: subject}).encode()
        head = (instance.credentials(), (b"Content-Type", b"application/json"))
        try:
            async with asyncio.timeout(SERVER_TIMEOUT_S):
                response = await instance.pool.request(method, target, head, b"")
                body = await response.read(MAX_ANSWER)
        except (UpstreamFailure, ResponseTooLarge, TimeoutError) as failure:
            cause = getattr(failure, "cause", "it did not answer in time")
            return Refusal(Reason.WORKSPACE_SERVER_OFFLINE, f"the workspace server cannot be asked: {cause}")
        if response.head.status != 200:  # a registered server need not support this request
            text = f"the workspace server does not answer this (HTTP {response.head.status})"
            return Refusal(Reason.WORKSPACE_SERVER_OFFLINE, text)
        return body

    async def ask_host(self, cwd: str, target: str, members: Mapping[str, object]) -> bytes | Refusal | None:
        """Have the manager on a project's host change a setting there; None if the project is on this one."""
        workspace = await self._find_workspace(cwd)
        if isinstance(workspace, Refusal):
            return workspace
        return None if workspace.remote is None else await workspace.remote.change(target, members)

    def _remote_root(self, cwd: str) -> Workspace | None:
        """The known project on another host with this root, which is found without asking that host."""
        workspace = self.workspaces.get(workspace_id(cwd))
        return None if workspace is None or workspace.remote is None else workspace

    async def _find_workspace(self, cwd: str) -> Workspace | Refusal:
        workspace = await self.workspaces.find(cwd, ambient=False)
        return workspace or Refusal(Reason.WORKSPACE_NOT_MATCHED, "the folder is in no workspace")

    def shutdown(self, reason: str | None, *, keep_servers: bool) -> None:
        """Begin to stop."""
        self.stop(reason or "asked over the control socket", keep_servers, False)

    async def restart(self, reason: str | None, *, keep_servers: bool) -> str | Unusable:
        """Check that the installed program can take over, begin that, and return its version."""
        version = await replacement.check()
        if isinstance(version, str):
            self.stop(reason or "asked over the control socket", keep_servers, True)
        return version

    def _resolved(self, workspace: Workspace) -> ResolvedWorkspace:
        record = self.registered_servers.registrations.for_root(workspace.root)
        if record is not None:
            return ResolvedWorkspace(
                session_id=record.session_id,
                workspace=workspace.id,
                host=record.host,
                port=record.port,
                workspace_folders=record.workspace_folders,
                workspace_file=record.workspace_file,
                state=record.state.value,
            )
        instance = workspace.supervisor.instance
        return ResolvedWorkspace(
            session_id=None if instance is None else instance.id,
            workspace=workspace.id,
            host=None if instance is None else instance.host,
            port=None if instance is None else instance.port,
            workspace_folders=(workspace.root,),
            workspace_file=None,
            state=workspace.supervisor.lifecycle.state.value,
        )

    def _listed_instance(self, workspace: Workspace, instance: Instance) -> ListedInstance:
        return ListedInstance(
            session_id=instance.id,
            workspace=workspace.id,
            pid=instance.pid or 0,
            workspace_folders=instance.folders,
            workspace_file=instance.workspace_file,
            host=instance.host,
            port=instance.port,
            last_seen=self._wall_ms(instance.last_ok or instance.started_at),
            started_at=self._wall_ms(instance.started_at),
            owner=instance.owner,
            kind="workspace-server",
            state=workspace.supervisor.lifecycle.state.value,
        )

    def _wall_ms(self, moment: float) -> int:
        return int((time.time() - (self.now() - moment)) * 1000)

"""Stands for the server of a project on another host, which the manager there runs.

Calls go over the line to that manager. This class has the operations of
`manager/supervision/supervisor.py`, so that nothing else needs to know where a server runs.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from lm_tools_bridge.protocol import headers
from lm_tools_bridge.protocol.errors import Reason, Refusal
from lm_tools_bridge.protocol.internal import launch
from lm_tools_bridge.remote_hosts.address import RemoteAddress
from lm_tools_bridge.remote_hosts.far_manager import make_ready, resolve
from lm_tools_bridge.remote_hosts.line_failures import FailureKind, LineFailure
from lm_tools_bridge.remote_hosts.link import HOST_FIELD, Link
from lm_tools_bridge.remote_hosts.refusals import line_refusal, not_added
from lm_tools_bridge.text.printable import printable
from manager.log import logger
from manager.routing.state.lifecycle import Lifecycle, State
from manager.state_file import InstanceRow
from manager.status_reading import json_object
from manager.supervision.dependencies import Dependencies
from manager.supervision.instance import Figures, Instance
from manager.supervision.refusals import server_offline
from manager.upstream.failures import Blame, UpstreamFailure
from manager.upstream.response import ResponseHead

if TYPE_CHECKING:
    from lm_tools_bridge.remote_hosts.tunnel.near_end import NearEnd

HEALTH_S: Final = 20.0
"""Longest time for connecting and for a health answer: the manager there may have to start."""
QUICK_S: Final = 4.0
"""Longest wait for an answer about calls: people wait for it, and it needs no server to start."""
MAX_SAID: Final = 300
"""Longest text of the manager there that is shown, in characters."""


@dataclass(slots=True)
class NoOutput:
    """The output of a server is on its own host."""

    lines: tuple[str, ...] = ()

    async def refresh(self) -> None:
        """There is nothing to read."""


@dataclass(slots=True, eq=False)
class RemoteInstance(Instance):
    """The manager there, as the server of one project. `remote_path` is the project's folder there."""

    remote_path: str = ""

    def verify(self, head: ResponseHead, body: bytes) -> bool:
        """Whether a health answer is a good one: the line leads to nobody else."""
        answer = launch.decode_health(body)
        return head.status == 200 and answer is not None and answer.ok

    async def check(self, deadline_s: float, now: float) -> bytes:
        """Request its health, see `Instance.check`."""
        return await Instance.check(self, max(deadline_s, HEALTH_S), now)  # `super` fails with slots

    def credentials(self) -> tuple[bytes, bytes]:
        """The header that every request has: the project's folder instead of a secret."""
        return headers.WORKSPACE_CWD.encode(), headers.encode_value(self.remote_path).encode()


class RemoteSupervisor:
    """The server of one project on another host.

    Attributes:
        address: the root of the project.
        far_id: the id that the project has at the manager there; None before that is known.
        link: to the host.
    """

    last_exit: int | None = None
    moved_to: str | None = None

    def __init__(
        self, workspace: str, address: RemoteAddress, link: Link | Refusal, dependencies: Dependencies
    ) -> None:
        self.workspace = workspace
        self.address = address
        self.root = str(address)
        self.far_id: str | None = None
        self.link = link
        self.lifecycle = Lifecycle(misses_allowed=dependencies.settings.health_misses)
        self.figures = Figures()
        self.instance: Instance | None = None
        self.output = NoOutput()
        self._dependencies = dependencies
        self._line: NearEnd | None = None
        self._beginning: asyncio.Task[Refusal | None] | None = None
        self._closing: set[asyncio.Task[None]] = set()
        self._log = logger(workspace=workspace)

    @property
    def remote(self) -> RemoteSupervisor:
        """It stands for a server on another host."""
        return self

    # -- used by callers ------------------------------------------------------------------------------------

    async def ready(self, *, urgent: bool = False) -> Instance | Refusal:
        """The server; the line is made and the manager there started if needed.

        Args:
            urgent: for a handshake: no manager waits for the pause after a failure.
        """
        if isinstance(self.link, Refusal):
            return self.link
        if self.link.is_closed:
            return not_added(self.link.host)
        if (now := self.ready_now()) is not None:
            unready = await make_ready(self.link, self.address, self.workspace) if urgent else None
            return unready or now
        line = await self.link.ensure(urgent=urgent)
        if isinstance(line, LineFailure):
            self.figures.last_error = line.kind.text.format(host=self.link.host, name=self.link.name)
            return line_refusal(self.link, line)
        if self._beginning is None:
            self._beginning = asyncio.create_task(
                self._begin(self.link, line), name=f"begin {self.workspace}"
            )
            self._beginning.add_done_callback(lambda _: setattr(self, "_beginning", None))
        problem = await asyncio.shield(self._beginning)
        if problem is None and urgent:
            problem = await make_ready(self.link, self.address, self.workspace)
        return problem or self.ready_now() or line_refusal(self.link, LineFailure(FailureKind.CUT))

    def ready_now(self) -> Instance | None:
        """The server, or None if the caller has to wait."""
        return self.instance if self._line is not None and self._line.carrier.is_open else None

    @property
    def is_serving(self) -> bool:
        """Whether calls can go to it."""
        return self.ready_now() is not None

    @property
    def is_held(self) -> bool:
        """Whether the manager there serves it, or the line is made again for it when it was cut."""
        is_awaited = isinstance(self.link, Link) and self._on_line_change in self.link.on_change
        return self.instance is not None or is_awaited

    def replace(self, instance: Instance, why: str) -> None:
        """The manager there replaces its servers itself."""

    def offline(self, cause: str, *, retry_after_ms: int | None = None) -> Refusal:
        """The refusal 47102 for a server that cannot be used."""
        return server_offline(self.workspace, cause, retry_after_ms=retry_after_ms)

    async def ask(self, question: str, subject: str | None, *, starts: bool = True) -> bytes | Refusal:
        """Send a question about the server to the manager there; its JSON answer.

        Args:
            starts: whether the line is made and the server started for this question.
        """
        if starts:
            ready = await self.ready(urgent=True)
            if isinstance(ready, Refusal):
                return ready
        elif not isinstance(self.link, Link) or not self.link.is_up:
            return Refusal(Reason.WORKSPACE_SERVER_OFFLINE, f"there is no line to {self.address.host} now")
        members = {} if subject is None else {"source": subject}
        about = members if starts else {**members, "start": False}
        return await self._send(f"/{question}", about, limit_s=None if starts else QUICK_S)

    async def change(self, target: str, members: Mapping[str, object]) -> bytes | Refusal:
        """Have the manager there change a setting of the user there; its JSON answer."""
        if isinstance(self.link, Refusal):
            return self.link
        line = await self.link.ensure(urgent=True)
        if isinstance(line, LineFailure):
            return line_refusal(self.link, line)
        return await self._send(target, members)

    async def _send(
        self, target: str, members: Mapping[str, object], *, limit_s: float | None = None
    ) -> bytes | Refusal:
        assert isinstance(self.link, Link)  # noqa: S101  narrows the type: there was a line
        host = self.link.host
        try:
            status, body = await self.link.ask(target, {"cwd": self.address.path, **members}, limit_s=limit_s)
        except UpstreamFailure as failure:
            if failure.blame is Blame.NOT_DELIVERED:
                return line_refusal(self.link, LineFailure(FailureKind.CUT), cause=failure.cause)
            what = "did not answer in time" if failure.cause == "timeout" else "was lost before it answered"
            text, details = f"{host} {what}", {"host": str(host), "cause": failure.cause}
            return Refusal(Reason.WORKSPACE_SERVER_OFFLINE, text, delivered="unknown", details=details)
        if status == 200:
            return body
        message = (json_object(body) or {}).get("message")
        if not isinstance(message, str):
            text = f"the manager on {host} does not answer this (HTTP {status})"
            return Refusal(Reason.WORKSPACE_SERVER_OFFLINE, text)
        return Refusal(Reason.WORKSPACE_SERVER_OFFLINE, f"{host} says: {printable(message, width=MAX_SAID)}")

    async def use_link(self, link: Link | Refusal) -> None:
        """Reach the host over another line from now on: it was added again, perhaps with another command."""
        if self.link is not link:
            await self.stop()
            self.link = link

    async def adopt(self, row: InstanceRow) -> bool:
        """There is no process to adopt."""
        return False

    async def stop(self) -> None:
        """Let go of the line, which ends with the last project that uses it. The server there goes on."""
        await self._leave()
        if not isinstance(self.link, Refusal):
            self.link.on_change.discard(self._on_line_change)
            if not self.link.on_change:
                await self.link.disconnect()

    async def close(self, *, keep: bool = False) -> None:
        """Let go of the line for good. The owner of the lines closes them."""
        if not isinstance(self.link, Refusal):
            self.link.on_change.discard(self._on_line_change)
        await self._leave()

    # -- the line -------------------------------------------------------------------------------------------

    async def _begin(self, link: Link, line: NearEnd) -> Refusal | None:
        """Begin to use a new line: find the project there, and see that the manager answers."""
        match = await resolve(link, self.address)
        if isinstance(match, Refusal):
            return match
        if match.workspace_folders[0] != self.address.path:
            text = f"workspace gone: {self.root}"
            return Refusal(Reason.WORKSPACE_GONE, text, delivered="no", details={"workspace": self.workspace})
        instance = self._instance(link)
        try:
            await instance.check(HEALTH_S, self._dependencies.now())
        except UpstreamFailure as failure:
            await instance.pool.close()
            return line_refusal(link, LineFailure(FailureKind.CANNOT_SERVE), cause=failure.cause)
        await self._leave()
        link.on_change.add(self._on_line_change)
        self.far_id, self.instance, self._line = match.workspace, instance, line
        self.lifecycle.start(self._dependencies.now())
        self.lifecycle.answered()
        self._log.info("workspace.ready", host=str(link.host))
        return None

    def _instance(self, link: Link) -> RemoteInstance:
        host, port = HOST_FIELD
        return RemoteInstance(
            str(link.host),
            self.workspace,
            (self.root,),
            port,
            "",
            "",
            self._dependencies.now(),
            owner="remote",
            host=host,
            remote_path=self.address.path,
            dial=lambda make: link.dial("mcp", make),
            connect_s=HEALTH_S,
        )

    def _on_line_change(self) -> None:
        """Notice that the line was cut. The calls in flight have failed with it."""
        if self.instance is not None and not self.is_serving:
            self.figures.last_error = "the line was cut"
            task = asyncio.create_task(self._leave(), name=f"leave {self.workspace}")
            self._closing.add(task)
            task.add_done_callback(self._closing.discard)

    async def _leave(self) -> None:
        instance, self.instance, self._line = self.instance, None, None
        if instance is not None:
            if self.lifecycle.state is not State.STOPPED:
                self.lifecycle.fast_exits = 0  # cuts are no crashes
                self.lifecycle.exited(self._dependencies.now(), self._dependencies.rng.random())
            await instance.pool.close()

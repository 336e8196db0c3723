"""One project folder and what stands for its server: one interface, whatever runs the server and wherever.

`supervisor.py` runs the servers of projects on this machine; a feature offers those of other machines.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from lm_tools_bridge.protocol.errors import Refusal
from manager.disk.folder import FolderIdentity
from manager.routing.state.lifecycle import Lifecycle
from manager.state_file import InstanceRow
from manager.supervision.instance import Figures, Instance


class ServerOutput(Protocol):
    """The last lines that a server wrote."""

    @property
    def lines(self) -> Sequence[str]:
        """The lines, as of the last refresh."""

    async def refresh(self) -> None:
        """Read them again."""


class ProjectServer(Protocol):
    """The server of one project.

    Attributes:
        root: of the project: a folder of this machine, or an address.
        instance: the server while it runs.
        last_exit: the exit code of the last process; None if there was none here.
    """

    workspace: str
    root: str
    lifecycle: Lifecycle
    figures: Figures
    instance: Instance | None
    last_exit: int | None

    @property
    def output(self) -> ServerOutput:
        """What it wrote last."""

    @property
    def moved_to(self) -> str | None:
        """Where the project's folder is now, if it was moved under its server; None if unknown."""

    @property
    def is_serving(self) -> bool:
        """Whether calls can go to it."""

    @property
    def remote(self) -> RemoteServer | None:
        """Itself, if the project is on another host; None for a project on this machine."""

    @property
    def is_held(self) -> bool:
        """Whether something runs or is kept open for it, which ends by `stop`."""

    async def ready(self, *, urgent: bool = False) -> Instance | Refusal:
        """The server, which is started if needed.

        Args:
            urgent: for a handshake: does not wait for the pause after a failure.
        """

    def ready_now(self) -> Instance | None:
        """The server, or None if the caller has to wait (`ready`)."""

    def replace(self, instance: Instance, why: str) -> None:
        """Replace a server that does not answer."""

    def offline(self, cause: str, *, retry_after_ms: int | None = None) -> Refusal:
        """The refusal 47102 for a server that cannot be used."""

    async def adopt(self, row: InstanceRow) -> bool:
        """Take over a server that a previous manager started; False if it is gone."""

    async def stop(self) -> None:
        """Stop the server. It may be started again later."""

    async def close(self, *, keep: bool = False) -> None:
        """Stop permanently. With `keep`, the server keeps running for the next manager."""


class RemoteServer(ProjectServer, Protocol):
    """The server of a project on another host, which the manager there runs.

    Attributes:
        far_id: the id of the workspace at the manager there; None until it is known.
    """

    far_id: str | None

    async def ask(self, question: str, subject: str | None, *, starts: bool = True) -> bytes | Refusal:
        """Send a question about the server to the manager there; its JSON answer.

        Args:
            starts: whether the server is started for this question.
        """

    async def change(self, target: str, members: Mapping[str, object]) -> bytes | Refusal:
        """Have the manager there change a setting of the user there; its JSON answer."""


@dataclass(slots=True, eq=False)
class Workspace:
    """A known project folder.

    Attributes:
        identity: (device, inode) at the last root check; None if the folder was missing.
        seen_at: time of that check, in monotonic seconds.
        used_at: time of the last use, in monotonic seconds.
        moved_to: where the folder was when it was missing from its place; None if unknown.
        root_check: the root check that runs in the background.
        repository: the git repository of which it was a working tree when its server was looked at first.
        remote: its server if it is on another host; None if its root is a folder of this machine.
    """

    id: str
    root: str
    supervisor: ProjectServer
    identity: FolderIdentity | None = None
    seen_at: float = float("-inf")
    used_at: float = 0.0
    moved_to: str | None = None
    root_check: asyncio.Task[bool] | None = None
    repository: str | None = None
    remote: RemoteServer | None = field(init=False)

    def __post_init__(self) -> None:
        self.remote = self.supervisor.remote

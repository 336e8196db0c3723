"""One known project folder, and what runs or stands for its server."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from manager.disk.folder import FolderIdentity
from manager.supervision.project_server import ProjectServer, RemoteServer


@dataclass(slots=True, eq=False)
class Workspace:
    """A known project folder.

    Attributes:
        identity: (device, inode) at the last root check; None if the folder was missing.
        seen_at: time of that check, in monotonic seconds.
        used_at: time of the last use, in monotonic seconds.
        moved_to: where the folder was when it was missing from its place; None if unknown.
        root_check: the root check that runs in the background.
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
    remote: RemoteServer | None = field(init=False)

    def __post_init__(self) -> None:
        self.remote = self.supervisor.remote

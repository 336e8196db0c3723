"""Table of workspaces: finds the workspace of a folder and the folder's place in it, and provides its server.

`routing/matching.py` has the rule of the nearest root, `supervisor.py` runs one server.
A server from `registered_servers.py` takes precedence over one that the manager starts.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from lm_tools_bridge.protocol.errors import Reason, Refusal
from manager.disk.filesystem import FolderExaminer
from manager.disk.folder import CwdProblem, CwdProblemKind, FolderFacts
from manager.log import logger
from manager.routing.cwd import NoCwd, parse_cwd
from manager.routing.matching import KnownRoot, Match, match, workspace_id
from manager.routing.remote_address import may_be_remote
from manager.state_file import Loaded, WorkspaceRow
from manager.supervision.dependencies import Dependencies
from manager.supervision.instance import Instance
from manager.supervision.refusals import is_utf8, refused_cwd, workspace_gone
from manager.supervision.registered_servers import RegisteredServers
from manager.supervision.remote_hosts import MakeRemoteHosts, NoRemoteHosts, RemoteHosts
from manager.supervision.supervisor import Supervisor
from manager.supervision.workspace import ProjectServer, Workspace


class Placement(NamedTuple):
    """A folder in a workspace. `path` is its real path; for one on another host, the root's address."""

    workspace: Workspace
    path: str

    @property
    def folder(self) -> str:
        """The folder relative to the workspace's root, as `folder_in` has it."""
        return folder_in(self.workspace, self.path)


def folder_in(workspace: Workspace, path: str) -> str:
    """A real path relative to the root of its workspace, with `/`; empty for the root itself.

    Also empty where it does not lie below the root: in a further folder of a `.code-workspace` file. The path
    of a project on another host is always its root.
    """
    below = workspace.root.rstrip(os.sep) + os.sep  # not `pathlib`: this is read with every call
    if not path.startswith(below):
        return ""
    return path[len(below) :].replace(os.sep, "/")


ROOT_CHECK_S: Final = 1.0
"""How long the result of a root check (does the folder still exist?) is valid."""
LOOK_AGAIN_S: Final = 0.5
"""Seconds between two searches for an unmatched folder: nothing reports that it got a mark meanwhile."""
ROOT_RECHECK_S: Final = 0.8
"""Age after which the root of a busy workspace is checked in the background, so that no call waits for it."""
# A model reads them in a refusal: enough to find the right one, few enough to cost no context.
SHOWN_WORKSPACES: Final = 10
MAX_CACHED_FOLDERS: Final = 1024
"""Entries in the cache of ambient folders. They come with every request; an entry is valid `ROOT_CHECK_S`."""

_UNKNOWN_STATE: Final = (CwdProblemKind.UNREADABLE, CwdProblemKind.SILENT, CwdProblemKind.BUSY)
_NEVER: Final = (float("-inf"), None)


class Workspaces:
    """All known workspaces by id."""

    def __init__(
        self,
        dependencies: Dependencies,
        examiner: FolderExaminer,
        registered_servers: RegisteredServers,
        *,
        home: Path | None,
        windows: bool,
        make_remote_hosts: MakeRemoteHosts | None = None,
    ) -> None:
        self._dependencies = dependencies
        self._examiner = examiner
        self.registered_servers = registered_servers
        self._home = home
        self._windows = windows
        self._by_id: dict[str, Workspace] = {}
        self._recent: dict[str, tuple[float, Placement]] = {}
        self.remote_hosts: RemoteHosts = (
            NoRemoteHosts() if make_remote_hosts is None else make_remote_hosts(self, dependencies)
        )

    def __iter__(self) -> Iterator[Workspace]:
        return iter(self._by_id.values())

    def __len__(self) -> int:
        return len(self._by_id)

    def get(self, identity: str) -> Workspace | None:
        """The workspace with this id; None if it is unknown."""
        return self._by_id.get(identity)

    def by_handle(self, identity: object) -> Workspace | Refusal:
        """The workspace of the handle that a client sent, or a refusal."""
        workspace = self._by_id.get(identity) if isinstance(identity, str) else None
        return workspace or self._unmatched(str(identity)[:200], {"workspace": str(identity)[:200]})

    # -- finding a workspace ----------------------------------------------------------------------------

    async def find(self, text: object, *, ambient: bool) -> Workspace | Refusal | None:
        """As `place`, but the workspace alone."""
        outcome = await self.place(text, ambient=ambient)
        return outcome.workspace if isinstance(outcome, Placement) else outcome

    async def place(self, text: object, *, ambient: bool) -> Placement | Refusal | None:
        """The workspace of a folder as a client wrote it, and the folder's real path.

        Returns:
            The placement (a marked folder becomes a known workspace), a refusal (`invalid_cwd`,
            `workspace_not_matched`, or `overloaded` while too many folders hang), or None for an empty text
            or an unexpanded placeholder.
        """
        now = self._dependencies.now()
        if ambient and isinstance(text, str) and (cached_workspace := self.cached(text)) is not None:
            return cached_workspace
        if isinstance(text, str) and may_be_remote(text):
            remote = await self.remote_hosts.find(text, urgent=not ambient)
            if remote is not None:
                return Placement(remote, remote.root) if isinstance(remote, Workspace) else remote
        candidates = parse_cwd(text, ambient=ambient, windows=self._windows)
        if isinstance(candidates, NoCwd):
            return None
        if isinstance(candidates, CwdProblem):
            return refused_cwd(candidates, str(text))
        facts = await self._examiner.examine(candidates.paths)
        if isinstance(facts, CwdProblem):
            return refused_cwd(facts, str(text))
        workspace = await self._find(facts, str(text))
        if isinstance(workspace, Refusal):
            return workspace
        placement = Placement(workspace, facts.folder)
        # a link may lead elsewhere by the next call, so what it leads to is not kept
        is_real = any(str(Path(path)) == facts.folder for path in candidates.paths)
        if ambient and isinstance(text, str) and is_real:
            if len(self._recent) >= MAX_CACHED_FOLDERS:
                self._recent.clear()
            self._recent[text] = (now, placement)
        return placement

    def cached(self, text: str) -> Placement | None:
        """Where an ambient folder lies if that was looked up less than `ROOT_CHECK_S` ago, else None."""
        looked_at, placement = self._recent.get(text, _NEVER)
        if placement is None:
            workspace = self.remote_hosts.cached(text)
            return None if workspace is None else Placement(workspace, workspace.root)
        return placement if self._dependencies.now() - looked_at < ROOT_CHECK_S else None

    async def _find(self, facts: FolderFacts, text: str) -> Workspace | Refusal:
        if not is_utf8(facts.folder):  # JSON cannot name it: neither launch instructions nor answers
            return refused_cwd(CwdProblem(CwdProblemKind.MALFORMED), text)
        result = await self._match(facts)
        if result is None:
            return self._unmatched(facts.folder, {"cwd": facts.folder})
        return await self._add_match(result)

    async def find_or_wait(self, text: object) -> Workspace | Refusal | None:
        """As `find`, but wait up to `match_wait_s` for a server of an unmatched folder to register."""
        deadline = self._dependencies.now() + self._dependencies.settings.match_wait_s
        changed = self.registered_servers.changed_event()
        while True:
            changed.clear()  # before the search: a registration during the search must not be missed
            result = await self.find(text, ambient=False)
            left = deadline - self._dependencies.now()
            unmatched = isinstance(result, Refusal) and result.reason is Reason.WORKSPACE_NOT_MATCHED
            if not unmatched or left <= 0:
                return result
            try:
                async with asyncio.timeout(min(left, LOOK_AGAIN_S)):
                    await changed.wait()
            except TimeoutError:
                continue

    async def real_folder(self, text: object) -> str | None:
        """The absolute real path of a folder as a client wrote it; None if there is no such folder."""
        candidates = parse_cwd(text, ambient=False, windows=self._windows)
        if isinstance(candidates, NoCwd | CwdProblem):
            return None
        facts = await self._examiner.examine(candidates.paths)
        return facts.folder if isinstance(facts, FolderFacts) else None

    async def worktrees_of_agents(self, workspace: Workspace) -> tuple[str, ...]:
        """The other worktrees of a project's repository in which a sub-agent works now."""
        return (
            () if workspace.remote is not None else await self._examiner.worktrees_of_agents(workspace.root)
        )

    async def _match(self, facts: FolderFacts) -> Match | None:
        roots = [KnownRoot(entry.root, entry.id, entry.identity) for entry in self._by_id.values()]
        roots += [
            KnownRoot(place, workspace_id(root), None) for place, root in self.registered_servers.roots()
        ]
        home = await self._examiner.identify(str(self._home)) if self._home is not None else None
        auto_start = self._dependencies.settings.auto_start
        while True:
            nearest = match(facts.ancestors, roots, home=home, auto_start=auto_start)
            stale = await self._stale_root(nearest, facts)
            if stale is None:
                return nearest
            roots = [entry for entry in roots if entry.root != stale]

    async def _stale_root(self, nearest: Match | None, facts: FolderFacts) -> str | None:
        """The root of a match by inode if another folder has the inode by now; None if the match is good."""
        if nearest is None or nearest.workspace_id is None:
            return None
        if nearest.root == facts.ancestors[nearest.levels_up].path:
            return None
        fresh = await self._examiner.identify(nearest.root)
        return nearest.root if fresh != facts.ancestors[nearest.levels_up].identity else None

    async def _add_match(self, nearest: Match) -> Workspace:
        identity = nearest.workspace_id or workspace_id(nearest.root)
        workspace = self._by_id.get(identity)
        if workspace is None:
            registered = (root for _, root in self.registered_servers.roots())
            root = next(
                (
                    registered_root
                    for registered_root in registered
                    if workspace_id(registered_root) == identity
                ),
                nearest.root,
            )
            workspace = await self.add(identity, root, Supervisor(identity, root, self._dependencies))
        await self._check_root(workspace)
        return workspace

    async def add(self, identity: str, root: str, server: ProjectServer) -> Workspace:
        """Make a workspace known, and save that."""
        workspace = self._add(identity, root, server)
        await self._dependencies.store.save_workspace(WorkspaceRow(identity, root))
        logger().info("workspace.known", workspace=identity)
        return workspace

    def _add(self, identity: str, root: str, server: ProjectServer) -> Workspace:
        workspace = Workspace(identity, root, server, used_at=self._dependencies.now())
        self._by_id[identity] = workspace
        return workspace

    def _unmatched(self, what: str, details: dict[str, object]) -> Refusal:
        details["known"] = list(self._by_id)[:SHOWN_WORKSPACES]
        return Refusal(Reason.WORKSPACE_NOT_MATCHED, f"workspace not matched: {what}", details=details)

    # -- the server of a workspace ----------------------------------------------------------------------

    async def ready(
        self, workspace: Workspace, *, urgent: bool = False, is_pure: bool = False
    ) -> Instance | Refusal:
        """Return the server of a workspace; start it if needed.

        `Supervisor.ready` says what `urgent` means, `RegisteredServers.ready` what `is_pure` means.
        """
        workspace.used_at = self._dependencies.now()
        if workspace.remote is not None:  # no folder of this machine to check, no program to register for it
            return await workspace.remote.ready(urgent=urgent)
        if not await self._is_there(workspace):
            return await self._refuse_gone(workspace)
        registered = await self.registered_servers.ready(workspace.root, urgent=urgent, is_pure=is_pure)
        if registered is not None:
            return registered
        server = await workspace.supervisor.ready(urgent=urgent)
        if isinstance(server, Refusal):  # the folder may have gone since it was looked at
            workspace.identity = None
            if not await self._is_there(workspace):
                return await self._refuse_gone(workspace)
        return server

    async def _refuse_gone(self, workspace: Workspace) -> Refusal:
        workspace.moved_to = workspace.supervisor.moved_to or workspace.moved_to
        await workspace.supervisor.stop()
        return workspace_gone(workspace.id, workspace.root, workspace.moved_to)

    def ready_now(self, workspace: Workspace, now: float, *, is_pure: bool = False) -> Instance | None:
        """Return the server, or None if the caller has to wait (`ready`). `now` is in monotonic seconds."""
        workspace.used_at = now
        if workspace.remote is not None:
            return workspace.remote.ready_now()
        age = now - workspace.seen_at
        if workspace.identity is None or age > ROOT_CHECK_S:
            return None
        if age > ROOT_RECHECK_S and (workspace.root_check is None or workspace.root_check.done()):
            check = self._check_root(workspace)
            workspace.root_check = asyncio.create_task(check, name=f"check root {workspace.id}")
        registered = self.registered_servers.ready_now(workspace.root, is_pure=is_pure)
        if isinstance(registered, bool):
            return None if registered else workspace.supervisor.ready_now()
        return registered

    async def _is_there(self, workspace: Workspace) -> bool:
        """Whether the root folder exists. A positive result is cached for `ROOT_CHECK_S`.

        If the disk does not answer, a running server continues, but none is started.
        """
        fresh = self._dependencies.now() - workspace.seen_at <= ROOT_CHECK_S
        if (fresh and workspace.identity is not None) or await self._check_root(workspace):
            return True
        facts = await self._examiner.examine((workspace.root,))
        if isinstance(facts, CwdProblem) and facts.kind in _UNKNOWN_STATE:
            return workspace.supervisor.is_serving
        return isinstance(facts, FolderFacts) and facts.folder == workspace.root

    async def _check_root(self, workspace: Workspace) -> bool:
        workspace.identity = await self._examiner.identify_root(workspace.root)
        workspace.seen_at = self._dependencies.now()
        return workspace.identity is not None

    async def restore(self, loaded: Loaded) -> None:
        """Load the workspaces of the previous manager and adopt the servers that still run."""
        for row in loaded.workspaces:
            server = await self._restored_server(row)
            if server is not None:
                self._add(row.id, row.root, server)
        # only the disk of this machine can be looked at
        checks = (self._check_root(workspace) for workspace in self if workspace.remote is None)
        await asyncio.gather(self.registered_servers.restore(loaded.registered), *checks)
        instances = ((self._by_id.get(row.workspace), row) for row in loaded.instances)
        await asyncio.gather(*(one.supervisor.adopt(row) for one, row in instances if one is not None))

    async def _restored_server(self, row: WorkspaceRow) -> ProjectServer | None:
        """The server of a workspace of the previous manager; None if its host cannot be reached any more."""
        if may_be_remote(row.root):
            return await self.remote_hosts.restore(row)
        return Supervisor(row.id, row.root, self._dependencies)

    async def forget(self, workspace: Workspace) -> None:
        """Remove a workspace whose folder is gone from the table and the state file."""
        del self._by_id[workspace.id]
        self._recent.clear()  # an entry may lead to it
        await self._dependencies.store.drop_workspace(workspace.id)

    async def close(self, *, keep: bool = False) -> None:
        """Stop all servers that the manager started; with `keep` leave them running for the next manager."""
        await asyncio.gather(*(one.root_check for one in self if one.root_check), return_exceptions=True)
        await asyncio.gather(*(workspace.supervisor.close(keep=keep) for workspace in self))
        await self.remote_hosts.close()

"""All workspaces: which folder is which, who serves it, and the stop of what nobody uses.

The rule of the nearest root is `routing/workspace/matching.py`; one server's life is `supervisor.py`;
servers that somebody else started come from `registered_servers.py` and go before ours.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from manager.filesystem import FolderExaminer
from manager.folder import CwdProblem, CwdProblemKind, FolderFacts, FolderIdentity
from manager.log import logger
from manager.routing.workspace.cwd import NoCwd, parse_cwd
from manager.routing.workspace.matching import KnownRoot, Match, match
from manager.routing.workspace.workspace_id import workspace_id
from manager.store import Loaded, WorkspaceRow
from manager.supervision.cwd_refusals import invalid_cwd, is_utf8
from manager.supervision.dependencies import Dependencies
from manager.supervision.instance import Instance
from manager.supervision.registered_servers import RegisteredServers
from manager.supervision.supervisor import Supervisor
from protocol.errors import Reason, Refusal

ROOT_CHECK_S: Final = 1.0
"""How long it is believed that a root still exists."""
LOOK_AGAIN_S: Final = 0.8
"""After this the root of a busy workspace is looked at beside its calls, so that none of them has to wait."""
SHOWN_WORKSPACES: Final = 10
REMEMBERED: Final = 1024
"""How many ambient folders, which come with every request, are remembered for `ROOT_CHECK_S`."""

_NEVER: Final = (float("-inf"), None)


@dataclass(slots=True, eq=False)
class Workspace:
    """A known project folder. `identity` is (device, inode) at the last look; `look` is one beside calls."""

    id: str
    root: str
    supervisor: Supervisor
    identity: FolderIdentity | None = None
    seen_at: float = float("-inf")
    used_at: float = 0.0
    look: asyncio.Task[bool] | None = None


class Workspaces:
    """The table of workspaces and the way from a client's words to one of them."""

    def __init__(
        self,
        dependencies: Dependencies,
        examiner: FolderExaminer,
        registered_servers: RegisteredServers,
        *,
        home: Path | None,
        windows: bool,
    ) -> None:
        self._dependencies = dependencies
        self._examiner = examiner
        self._registered_servers = registered_servers
        self._home = home
        self._windows = windows
        self._by_id: dict[str, Workspace] = {}
        self._recent: dict[str, tuple[float, Workspace]] = {}

    def __iter__(self) -> Iterator[Workspace]:
        return iter(self._by_id.values())

    def __len__(self) -> int:
        return len(self._by_id)

    def get(self, identity: str) -> Workspace | None:
        """The workspace of an id (a handle a client got from a handshake)."""
        return self._by_id.get(identity)

    def by_handle(self, identity: object) -> Workspace | Refusal:
        """The workspace of a client's handle, or why not."""
        found = self._by_id.get(identity) if isinstance(identity, str) else None
        return found or self._unmatched(str(identity)[:200], {"workspace": str(identity)[:200]})

    # -- from words to a workspace ----------------------------------------------------------------------

    async def find(self, text: object, *, ambient: bool) -> Workspace | Refusal | None:
        """The workspace of a folder as a client wrote it.

        Returns:
            The workspace (a marked folder that was unknown becomes known), a refusal (`invalid_cwd`,
            `workspace_not_matched`), or None when nothing was said: an empty or unexpanded text.
        """
        now = self._dependencies.now()
        if ambient and isinstance(text, str) and (known := self.cached(text)) is not None:
            return known
        found = await self._find(text, ambient=ambient)
        if ambient and isinstance(text, str) and isinstance(found, Workspace):
            if len(self._recent) >= REMEMBERED:
                self._recent.clear()
            self._recent[text] = (now, found)
        return found

    def cached(self, text: str) -> Workspace | None:
        """The workspace of an ambient folder that was asked for a moment ago."""
        looked_at, workspace = self._recent.get(text, _NEVER)
        return workspace if self._dependencies.now() - looked_at < ROOT_CHECK_S else None

    async def _find(self, text: object, *, ambient: bool) -> Workspace | Refusal | None:
        candidates = parse_cwd(text, ambient=ambient, windows=self._windows)
        if isinstance(candidates, NoCwd):
            return None
        if isinstance(candidates, CwdProblem):
            return invalid_cwd(candidates, str(text))
        facts = await self._examiner.examine(candidates.paths)
        if isinstance(facts, CwdProblem):
            return invalid_cwd(facts, str(text))
        if not is_utf8(facts.folder):  # JSON could not name it: not in orders, not in answers
            return invalid_cwd(CwdProblem(CwdProblemKind.MALFORMED), str(text))
        found = await self._match(facts)
        if found is None:
            return self._unmatched(facts.folder, {"cwd": facts.folder})
        return await self._become_known(found)

    async def find_or_wait(self, text: object) -> Workspace | Refusal | None:
        """As `find`, but a folder that matches nothing yet may belong to a server just registering."""
        deadline = self._dependencies.now() + self._dependencies.settings.match_wait_s
        changed = self._registered_servers.changed_event()
        while True:
            changed.clear()  # before the look: what registers meanwhile must not be missed
            found = await self.find(text, ambient=False)
            left = deadline - self._dependencies.now()
            unmatched = isinstance(found, Refusal) and found.reason is Reason.WORKSPACE_NOT_MATCHED
            if not unmatched or left <= 0:
                return found
            try:
                async with asyncio.timeout(min(left, 0.5)):
                    await changed.wait()
            except TimeoutError:
                continue

    async def real_folder(self, text: object) -> str | None:
        """The folder a client's text means, absolute and with links resolved; None if there is none."""
        candidates = parse_cwd(text, ambient=False, windows=self._windows)
        if isinstance(candidates, NoCwd | CwdProblem):
            return None
        facts = await self._examiner.examine(candidates.paths)
        return facts.folder if isinstance(facts, FolderFacts) else None

    async def _match(self, facts: FolderFacts) -> Match | None:
        known = [KnownRoot(one.root, one.id, one.identity) for one in self._by_id.values()]
        known += [
            KnownRoot(place, workspace_id(root), None) for place, root in self._registered_servers.roots()
        ]
        home = await self._examiner.identify(str(self._home)) if self._home is not None else None
        while True:
            found = match(
                facts.ancestors, known, home=home, auto_start=self._dependencies.settings.auto_start
            )
            stale = await self._stale_root(found, facts)
            if stale is None:
                return found
            known = [one for one in known if one.root != stale]

    async def _stale_root(self, found: Match | None, facts: FolderFacts) -> str | None:
        """A root matched by inode alone whose inode belongs to another folder by now."""
        if found is None or found.workspace_id is None:
            return None
        if found.root == facts.ancestors[found.levels_up].path:
            return None
        fresh = await self._examiner.identify(found.root)
        return found.root if fresh != facts.ancestors[found.levels_up].identity else None

    async def _become_known(self, found: Match) -> Workspace:
        identity = found.workspace_id or workspace_id(found.root)
        workspace = self._by_id.get(identity)
        if workspace is None:
            root = next(
                (root for _, root in self._registered_servers.roots() if workspace_id(root) == identity),
                found.root,
            )
            workspace = self._add(identity, root)
            await self._dependencies.store.save_workspace(WorkspaceRow(identity, root))
            logger().info("workspace.known", workspace=identity)
        await self._look_at(workspace)
        return workspace

    def _add(self, identity: str, root: str) -> Workspace:
        workspace = Workspace(identity, root, Supervisor(identity, root, self._dependencies))
        workspace.used_at = self._dependencies.now()
        self._by_id[identity] = workspace
        return workspace

    def _unmatched(self, what: str, details: dict[str, object]) -> Refusal:
        details["known"] = list(self._by_id)[:SHOWN_WORKSPACES]
        return Refusal(Reason.WORKSPACE_NOT_MATCHED, f"workspace not matched: {what}", details=details)

    # -- from a workspace to its server -----------------------------------------------------------------

    async def ready(self, workspace: Workspace, *, urgent: bool = False) -> Instance | Refusal:
        """The server of a workspace, started if need be.

        Args:
            urgent: a handshake asks; see `Supervisor.ready`.
        """
        workspace.used_at = self._dependencies.now()
        if not await self._is_there(workspace):
            await workspace.supervisor.stop()
            return Refusal(
                Reason.WORKSPACE_GONE, f"workspace gone: {workspace.root}", delivered="no",
                details={"workspace": workspace.id},
            )  # fmt: skip
        external = await self._registered_servers.ready(workspace.root)
        if external is not None:
            return external
        return await workspace.supervisor.ready(urgent=urgent)

    def ready_now(self, workspace: Workspace, now: float) -> Instance | None:
        """The server of a workspace, None where anything must be waited for (`ready`); `now` is monotonic."""
        workspace.used_at = now
        age = now - workspace.seen_at
        if workspace.identity is None or age > ROOT_CHECK_S:
            return None
        if age > LOOK_AGAIN_S and (workspace.look is None or workspace.look.done()):
            workspace.look = asyncio.create_task(self._look_at(workspace), name=f"look {workspace.id}")
        external = self._registered_servers.ready_now(workspace.root)
        if isinstance(external, bool):
            return None if external else workspace.supervisor.ready_now()
        return external

    async def _is_there(self, workspace: Workspace) -> bool:
        """Whether the root is in its place. Only that it *was* there is believed for a while.

        A disk that does not answer proves nothing: a server that runs goes on, but none is started there.
        """
        fresh = self._dependencies.now() - workspace.seen_at <= ROOT_CHECK_S
        if (fresh and workspace.identity is not None) or await self._look_at(workspace):
            return True
        facts = await self._examiner.examine((workspace.root,))
        if isinstance(facts, CwdProblem) and facts.kind is CwdProblemKind.UNREADABLE:
            return workspace.supervisor.is_serving
        return isinstance(facts, FolderFacts) and facts.folder == workspace.root

    async def _look_at(self, workspace: Workspace) -> bool:
        workspace.identity = await self._examiner.identify_root(workspace.root)
        workspace.seen_at = self._dependencies.now()
        return workspace.identity is not None

    async def restore(self, loaded: Loaded) -> None:
        """Know again what a former manager knew, and take over the servers that still run."""
        for row in loaded.workspaces:
            self._add(row.id, row.root)
        await asyncio.gather(*(self._look_at(workspace) for workspace in self))
        adoptions = [
            workspace.supervisor.adopt(row)
            for row in loaded.instances
            if (workspace := self._by_id.get(row.workspace)) is not None
        ]
        await asyncio.gather(*adoptions)

    async def stop_idle(self, busy: Collection[str]) -> None:
        """Stop servers that had no call, no task and no active session for long enough.

        Args:
            busy: ids of workspaces with an active session or an open listen stream.
        """
        limit = self._dependencies.settings.workspace_idle_s
        now = self._dependencies.now()
        idle: list[Supervisor] = []
        for workspace in self:
            supervisor = workspace.supervisor
            figures = supervisor.figures
            if workspace.id in busy or figures.in_flight or figures.streams or figures.tasks:
                workspace.used_at = now
            elif limit and supervisor.instance is not None and now - workspace.used_at >= limit:
                logger().info("workspace.idle", workspace=workspace.id)
                idle.append(supervisor)
        # together: ten servers that do not want to end must not keep the watchdog waiting
        await asyncio.gather(*(supervisor.stop() for supervisor in idle))

    async def close(self, *, keep: bool = False) -> None:
        """Stop every server of ours; with `keep` leave them running for the next manager."""
        await asyncio.gather(*(one.look for one in self if one.look is not None), return_exceptions=True)
        await asyncio.gather(*(workspace.supervisor.close(keep=keep) for workspace in self))

"""Runs the language servers of one workspace: one process of a kind, shared by all callers."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from lm_tools_bridge.code_intelligence.server import (
    AsksKind,
    FollowingServer,
    Kinds,
    LanguageServer,
    RequestFailed,
    RequestTimedOut,
    RunnableProgram,
    ServerGone,
    ServerOutdated,
    ServerStatus,
    Unavailable,
)
from lm_tools_bridge.code_intelligence.server_process.launch import Launch
from lm_tools_bridge.code_intelligence.server_process.server_supervisor import ServerSupervisor
from lm_tools_bridge.code_intelligence.session.checker import Checker
from lm_tools_bridge.code_intelligence.specification import Check, Role, ServerSpecification
from lm_tools_bridge.code_intelligence.tree.tree_watch import TreeWatch
from workspace_server.processes.child_process import Command

LEAST_START_S: Final = 1.0
"""So long a call waits for servers however little it wants to wait: one that runs is told what changed."""
MAX_REPLACED: Final = 3
"""So often one call lets a server be replaced, e.g. while libraries are being installed."""


@dataclass(frozen=True, slots=True)
class PoolContext:
    """What every server of a workspace is started with.

    Attributes:
        folders: the workspace folders, absolute and link-free; at least one.
        environment: asked before each start; returns the variables of every server.
        version: of this product.
        hidden: returns the values that stand in no text about how a server ended.
    """

    folders: tuple[Path, ...]
    environment: Callable[[], Awaitable[Mapping[str, str]]]
    version: str
    hidden: Callable[[], tuple[str, ...]] = tuple


class ServerPool:
    """The language servers of one workspace: the `LanguageServers` of the tools.

    Args:
        kinds: which kinds there are, and where their programs are.
        context: what servers are started with.
        make_supervisor: makes the supervisor of a kind by its name.
        watch: looks at the folders for checkers; a new one if servers do not share theirs.
    """

    def __init__(
        self,
        kinds: Kinds,
        context: PoolContext,
        make_supervisor: Callable[[str], ServerSupervisor],
        watch: TreeWatch | None = None,
    ) -> None:
        self._kinds = kinds
        self._context = context
        self._make_supervisor = make_supervisor
        self._supervisors: dict[str, ServerSupervisor] = {}
        self._watch = watch or TreeWatch(context.folders)
        self._checkers: dict[str, Checker] = {}
        self._closed = False
        self._obtaining: set[asyncio.Task[list[LanguageServer | Unavailable]]] = set()

    def known_kinds(self) -> Sequence[ServerSpecification]:
        """As `LanguageServers.known_kinds`. Blocks."""
        return self._kinds.known_kinds()

    def runnable(self) -> Sequence[ServerSpecification]:
        """As `LanguageServers.runnable`. Blocks."""
        return [
            kind for kind in self._kinds.known_kinds() if isinstance(self._kinds.find(kind), RunnableProgram)
        ]

    def find(self, name: str) -> ServerSpecification | Unavailable | None:
        """As `LanguageServers.find`. Blocks."""
        kind = self._kinds.kind_named(name)
        if kind is None:
            return None
        program = self._kinds.find(kind)
        return program if isinstance(program, Unavailable) else kind

    def status(self) -> Sequence[ServerStatus]:
        """As `LanguageServers.status`."""
        both: dict[str, ServerSupervisor | Checker] = {**self._supervisors, **self._checkers}
        return [both[name].status() for name in sorted(both)]

    async def for_file(
        self, path: Path, role: Role, *, wait_s: float | None = None
    ) -> Sequence[LanguageServer | Unavailable]:
        """As `LanguageServers.for_file`."""
        return await self._first_of_each(role, path, wait_s)

    async def for_project(
        self, role: Role, *, wait_s: float | None = None, is_asked: AsksKind | None = None
    ) -> Sequence[LanguageServer | Unavailable]:
        """As `LanguageServers.for_project`."""
        return await self._first_of_each(role, None, wait_s, is_asked)

    async def server_named(self, name: str) -> LanguageServer | Unavailable | None:
        """As `LanguageServers.server_named`."""
        kind = await asyncio.to_thread(self._kinds.kind_named, name)
        if kind is None:
            return None
        environment = await self._context.environment()
        return await self._obtain(kind, await asyncio.to_thread(self._kinds.find, kind), environment)

    async def running_for(self, role: Role) -> Sequence[FollowingServer]:
        """As `LanguageServers.running_for`."""
        servers = [supervisor.server for supervisor in self._supervisors.values()]
        in_role = [each for each in servers if each is not None and role in each.specification.roles]
        failures = await asyncio.gather(
            *(server.tell_changes() for server in in_role), return_exceptions=True
        )
        return [server for server, failure in zip(in_role, failures, strict=True) if failure is None]

    def links_out(self) -> Sequence[str]:
        """As `LanguageServers.links_out`."""
        return self._watch.links_out()

    def restart(self) -> None:
        """As `LanguageServers.restart`."""
        for supervisor in self._supervisors.values():
            supervisor.forget_failures()
            supervisor.stop()

    async def close(self) -> None:
        """As `LanguageServers.close`."""
        self._closed = True
        running: list[ServerSupervisor | Checker] = [*self._supervisors.values(), *self._checkers.values()]
        await asyncio.gather(*(process.close() for process in running))
        obtaining = tuple(self._obtaining)
        for task in obtaining:
            task.cancel()
        await asyncio.gather(*obtaining, return_exceptions=True)

    async def _first_of_each(
        self, role: Role, path: Path | None, wait_s: float | None, is_asked: AsksKind | None = None
    ) -> list[LanguageServer | Unavailable]:
        """All groups at once, so that a slow server delays no other; each goes on if the caller does not."""
        environment = await self._context.environment()  # may say where programs are
        if self._kinds.is_quick():
            groups = self._look(role, path)
        else:
            groups = await asyncio.to_thread(self._look, role, path)
        obtained = [
            (group[0], self._begin(group, best, environment))
            for group, best in groups
            if is_asked is None or is_asked(group[0])
        ]
        if obtained:
            timeout = None if wait_s is None else max(wait_s, LEAST_START_S)
            await asyncio.wait([task for _, task in obtained], timeout=timeout)
        parts = (task.result() if task.done() else [_starting(kind)] for kind, task in obtained)
        return [each for part in parts for each in part]

    def _begin(
        self,
        group: Sequence[ServerSpecification],
        best: RunnableProgram | Unavailable,
        environment: Mapping[str, str],
    ) -> asyncio.Task[list[LanguageServer | Unavailable]]:
        task = asyncio.create_task(self._first(group, best, environment), name=f"obtain-{group[0].name}")
        self._obtaining.add(task)
        task.add_done_callback(self._obtaining.discard)
        return task

    def _look(
        self, role: Role, path: Path | None
    ) -> list[tuple[Sequence[ServerSpecification], RunnableProgram | Unavailable]]:
        """The groups of kinds, each with the program of its best one."""
        return [(group, self._kinds.find(group[0])) for group in self._kinds.choose_kinds(role, path)]

    async def _first(
        self,
        group: Sequence[ServerSpecification],
        best: RunnableProgram | Unavailable,
        environment: Mapping[str, str],
    ) -> list[LanguageServer | Unavailable]:
        """The first kind of a group that runs, and why better ones do not; all reasons if none does."""
        reasons: list[LanguageServer | Unavailable] = []
        for kind in group:
            program = best if kind is group[0] else await asyncio.to_thread(self._kinds.find, kind)
            obtained = await self._obtain(kind, program, environment)
            if not isinstance(obtained, Unavailable):
                return [obtained, *(reason for reason in reasons if _matters(reason, kind))]
            reasons.append(obtained)
        return reasons

    async def _obtain(
        self,
        kind: ServerSpecification,
        program: RunnableProgram | Unavailable,
        environment: Mapping[str, str],
    ) -> LanguageServer | Unavailable:
        if self._closed:
            return Unavailable(kind, "failed", f"{kind.name} was stopped")
        if kind.check is not None and not isinstance(program, Unavailable):
            return await self._checker(kind.check, self._launch(kind, program, environment))
        supervisor = self._supervisors.get(kind.name)
        if isinstance(program, Unavailable):
            if supervisor is not None:
                supervisor.stop()  # e.g. it is no longer trusted
            if (checker := self._checkers.pop(kind.name, None)) is not None:
                await checker.close()
            return program
        if supervisor is None:
            supervisor = self._supervisors[kind.name] = self._make_supervisor(kind.name)
        try:
            return await self._tell_of_changes(supervisor, self._launch(kind, program, environment))
        except ServerGone as failure:
            is_starting = supervisor.state == "starting"
            return _starting(kind) if is_starting else Unavailable(kind, "failed", str(failure))
        except (RequestFailed, RequestTimedOut) as failure:
            return Unavailable(kind, "failed", f"{kind.name} could not be told what changed: {failure}")

    @staticmethod
    async def _tell_of_changes(supervisor: ServerSupervisor, launch: Launch) -> LanguageServer:
        """The server, told of all changes; another one if it cannot take them in."""
        for _ in range(MAX_REPLACED):
            server = await supervisor.get(launch)
            try:
                await server.tell_changes()
                return server
            except ServerOutdated as reason:
                outdated = reason
                if supervisor.server is server:  # else another caller has begun to replace it
                    supervisor.stop()
        raise outdated

    async def _checker(self, check: Check, launch: Launch) -> Checker:
        """The checker of this launch; one that was made for another, e.g. another version, ends."""
        name = launch.specification.name
        former = self._checkers.get(name)
        if former is None or former.launch != launch:
            self._checkers[name] = Checker(launch, check, self._watch)
            if former is not None:
                await former.close()
        checker = self._checkers[name]
        await checker.tell_changes()
        return checker

    def _launch(
        self, kind: ServerSpecification, program: RunnableProgram, environment: Mapping[str, str]
    ) -> Launch:
        folders = self._context.folders
        command = Command(program.argv, {**environment, **program.env}, str(program.cwd or folders[0]))
        return Launch(
            kind,
            command,
            folders,
            self._context.version,
            (*self._context.hidden(), *program.env.values()),
            memory_limit_bytes=program.memory_limit_bytes,
            idle_s=program.idle_s,
            is_fenced=program.is_fenced,
        )


def _starting(kind: ServerSpecification) -> Unavailable:
    return Unavailable(kind, "starting", f"{kind.name} is still starting; ask again")


def _matters(reason: LanguageServer | Unavailable, used: ServerSpecification) -> bool:
    """Whether to tell why a better kind does not run: it should, or the one used instead lacks something."""
    return isinstance(reason, Unavailable) and (reason.state in {"failed", "starting"} or bool(used.limits))

"""Language servers in memory: a test decides what they answer, and sees what they were asked."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lm_tools_bridge.code_intelligence.freshness import Freshness
from lm_tools_bridge.code_intelligence.server import (
    AsksKind,
    DiagnosticsAnswer,
    FileDiagnostics,
    LanguageServer,
    PositionEncoding,
    ReportProgress,
    RequestFailed,
    ServerStatus,
    Unavailable,
)
from lm_tools_bridge.code_intelligence.specification import Role, ServerSpecification
from lm_tools_bridge.code_intelligence.tools.workplace import Workplace
from lm_tools_bridge.code_intelligence.tree import disk_text
from support.servers.language_servers.lsp_types import assert_is_lsp
from workspace_server.call_context import CallContext
from workspace_server.workspace import Workspace

Answer = Callable[[Any], Any]


def kind(name: str, *suffixes: str, **members: Any) -> ServerSpecification:
    """A kind of server for files with these suffixes."""
    return ServerSpecification(
        name, {suffix: suffix.strip(".") for suffix in suffixes}, ((name,),), **members
    )


def at(
    line: int, character: int, to_line: int | None = None, to_character: int | None = None
) -> dict[str, Any]:
    """An LSP range, counted from 0."""
    end_line = line if to_line is None else to_line
    end_character = character + 1 if to_character is None else to_character
    return {
        "start": {"line": line, "character": character},
        "end": {"line": end_line, "character": end_character},
    }


def diagnostic(message: str, where: Mapping[str, Any], severity: int = 1, **members: Any) -> dict[str, Any]:
    """An LSP diagnostic."""
    return {"range": where, "severity": severity, "message": message, **members}


@dataclass(eq=False)
class InMemoryServer:
    """A server whose answers are functions of the parameters, by method."""

    specification: ServerSpecification
    answers: dict[str, Answer] = field(default_factory=dict)
    found: dict[Path, list[dict[str, Any]]] = field(default_factory=dict)
    state: Freshness | None = None
    encoding: PositionEncoding = "utf-16"
    fault: Exception | None = None
    asked: list[tuple[str, Any]] = field(default_factory=list)
    diagnosed: list[Sequence[Path] | None] = field(default_factory=list)
    opened: list[Path] = field(default_factory=list)
    guessed: Sequence[Path] = ()
    other_names: dict[Path, Sequence[Path]] = field(default_factory=dict)
    steps: Sequence[tuple[float, float | None, str]] = ()
    changed: list[Path] = field(default_factory=list)
    knows_whole: bool = False

    @property
    def capabilities(self) -> Mapping[str, Any]:
        return {}

    def supports(self, method: str) -> bool:
        return method in self.answers

    async def open(self, path: Path) -> Sequence[str]:
        self.opened.append(path)
        return disk_text.read_file(path).lines()

    def memo(self, path: Path) -> dict[str, Any]:
        return {}

    def changed_files(self, since: int) -> tuple[int, Sequence[Path]]:
        return len(self.changed), self.changed[since:]

    def aliases(self, path: Path) -> Sequence[Path]:
        return self.other_names.get(path, ())

    def guessed_files(self, paths: Sequence[Path]) -> Sequence[Path]:
        return [path for path in paths if path in self.guessed]

    async def request(self, method: str, params: Any = None, *, timeout_s: float | None = None) -> Any:
        assert_is_lsp(method, params)
        self.asked.append((method, params))
        if method not in self.answers:
            raise RequestFailed(-32601, f"no {method}")
        return self.answers[method](params)

    async def ready(self, wait_s: float, progress: ReportProgress | None = None) -> Freshness:
        if self.fault is not None:
            raise self.fault
        for step in self.steps:
            if progress is not None:
                await progress(*step)
        return self.state or Freshness(self.specification.name, "fresh")

    async def diagnostics(self, paths: Sequence[Path] | None, wait_s: float) -> DiagnosticsAnswer:
        self.diagnosed.append(paths)
        wanted = self.found if paths is None else [path for path in paths if path in self.found]
        files = [FileDiagnostics(path, _lines(path), self.found[path]) for path in wanted]
        freshness = self.state or Freshness(self.specification.name, "fresh")
        return DiagnosticsAnswer(files, freshness, is_whole=self.knows_whole and paths is None)


def _lines(path: Path) -> Sequence[str] | None:
    return disk_text.read_file(path).lines() if path.is_file() else None


@dataclass
class InMemoryServers:
    """The servers of a workspace; `absent` are those that do not run.

    Attributes:
        obtained: each question for servers; before each of them real ones look at the disk.
    """

    running: Sequence[InMemoryServer] = ()
    absent: Sequence[Unavailable] = ()
    looks: int = 0
    obtained: list[Path | None] = field(default_factory=list)
    closed: bool = False
    restarts: int = 0
    links: Sequence[str] = ()

    def known_kinds(self) -> Sequence[ServerSpecification]:
        return [one.specification for one in (*self.running, *self.absent)]

    def runnable(self) -> Sequence[ServerSpecification]:
        self.looks += 1
        return [one.specification for one in self.running]

    def find(self, name: str) -> ServerSpecification | Unavailable | None:
        kinds = {one.specification.name: one.specification for one in self.running}
        absent = {one.specification.name: one for one in self.absent}
        return kinds.get(name) or absent.get(name)

    def status(self) -> Sequence[ServerStatus]:
        return [
            ServerStatus(one.specification.name, "running", 7, 3 * 1024 * 1024, one.state)
            for one in self.running
        ]

    async def for_file(
        self, path: Path, role: Role, *, wait_s: float | None = None
    ) -> Sequence[LanguageServer | Unavailable]:
        self.obtained.append(path)
        names = {path.suffix, path.name}
        return [
            one
            for one in (*self.running, *self.absent)
            if role in one.specification.roles and names & set(one.specification.languages)
        ]

    async def for_project(
        self, role: Role, *, wait_s: float | None = None, is_asked: AsksKind | None = None
    ) -> Sequence[LanguageServer | Unavailable]:
        self.obtained.append(None)
        return [
            one
            for one in (*self.running, *self.absent)
            if role in one.specification.roles and (is_asked is None or is_asked(one.specification))
        ]

    async def server_named(self, name: str) -> LanguageServer | Unavailable | None:
        found = [one for one in (*self.running, *self.absent) if one.specification.name == name]
        return found[0] if found else None

    async def running_for(self, role: Role) -> Sequence[InMemoryServer]:
        return [one for one in self.running if role in one.specification.roles]

    def links_out(self) -> Sequence[str]:
        return self.links

    def restart(self) -> None:
        self.restarts += 1

    async def close(self) -> None:
        self.closed = True


async def no_environment() -> Mapping[str, str]:
    """Variables for programs that a tool starts: those of the test."""
    return dict(os.environ)


def workplace_of(root: Path, *running: InMemoryServer, absent: Sequence[Unavailable] = ()) -> Workplace:
    """The language tools' view of a folder."""
    return Workplace(Workspace.of(root), InMemoryServers(running, absent), 0.0, no_environment)


CONTEXT = CallContext()

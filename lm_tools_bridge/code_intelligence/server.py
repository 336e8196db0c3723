"""Defines a language server, the workspace's set of them, and the kinds of servers that a project can use."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol

from lm_tools_bridge.code_intelligence.freshness import Freshness
from lm_tools_bridge.code_intelligence.specification import Role, ServerSpecification

PositionEncoding = Literal["utf-8", "utf-16", "utf-32"]
AsksKind = Callable[[ServerSpecification], bool]
ReportProgress = Callable[[float, float | None, str], Awaitable[None]]
"""Tells the caller how far the server is: done, total, a sentence."""


class RequestFailed(Exception):
    """A language server refused a request.

    Attributes:
        code: the JSON-RPC or LSP error code.
        message: the server's own words, cleaned.
    """

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


class RequestTimedOut(Exception):
    """A language server did not answer in time; the request was cancelled."""


class ServerGone(Exception):
    """A language server ended, hangs, or could not be started. The message says which, for a person."""


class ServerOutdated(ServerGone):
    """A language server works, but what it read at its start has changed: the next one knows better."""


@dataclass(frozen=True, slots=True)
class FileDiagnostics:
    """The diagnostics of one file as a server published them, with its own positions.

    Attributes:
        path: the real path of the file.
        lines: the text that the positions are about, to convert them; None if it could not be read.
        diagnostics: LSP `Diagnostic` objects, unchanged.
    """

    path: Path
    lines: Sequence[str] | None
    diagnostics: Sequence[Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class DiagnosticsAnswer:
    """What one server knows about some files, and how far that can be trusted.

    Attributes:
        files: those that it speaks about.
        freshness: how far.
        is_whole: whether files of the project that are not among them have no diagnostics.
    """

    files: Sequence[FileDiagnostics]
    freshness: Freshness
    is_whole: bool = False


class LanguageServer(Protocol):
    """One running language server that has been told of all changes on disk.

    Attributes:
        specification: its kind.
        capabilities: the `capabilities` of its `initialize` result, with those registered later.
        encoding: the unit of `character` in positions.
    """

    specification: ServerSpecification

    @property
    def capabilities(self) -> Mapping[str, Any]:
        """What the server offers now."""

    @property
    def encoding(self) -> PositionEncoding:
        """The unit of `character` in its positions."""

    def supports(self, method: str) -> bool:
        """Whether it serves a request such as `textDocument/references`."""

    async def open(self, path: Path) -> Sequence[str]:
        """Open the file with its content on disk, if it is not open so; returns its lines.

        Raises:
            OSError: it cannot be read.
        """

    def memo(self, path: Path) -> dict[str, Any]:
        """Where to keep what was computed from an open file; empty after any change on disk.

        It is also empty, and kept nowhere, while the server's answers are not complete.
        """

    def aliases(self, path: Path) -> Sequence[Path]:
        """The other names by which a file of the project may be known to it, over links to folders."""

    def guessed_files(self, paths: Sequence[Path]) -> Sequence[Path]:
        """Those source files of which nothing says how they are compiled, so that it has not read them."""

    async def request(self, method: str, params: Any = None, *, timeout_s: float | None = None) -> Any:
        """Send a request, and return its decoded result. Repeats it while the server is busy changing.

        Raises:
            RequestFailed, RequestTimedOut, ServerGone: there is no result.
        """

    async def ready(self, wait_s: float, progress: ReportProgress | None = None) -> Freshness:
        """Wait until its answers are complete, at most `wait_s` seconds, and say how far they are."""

    async def diagnostics(self, paths: Sequence[Path] | None, wait_s: float) -> DiagnosticsAnswer:
        """The diagnostics of these files, or of the whole project where the server can do that."""


class FollowingServer(LanguageServer, Protocol):
    """A server that says which changes on disk it was told of."""

    def changed_files(self, since: int) -> tuple[int, Sequence[Path]]:
        """How often it was told of changes, and the files that were created or changed after the first
        `since` times, each once."""


@dataclass(frozen=True, slots=True)
class Unavailable:
    """Why a kind of server does not run here.

    Attributes:
        specification: the kind.
        state: `missing` (no program was found), `untrusted`, `disabled`, `failed` (it does not start), or
            `starting` (it goes on behind the answer).
        reason: for a model or a person, with the next step.
    """

    specification: ServerSpecification
    state: Literal["missing", "untrusted", "disabled", "failed", "starting"]
    reason: str


@dataclass(frozen=True, slots=True)
class ServerStatus:
    """One language server in status, without its answers.

    Attributes:
        name: the kind's.
        state: `idle`, `starting`, `ready`, `backoff`, `crash_looping`.
        pid: of its process, while there is one.
        memory_bytes: of the process and what it started, where that was measured.
        freshness: how far its answers are, as far as known without asking it.
        open_documents: how many files are open in it.
        restarts: how often it was started again.
        error: why it does not run, for a person.
        version: as it called itself.
        error_age_s: how many seconds ago the last one ended or failed.
    """

    name: str
    state: str
    pid: int | None = None
    memory_bytes: int | None = None
    freshness: Freshness | None = None
    open_documents: int = 0
    restarts: int = 0
    error: str | None = None
    version: str | None = None
    error_age_s: float | None = None


def restarted(servers: Sequence[ServerStatus]) -> str:
    """What a restart of these language servers does, for a person."""
    running = ", ".join(server.name for server in servers if server.pid is not None)
    return f"{f'{running} ended' if running else 'no language server ran'}; each starts with its next use"


class LanguageServers(Protocol):
    """The language servers of one workspace. Each kind runs once, for all callers."""

    def known_kinds(self) -> Sequence[ServerSpecification]:
        """The kinds whose languages the project has, whether they are installed or not. Blocks."""

    def runnable(self) -> Sequence[ServerSpecification]:
        """Those of the known kinds whose program is there and may run; starts nothing. Blocks."""

    def find(self, name: str) -> ServerSpecification | Unavailable | None:
        """The kind of this name if it can run, or why not; None if unknown. Starts nothing. Blocks."""

    def status(self) -> Sequence[ServerStatus]:
        """The servers that were needed since the start, by name. Never waits."""

    async def for_file(
        self, path: Path, role: Role, *, wait_s: float | None = None
    ) -> Sequence[LanguageServer | Unavailable]:
        """The servers for this file, best first, started and told of all changes.

        Empty if no kind knows the file's language. What takes longer than `wait_s` is `starting`, and goes
        on.
        """

    async def for_project(
        self, role: Role, *, wait_s: float | None = None, is_asked: AsksKind | None = None
    ) -> Sequence[LanguageServer | Unavailable]:
        """The servers for all languages of the project, started and told of all changes.

        Args:
            role: what they are for.
            wait_s: as for `for_file`.
            is_asked: which kinds are asked, None for all; the others are not started.
        """

    async def server_named(self, name: str) -> LanguageServer | Unavailable | None:
        """The server of this kind; None if the kind is unknown."""

    async def running_for(self, role: Role) -> Sequence[FollowingServer]:
        """The servers for a role that run now, told of all changes. Starts none."""

    def links_out(self) -> Sequence[str]:
        """The links in the project that lead out of it, as of the last look at its files. Never waits."""

    def restart(self) -> None:
        """Stop all servers in the background; each starts at its next use, whatever failed before."""

    async def close(self) -> None:
        """End all servers, in bounded time. Idempotent."""


@dataclass(frozen=True, slots=True)
class RunnableProgram:
    """The program of a kind, as it may run now.

    Attributes:
        argv: the resolved command line; the first word is an absolute path.
        env: variables beside those that every server gets.
        cwd: the folder to run in; None for the workspace's first folder.
        memory_limit_bytes, idle_s: in place of the usual limits.
        is_fenced: whether it runs without the user's trust, and so behind `server_process/fence.py`.
    """

    argv: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=dict)
    cwd: Path | None = None
    memory_limit_bytes: int | None = None
    idle_s: float | None = None
    is_fenced: bool = False


class Kinds(Protocol):
    """The kinds of servers for one workspace. All methods block, and are called before each answer.

    So they keep what they found, and notice changes of files, settings and trust by a few `stat` calls.
    """

    def is_quick(self) -> bool:
        """Whether the other methods take microseconds now. Does not block."""

    def known_kinds(self) -> Sequence[ServerSpecification]:
        """The kinds whose languages the project has, installed or not."""

    def choose_kinds(self, role: Role, path: Path | None) -> Sequence[Sequence[ServerSpecification]]:
        """Which kinds to ask about a file, or about the project: groups of alternatives, best first.

        Of each group the first one that runs is asked; the others are not started.
        """

    def kind_named(self, name: str) -> ServerSpecification | None:
        """The kind of this name; None if there is none."""

    def find(self, specification: ServerSpecification) -> RunnableProgram | Unavailable:
        """Its program, or why it does not run here (`missing`, `untrusted`, `disabled`).

        A running server is replaced when this changes.
        """

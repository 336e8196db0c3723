"""Defines the seam between a running server and the part that keeps its picture of the project up to date."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from lm_tools_bridge.code_intelligence.freshness import Freshness
from lm_tools_bridge.code_intelligence.server import DiagnosticsAnswer, PositionEncoding, ReportProgress
from lm_tools_bridge.code_intelligence.specification import ServerSpecification


class Peer(Protocol):
    """A server that was initialized, as the parts that follow the project see it.

    Attributes:
        specification: its kind.
        folders: the workspace folders it was started with, absolute and link-free.
    """

    specification: ServerSpecification
    folders: Sequence[Path]

    @property
    def capabilities(self) -> Mapping[str, Any]:
        """What it offers now."""

    @property
    def encoding(self) -> PositionEncoding:
        """The unit of `character` in its positions."""

    def supports(self, method: str) -> bool:
        """Whether it serves a request, or wants a notification such as `workspace/didChangeWatchedFiles`."""

    def registrations(self, method: str) -> Sequence[Mapping[str, Any]]:
        """The `registerOptions` of what it registered for a method, e.g. the watchers of files."""

    async def request(self, method: str, params: Any = None, *, timeout_s: float | None = None) -> Any:
        """As `LanguageServer.request`."""

    async def notify(self, method: str, params: Any = None) -> None:
        """Send a notification; waits while the server does not read.

        Raises:
            ServerGone: it ended.
        """


class ProjectSync(Protocol):
    """Keeps one server's picture of the project up to date, and says how far its answers can be trusted.

    A running server calls the methods that are not coroutines from its reader: they must not block.
    """

    @property
    def open_documents(self) -> int:
        """How many files are open in the server."""

    def freshness(self) -> Freshness | None:
        """How far its answers are, without asking it; None if nothing is known yet."""

    async def begin(self) -> None:
        """Called once, after `initialized` was sent."""

    def take_notification(self, method: str, params: Any) -> None:
        """Called for each notification of the server, decoded; hostile values included."""

    def take_refresh(self, method: str) -> None:
        """Called for each `workspace/*/refresh` request of the server, which is already answered."""

    async def tell_changes(self) -> None:
        """Look at the tree and tell the server what changed on disk.

        Called before each answer, also while another call is under way.
        """

    async def open(self, path: Path) -> Sequence[str]:
        """As `LanguageServer.open`."""

    def memo(self, path: Path) -> dict[str, Any]:
        """As `LanguageServer.memo`."""

    def changed_files(self, since: int) -> tuple[int, Sequence[Path]]:
        """As `FollowingServer.changed_files`."""

    def aliases(self, path: Path) -> Sequence[Path]:
        """As `LanguageServer.aliases`."""

    def guessed_files(self, paths: Sequence[Path]) -> Sequence[Path]:
        """As `LanguageServer.guessed_files`."""

    async def ready(self, wait_s: float, progress: ReportProgress | None = None) -> Freshness:
        """As `LanguageServer.ready`."""

    async def diagnostics(self, paths: Sequence[Path] | None, wait_s: float) -> DiagnosticsAnswer:
        """As `LanguageServer.diagnostics`."""

    async def close(self) -> None:
        """End whatever it runs. The server has ended or will end at once."""


MakeSync = Callable[[Peer], ProjectSync]
"""Makes the part for a server that is about to be initialized; nothing may be sent before `begin`."""

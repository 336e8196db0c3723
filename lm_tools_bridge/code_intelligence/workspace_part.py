"""Adds code intelligence to the workspace server: its sources, settings, and the servers that need trust.

The set of language servers is made when it is first asked, because loading it would slow down the start.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from lm_tools_bridge.code_intelligence.settings import (
    CLANGD_KEYS,
    TABLE_KEYS,
    TRUST_PREFIX,
    ClangdSettings,
    CodeSettings,
    LanguageServerTable,
)
from lm_tools_bridge.text import redaction
from workspace_server.config.feature_settings import FileTables
from workspace_server.config.file_issues import FileIssues
from workspace_server.config.formats.fields import ConfigValueError
from workspace_server.config.settings import check_flag, check_names
from workspace_server.source import Source
from workspace_server.sources.feature_part import FeaturePart, NeedsTrust, SourceSpec, SourceWorld
from workspace_server.workspace import Workspace

if TYPE_CHECKING:
    from lm_tools_bridge.code_intelligence.server import (
        AsksKind,
        FollowingServer,
        LanguageServer,
        LanguageServers,
        ServerStatus,
        Unavailable,
    )
    from lm_tools_bridge.code_intelligence.specification import Role, ServerSpecification
    from lm_tools_bridge.code_intelligence.tools.workplace import Problems


class LateServers:
    """The `LanguageServers` that `make` returns; it is called once, in a thread."""

    def __init__(self, make: Callable[[], LanguageServers]) -> None:
        self._make = make
        self._made: LanguageServers | None = None
        self._lock = threading.Lock()

    def known_kinds(self) -> Sequence[ServerSpecification]:
        """As `LanguageServers.known_kinds`. Blocks."""
        return self._servers().known_kinds()

    def runnable(self) -> Sequence[ServerSpecification]:
        """As `LanguageServers.runnable`. Blocks."""
        return self._servers().runnable()

    def find(self, name: str) -> ServerSpecification | Unavailable | None:
        """As `LanguageServers.find`. Blocks."""
        return self._servers().find(name)

    def status(self) -> Sequence[ServerStatus]:
        """As `LanguageServers.status`; none before the first question."""
        return () if self._made is None else self._made.status()

    async def for_file(
        self, path: Path, role: Role, *, wait_s: float | None = None
    ) -> Sequence[LanguageServer | Unavailable]:
        """As `LanguageServers.for_file`."""
        return await (await self._loaded()).for_file(path, role, wait_s=wait_s)

    async def for_project(
        self, role: Role, *, wait_s: float | None = None, is_asked: AsksKind | None = None
    ) -> Sequence[LanguageServer | Unavailable]:
        """As `LanguageServers.for_project`."""
        return await (await self._loaded()).for_project(role, wait_s=wait_s, is_asked=is_asked)

    async def server_named(self, name: str) -> LanguageServer | Unavailable | None:
        """As `LanguageServers.server_named`."""
        return await (await self._loaded()).server_named(name)

    async def running_for(self, role: Role) -> Sequence[FollowingServer]:
        """As `LanguageServers.running_for`; none before the first question."""
        return () if self._made is None else await self._made.running_for(role)

    def links_out(self) -> Sequence[str]:
        """As `LanguageServers.links_out`; none before the first question."""
        return () if self._made is None else self._made.links_out()

    def restart(self) -> None:
        """As `LanguageServers.restart`."""
        if self._made is not None:
            self._made.restart()

    async def close(self) -> None:
        """As `LanguageServers.close`."""
        if self._made is not None:
            await self._made.close()

    async def _loaded(self) -> LanguageServers:
        return await asyncio.to_thread(self._servers) if self._made is None else self._made

    def _servers(self) -> LanguageServers:
        with self._lock:
            servers = self._made = self._make() if self._made is None else self._made
            return servers


_SERVERS: Final = "language servers"
_EDITOR: Final = "editor"
"""The name by which the source of windows of editors is found, if that feature is there."""
# what settings may say: in less no server answers, and no caller waits longer
_LEAST_TIMEOUT_MS: Final = 100
_MOST_TIMEOUT_MS: Final = 300_000


def _check_timeout_ms(key: str, value: object, notes: FileIssues) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise ConfigValueError(f'"{key}" must be a whole number of milliseconds')
    if not _LEAST_TIMEOUT_MS <= value <= _MOST_TIMEOUT_MS:
        raise ConfigValueError(f'"{key}" must be from {_LEAST_TIMEOUT_MS} to {_MOST_TIMEOUT_MS}')
    return value


class CodeIntelligencePart(FeaturePart[LanguageServerTable, CodeSettings]):
    """Either file can switch language servers off; by default they are there as the built-in tools are."""

    keys = TABLE_KEYS
    shared_table = "clangd"
    checks = {  # noqa: RUF012  never changed
        CLANGD_KEYS["enabled"]: check_flag,
        CLANGD_KEYS["auto_start"]: check_flag,
        CLANGD_KEYS["passthrough"]: check_flag,
        CLANGD_KEYS["request_timeout_ms"]: _check_timeout_ms,
        CLANGD_KEYS["allowed_methods"]: check_names,
    }
    trust_prefix = TRUST_PREFIX

    def read_file(self, tables: FileTables) -> LanguageServerTable:
        """What the table `[language_servers]` says."""
        table = tables.table("language_servers")
        if not table:
            return LanguageServerTable()
        from lm_tools_bridge.code_intelligence import settings_table

        return settings_table.read(table, tables.context)

    def combine(
        self,
        user: LanguageServerTable,
        ours: LanguageServerTable,
        *,
        builtin: bool,
        shared: Mapping[str, Any],
    ) -> CodeSettings:
        """The settings in force. Those of the clangd tools allow nothing but reading."""
        answers = [table.enabled for table in (user, ours) if table.enabled is not None]
        clangd = {name: shared[key] for name, key in CLANGD_KEYS.items() if key in shared}
        return CodeSettings(
            all(answers) if answers else builtin,
            user.warm,
            user.compare_words,
            user.new_errors,
            (*user.entries, *ours.entries),
            ClangdSettings(**clangd),
            ours.python_environment or user.python_environment,
        )

    def sources(
        self, settings: CodeSettings, world: SourceWorld, trusted: frozenset[tuple[str, str]]
    ) -> Iterator[SourceSpec]:
        """The tools that rest on language servers, and those of clangd on the same servers."""
        if not settings.enabled:
            return
        # servers start and stop with trust, not a minute later
        spec = (
            settings.entries, settings.warm, settings.compare_words, settings.new_errors,
            settings.python_environment, trusted,
        )  # fmt: skip
        yield SourceSpec("language_servers", spec, partial(_make_source, settings, world))
        if settings.clangd.enabled:
            make = partial(_make_clangd, settings.clangd, world)
            yield SourceSpec("clangd", (settings.clangd, spec), make)

    def may_start_programs(self, root: Path, settings: CodeSettings) -> bool:
        """Whether a language server could be needed; a look at the names of files."""
        from lm_tools_bridge.code_intelligence.kinds.available_kinds import available_kinds

        if not settings.enabled:
            return False
        return bool(settings.entries) or bool(available_kinds(root, settings.entries, "").known_kinds())

    def needs_trust(
        self,
        root: Path,
        settings: CodeSettings,
        search: str,
        *,
        state_dir: Path | None,
        starts_programs: bool,
    ) -> NeedsTrust:
        """The language servers that need trust."""
        from lm_tools_bridge.code_intelligence.kinds.available_kinds import available_kinds

        if not starts_programs:
            return NeedsTrust()
        return NeedsTrust(available_kinds(root, settings.entries, search).items())


def _make_source(settings: CodeSettings, world: SourceWorld) -> Source:
    from lm_tools_bridge.code_intelligence.source import LanguageServerSource

    dependencies = world.dependencies
    workspace = Workspace.of(Path(dependencies.root))
    folders = [folder.path for folder in workspace.folders]
    for entry in settings.entries:
        redaction.hide_members(entry.env)

    def make() -> LanguageServers:
        from lm_tools_bridge.code_intelligence.assembly import make_servers

        return make_servers(
            folders, dependencies, world.trusts, settings.entries, settings.python_environment
        )

    async def editor_problems(paths: Sequence[Path] | None) -> Problems | None:
        """What the editor shows of these files, or of the project; None without an editor."""
        editor = world.shared.get(_EDITOR)
        return None if editor is None else await editor.problems(paths)

    def has_editor() -> bool:
        editor = world.shared.get(_EDITOR)
        return editor is not None and editor.is_shown

    servers = world.shared[_SERVERS] = LateServers(make)
    return LanguageServerSource(
        workspace,
        servers,
        dependencies.server_environment,
        editor_problems,
        searches=world.searches,
        warm=settings.warm,
        compares_words=settings.compare_words,
        tells_new_errors=settings.new_errors,
        has_editor=has_editor,
    )


def _make_clangd(settings: ClangdSettings, world: SourceWorld) -> Source:
    """The clangd tools, on the servers of `_make_source`, which is called first."""
    from lm_tools_bridge.code_intelligence.clangd.source import ClangdSource

    dependencies = world.dependencies
    workspace = Workspace.of(Path(dependencies.root))
    return ClangdSource(workspace, world.shared[_SERVERS], settings, dependencies.server_environment)


PART: Final = CodeIntelligencePart()

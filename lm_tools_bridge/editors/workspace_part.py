"""Adds windows of VS Code to the workspace server: their source, and the table `[editors]`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple

from lm_tools_bridge.protocol.internal.registration import MAX_PORT
from workspace_server.config.feature_settings import FileTables, read_enabled
from workspace_server.config.formats.fields import Fields
from workspace_server.source import Source
from workspace_server.sources.feature_part import FeaturePart, SourceSpec, SourceWorld

SHARED: Final = "editor"
"""The name by which other features find the source of windows."""
_FIRST_PORT: Final = 48123
"""The first port on which the extension serves, unless its settings say otherwise."""


class EditorsTable(NamedTuple):
    """What a file says of windows of editors; None for nothing."""

    enabled: bool | None = None
    port: int | None = None


class EditorSettings(NamedTuple):
    """Settings of windows of VS Code as sources.

    Attributes:
        enabled: whether they are looked for.
        first_port: the first of the ports on which they serve.
    """

    enabled: bool = True
    first_port: int = _FIRST_PORT


class EditorsPart(FeaturePart[EditorsTable, EditorSettings]):
    """Either file can switch windows off; by default they are looked for if there are built-in tools."""

    keys = ("editors.enabled",)

    def read_file(self, tables: FileTables) -> EditorsTable:
        """What this file says; a project has no say in which ports are asked."""
        fields, notes = tables.fields("editors"), tables.context.notes
        enabled = None
        if "enabled" in fields.left:
            enabled = read_enabled(fields, "editors", "windows of editors", notes)
        return EditorsTable(enabled, _read_port(fields, tables) if tables.is_user else None)

    def combine(
        self, user: EditorsTable, ours: EditorsTable, *, builtin: bool, shared: Mapping[str, Any]
    ) -> EditorSettings:
        """Off if one of the files says so."""
        answers = [table.enabled for table in (user, ours) if table.enabled is not None]
        return EditorSettings(all(answers) if answers else builtin, user.port or _FIRST_PORT)

    def sources(
        self, settings: EditorSettings, world: SourceWorld, trusted: frozenset[tuple[str, str]]
    ) -> Iterator[SourceSpec]:
        """The window of VS Code that has the project open, whenever there is one."""
        if settings.enabled:
            yield SourceSpec("editor", settings, partial(_make_source, settings, world))


def _read_port(fields: Fields, tables: FileTables) -> int | None:
    """The port that windows try first."""
    if "port" not in fields.left:
        return None
    value = fields.take("port")
    if isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= MAX_PORT:
        return value
    message = f'"editors.port" must be a whole number from 1 to {MAX_PORT}; it is ignored'
    tables.context.notes.warn("CONFIG_INVALID_VALUE", message, key="port")
    return None


def _make_source(settings: EditorSettings, world: SourceWorld) -> Source:
    from lm_tools_bridge.editors.finder import WindowFinder
    from lm_tools_bridge.editors.source import EditorSource

    dependencies = world.dependencies
    root = Path(dependencies.root)
    finder = WindowFinder(root, dependencies.environ, settings.first_port, session=dependencies.workspace)
    source = EditorSource(finder, dependencies.root, dependencies.version)
    world.shared[SHARED] = source
    return source


PART: Final = EditorsPart()

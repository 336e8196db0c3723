"""Defines how a feature reads its settings from the files that all settings are in."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any, Generic, TypeVar

from workspace_server.config.file_issues import FileIssues
from workspace_server.config.formats.entries import EntryContext
from workspace_server.config.formats.fields import ConfigValueError, Fields

FileT = TypeVar("FileT")
"""What one file says."""
SettingsT = TypeVar("SettingsT")
"""What all files say together."""


class FileTables:
    """The tables of one `workspace.toml` that features read.

    Attributes:
        context: of the file; its notes receive issues.
    """

    def __init__(self, read_table: Callable[[str], Mapping[str, Any]], context: EntryContext) -> None:
        self.context = context
        self._read_table = read_table
        self._fields: dict[str, Fields] = {}

    @property
    def is_user(self) -> bool:
        """Whether it is the user's own file, not a project's."""
        return self.context.origin.scope == "user"

    def table(self, name: str) -> Mapping[str, Any]:
        """A table, of which the feature itself reports unknown keys."""
        return self._read_table(name)

    def fields(self, name: str) -> Fields:
        """The values of a table; keys that nobody reads are reported as unknown."""
        if name not in self._fields:
            self._fields[name] = Fields(self._read_table(name))
        return self._fields[name]

    def unknown_keys(self) -> list[str]:
        """The keys that nobody read, with their tables."""
        return [f"{name}.{key}" for name, fields in self._fields.items() for key in fields.left]


class SettingsPart(Generic[FileT, SettingsT]):
    """The settings of a feature: which there are, and how those of both files are combined.

    Attributes:
        keys: settings that are suggested where a key is misspelt.
        shared_table: a table whose keys an editor's file may have as well, or nothing.
        checks: the keys of that table, with it -> what checks a value.
    """

    keys: Collection[str] = ()
    shared_table: str = ""
    checks: Mapping[str, Callable[[str, Any, FileIssues], Any]] = {}

    def read_file(self, tables: FileTables) -> FileT:
        """What one file says."""
        raise NotImplementedError

    def combine(self, user: FileT, ours: FileT, *, builtin: bool, shared: Mapping[str, Any]) -> SettingsT:
        """The settings in force; equal settings compare equal.

        Args:
            user: what the user's file says.
            ours: what the workspace's file says.
            builtin: whether the built-in tools are enabled.
            shared: the checked values of `checks`, of all files.
        """
        raise NotImplementedError


def read_enabled(fields: Fields, table: str, what: str, notes: FileIssues) -> bool:
    """Whether a table leaves something on; an invalid value switches it off."""
    try:
        return fields.flag("enabled", True)
    except ConfigValueError as reason:
        message = f"{table}: {reason}; until it is corrected, {what} are off"
        notes.error("CONFIG_INVALID_VALUE", message, key="enabled")
        return False

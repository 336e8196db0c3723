"""Reads the table `[language_servers]` of a `workspace.toml`: whether there are any, and single kinds. Pure.

[language_servers]         enabled, python_environment; warm, compare_words and new_errors (user only)
[language_servers.NAME]    enabled, command, languages, options, settings, env, memory_limit_mib, idle_s,
                           runs_nothing_of_the_project (user only)
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any, Final

from lm_tools_bridge.code_intelligence.settings import TABLE_KEYS, LanguageServerEntry, LanguageServerTable
from lm_tools_bridge.text import placeholders
from lm_tools_bridge.text.near_names import did_you_mean
from lm_tools_bridge.text.placeholders import UnresolvedPlaceholderError
from workspace_server.config.feature_settings import read_enabled
from workspace_server.config.file_issues import display_name
from workspace_server.config.formats import entries, restrictions
from workspace_server.config.formats.entries import EntryContext
from workspace_server.config.formats.fields import ConfigValueError, Fields

KNOWN: Final = (
    "basedpyright", "bash", "cargo-check", "clangd", "csharp-ls", "css", "eslint", "eslint-check", "go-vet",
    "gopls", "html", "jdtls", "json", "lua", "mypy", "pyrefly", "pyright", "ruff", "rust-analyzer",
    "tree-sitter", "tsc", "ty", "typescript", "typescript-language-server", "vtsls", "yaml", "zls",
)  # fmt: skip
"""The kinds that need no command (`lm_tools_bridge/code_intelligence/kinds/table.py`)."""
MAX_ENTRIES: Final = 50
"""More than there are kinds; each entry is looked for on the disk before every answer."""
MAX_LANGUAGES: Final = 50
"""Suffixes of one server: the kind with the most has some twenty."""
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
_LANGUAGE: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9+#_.-]{0,63}")
_SUFFIX: Final = re.compile(r"\.[^./\\\s]{1,32}|[^./\\\s][^/\\\s]{0,63}")
_MIB: Final = 1024 * 1024


def read(table: Mapping[str, Any], context: EntryContext) -> LanguageServerTable:
    """The valid contents of the table; issues go to the context's notes."""
    fields = Fields(table)
    enabled = (
        read_enabled(fields, "language_servers", "language servers", context.notes)
        if "enabled" in table
        else None
    )
    warm = _users_flag("warm", False, fields, context)
    compare_words = _users_flag("compare_words", True, fields, context)
    new_errors = _users_flag("new_errors", True, fields, context)
    environment = _python_environment(fields, context)
    tables = {key: value for key, value in table.items() if isinstance(value, Mapping)}
    unknown = [f"language_servers.{key}" for key in fields.left if key not in tables]
    entries.warn_unknown_keys(unknown, context, known=TABLE_KEYS)
    if len(tables) > MAX_ENTRIES:
        message = f"more than {MAX_ENTRIES} language servers; those after them are ignored"
        context.notes.warn("CONFIG_INVALID_VALUE", message)
    servers = [_entry(name, tables[name], context) for name in list(tables)[:MAX_ENTRIES]]
    valid_entries = tuple(entry for entry in servers if entry is not None)
    return LanguageServerTable(enabled, warm, compare_words, new_errors, valid_entries, environment)


def _users_flag(key: str, default: bool, fields: Fields, context: EntryContext) -> bool:
    """A flag that only the user's file can set; elsewhere it is an unknown key."""
    if context.origin.scope != "user" or not fields.has(key):
        return default
    try:
        return fields.flag(key, default)
    except ConfigValueError as reason:
        context.notes.warn("CONFIG_INVALID_VALUE", f"language_servers: {reason}; it is ignored", key=key)
        return default


def _python_environment(fields: Fields, context: EntryContext) -> str:
    """The folder that is named; one outside of the project only if the user names it."""
    try:
        text = fields.text("python_environment")
        path = context.variables.expand_path(text, placeholders.TOML)
    except (ConfigValueError, UnresolvedPlaceholderError) as reason:
        context.notes.warn("CONFIG_INVALID_VALUE", f"language_servers: {reason}; it is ignored")
        return ""
    is_inside = not path.startswith(("/", "~")) and ".." not in PurePath(path).parts
    if path and context.origin.scope == "workspace" and not is_inside:
        message = "language_servers: a workspace can name an environment inside of it only; it is ignored"
        context.notes.warn("CONFIG_INVALID_VALUE", message, key="python_environment")
        return ""
    return path


def _entry(name: str, values: Mapping[str, Any], context: EntryContext) -> LanguageServerEntry | None:
    try:
        return _Builder(name, Fields(values), context).build(values)
    except ConfigValueError as reason:
        entries.skip(reason, values, context, name)
    except UnresolvedPlaceholderError as missing:
        message = f"{display_name(missing.name)} has no value; the entry is skipped"
        message += f": {entries.how_to_set(missing.name)}" if missing.is_variable else ""
        context.notes.error("CONFIG_UNRESOLVED_VARIABLE", message, name)
    return None


@dataclass(slots=True)
class _Builder:
    name: str
    fields: Fields
    context: EntryContext

    def build(self, raw: Mapping[str, Any]) -> LanguageServerEntry:
        fields = self.fields
        if not _NAME.fullmatch(self.name):
            raise ConfigValueError("its name must be 1 to 64 of A-Z a-z 0-9 _ . -")
        memory = fields.number("memory_limit_mib", 0.0, 64.0, 1_000_000.0)
        entry = LanguageServerEntry(
            self.name,
            self.context.origin,
            enabled=fields.flag("enabled", True),
            command=tuple(self._expand(word, path=True) for word in fields.texts("command")),
            languages=self._languages(),
            options=self._table("options"),
            settings=self._table("settings"),
            env=self._env(),
            memory_limit_bytes=int(memory * _MIB) or None,
            idle_s=fields.number("idle_s", 0.0, 10.0, 7 * 24 * 3600.0) or None,
            runs_nothing_of_the_project=self._claim(),
            raw=raw,
        )
        if unkept := restrictions.unkept(raw, fields.left):
            raise ConfigValueError(
                f'"{display_name(unkept[0])}" limits it in a way that cannot be kept; remove it'
            )
        entries.warn_unknown_keys(fields.left, self.context, self.name, fields.taken)
        self._check(entry)
        return entry

    def _claim(self) -> str:
        is_users = self.context.origin.scope == "user"
        return self.fields.text("runs_nothing_of_the_project") if is_users else ""

    def _check(self, entry: LanguageServerEntry) -> None:
        if entry.name in KNOWN or not entry.enabled:
            return
        if not entry.command:
            hint = did_you_mean(entry.name, KNOWN)
            raise ConfigValueError(f'"command" is missing, and no such server is known{hint}')
        if not entry.languages:
            raise ConfigValueError('"languages" is missing, e.g. languages = { ".ex" = "elixir" }')

    def _languages(self) -> Mapping[str, str]:
        languages = self.fields.pairs("languages")
        if len(languages) > MAX_LANGUAGES:
            raise ConfigValueError(f'"languages" may name {MAX_LANGUAGES} suffixes')
        for suffix, language in languages.items():
            if not _SUFFIX.fullmatch(suffix) or not _LANGUAGE.fullmatch(language):
                raise ConfigValueError(
                    '"languages" must map suffixes such as ".ex", or names of files, to language ids'
                )
        return languages

    def _table(self, key: str) -> Mapping[str, Any]:
        value = self.fields.take(key)
        if value is not None and not isinstance(value, Mapping):
            raise ConfigValueError(f'"{key}" must be a table')
        return value or {}

    def _env(self) -> Mapping[str, str]:
        variables = {name: self._expand(value) for name, value in self.fields.pairs("env").items()}
        if not all(entries.is_sane(name, value) for name, value in variables.items()):
            raise ConfigValueError('"env" contains an invalid name or value')
        if self.context.origin.scope == "user":
            return variables
        refused = [name for name, value in variables.items() if entries.is_refused(name, value)]
        if refused:
            names = ", ".join(map(display_name, refused))
            message = f"a workspace cannot set {names}; left out"
            self.context.notes.warn("CONFIG_ENVIRONMENT_REFUSED", message, self.name)
        return {name: value for name, value in variables.items() if name not in refused}

    def _expand(self, text: str, *, path: bool = False) -> str:
        values = self.context.variables
        expanded = (
            values.expand_path(text, placeholders.TOML) if path else values.expand(text, placeholders.TOML)
        )
        if "\0" in expanded:
            raise ConfigValueError("a value contains a NUL character")
        return expanded

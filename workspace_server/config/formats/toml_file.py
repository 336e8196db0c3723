"""Reads a `workspace.toml` of the user or of a workspace: servers, policy, scripts, approvals. Pure.

[[mcp.stdio_servers]]    [[mcp.remote_servers]]   projects (user only): folders that have the server
[mcp]                    sandbox: of all stdio servers of the file; the user's also of those of projects
[builtin]                enabled: false switches the built-in tools off, whichever file says it
[apps]                   enabled: false switches the apps of all servers off, whichever file says it
[tools]                  exposedDelta, …           which tools clients see
[scripts]                tools_path, libraries_path, execute_code (user only)
[approvals]              tool = "allow" | "ask" | "deny"; a workspace can only be stricter
[visibility]             which tools of one project are listed (user only)
[sandbox]                what servers of one project may do in their sandboxes (user only)
[trust]                  inherit: whether worktrees inherit the trust of their repository (user only)
and the tables of features, see `workspace_server/config/feature_settings.py`
useWorkspaceSettings (workspace only), debug, call_timeout_s, start_timeout_s, internal_prefix (user only)
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Final

from lm_tools_bridge.text import placeholders
from lm_tools_bridge.text.placeholders import UnresolvedPlaceholderError
from lm_tools_bridge.text.toml_text import parse_toml
from workspace_server.config import settings
from workspace_server.config.feature_settings import FileTables, read_enabled
from workspace_server.config.file_issues import display_name, display_names
from workspace_server.config.formats import entries, restrictions, sandbox
from workspace_server.config.formats.entries import EntryContext, Kind, Server, warn_unknown_keys
from workspace_server.config.formats.fields import ConfigValueError, Fields, choice
from workspace_server.config.formats.jsonc import ConfigFileError, decode
from workspace_server.config.model import Approval, Sandbox, VisibilityChoices
from workspace_server.config.settings import ClosingRule, Settings
from workspace_server.features import parts
from workspace_server.tool import Visibility

KEY: Final = "visibility"


def read_visibility_table(table: Mapping[str, Any], context: EntryContext) -> VisibilityChoices:
    """The choices for this workspace; what cannot be read is left out with a warning.

    The folder of a workspace is its absolute path without links, as commands write it. Placeholders are not
    expanded, so that each choice has one place, from which a command can remove it. Choices for other working
    trees of the repository count here, unless there is one for this folder.
    """
    root = str(context.variables.root)
    tools: dict[str, Visibility] = {}
    sources: dict[str, Visibility] = {}
    for folder in (*reversed(context.trees() if table else ()), root):
        fields = Fields(_table(table.get(folder), folder, context))
        tools |= _choices(fields, "tools", context)
        sources |= _choices(fields, "sources", context)
        warn_unknown_keys(fields.left, context, known=fields.taken)
    return VisibilityChoices(tools, sources)


def read_sandbox_table(table: Mapping[str, Any], context: EntryContext) -> Mapping[str, Sandbox]:
    """What the user chose for the sandboxes of this workspace's servers, by namespace.

    Folders are those of `read_visibility_table`.
    """
    root = str(context.variables.root)
    choices: dict[str, Sandbox] = {}
    for folder in (*reversed(context.trees() if table else ()), root):
        for namespace, written in _table(table.get(folder), folder, context).items():
            try:
                choices[namespace] = sandbox.read_choice(written, partial(_full_path, context))
            except (ConfigValueError, UnresolvedPlaceholderError) as reason:
                message = f"sandbox of {display_name(namespace)}: {reason}; it is ignored"
                context.notes.warn("CONFIG_INVALID_VALUE", message, key=namespace)
    return choices


def _full_path(context: EntryContext, written: str) -> str:
    expanded = context.variables.expand_path(written, placeholders.TOML)
    return os.path.normpath(Path(context.variables.root, expanded))


def _choices(fields: Fields, kind: str, context: EntryContext) -> Mapping[str, Visibility]:
    visibilities: dict[str, Visibility] = {}
    for name, word in _table(fields.take(kind), kind, context).items():
        try:
            visibilities[name] = choice(f"{KEY}.….{kind}.{display_name(name)}", word, Visibility)
        except ConfigValueError as reason:
            context.notes.warn("CONFIG_INVALID_VALUE", f"{reason}; it is ignored", key=name)
    return visibilities


def _table(value: Any, key: str, context: EntryContext) -> Mapping[str, Any]:
    if value is None or isinstance(value, Mapping):
        return value or {}
    message = f'"{KEY}.{display_name(key)}" must be a table; it is ignored'
    context.notes.warn("CONFIG_INVALID_VALUE", message, key=key)
    return {}


MAX_FOLDERS: Final = 50
"""Folders of scripts or libraries that a workspace can name; each is looked through with every request."""
# Characters: longer than a path that a person writes, and short enough for an issue to show it.
MAX_PATH: Final = 1024
_PREFIX: Final = re.compile(r"[A-Za-z0-9_-]{1,32}")
_SERVERS: Final[Mapping[str, Kind]] = {"stdio_servers": "stdio", "remote_servers": "remote"}
_TOP_SETTINGS: Final = ("useWorkspaceSettings", "debug")


@dataclass(frozen=True, slots=True)
class TomlContents:
    """The checked contents of one file; missing values are None or empty."""

    servers: tuple[Server, ...] = ()
    builtin: bool = True
    apps: bool = True
    features: Mapping[str, Any] = field(default_factory=dict)
    settings: Settings = field(default_factory=dict)
    tools_path: tuple[Path, ...] = ()
    libraries_path: tuple[Path, ...] = ()
    execute_code: bool = False
    approvals: Mapping[str, Approval] = field(default_factory=dict)
    visibility: VisibilityChoices = field(default_factory=VisibilityChoices)
    inherits_trust: bool = True
    internal_prefix: str | None = None
    call_timeout_s: float | None = None
    start_timeout_s: float | None = None
    sandbox: Sandbox | None = None
    sandboxes: Mapping[str, Sandbox] = field(default_factory=dict)


def parse(data: bytes) -> Mapping[str, Any]:
    """The tables of a file.

    Raises:
        ConfigFileError: the file is not valid TOML.
    """
    text = decode(data)
    try:
        return parse_toml(text)
    except (ValueError, RecursionError) as error:
        from lm_tools_bridge.text.syntax_problems import toml_problem  # noqa: PLC0415  only for broken files

        problem = toml_problem(error, text)
        raise ConfigFileError(problem.text, problem.line, problem.column) from None


def read(document: Mapping[str, Any], context: EntryContext) -> TomlContents:
    """The valid contents of a decoded file; issues go to the context's notes."""
    return _Reader(document, context).read()


class _Reader:
    def __init__(self, document: Mapping[str, Any], context: EntryContext) -> None:
        self._document = document
        self._context = context
        self._notes = context.notes
        self._is_user = context.origin.scope == "user"

    def read(self) -> TomlContents:
        top = Fields(self._document)
        tools = self._table(top, "tools")
        scripts = Fields(self._table(top, "scripts"))
        builtin = Fields(self._table(top, "builtin"))
        apps = Fields(self._table(top, "apps"))
        trust = Fields(self._table(top, "trust") if self._is_user else {})
        shared = {key: top.take(key) for key in _TOP_SETTINGS if key in self._document}
        misspelt_scope = () if self._is_user else settings.misspelt_scope(self._document)
        shared |= {key: top.take(key) for key in misspelt_scope}
        shared |= {f"tools.{key}": value for key, value in tools.items()}
        of_features = FileTables(lambda name: self._table(top, name), self._context)
        for table in filter(None, (part.shared_table for part in parts().values())):
            shared |= {f"{table}.{key}": value for key, value in self._table(top, table).items()}
        closed = self._closed_tables()
        mcp = Fields(self._table(top, "mcp"))
        contents = TomlContents(
            sandbox=self._sandbox_of_all(mcp),
            servers=self._servers(mcp),
            builtin=read_enabled(builtin, "builtin", "the built-in tools", self._notes),
            apps=read_enabled(apps, "apps", "the apps of servers", self._notes),
            features={name: part.read_file(of_features) for name, part in parts().items()},
            settings={**settings.check_settings(shared, self._notes), **closed},
            tools_path=self._folders(scripts, "tools_path"),
            libraries_path=self._folders(scripts, "libraries_path"),
            execute_code=self._execute_code(scripts),
            approvals=self._approvals(self._table(top, "approvals")),
            visibility=self._visibility(top),
            inherits_trust=self._inherits_trust(trust),
            internal_prefix=self._internal_prefix(top),
            call_timeout_s=self._seconds(top, "call_timeout_s", entries.MAX_TIMEOUT_S),
            start_timeout_s=self._seconds(top, "start_timeout_s", entries.MAX_START_S),
            sandboxes=self._sandboxes(top),
        )
        rules = settings.misspelt_rules(shared)
        unknown = [key for key in shared if key not in {*settings.known_keys(), *rules, *misspelt_scope}]
        unknown += [f"scripts.{key}" for key in scripts.left]
        unknown += [f"builtin.{key}" for key in builtin.left]
        unknown += [f"apps.{key}" for key in apps.left]
        unknown += [f"trust.{key}" for key in trust.left]
        unknown += of_features.unknown_keys()
        known_keys = {*top.taken, *settings.known_keys(), *(f"scripts.{key}" for key in scripts.taken)}
        known_keys |= {"builtin.enabled", "apps.enabled", "trust.inherit"}
        known_keys = known_keys.union(*(part.keys for part in parts().values()))
        entries.warn_unknown_keys(top.left + unknown, self._context, known=known_keys)
        return contents

    def _closed_tables(self) -> Mapping[str, bool]:
        """The setting that closes everything, if a table of rules is none and so cannot be read."""
        tables = [
            key for key in ("tools", "approvals") if not isinstance(self._document.get(key, {}), Mapping)
        ]
        for key in tables:
            rule = ClosingRule((), is_unreadable=True)
            settings.report_closing_rule(self._notes, key, f'"{key}" must be a table', rule)
        return {settings.CLOSED: True} if tables else {}

    def _table(self, fields: Fields, key: str) -> Mapping[str, Any]:
        value = fields.take(key)
        if value is None or isinstance(value, Mapping):
            return value or {}
        if key in ("tools", "approvals"):  # `_closed_tables` reports these
            return {}
        self._notes.warn("CONFIG_INVALID_VALUE", f'"{key}" must be a table; it is ignored')
        return {}

    def _sandbox_of_all(self, mcp: Fields) -> Sandbox | None:
        """What the user's file says for all servers; the strictest sandbox if that is not understood."""
        written = mcp.peek(sandbox.KEY)
        try:
            default = sandbox.read_sandbox(mcp, partial(_full_path, self._context))
        except (ConfigValueError, UnresolvedPlaceholderError) as reason:
            self._notes.warn("CONFIG_INVALID_VALUE", f"mcp.{sandbox.KEY}: {reason}; servers get no network")
            default = None
        if not self._is_user:
            return None  # each entry of the file has it
        return Sandbox(network=False) if default is None and written is not None else default

    def _servers(self, mcp: Fields) -> tuple[Server, ...]:
        found: list[Server] = []
        table = self._table(Fields(self._document), "mcp")
        unkept = restrictions.unkept(table, [key for key in mcp.left if key not in _SERVERS])
        self._context = replace(self._context, restrictions=tuple(unkept))
        written = mcp.peek(sandbox.KEY)
        for key, kind in _SERVERS.items():
            listed = mcp.take(key) or []
            if not isinstance(listed, list):
                self._notes.warn("CONFIG_INVALID_VALUE", f'"mcp.{key}" must be written [[mcp.{key}]]')
                continue
            of_all = {sandbox.KEY: written} if kind == "stdio" and written is not None else {}
            for position, entry in enumerate(listed):
                server = self._server(kind, entry, f"mcp.{key}[{position + 1}]", of_all)
                found += [] if server is None else [server]
        entries.warn_unknown_keys([f"mcp.{key}" for key in mcp.left if key not in unkept], self._context)
        return tuple(found)

    def _server(self, kind: Kind, entry: Any, position: str, of_all: Mapping[str, Any]) -> Server | None:
        if not isinstance(entry, Mapping):
            self._notes.warn("CONFIG_ENTRY_SKIPPED", "it must be a table; the entry is skipped", position)
            return None
        entry = {**of_all, **entry}  # as if each entry said it, so that trust in an entry covers it
        namespace = entry.get("namespace")
        label = namespace if isinstance(namespace, str) and namespace.strip() else position
        if not self._is_user or "projects" not in entry:
            return entries.build_server(kind, entry, entry, self._context, label)
        rest = {key: value for key, value in entry.items() if key != "projects"}
        is_here = self._is_for_this_project(entry["projects"], label)
        return entries.build_server(kind, rest, entry, self._context, label) if is_here else None

    def _is_for_this_project(self, folders: Any, label: str) -> bool:
        """Whether one of an entry's `projects` is this one, or another working tree of its repository.

        Without a list of folders, none is.
        """
        variables = self._context.variables
        try:
            written = Fields({"projects": folders}).texts("projects")
            paths = {os.path.realpath(variables.expand_path(path, placeholders.TOML)) for path in written}
            return os.path.realpath(variables.root) in paths or not paths.isdisjoint(self._context.trees())
        except (ConfigValueError, UnresolvedPlaceholderError) as reason:
            self._notes.warn("CONFIG_ENTRY_SKIPPED", f"projects: {reason}; the entry is skipped", label)
            return False

    def _folders(self, scripts: Fields, key: str) -> tuple[Path, ...]:
        try:
            written = scripts.texts(key)
            if not self._is_user and (
                len(written) > MAX_FOLDERS or any(len(one) > MAX_PATH for one in written)
            ):
                raise ConfigValueError(f"it may name {MAX_FOLDERS} folders, of at most {MAX_PATH} characters")
            folders = [self._folder(text) for text in written]
        except (ConfigValueError, UnresolvedPlaceholderError) as reason:
            self._notes.warn("CONFIG_INVALID_VALUE", f"scripts.{key}: {reason}; it is ignored")
            return ()
        if self._is_user:
            return tuple(folders)
        # with links resolved: a folder outside the workspace would be used without trust
        root = os.path.realpath(self._context.variables.root)
        inside = [one for one in folders if Path(os.path.realpath(one)).is_relative_to(root)]
        if len(inside) < len(folders):
            self._notes.warn("CONFIG_KEY_REFUSED", f"scripts.{key} of a workspace cannot lie outside of it")
        return tuple(inside)

    def _folder(self, written: str) -> Path:
        base = self._context.origin.file.parent if self._is_user else self._context.variables.root
        expanded = self._context.variables.expand_path(written, placeholders.TOML)
        return Path(os.path.normpath(base / expanded))

    def _execute_code(self, scripts: Fields) -> bool:
        if not self._is_user:  # reported as a refused key
            if "execute_code" in scripts.left:
                scripts.take("execute_code")
                entries.warn_unknown_keys(["execute_code"], self._context)
            return False
        return self._flag(scripts, "scripts", "execute_code", default=False)

    def _flag(self, fields: Fields, table: str, key: str, *, default: bool) -> bool:
        try:
            return fields.flag(key, default)
        except ConfigValueError as reason:
            self._notes.warn("CONFIG_INVALID_VALUE", f"{table}: {reason}; it is ignored")
            return default

    def _approvals(self, table: Mapping[str, Any]) -> Mapping[str, Approval]:
        found: dict[str, Approval] = {}
        for name, value in table.items():
            try:
                found[name] = choice(f"approvals.{display_name(name)}", value, Approval)
            except ConfigValueError as reason:
                # an invalid decision must not permit anything
                message = f"{reason}; until it is corrected, calls are denied"
                self._notes.error("CONFIG_INVALID_VALUE", message, key=name)
                found[name] = "deny"
        if self._is_user:
            return found
        lowered = sorted(name for name, value in found.items() if value == "allow")
        if lowered:
            message = f"a workspace cannot allow tools ({display_names(lowered)}); it is ignored"
            self._notes.warn("CONFIG_KEY_REFUSED", message)
        return {name: value for name, value in found.items() if value != "allow"}

    def _visibility(self, top: Fields) -> VisibilityChoices:
        if not self._is_user:
            return VisibilityChoices()  # stays unread, and is reported as a refused key
        return read_visibility_table(self._table(top, KEY), self._context)

    def _sandboxes(self, top: Fields) -> Mapping[str, Sandbox]:
        if not self._is_user:
            return {}  # stays unread, and is reported as a refused key
        return read_sandbox_table(self._table(top, sandbox.KEY), self._context)

    def _inherits_trust(self, trust: Fields) -> bool:
        """Whether the user leaves it on; an invalid value switches it off. A project's table stays unread."""
        try:
            return trust.flag("inherit", True)
        except ConfigValueError as reason:
            message = f"trust: {reason}; until it is corrected, worktrees inherit no trust"
            self._notes.error("CONFIG_INVALID_VALUE", message, key="inherit")
            return False

    def _internal_prefix(self, top: Fields) -> str | None:
        if not self._is_user:
            return None  # stays unread, and is reported as a refused key
        value = top.take("internal_prefix")
        if value is None or (isinstance(value, str) and _PREFIX.fullmatch(value)):
            return value
        self._notes.warn("CONFIG_INVALID_VALUE", '"internal_prefix" must be 1 to 32 of A-Z a-z 0-9 _ -')
        return None

    def _seconds(self, top: Fields, key: str, longest: float) -> float | None:
        try:
            value = top.number(key, 0.0, 1.0, longest)
        except ConfigValueError as reason:
            self._notes.warn("CONFIG_INVALID_VALUE", f"{reason}; it is ignored")
            return None
        return value or None

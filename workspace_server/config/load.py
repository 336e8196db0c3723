"""Loads the configuration of one workspace from its files and reloads those that change. Blocks.

The files, in order of precedence:

1. `workspace.toml` in the user's folder
2. `.lm-tools-bridge/workspace.toml` in the workspace
3. `.mcp.json`, `.vscode/mcp.json`, `.cursor/mcp.json` in the workspace: servers only
4. `*.code-workspace` if there is one, else `.vscode/settings.json`: policy settings only

`config/formats/` parses them; `combine.py` and `servers.py` merge them.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, Final

from lm_tools_bridge.machine import private_files
from lm_tools_bridge.machine.git_worktrees import other_trees
from lm_tools_bridge.protocol.internal.client_files import PROJECT_FILES
from lm_tools_bridge.protocol.names import USUAL_PORT
from lm_tools_bridge.text import placeholders
from lm_tools_bridge.text.placeholders import PlaceholderRules, PlaceholderValues
from workspace_server.config import combine, servers, settings
from workspace_server.config.file_issues import FileIssues
from workspace_server.config.formats import mcp_json, toml_file
from workspace_server.config.formats.entries import MAX_START_S, EntryContext
from workspace_server.config.formats.jsonc import ConfigFileError, parse_object
from workspace_server.config.model import (
    Configuration,
    EntryOrigin,
    RemoteServer,
    Scope,
    ScriptSettings,
    StdioServer,
)
from workspace_server.config.settings import OBSOLETE, USE_WORKSPACE, Settings
from workspace_server.config.watched_file import MAX_BYTES, Clock, WatchedFile, WatchedFolder
from workspace_server.features import parts
from workspace_server.files.change_detection import ChangeDetector

USER_FILE: Final = "workspace.toml"
WORKSPACE_FILE: Final = ".lm-tools-bridge/workspace.toml"
START_VARIABLE: Final = "MCP_TIMEOUT"
"""A widespread client's variable for the longest duration of a start."""
_DEFAULTS: Final = Configuration()

Document = Mapping[str, Any]


class ConfigurationLoader:
    """Loads a workspace's configuration, and again whenever a file may have changed. Not thread-safe.

    Args:
        root: the workspace's folder.
        user_dir: the user's configuration folder.
        environ: this process's environment, the values of placeholders.
        manager_port: a manager's port beside the default one, to detect entries that point to the manager.
        kept: a private copy of the user's last valid file, so that denied tools stay denied if the file is
            invalid when a server starts; None for no copy.
        clock: the time of day in nanoseconds.
    """

    def __init__(
        self,
        root: Path,
        user_dir: Path,
        environ: Mapping[str, str],
        *,
        manager_port: int | None = None,
        kept: Path | None = None,
        clock: Clock = time.time_ns,
    ) -> None:
        self._root = root
        self._clock = clock
        self._kept = kept
        self._remembered: bytes | None = None
        self._variables = PlaceholderValues(root, environ)
        # an entry for the usual port is a self-reference even if this process was started without the port
        self._ports = {USUAL_PORT} if manager_port is None else {USUAL_PORT, manager_port}
        self._user = self._toml(user_dir / USER_FILE)
        self._ours = self._toml(root / WORKSPACE_FILE)
        self._imported = [(form, self._json(root / form.path)) for form in PROJECT_FILES]
        self._projects = WatchedFolder(root, ".code-workspace", clock)
        self._folder_settings = self._json(root / ".vscode/settings.json")
        self._editor = self._folder_settings
        self._named: dict[Path, WatchedFile[bytes]] = {}
        self._removed: list[str] = []
        self._current: Configuration | None = None

    def current(self, change_detector: ChangeDetector | None = None) -> Configuration:
        """The current configuration; the same object as before while no file changed.

        A file that cannot be read keeps its last valid content, with an issue. Settings by which an untrusted
        workspace would allow more are in `widening`; see `apply_widening`.

        Args:
            change_detector: receives the paths that the configuration depends on.
        """
        self._follow_project()
        imported = [file for _, file in self._imported]
        # a list, because every file must be refreshed, also after the first that changed
        changed = [file.refresh() for file in (self._user, self._ours, self._editor, *imported)]
        changed += [file.refresh() for file in self._named.values()]
        changed.append(self._remember())
        if self._current is None or any(changed):
            self._tidy()
            self._current = self._combined()
        if change_detector is not None:
            self._show(change_detector)
        return self._current

    def _show(self, change_detector: ChangeDetector) -> None:
        change_detector.add_path(os.fspath(self._root))  # `*.code-workspace` files in it
        imported = [file for _, file in self._imported]
        files: list[WatchedFile[Any]] = [
            self._user,
            self._ours,
            self._editor,
            *imported,
            *self._named.values(),
        ]
        for file in files:
            change_detector.add_path(os.fspath(file.path))
            if file.problem is not None:
                change_detector.mark_incomplete()  # the cause of a read error may vanish unnoticed

    def forget(self) -> None:
        """Drop the current configuration because the environment of the placeholders changed."""
        self._current = None

    def _remember(self) -> bool:
        """Save a copy of the user's file; returns whether the copy is now used in place of the file."""
        user = self._user
        if self._kept is None:
            return False
        with suppress(OSError, private_files.UnsafePathError):
            if user.problem is not None and user.good is None and self._remembered is None:
                self._remembered = private_files.read(self._kept, MAX_BYTES)
                if self._remembered is not None:
                    user.use_fallback(self._remembered)
                    return True
            elif user.problem is None and user.good != self._remembered:
                self._remembered = user.good
                private_files.write(self._kept, user.good or b"")
        return False

    def _follow_project(self) -> None:
        if not self._projects.refresh():
            return
        found = self._projects.found
        self._editor = self._folder_settings if found is None else self._json(found)
        self._current = None

    def _tidy(self) -> None:
        """Remove keys from the user's file that have no effect there; the warning stays."""
        document = self._user.value
        tools = document.get("tools")
        present = {f"tools.{key}" for key in tools} if isinstance(tools, Mapping) else set()
        misplaced = [str(key) for key in OBSOLETE if key in present]
        misplaced += [USE_WORKSPACE] if USE_WORKSPACE in document else []
        if not misplaced or self._user.problem is not None:
            return
        from workspace_server.config import edit  # noqa: PLC0415 - takes tomlkit, which is rarely needed

        try:
            edit.unset(self._user.path, *(key.split(".") for key in misplaced))
        except (OSError, edit.ConfigEditError):
            return
        self._removed = misplaced
        self._user.refresh()

    def _combined(self) -> Configuration:
        used: set[Path] = set()
        user_context = self._context(self._user, "user", placeholders.TOML, used)
        context = self._context(self._ours, "workspace", placeholders.TOML, used)
        user, ours = toml_file.read(self._user.value, user_context), toml_file.read(self._ours.value, context)
        self._note_misplaced(user.settings, user_context.notes)
        editor_notes = self._notes(self._editor, "workspace")
        editors = _read_editor_settings(self._editor_document(), editor_notes)
        scoped = combine.workspace_settings(ours.settings, editors, context.notes)
        members = combine.policy(user.settings, scoped, context.notes)
        servers_with_notes = [(server, user_context.notes) for server in user.servers]
        servers_with_notes += [(server, context.notes) for server in ours.servers]
        notes = [user_context.notes, context.notes]
        for form, file in self._imported:
            rules = PlaceholderRules(form.bare, form.tilde)
            imported = self._context(file, "workspace", rules, used)
            servers_with_notes += [
                (server, imported.notes) for server in mcp_json.servers(file.value, form, imported)
            ]
            notes.append(imported.notes)
        start_s = ours.start_timeout_s or user.start_timeout_s or self._start_timeout_of_clients()
        merged = servers.with_start_limit(servers.merge(servers_with_notes, self._ports), start_s)
        merged = servers.with_sandboxes(merged, user.sandbox, user.sandboxes)
        if not (user.apps and ours.apps):
            merged = servers.without_apps(merged)
        self._named = {path: file for path, file in self._named.items() if path in used}
        return Configuration(
            stdio=tuple(server for server in merged if isinstance(server, StdioServer)),
            remote=tuple(server for server in merged if isinstance(server, RemoteServer)),
            builtin=user.builtin and ours.builtin,
            features={
                name: part.combine(
                    user.features[name],
                    ours.features[name],
                    builtin=user.builtin and ours.builtin,
                    shared={**user.settings, **scoped},
                )
                for name, part in parts().items()
            },
            policy_file=(self._ours if scoped.get(USE_WORKSPACE) else self._user).path,
            scripts=ScriptSettings(
                tools_path=user.tools_path,
                libraries_path=user.libraries_path,
                workspace_tools_path=ours.tools_path,
                workspace_libraries_path=ours.libraries_path,
                execute_code=user.execute_code,
            ),
            approvals=combine.approvals(user.approvals, ours.approvals),
            visibility=user.visibility,
            inherits_trust=user.inherits_trust,
            internal_prefix=user.internal_prefix or _DEFAULTS.internal_prefix,
            call_timeout_s=ours.call_timeout_s or user.call_timeout_s or _DEFAULTS.call_timeout_s,
            call_timeout_file=(self._ours if ours.call_timeout_s else self._user).path,
            issues=tuple(issue for notes_of_file in (*notes, editor_notes) for issue in notes_of_file.issues),
            **members,
        )

    def _start_timeout_of_clients(self) -> float | None:
        """What the user set for the starts of all servers in a client, in milliseconds."""
        written = self._variables.environ.get(START_VARIABLE, "")
        seconds = float(written) / 1000 if written.isascii() and written.isdigit() else 0.0
        return min(seconds, MAX_START_S) if seconds >= 1 else None

    def _note_misplaced(self, user: Mapping[str, Any], notes: FileIssues) -> None:
        if self._removed:
            notes.warn("CONFIG_KEY_REMOVED", f"{', '.join(self._removed)}: no effect in this file; removed")
        if USE_WORKSPACE in user:
            notes.warn(
                "CONFIG_WRONG_SCOPE", f"{USE_WORKSPACE} is allowed in a workspace's file only; it is ignored"
            )

    def _editor_document(self) -> Document:
        in_project = self._editor.path.suffix == ".code-workspace"
        return _settings_of_workspace_file(self._editor.value) if in_project else self._editor.value

    def _context(
        self, file: WatchedFile[Document], scope: Scope, rules: PlaceholderRules, used: set[Path]
    ) -> EntryContext:
        def read(path: Path) -> bytes:
            used.add(path)
            return self._content(path)

        return EntryContext(
            EntryOrigin(file.path, scope),
            rules,
            self._variables,
            self._notes(file, scope),
            read,
            trees=partial(other_trees, self._root),
        )

    def _notes(self, file: WatchedFile[Document], scope: Scope) -> FileIssues:
        notes = FileIssues(self._shown(file.path, scope), file.good or b"")
        if file.problem is not None:
            notes.unreadable(file.problem)
        return notes

    def _shown(self, path: Path, scope: Scope) -> str:
        if scope == "workspace":
            return path.relative_to(self._root).as_posix()
        home = self._variables.home
        return f"~/{path.relative_to(home).as_posix()}" if home and path.is_relative_to(home) else str(path)

    def _content(self, path: Path) -> bytes:
        """The bytes of a file that an entry names; it is watched from now on.

        Raises:
            ConfigFileError: the file does not exist or cannot be read.
        """
        file = self._named.get(path)
        if file is None:
            file = self._named[path] = WatchedFile(path, bytes, b"", self._clock)
            file.refresh()
        if file.missing:
            raise ConfigFileError("there is no such file")
        if file.problem is not None:
            raise file.problem
        return file.value

    def _toml(self, path: Path) -> WatchedFile[Document]:
        return WatchedFile(path, toml_file.parse, {}, self._clock)

    def _json(self, path: Path) -> WatchedFile[Document]:
        return WatchedFile(path, parse_object, {}, self._clock)


_EDITOR_PREFIX: Final = "lmToolsBridge."
"""Our keys in editors' files; `sources/builtin/files/editor_settings.py` reads the editors' own keys."""


def _read_editor_settings(document: Mapping[str, Any], notes: FileIssues) -> Settings:
    """The checked settings of one decoded file; keys without our prefix are ignored."""
    ours = {
        key.removeprefix(_EDITOR_PREFIX): value
        for key, value in document.items()
        if key.startswith(_EDITOR_PREFIX)
    }
    return settings.check_settings(ours, notes)


def _settings_of_workspace_file(document: Mapping[str, Any]) -> Mapping[str, Any]:
    """The settings in a `*.code-workspace` file."""
    found = document.get("settings")
    return found if isinstance(found, Mapping) else {}

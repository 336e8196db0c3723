"""Decides how Claude Code is told not to start servers of `.mcp.json`, which stays as it is. Pure.

A committed `.mcp.json` is read by colleagues, CI and agents in the cloud, too: whoever empties it takes the
servers from them. Claude Code starts no server whose name is among the `disabledMcpjsonServers` of the
project's `.claude/settings.local.json`, which is each person's own (measured with 2.1.332). The workspace
server goes on reading `.mcp.json`. The other clients have no such file.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any, Final

from lm_tools_bridge.client_setup.adoption.decision import (
    WORKSPACE_FILE,
    Adoption,
    Contents,
    Server,
    list_entries,
    texts_of,
)
from lm_tools_bridge.client_setup.adoption.file_formats import PROJECT_FILES, ServersFile
from lm_tools_bridge.client_setup.adoption.project_entry import LEADS_TO_US, TomlEntry, translate
from lm_tools_bridge.client_setup.change import BOM, Change, FileFormat, refused, value_at
from lm_tools_bridge.client_setup.editing import jsonc_edit
from lm_tools_bridge.client_setup.refusals import FormProblem, Refusal
from lm_tools_bridge.protocol.internal import client_files
from lm_tools_bridge.protocol.internal.client_traits import namespace_of
from lm_tools_bridge.text.jsonc_parser import Dialect
from lm_tools_bridge.text.syntax_problems import SyntaxProblem

SETTINGS_FILE: Final = ".claude/settings.local.json"
TOLD_BEFORE: Final = "Claude Code does not start it, as it was told before"
DISABLED: Final = "it is disabled in the file"
_DIALECT: Final = Dialect(comments=True, trailing_commas=True)
_MEMBER: Final = "disabledMcpjsonServers"
SETTINGS_FORM: Final = FileFormat(_MEMBER, _DIALECT)
_WITHOUT_MEANING: Final = frozenset({"alwaysAllow", "always_allow", "autoApprove", "auto_approve"})
"""Keys by which other clients ask less often. The workspace server ignores them and runs the server."""


def decide_left_to_us(
    contents: Contents, names: Collection[str] = (), refused_before: Collection[str] = ()
) -> Adoption | Refusal:
    """Which servers Claude Code is told not to start, and the new content of its settings.

    Args:
        contents: `SETTINGS_FILE` and the files of clients.
        names: the servers; all if empty.
        refused_before: namespaces of those that Claude Code does not start already.
    """
    texts = texts_of(contents, WORKSPACE_FILE)
    if isinstance(texts, Refusal):
        return texts
    entries = list_entries(texts, PROJECT_FILES)
    if isinstance(entries, Refusal):
        return entries
    settings = texts.get(SETTINGS_FILE, "")
    disabled_names = _told_before(settings)
    if isinstance(disabled_names, Refusal):
        return disabled_names
    servers = tuple(
        Server(name, file, entry, _reason(file, name, entry, refused_before))
        for file, name, entry in entries
        if not names or name in names
    )
    added = list(dict.fromkeys(_names_to_add(servers, disabled_names)))
    if not added:
        return Adoption({}, servers)
    changed = jsonc_edit.with_member(settings, (_MEMBER,), [*disabled_names, *added], _DIALECT)
    if not isinstance(changed, str):
        return refused(changed, SETTINGS_FILE)
    before = contents.get(SETTINGS_FILE)
    mark = BOM if before is not None and before.startswith(BOM) else b""
    return Adoption({SETTINGS_FILE: Change(before, mark + changed.encode())}, servers)


def _names_to_add(servers: Collection[Server], disabled_names: Collection[str]) -> Iterator[str]:
    return (server.name for server in servers if server.reason is None and server.name not in disabled_names)


def _told_before(settings: str) -> list[str] | Refusal:
    """The names in the settings; they need not be servers of `.mcp.json`."""
    names = value_at(settings, SETTINGS_FORM, (_MEMBER,))
    if isinstance(names, SyntaxProblem | FormProblem):
        return refused(names, SETTINGS_FILE)
    if names is None:
        return []
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        return refused(FormProblem("unsupported_form", f'"{_MEMBER}" is not a list of names'), SETTINGS_FILE)
    return names


def _reason(file: ServersFile, name: str, entry: Any, refused_before: Collection[str]) -> str | None:
    """Why a server is left to the client that starts it; None if Claude Code is told not to."""
    if file.path != client_files.CLAUDE_CODE.path:
        return f"{file.client} cannot be told not to start it; this moves it: lmtb adopt --move"
    if namespace_of(name) in refused_before:
        return TOLD_BEFORE
    if isinstance(entry, dict):
        entry = {key: value for key, value in entry.items() if key not in _WITHOUT_MEANING}
    translated = translate(name, entry, file)
    if isinstance(translated, TomlEntry):
        return DISABLED if translated.table.get("enabled") is False else None
    if translated.reason == LEADS_TO_US:
        return translated.reason
    return f"it may not run here as it does in Claude Code: {translated.reason}"

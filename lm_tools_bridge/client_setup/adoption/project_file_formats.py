"""Describes the files of projects whose servers a client starts itself, and what their strings mean. Pure.

`workspace_server/config/formats/variables.py` has the rules for placeholders.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from lm_tools_bridge.client_setup.change import FileFormat
from lm_tools_bridge.client_setup.editing.jsonc_parser import Dialect

_RELAXED: Final = Dialect(comments=True, trailing_commas=True)
_ONLY_EDITORS: Final = re.compile(r"\$\{(?:input|command|config|extensionInstallFolder):[^}]*\}?")
_BARE_VARIABLE: Final = re.compile(r"\$\{[A-Za-z_][A-Za-z0-9_]*(?::-[^}]*)?\}")
_SHARED_NAMES: Final = frozenset(
    {"workspaceFolder", "workspaceFolderBasename", "userHome", "cwd", "pathSeparator"}
)
_NO_TEXT: Final = re.compile("[\x00\x7f\ud800-\udfff]")


class StaysError(Exception):
    """An entry stays in its file; the message is the reason."""


@dataclass(frozen=True, slots=True)
class ServersFile:
    """An object with servers in a file of a client, which starts them itself.

    Attributes:
        path: where it is in the project; absolute for a file of the user.
        member: the name of the object with the servers.
        client: the client's name.
        bare: whether `${X}` is a variable there, as in `workspace.toml`.
        tilde: whether a leading `~` is the home folder there, as in `workspace.toml`.
        falls_back: whether the type `http` allows the older HTTP+SSE, too.
        dialect: how the file is written; None for TOML.
        sections: the names that lead to the object, before `member`.
        restated: writes an entry of the file with the keys and variables of `.mcp.json`. Raises
            `StaysError` if that has nothing for a part of it.
        project: the only folder in which the client uses these servers; None for all.
    """

    path: str
    member: str
    client: str
    bare: bool
    tilde: bool
    falls_back: bool
    dialect: Dialect | None = _RELAXED
    sections: tuple[str, ...] = ()
    restated: Callable[[Mapping[str, Any]], Mapping[str, Any]] = dict
    project: str | None = None

    @property
    def container(self) -> tuple[str, ...]:
        """The names that lead to the object with the servers."""
        return (*self.sections, self.member)

    @property
    def form(self) -> FileFormat:
        """How the file is written."""
        return FileFormat(self.member, self.dialect)


PROJECT_FILES: Final = (
    ServersFile(".mcp.json", "mcpServers", "Claude Code", bare=True, tilde=False, falls_back=False),
    ServersFile(".vscode/mcp.json", "servers", "VS Code", bare=False, tilde=True, falls_back=True),
    ServersFile(".cursor/mcp.json", "mcpServers", "Cursor", bare=False, tilde=True, falls_back=True),
)
"""In the workspace server's order of precedence."""


def changed_meaning(table: Mapping[str, Any], file: ServersFile) -> str | None:
    """Why a string of an entry would mean something else in `workspace.toml`; None if all mean the same."""
    for text in _strings(table):
        if _NO_TEXT.search(text):
            return "it has a character that workspace.toml cannot hold"
    for text in _strings({key: value for key, value in table.items() if key != "namespace"}):
        editors = _ONLY_EDITORS.search(text)
        if editors is not None:
            return f"only {file.client} has a value for {editors[0]}"
        bare = [match[0] for match in _BARE_VARIABLE.finditer(text) if match[0][2:-1] not in _SHARED_NAMES]
        if bare and not file.bare:
            return f"{bare[0]} means something else in workspace.toml"
    paths = (*table.get("command", ()), table.get("cwd", ""), table.get("env_file", ""))
    if not file.tilde and any(match == "~" or match.startswith("~/") for match in paths):
        return "~ means something else in workspace.toml"
    return None


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield key
            yield from _strings(item)
    elif isinstance(value, list):
        for item in value:
            yield from _strings(item)

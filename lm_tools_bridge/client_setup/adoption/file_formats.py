"""Describes files whose servers a client starts itself, and what their entries mean. Pure.

Each client has its own names for the same things. An entry of a user's file is restated with the keys and
variables of `.mcp.json`, for which `project_entry.py` knows what `workspace.toml` has. The rules for
placeholders are in `lm_tools_bridge/text/placeholders.py`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Any, Final
from urllib.parse import urlsplit

from lm_tools_bridge.client_setup.change import FileFormat
from lm_tools_bridge.protocol.internal import client_files
from lm_tools_bridge.text.jsonc_parser import Dialect
from lm_tools_bridge.text.placeholders import (
    DOLLAR,
    find_editor_placeholder,
    list_bare_variables,
    map_texts,
)

_RELAXED: Final = Dialect(comments=True, trailing_commas=True)
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


PROJECT_FILES: Final = tuple(
    ServersFile(file.path, file.member, file.client, file.bare, file.tilde, file.falls_back)
    for file in client_files.PROJECT_FILES
)
"""In the workspace server's order of precedence."""


def changed_meaning(table: Mapping[str, Any], file: ServersFile) -> str | None:
    """Why a string of an entry would mean something else in `workspace.toml`; None if all mean the same."""
    for text in _strings(table):
        if _NO_TEXT.search(text):
            return "it has a character that workspace.toml cannot hold"
    for text in _strings({key: value for key, value in table.items() if key != "namespace"}):
        editors = find_editor_placeholder(text)
        if editors is not None:
            return f"only {file.client} has a value for {editors}"
        bare = list_bare_variables(text)
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


Entry = Mapping[str, Any]
_OPENCODE: Final = re.compile(r"\{env:([A-Za-z_][A-Za-z0-9_]*)\}")
_OPEN: Final = ("localhost", "127.0.0.1", "::1", "")
_PRIVATE_NAMES: Final = (".local", ".lan", ".internal", ".home.arpa")
_OURS: Final = re.compile(r"\$\{")


@dataclass(frozen=True, slots=True)
class UserFormat:
    """How a client's file for all projects is read.

    Attributes:
        client: the client's id.
        bare, tilde, falls_back: as in `ServersFile`.
        restated: as in `ServersFile`.
        has_sections: whether the file also has servers for single projects.
    """

    client: str
    bare: bool
    tilde: bool
    falls_back: bool
    restated: Callable[[Entry], Entry] = dict
    has_sections: bool = False


def _codex(entry: Entry) -> Entry:
    """Codex: no variables, but keys that name one."""
    restated = {key: value for key, value in entry.items() if key not in _CODEX_START}
    _refuse(_OURS, restated, "means something else in workspace.toml")
    restated |= _moved(restated, {"http_headers": "headers", "bearer_token_env_var": "token_env"})
    restated |= _moved(restated, {"enabled_tools": "include", "disabled_tools": "exclude"})
    variables = restated.pop("env_http_headers", {})
    if variables:
        restated["headers"] = {
            **restated.get("headers", {}),
            **{key: f"${{{variable}}}" for key, variable in variables.items()},
        }
    if "tool_timeout_sec" in restated:
        restated["timeout_s"] = restated.pop("tool_timeout_sec")
    return restated


_CODEX_START: Final = frozenset({"required", "startup_timeout_sec", "startup_timeout_ms"})
"""How Codex waits for a server that it starts itself."""


def _gemini(entry: Entry) -> Entry:
    """Gemini CLI: `$X`, and `httpUrl` beside `url`, which is for the older transport."""
    restated = dict(entry)
    restated |= _moved(restated, {"includeTools": "include", "excludeTools": "exclude"})
    if "httpUrl" in restated:
        if "url" in restated:
            raise StaysError('"url" and "httpUrl" say the same')
        restated |= {"type": "http", "url": restated.pop("httpUrl")}
    elif "url" in restated and "type" not in restated:
        restated["type"] = "sse"
    return dict(map_texts(restated, lambda text: DOLLAR.sub(_with_braces, text)))


def _with_braces(variable: re.Match[str]) -> str:
    return f"${{{variable['bare']}}}" if variable["bare"] else variable[0]


def _opencode(entry: Entry) -> Entry:
    """The program opencode: `{env:X}`, and one list for the program and its arguments."""
    restated = dict(entry)
    _refuse(_OURS, restated, "means something else in workspace.toml")
    if restated.get("type") == "remote":
        restated["type"] = "http"
    command = restated.get("command")
    if isinstance(command, list) and command:
        restated |= {"command": command[0], "args": command[1:]}
    restated |= _moved(restated, {"environment": "env"})
    expanded = dict(map_texts(restated, lambda text: _OPENCODE.sub(r"${\1:-}", text)))
    _refuse(re.compile(r"\{(?:env|file):"), expanded, "has a value in opencode only")
    return expanded


def with_private_address(restated: Callable[[Entry], Entry], entry: Entry) -> Entry:
    """The restated entry; in `workspace.toml`, an address of a private network has to be allowed."""
    table = restated(entry)
    is_private = isinstance(table.get("url"), str) and _is_private(table["url"])
    return {**table, "allow_private": True} if is_private else table


def _is_private(url: str) -> bool:
    try:
        host = urlsplit(url).hostname or ""
    except ValueError:
        return False
    try:
        return host not in _OPEN and ip_address(host).is_private
    except ValueError:
        return host not in _OPEN and ("." not in host or host.endswith(_PRIVATE_NAMES))


def _moved(entry: dict[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    """What an entry's keys become; takes them out of it."""
    return {new: entry.pop(old) for old, new in names.items() if old in entry}


def _refuse(pattern: re.Pattern[str], value: Any, why: str) -> None:
    for text in _texts(value):
        match = pattern.search(text)
        if match is not None:
            raise StaysError(f"{match[0]}… {why}")


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for item in value.values() if isinstance(value, dict) else value:
            yield from _texts(item)


USER_FORMATS: Final = (
    UserFormat("claude-code", bare=True, tilde=False, falls_back=False, has_sections=True),
    UserFormat("codex", bare=True, tilde=False, falls_back=False, restated=_codex),
    UserFormat("gemini-cli", bare=True, tilde=False, falls_back=False, restated=_gemini),
    UserFormat("opencode", bare=True, tilde=False, falls_back=True, restated=_opencode),
    UserFormat("vscode", bare=False, tilde=True, falls_back=True),
    UserFormat("cursor", bare=False, tilde=True, falls_back=True),
)
"""In the order in which the first of two equal servers is taken."""

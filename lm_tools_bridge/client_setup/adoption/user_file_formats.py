"""Describes the files of users whose servers a client starts itself, and restates their entries. Pure.

Each client has its own names for the same things. An entry is restated with the keys and variables of
`.mcp.json`, for which `project_entry.py` knows what `workspace.toml` has.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from ipaddress import ip_address
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from lm_tools_bridge.client_setup.adoption.project_file_formats import ServersFile, StaysError
from lm_tools_bridge.client_setup.change import FileFormat, decoded, value_at
from lm_tools_bridge.client_setup.clients import CLIENTS, Client, Machine
from lm_tools_bridge.client_setup.refusals import Refusal

Entry = Mapping[str, Any]
_GEMINI: Final = re.compile(r"\$(?:\{([A-Za-z_][A-Za-z0-9_]*(?::-[^}]*)?)\}|([A-Za-z_][A-Za-z0-9_]*))")
_OPENCODE: Final = re.compile(r"\{env:([A-Za-z_][A-Za-z0-9_]*)\}")
_BY_ID: Final = {client.id: client for client in CLIENTS}
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
    return dict(
        _mapped(restated, lambda text: _GEMINI.sub(lambda match: f"${{{match[1] or match[2]}}}", text))
    )


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
    expanded = dict(_mapped(restated, lambda text: _OPENCODE.sub(r"${\1:-}", text)))
    _refuse(re.compile(r"\{(?:env|file):"), expanded, "has a value in opencode only")
    return expanded


def _reachable(restated: Callable[[Entry], Entry], entry: Entry) -> Entry:
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


def _mapped(value: Any, change: Callable[[str], str]) -> Any:
    if isinstance(value, str):
        return change(value)
    if isinstance(value, dict):
        return {key: _mapped(item, change) for key, item in value.items()}
    return [_mapped(item, change) for item in value] if isinstance(value, list) else value


USER_FORMATS: Final = (
    UserFormat("claude-code", bare=True, tilde=False, falls_back=False, has_sections=True),
    UserFormat("codex", bare=True, tilde=False, falls_back=False, restated=_codex),
    UserFormat("gemini-cli", bare=True, tilde=False, falls_back=False, restated=_gemini),
    UserFormat("opencode", bare=True, tilde=False, falls_back=True, restated=_opencode),
    UserFormat("vscode", bare=False, tilde=True, falls_back=True),
    UserFormat("cursor", bare=False, tilde=True, falls_back=True),
)
"""In the order in which the first of two equal servers is taken."""


def user_files(machine: Machine, contents: Callable[[Path], bytes | None]) -> Sequence[ServersFile]:
    """Where the user's clients have servers: their files, and sections of these for single projects."""
    files: list[ServersFile] = []
    for user_format in USER_FORMATS:
        client = _BY_ID[user_format.client]
        for file in client.candidates(machine):
            files.append(_file(client, user_format, file))
            if user_format.has_sections:
                sections = _projects(client, contents(file))
                files += [_file(client, user_format, file, project) for project in sections]
    return tuple(files)


def _file(client: Client, form: UserFormat, file: Path, project: str | None = None) -> ServersFile:
    return ServersFile(
        str(file), client.form.container, client.title, form.bare, form.tilde, form.falls_back,
        dialect=client.form.dialect,
        sections=() if project is None else ("projects", project),
        restated=partial(_reachable, form.restated),
        project=project,
    )  # fmt: skip


def _projects(client: Client, content: bytes | None) -> Iterator[str]:
    """The folders for which a file has a section with servers; none if it cannot be read."""
    text = decoded(content or b"", "")
    form = FileFormat("projects", client.form.dialect)
    sections = {} if isinstance(text, Refusal) else value_at(text, form, ("projects",))
    for folder, section in sections.items() if isinstance(sections, dict) else ():
        if isinstance(section, dict) and section.get(client.form.container):
            yield folder

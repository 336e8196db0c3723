"""Translates a server of a client's file into an entry of `workspace.toml`, or says why not. Pure.

`workspace_server/config/formats/` reads both forms; a test compares what it would run before and after.
Placeholders stay as they are, because `workspace.toml` reads those of all clients. An entry stays where it is
if a part of it has another meaning, or none, in `workspace.toml`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from lm_tools_bridge.client_setup.adoption.file_formats import (
    ServersFile,
    StaysError,
    changed_meaning,
)
from lm_tools_bridge.client_setup.change import is_ours

Kind = Literal["stdio_servers", "remote_servers"]

_KINDS: Final[Mapping[str, Kind]] = {
    "stdio": "stdio_servers",
    "local": "stdio_servers",
    "http": "remote_servers",
    "streamable-http": "remote_servers",
    "streamableHttp": "remote_servers",
    "streamable_http": "remote_servers",
    "sse": "remote_servers",
}
_TEXTS: Final = "a list of strings"
_PAIRS: Final = "an object of strings and numbers"
_COMMON: Final = {
    "enabled": bool, "separator": str, "tool_visibility": str, "include": _TEXTS, "exclude": _TEXTS,
    "keywords": _TEXTS, "default": str, "timeout_s": float, "start_timeout_s": float, "task": bool,
}  # fmt: skip
_KEYS: Final[Mapping[Kind, Mapping[str, Any]]] = {
    "stdio_servers": {
        **_COMMON, "env": _PAIRS, "env_secrets": _PAIRS, "env_file": str, "cwd": str, "sharing": str,
        "data": _TEXTS,
    },
    "remote_servers": {
        **_COMMON, "url": str, "headers": _PAIRS, "token": str, "token_env": str, "token_secret": str,
        "client_id": str, "client_secret": str, "scope": str, "allow_private": bool,
    },
}  # fmt: skip
_READ_APART: Final[Mapping[Kind, frozenset[str]]] = {
    "stdio_servers": frozenset({"type", "transport", "command", "args"}),
    "remote_servers": frozenset({"type", "transport"}),
}
_OAUTH: Final = {
    "clientId": "client_id",
    "CLIENT_ID": "client_id",
    "clientSecret": "client_secret",
    "CLIENT_SECRET": "client_secret",
    "scopes": "scope",
    "scope": "scope",
}
LEADS_TO_US: Final = "it leads to LM Tools Bridge itself"
_MAX_TIMEOUT_S: Final = 600.0
_USUAL_START_S: Final = 30.0
"""Up to this, a client's `timeout` limits calls only."""
_PROGRAMS: Final = frozenset({"lmtb", "lm-tools-bridge"})


@dataclass(frozen=True, slots=True)
class TomlEntry:
    """An entry of `workspace.toml`: `[[mcp.<kind>]]` with these keys."""

    kind: Kind
    table: Mapping[str, Any]

    @property
    def essence(self) -> tuple[Any, ...]:
        """What is started or connected to: entries that are equal in it are one server."""
        keys = (
            "command", "env", "env_secrets", "env_file", "cwd", "url", "headers", "token", "token_env",
            "token_secret", "auth", "client_id", "enabled",
        )  # fmt: skip
        return (self.kind, *(self.table.get(key) for key in keys))

    def also_in(self, entry: TomlEntry) -> TomlEntry:
        """This entry for its own projects and those of another entry."""
        mine, theirs = self.table.get("projects"), entry.table.get("projects")
        table = {key: value for key, value in self.table.items() if key != "projects"}
        if mine is None or theirs is None:
            return TomlEntry(self.kind, table)
        return TomlEntry(
            self.kind, {**table, "projects": [*mine, *(project for project in theirs if project not in mine)]}
        )


@dataclass(frozen=True, slots=True)
class Untranslatable:
    """Why an entry stays in its file."""

    reason: str


def translate(name: str, entry: Any, file: ServersFile) -> TomlEntry | Untranslatable:
    """The entry of `workspace.toml` that means the same as a server of a client's file."""
    try:
        if not isinstance(entry, dict):
            raise StaysError("it is not an object")
        if leads_to_manager(entry):
            raise StaysError(LEADS_TO_US)
        if not name.strip():
            raise StaysError("it has no name")
        entry = file.restated(entry)
        kind = _kind(entry)
        table = {"namespace": name, **_start(kind, entry, file), **_others(kind, entry)}
        if file.project is not None:
            table["projects"] = [file.project]
        changed = changed_meaning(table, file)
        if changed is not None:
            raise StaysError(changed)
    except StaysError as reason:
        return Untranslatable(str(reason))
    return TomlEntry(kind, table)


def leads_to_manager(entry: Mapping[str, Any]) -> bool:
    """Whether an entry connects a client to a manager, also by another program such as `npx mcp-remote`."""
    if is_ours(entry):
        return True
    arguments = entry.get("args")
    words = [entry.get("command"), *(arguments if isinstance(arguments, list) else [])]
    texts = [word for word in words if isinstance(word, str)]
    programs = {_program(word) for word in texts}
    return bool(programs & _PROGRAMS) or any(is_ours({"url": word}) for word in texts if "://" in word)


def _program(word: str) -> str:
    name = word.replace("\\", "/").rpartition("/")[2].removesuffix(".exe")
    return name.split("@")[0].split("==")[0].lower()


def _kind(entry: Mapping[str, Any]) -> Kind:
    if "type" in entry and "transport" in entry:
        raise StaysError('"type" and "transport" say the same')
    written = entry.get("type", entry.get("transport"))
    if written is None:
        if "command" in entry:
            return "stdio_servers"
        if "url" in entry:
            return "remote_servers"
        raise StaysError('"command" or "url" is missing')
    kind = _KINDS.get(written) if isinstance(written, str) else None
    if kind is None:
        raise StaysError('its "type" is not supported')
    return kind


def _start(kind: Kind, entry: Mapping[str, Any], file: ServersFile) -> dict[str, Any]:
    """The command, or the transport if it is not the default."""
    if kind == "stdio_servers":
        command, arguments = entry.get("command"), entry.get("args", [])
        if not isinstance(command, str) or not command.strip():
            raise StaysError('"command" is missing')
        if not isinstance(arguments, list) or not all(
            isinstance(argument, str | int | float) for argument in arguments
        ):
            raise StaysError('"args" is not a list of strings')
        return {"command": [command, *map(str, arguments)]}
    if not isinstance(entry.get("url"), str) or not entry["url"].strip():
        raise StaysError('"url" is missing')
    written = entry.get("type", entry.get("transport"))
    if written is None or (written != "sse" and file.falls_back):
        return {}
    return {"transport": "sse" if written == "sse" else "http"}


def _others(kind: Kind, entry: Mapping[str, Any]) -> dict[str, Any]:
    """The other keys, each with the name and value that it has in `workspace.toml`."""
    table: dict[str, Any] = {}
    for key, value in entry.items():
        if key in _READ_APART[kind]:
            continue
        members = _TRANSLATIONS[key](value) if key in _TRANSLATIONS else {key: value}
        for own, member in members.items():
            if own in table:
                raise StaysError(f'"{key}" and another key say the same')
            if not (own == "auth" and key in ("oauth", "auth") and kind == "remote_servers"):
                _check_value(kind, own, member, key)
            table[own] = member
    return table


def _check_value(kind: Kind, own: str, value: Any, key: str) -> None:
    expected = _KEYS[kind].get(own)
    if expected is None:
        raise StaysError(f'workspace.toml has nothing for its key "{key}"')
    if expected is _TEXTS:
        fits = isinstance(value, list) and all(isinstance(item, str) for item in value)
    elif expected is _PAIRS:
        fits = isinstance(value, dict) and all(isinstance(item, str | int | float) for item in value.values())
    elif expected is float:
        fits = isinstance(value, int | float) and not isinstance(value, bool)
    elif own in ("tool_visibility", "task"):
        fits = isinstance(value, (str, expected)) or _is_table(own, value)
    else:
        fits = isinstance(value, expected)
    if not fits:
        raise StaysError(f'workspace.toml cannot hold the value of "{key}"')


def _is_table(own: str, value: Any) -> bool:
    return (
        own == "tool_visibility"
        and isinstance(value, dict)
        and all(isinstance(item, str) for item in value.values())
    )


def _disabled(value: Any) -> Mapping[str, Any]:
    if not isinstance(value, bool):
        raise StaysError('"disabled" is not true or false')
    return {"enabled": not value}


def _timeout(value: Any) -> Mapping[str, Any]:
    """Milliseconds as seconds, in the range that the workspace server limits them to."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise StaysError('"timeout" is not a number')
    seconds = min(max(value, 1000.0), _MAX_TIMEOUT_S * 1000) / 1000
    limit = int(seconds) if seconds.is_integer() else seconds
    # clients apply it to the start as well, so the server's start is as long as it was there
    return (
        {"timeout_s": limit} if seconds <= _USUAL_START_S else {"timeout_s": limit, "start_timeout_s": limit}
    )


def _oauth(value: Any) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise StaysError("its OAuth settings are not an object")
    settings: dict[str, Any] = {"auth": "oauth"}
    for key, setting in value.items():
        own = _OAUTH.get(key)
        text = " ".join(map(str, setting)) if own == "scope" and isinstance(setting, list) else setting
        if own is None or own in settings or not isinstance(text, str):
            raise StaysError(f'workspace.toml has nothing for the OAuth setting "{key}"')
        settings[own] = text
    return settings


def _tools(value: Any) -> Mapping[str, Any]:
    return {} if value == ["*"] else {"include": value}


_TRANSLATIONS: Final[Mapping[str, Callable[[Any], Mapping[str, Any]]]] = {
    "envFile": lambda value: {"env_file": value},
    "disabled": _disabled,
    "timeout": _timeout,
    "oauth": _oauth,
    "auth": _oauth,
    "tools": _tools,
}

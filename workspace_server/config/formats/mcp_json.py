"""Imports the servers of other clients' files: `.mcp.json`, `.vscode/mcp.json`, `.cursor/mcp.json`.

Entries have the meaning that those clients give them. This module translates their keys into the keys of our
TOML, which are accepted there, too; `entries.py` builds the servers.

* `.mcp.json` (`mcpServers`): `command` or `url` replaces a missing type; `timeout` in milliseconds.
* `.vscode/mcp.json` (`servers`): comments allowed, `http` falls back to the older SSE, `env` may hold null;
  `sandboxEnabled` in an entry, with the rules in the file's `sandbox`.
* `.cursor/mcp.json` (`mcpServers`): comments allowed, no type needed, `auth` holds OAuth client data.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Final

from lm_tools_bridge.protocol.internal.client_files import ProjectFile
from lm_tools_bridge.text.near_names import did_you_mean
from workspace_server.config.formats import entries, restrictions, sandbox
from workspace_server.config.formats.entries import EntryContext, Kind, Server
from workspace_server.config.formats.fields import ConfigValueError, plain_text

_TYPES: Final[Mapping[str, Kind]] = {
    "stdio": "stdio",
    "local": "stdio",
    "http": "remote",
    "streamable-http": "remote",
    "streamableHttp": "remote",
    "streamable_http": "remote",
    "sse": "remote",
}
_IN_SANDBOX: Final = "sandboxEnabled"
# keys without effect here: display names, debugging options, gallery data
_PASSED_OVER: Final = frozenset({
    "name", "description", "dev", "gallery", "version", "icon", "inputs", "alwaysLoad", "deferTools",
})  # fmt: skip


def servers(document: Mapping[str, Any], form: ProjectFile, context: EntryContext) -> list[Server]:
    """The valid servers of one decoded file, in file order; issues go to the context's notes."""
    entries_by_name = document.get(form.member, {})
    other_members = {form.member, form.sandbox, "$schema", *form.other_members}
    left = [key for key in document if key not in other_members]
    unkept = restrictions.unkept(document, left)
    unknown = [key for key in left if key not in unkept]
    entries.warn_unknown_keys(unknown, context, known={form.member, *form.other_members})
    context = replace(context, restrictions=tuple(unkept))
    if not isinstance(entries_by_name, Mapping):
        context.notes.warn("CONFIG_INVALID_VALUE", f'"{form.member}" must be an object; it is ignored')
        return []
    built = (
        _server(str(name), _with_rules(entry, document.get(form.sandbox)), form, context)
        for name, entry in entries_by_name.items()
    )
    return [server for server in built if server is not None]


def _with_rules(entry: Any, rules: Any) -> Any:
    """The entry with the rules of its file for sandboxes, so that trust in it covers them."""
    if rules is not None and isinstance(entry, Mapping) and _is_sandboxed(entry):
        return {sandbox.KEY: rules, **entry}
    return entry


def _is_sandboxed(entry: Mapping[str, Any]) -> bool:
    ignored = entry.get(restrictions.IGNORED)
    return entry.get(_IN_SANDBOX) is True and not (isinstance(ignored, list) and _IN_SANDBOX in ignored)


def _server(name: str, entry: Any, form: ProjectFile, context: EntryContext) -> Server | None:
    try:
        if not isinstance(entry, Mapping):
            raise ConfigValueError("it must be an object")
        kind = _kind(entry)
        values = _translated(name, entry, kind, form)
    except ConfigValueError as reason:
        entries.skip(reason, entry if isinstance(entry, Mapping) else {}, context, name)
        return None
    return entries.build_server(kind, values, entry, context, name)


def _kind(entry: Mapping[str, Any]) -> Kind:
    written = entry.get("type", entry.get("transport"))
    if written is None:
        found = entries.infer_kind(entry)
        if found is None:
            raise ConfigValueError('"command" or "url" is missing')
        return found
    kind = _TYPES.get(written) if isinstance(written, str) else None
    if kind is None:
        hint = did_you_mean(written, _TYPES) if isinstance(written, str) else ""
        raise ConfigValueError(f'"type" must be one of stdio, http, sse{hint}')
    return kind


def _translated(name: str, entry: Mapping[str, Any], kind: Kind, form: ProjectFile) -> Mapping[str, Any]:
    values: dict[str, Any] = {"namespace": name}
    for key, value in entry.items():
        if key in _TRANSLATIONS:
            values.update(_TRANSLATIONS[key](value))
        elif key not in _PASSED_OVER:
            values.setdefault(key, value)
    if _is_sandboxed(entry):
        values.update(sandbox.of_vscode(entry.get(sandbox.KEY, {})))
    if kind == "stdio":
        values["command"] = _command(entry)
    else:
        values["transport"] = _transport(entry, form)
    return values


def _command(entry: Mapping[str, Any]) -> list[str]:
    command, arguments = entry.get("command"), entry.get("args") or []
    if isinstance(command, list):
        raise ConfigValueError('"command" must be a text; arguments belong under "args"')
    if command is not None and not isinstance(command, str):
        raise ConfigValueError('"command" must be a text')
    if command is None or not command.strip():
        raise ConfigValueError('"command" is missing')
    if not isinstance(arguments, list) or not all(
        isinstance(argument, str | int | float) for argument in arguments
    ):
        raise ConfigValueError('"args" must be an array of strings')
    return [command, *map(plain_text, arguments)]


def _transport(entry: Mapping[str, Any], form: ProjectFile) -> str:
    written = entry.get("type", entry.get("transport"))
    if written == "sse":
        return "sse"
    return "auto" if written is None or form.falls_back else "http"


def _disabled(value: Any) -> Mapping[str, Any]:
    return {"enabled": not value if isinstance(value, bool) else value}


def _timeout(value: Any) -> Mapping[str, Any]:
    """Milliseconds as seconds, limited to the range allowed here."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ConfigValueError('"timeout" must be a number')
    return {"timeout_s": min(max(value / 1000, 1.0), entries.MAX_TIMEOUT_S)}


def _oauth(value: Any) -> Mapping[str, Any]:
    """OAuth client data, in the spellings of the three clients."""
    if not isinstance(value, Mapping):
        raise ConfigValueError("its OAuth settings must be an object")
    scopes = value.get("scopes", value.get("scope"))
    members = {
        "client_id": value.get("clientId", value.get("CLIENT_ID")),
        "client_secret": value.get("clientSecret", value.get("CLIENT_SECRET")),
        "scope": " ".join(map(str, scopes)) if isinstance(scopes, list) else scopes,
    }
    return {"auth": "oauth", **{key: text for key, text in members.items() if text is not None}}


def _sandboxed(value: Any) -> Mapping[str, Any]:
    """Nothing for the entries that `_is_sandboxed` finds."""
    if not isinstance(value, bool):
        raise ConfigValueError(f'"{_IN_SANDBOX}" must be true or false')
    return {} if value else {sandbox.KEY: "off"}


def _nothing(_: Any) -> Mapping[str, Any]:
    return {}


_TRANSLATIONS: Final[Mapping[str, Callable[[Any], Mapping[str, Any]]]] = {
    "type": _nothing,
    "transport": _nothing,
    "command": _nothing,
    "args": _nothing,
    "envFile": lambda value: {"env_file": value},
    "disabled": _disabled,
    "timeout": _timeout,
    "oauth": _oauth,
    "auth": _oauth,
    _IN_SANDBOX: _sandboxed,
}

"""Reads the configuration of ollmcpc, `~/.ollmcpc.json`, as settings of the agent. Pure."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from lm_tools_bridge.agent.settings.workspace_file import StdioServer

_MODELS: Final = {"ollama_model": "ollama", "gemini_model": "gemini"}


class NotReadable(ValueError):
    """The file is no JSON object; the message says why."""


@dataclass(frozen=True, slots=True)
class Imported:
    """What the file says.

    Attributes:
        changes: keys below `[agent]` -> values.
        keys: provider -> key, which belongs into the secret store.
        warnings: what was skipped, and why.
    """

    changes: Mapping[tuple[str, ...], Any]
    servers: tuple[StdioServer, ...] = ()
    keys: Mapping[str, str] = field(default_factory=dict, repr=False)
    warnings: tuple[str, ...] = ()


def read_ollmcpc(content: bytes) -> Imported:
    """Read the file.

    Raises:
        NotReadable: it is no JSON object.
    """
    try:
        document = msgspec.json.decode(content)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise NotReadable(f"it is no JSON: {error}") from error
    if not isinstance(document, dict):
        raise NotReadable("it is no JSON object")
    changes: dict[tuple[str, ...], Any] = {}
    warnings: list[str] = []
    provider = document.get("default_provider")
    if isinstance(provider, str) and provider:
        changes["default_provider",] = provider.lower()
    for member, name in _MODELS.items():
        if isinstance(document.get(member), str) and document[member]:
            changes["model", name] = document[member]
    if isinstance(document.get("human_in_loop"), bool):
        changes["human_in_loop",] = document["human_in_loop"]
    elif "human_in_loop" in document:
        warnings.append("human_in_loop is neither true nor false; skipped")
    key = document.get("gemini_api_key")
    keys = {"gemini": key} if isinstance(key, str) and key else {}
    return Imported(changes, tuple(_servers(document.get("servers"), warnings)), keys, tuple(warnings))


def _servers(entries: Any, warnings: list[str]) -> list[StdioServer]:
    servers = []
    if entries is not None and not isinstance(entries, list):
        warnings.append("servers is no list; skipped")
    for number, entry in enumerate(entries if isinstance(entries, list) else [], start=1):
        name, command = (entry.get("name"), entry.get("command")) if isinstance(entry, dict) else (None, None)
        if not (isinstance(name, str) and name and isinstance(command, str) and command.strip()):
            warnings.append(f"server {number} has no name or no command; skipped")
            continue
        try:
            words = tuple(shlex.split(command))
        except ValueError as error:
            warnings.append(f"server {name}: its command cannot be read ({error}); skipped")
            continue
        servers.append(StdioServer(name, words, entry.get("enabled") is not False))
    return servers

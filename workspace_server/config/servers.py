"""Merges the servers of all files: drops duplicates and self-references, and decides about clashes. Pure.

Of two servers with one name, the nearer one alone is used, as clients do it: the user's own for this project,
the project's, the user's for all projects. So nothing that calls `memory` reaches another store than before.
Two of one project are both used, because different clients may use each; the second one is renamed.

A self-reference is a server that points back to the manager, which would call itself for ever.
"""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import PurePath, PureWindowsPath
from typing import Any, Final
from urllib.parse import urlsplit

from workspace_server.config.file_issues import FileIssues, display_name
from workspace_server.config.formats.entries import Server
from workspace_server.config.formats.sandbox import in_force
from workspace_server.config.model import Sandbox, StdioServer

_PROGRAMS: Final = frozenset({"lmtb", "lm-tools-bridge"})
_DEFAULT_PORTS: Final = {"http": 80, "https": 443}


def url_targets_manager(url: str, ports: Collection[int]) -> bool:
    """Whether a URL is an MCP endpoint of the manager: this machine, one of `ports`, `mcp` in the path."""
    try:
        parts = urlsplit(url)
        port = parts.port or _DEFAULT_PORTS.get(parts.scheme.lower(), 0)
    except ValueError:
        return False
    if port not in ports or parts.hostname is None or "mcp" not in parts.path.split("/"):
        return False
    return is_this_machine(parts.hostname)


def command_targets_manager(command: Sequence[str], ports: Collection[int]) -> bool:
    """Whether a command is `lmtb connect`, or has the manager's URL as an argument.

    Launchers before it (`uvx`, `npx`, `env`) are allowed for.
    """
    for position, word in enumerate(command):
        if _program(word) in _PROGRAMS and "connect" in command[position + 1 :]:
            return True
        if "://" in word and url_targets_manager(word, ports):
            return True
    return False


def is_this_machine(host: str) -> bool:
    """Whether a URL's host is this machine, in any spelling of a loopback address."""
    name = host.rstrip(".").lower()
    if name == "localhost" or name.endswith(".localhost"):
        return True
    try:
        address = ipaddress.ip_address(name)
    except ValueError:
        try:  # 127.1, 0x7f.1, 2130706433
            address = ipaddress.ip_address(socket.inet_aton(name))
        except (OSError, ValueError):
            return False
    mapped = getattr(address, "ipv4_mapped", None)
    address = mapped if mapped is not None else address
    return address.is_loopback or address.is_unspecified


def _program(word: str) -> str:
    """The program's name without folder, `.exe` and version (`lm-tools-bridge@1.2`, `…==1.2`)."""
    name = PureWindowsPath(PurePath(word).name).name
    return name.removesuffix(".exe").split("@")[0].split("==")[0].lower()


# Each server has its state, its lists and perhaps a process: a file with more is a mistake or an attack.
MAX_SERVERS: Final = 200


def merge(entries: Iterable[tuple[Server, FileIssues]], ports: Collection[int]) -> list[Server]:
    """The merged servers, numbered in configuration order, each with a unique namespace.

    Args:
        entries: every valid entry in configuration order, with the issues of its file.
        ports: ports that the manager listens on.
    """
    taken: dict[str, Server] = {}
    entries = list(entries)
    nearest = _nearest_by_name(server for server, _ in entries if not _is_self_reference(server, ports))
    for server, notes in entries:
        if _is_self_reference(server, ports):
            notes.warn(
                "CONFIG_SELF_REFERENCE",
                "it points to the manager itself; the entry is skipped",
                server.namespace,
            )
            continue
        nearer = nearest.get(server.namespace, server)
        if _is_hidden(server, nearer):
            name, where = display_name(server.namespace), _PLACES[nearer.origin.scope]
            message = (
                f'{where} has another server "{name}", which is used here instead; rename one to use both'
            )
            notes.warn("CONFIG_NAMESPACE_HIDDEN", message, server.namespace)
            continue
        namespace = _unique_namespace(server, taken, notes)
        if namespace is None:
            continue
        if len(taken) == MAX_SERVERS:
            notes.error("CONFIG_TOO_MANY_SERVERS", f"only the first {MAX_SERVERS} servers are used")
            break
        taken[namespace] = replace(server, namespace=namespace, order=len(taken))
    return list(taken.values())


def with_start_limit(servers: Iterable[Server], seconds: float | None) -> list[Server]:
    """The servers, with this longest duration of a start where the entry has none of its own."""
    return [
        replace(server, start_timeout_s=seconds) if server.start_timeout_s is None else server
        for server in servers
    ]


def with_sandboxes(
    servers: Iterable[Server], default: Sandbox | None, choices: Mapping[str, Sandbox]
) -> list[Server]:
    """The servers, the stdio servers with the sandbox that holds for them; see `formats/sandbox.py`."""
    return [
        in_force(server, default, choices.get(server.namespace))
        if isinstance(server, StdioServer)
        else server
        for server in servers
    ]


def without_apps(servers: Iterable[Server]) -> list[Server]:
    """The servers, none of them with apps."""
    return [replace(server, apps=False) for server in servers]


def _is_self_reference(server: Server, ports: Collection[int]) -> bool:
    if isinstance(server, StdioServer):
        return command_targets_manager(server.command, ports)
    return url_targets_manager(server.url, ports)


_PLACES: Final = {"user": "your own workspace.toml", "workspace": "the project"}


def _nearest_by_name(servers: Iterable[Server]) -> dict[str, Server]:
    """The nearest server of each name, of those that are enabled; the first of several that are as near."""
    nearest: dict[str, Server] = {}
    for server in sorted(servers, key=_distance):
        if server.enabled and not server.bare:
            nearest.setdefault(server.namespace, server)
    return nearest


def _distance(server: Server) -> int:
    """How far an entry is from the project: nearest is what the user wrote for this project."""
    if server.origin.scope == "workspace":
        return 1
    return 0 if "projects" in server.raw else 2


def _is_hidden(server: Server, nearer: Server) -> bool:
    """Whether a server of one name from the other side, user's or project's, is used in place of this one."""
    return (
        not server.bare
        and server.origin.scope != nearer.origin.scope
        and _distance(server) > _distance(nearer)
        and _essence(server) != _essence(nearer)
    )


def _unique_namespace(server: Server, taken: dict[str, Server], notes: FileIssues) -> str | None:
    """A namespace for the server; None if the same server is already in `taken`."""
    namespace, number = server.namespace, 1
    while namespace in taken:
        if _essence(taken[namespace]) == _essence(server):
            return None
        number += 1
        namespace = f"{server.namespace}_{number}"
    if number > 1:
        wanted_name, new_name = display_name(server.namespace), display_name(namespace)
        message = f'the namespace "{wanted_name}" is taken; this one is now "{new_name}"'
        notes.warn("CONFIG_NAMESPACE_CLASH", message, server.namespace)
    return namespace


def _essence(server: Server) -> tuple[Any, ...]:
    """The identity of a server: what is started or connected to, without display settings."""
    if isinstance(server, StdioServer):
        return server.command, dict(server.env), dict(server.env_secrets), server.cwd
    tokens = server.token, server.token_env, server.token_secret
    return server.url, dict(server.headers), tokens, server.auth, server.client_id

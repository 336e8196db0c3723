"""Merges the servers of all files: drops duplicates and self-references, and renames clashes. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import replace
from typing import Any, Final

from workspace_server.config import self_references
from workspace_server.config.file_issues import FileIssues, display_name
from workspace_server.config.formats.entries import Server
from workspace_server.config.model import StdioServer

MAX_SERVERS: Final = 200


def merge(entries: Iterable[tuple[Server, FileIssues]], ports: Collection[int]) -> list[Server]:
    """The merged servers, numbered in configuration order, each with a unique namespace.

    Args:
        listed: every valid entry in configuration order, with the issues of its file.
        ports: ports that the manager listens on.
    """
    taken: dict[str, Server] = {}
    for server, notes in entries:
        if _is_self_reference(server, ports):
            notes.warn(
                "CONFIG_SELF_REFERENCE",
                "it points to the manager itself; the entry is skipped",
                server.namespace,
            )
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


def _is_self_reference(server: Server, ports: Collection[int]) -> bool:
    if isinstance(server, StdioServer):
        return self_references.command_targets_manager(server.command, ports)
    return self_references.url_targets_manager(server.url, ports)


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
        return server.command, dict(server.env), server.cwd
    tokens = server.token, server.token_env, server.token_secret
    return server.url, dict(server.headers), tokens, server.auth, server.client_id

"""Finds servers that run twice: a client that was seen in a project also starts them itself."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from lm_tools_bridge.protocol.internal.own_servers import OwnServers
from lm_tools_bridge.text.printable import printable
from manager.routing.client_profiles import OTHER, profile_of
from manager.status_reading.responses import objects


def running_twice(status: Mapping[str, Any]) -> Iterator[str]:
    """One sentence for each project, client and file."""
    for server in objects(status, "instanceDetails"):
        workspace = str(server.get("workspace"))
        for title, own in sorted(_started_by_clients(status, workspace), key=str):
            names = [
                namespace
                for source in objects(server, "sources")
                if own.starts(source.get("file"), namespace := str(source.get("namespace")))
            ]
            if names:
                yield (
                    f"{workspace}: {title} starts {', '.join(names)} of {own.file} itself, so they"
                    " run twice; move them with: lmtb adopt"
                )


def clients_starting(status: Mapping[str, Any], workspace: str, file: str, namespace: str) -> list[str]:
    """Titles of the clients that were seen in a workspace and start this server of a file themselves."""
    found = _started_by_clients(status, workspace)
    return sorted({title for title, own in found if own.starts(file, namespace)})


def _started_by_clients(status: Mapping[str, Any], workspace: str) -> set[tuple[str, OwnServers]]:
    """What each client that was seen in a workspace starts itself there, as far as the manager knows."""
    return {
        (_title(row["name"]), OwnServers(str(own.get("file")), _names(own), own.get("allBut") is True))
        for row in objects(status, "clientDetails")
        if isinstance(row.get("name"), str) and row.get("workspace") == workspace
        for own in objects(row, "ownServers")
    }


def _names(own: Mapping[str, Any]) -> frozenset[str]:
    names = own.get("names")
    return frozenset(map(str, names)) if isinstance(names, list) else frozenset()


def _title(name: str) -> str:
    profile = profile_of(name)
    return printable(name) if profile is OTHER else profile.title

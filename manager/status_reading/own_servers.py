"""Finds servers that run twice: a client that was seen in a project also starts them itself."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from host.text.printable import printable
from manager.routing.client_profiles import OTHER, profile_of
from manager.status_reading.responses import objects


def running_twice(status: Mapping[str, Any]) -> Iterator[str]:
    """One sentence for each project, client and file."""
    seen = {
        (str(row.get("workspace")), _title(row["name"]), str(file))
        for row in objects(status, "clientDetails")
        if isinstance(row.get("name"), str)
        for file in row.get("ownFiles", ())
    }
    for server in objects(status, "instanceDetails"):
        for workspace, title, file in sorted(seen):
            if workspace != server.get("workspace"):
                continue
            names = [
                str(one.get("namespace")) for one in objects(server, "sources") if one.get("file") == file
            ]
            if names:
                yield (
                    f"{workspace}: {title} starts {', '.join(names)} of {file} itself, so they"
                    " run twice; move them with: lmtb adopt"
                )


def _title(name: str) -> str:
    profile = profile_of(name)
    return printable(name) if profile is OTHER else profile.title

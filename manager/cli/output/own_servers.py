"""Finds servers that run twice: a client that was seen in a project also starts them itself."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from manager.cli.output.responses import objects
from manager.routing.client_profiles import profile_of


def running_twice(status: Mapping[str, Any]) -> Iterator[str]:
    """One sentence for each project, client and file."""
    seen = {
        (str(row.get("workspace")), profile_of(row["name"]))
        for row in objects(status, "clientDetails")
        if isinstance(row.get("name"), str)
    }
    for server in objects(status, "instanceDetails"):
        for workspace, profile in sorted(seen, key=lambda one: one[1].title):
            if workspace != server.get("workspace"):
                continue
            for file in profile.own_files:
                names = [
                    str(one.get("namespace")) for one in objects(server, "sources") if one.get("file") == file
                ]
                if names:
                    yield (
                        f"{workspace}: {profile.title} starts {', '.join(names)} of {file} itself, so they"
                        " run twice; move them with: lmtb adopt"
                    )

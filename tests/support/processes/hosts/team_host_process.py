"""A host of a team as a process of its own, for tests that kill it.

Arguments: the servers, separated by commas; the host's name; a file to which every execution is appended.
"""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

import structlog

from lm_tools_bridge.team.membership import Membership, OwnOffer
from support.projects.team_members import running_member, until_published
from support.servers.scripted.scripted_workspace import scripted_workspace


def _drop(*_: object) -> str:
    raise structlog.DropEvent


async def main() -> None:
    """Serve until it is killed."""
    structlog.configure(processors=[_drop])  # standard output is for "ready" alone
    servers, name, file = sys.argv[1:]
    descriptor = os.open(Path(file), os.O_WRONLY | os.O_APPEND | os.O_CREAT)

    def on_write(identity: str) -> None:
        os.write(descriptor, f"{identity}\n".encode())

    async with scripted_workspace(on_write) as workspace:
        offers = (OwnOffer("docs", "/nowhere", policy="all"),)
        held = Membership(servers=tuple(servers.split(",")), name=name, offers=offers)
        async with running_member(held, workspace.url) as member:
            await until_published(member)
            print("ready", flush=True)
            await asyncio.Event().wait()


asyncio.run(main())

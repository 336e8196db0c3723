"""Writes the instructions that tell a model what of its project waits for trust. Pure.

They contain names and the command only: all other text of an untrusted project could mislead the model.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

from lm_tools_bridge.protocol.internal.own_servers import OwnServers
from workspace_server.catalog.view import View, is_own_server

PENDING: Final = "TRUST_PENDING"
"""The code of issues of what waits for trust; their details are the command that gives it."""
_MAX_NAMES: Final = 6
_NAME: Final = re.compile(r"[A-Za-z0-9_.-]{1,64}")


def instructions(view: View, own_servers: Sequence[OwnServers] = ()) -> str:
    """The sentences for a server's instructions; empty if nothing waits for trust.

    Args:
        view: what the request may see.
        own_servers: servers that the client starts itself; these are not named.
    """
    waiting = _waiting(view, own_servers)
    if waiting is None:
        return ""
    listed, command = waiting
    return (
        f"Before the user reviews them as they are now and runs `{command}`, these do not work: {listed}."
        " If one is needed, ask the user to."
    )


def short_instructions(view: View, own_servers: Sequence[OwnServers] = ()) -> str:
    """The same in the fewest words."""
    waiting = _waiting(view, own_servers)
    return "" if waiting is None else f"Not before the user runs `{waiting[1]}`: {waiting[0]}."


def _waiting(view: View, own_servers: Sequence[OwnServers]) -> tuple[str, str] | None:
    """The names of what waits, and the command that trusts it; None for nothing."""
    found = list(dict.fromkeys(_names(view, own_servers)))
    command = next((issue.details for issue in view.issues if issue.code == PENDING), None)
    if not found or command is None:
        return None
    shown = [name for name in found if _NAME.fullmatch(name)][:_MAX_NAMES]
    more = len(found) - len(shown)
    return ", ".join([*shown, *([f"{more} more"] if more else [])]), command


def _names(view: View, own_servers: Sequence[OwnServers]) -> Iterator[str]:
    for source in view.snapshot.sources:
        if source.state == "pending_trust" and not is_own_server(source, own_servers):
            yield source.id.partition(":")[2]
        yield from source.pending_names()
    yield from view.snapshot.withheld
    if any(issue.code == PENDING for issue in view.configuration.issues):
        yield "settings"

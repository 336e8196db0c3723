"""What a table of workspaces asks about the servers that other programs registered: a test sets the answers."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from typing import Any

from lm_tools_bridge.protocol.errors import Refusal
from manager.supervision.instance import Instance


class NoRegisteredServers:
    """Registered servers as the test sets them; `on_roots` is called after each read of the roots."""

    def __init__(self) -> None:
        self.changed = asyncio.Event()
        self.known: list[tuple[str, str]] = []
        self.on_roots: Any = lambda: None

    def roots(self) -> Collection[tuple[str, str]]:
        known = list(self.known)
        self.on_roots()
        return known

    async def ready(self, root: str, *, urgent: bool, is_pure: bool) -> Instance | Refusal | None:
        return None

    def ready_now(self, root: str, *, is_pure: bool) -> bool:
        return False

    def changed_event(self) -> asyncio.Event:
        return self.changed

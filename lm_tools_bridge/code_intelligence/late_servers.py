"""Makes the set of language servers when it is first asked, because loading it would slow down the start."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

from lm_tools_bridge.code_intelligence.server import (
    LanguageServer,
    LanguageServers,
    ServerStatus,
    Unavailable,
)
from lm_tools_bridge.code_intelligence.specification import Role, ServerSpecification


class LateServers:
    """The `LanguageServers` that `make` returns; it is called once, in a thread."""

    def __init__(self, make: Callable[[], LanguageServers]) -> None:
        self._make = make
        self._made: LanguageServers | None = None
        self._lock = threading.Lock()

    def known_kinds(self) -> Sequence[ServerSpecification]:
        """As `LanguageServers.known_kinds`. Blocks."""
        return self._servers().known_kinds()

    def runnable(self) -> Sequence[ServerSpecification]:
        """As `LanguageServers.runnable`. Blocks."""
        return self._servers().runnable()

    def find(self, name: str) -> ServerSpecification | Unavailable | None:
        """As `LanguageServers.find`. Blocks."""
        return self._servers().find(name)

    def status(self) -> Sequence[ServerStatus]:
        """As `LanguageServers.status`; none before the first question."""
        return () if self._made is None else self._made.status()

    async def for_file(self, path: Path, role: Role) -> Sequence[LanguageServer | Unavailable]:
        """As `LanguageServers.for_file`."""
        return await (await self._loaded()).for_file(path, role)

    async def for_project(self, role: Role) -> Sequence[LanguageServer | Unavailable]:
        """As `LanguageServers.for_project`."""
        return await (await self._loaded()).for_project(role)

    async def server_named(self, name: str) -> LanguageServer | Unavailable | None:
        """As `LanguageServers.server_named`."""
        return await (await self._loaded()).server_named(name)

    def links_out(self) -> Sequence[str]:
        """As `LanguageServers.links_out`; none before the first question."""
        return () if self._made is None else self._made.links_out()

    def restart(self) -> None:
        """As `LanguageServers.restart`."""
        if self._made is not None:
            self._made.restart()

    async def close(self) -> None:
        """As `LanguageServers.close`."""
        if self._made is not None:
            await self._made.close()

    async def _loaded(self) -> LanguageServers:
        return await asyncio.to_thread(self._servers) if self._made is None else self._made

    def _servers(self) -> LanguageServers:
        with self._lock:
            servers = self._made = self._make() if self._made is None else self._made
            return servers

"""Fixtures: a scripted remote server, and a factory of remote sources that closes them after the test."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from support.servers.mcp_sources.remote_server import ScriptedRemoteServer, fake_remote
from support.servers.mcp_sources.remote_source import MakeSource, entry
from workspace_server.sources.mcp.lists.list_cache import ListCache
from workspace_server.sources.mcp.remote.session_opener import RemoteDependencies
from workspace_server.sources.mcp.remote.source import RemoteSource


@pytest.fixture
async def make_source() -> AsyncIterator[MakeSource]:
    """Returns a factory; `dependencies` are members of `RemoteDependencies`, other keywords belong to the entry."""
    made: list[RemoteSource] = []

    def make(
        url: str,
        *,
        dependencies: dict[str, Any] | None = None,
        cache: ListCache | None = None,
        **members: Any,
    ) -> RemoteSource:
        shared = RemoteDependencies("/project", "1.0", **(dependencies or {}))
        made.append(RemoteSource(entry(url, **members), shared, cache))
        return made[-1]

    yield make
    for source in made:
        await source.close()


@pytest.fixture
async def fake() -> AsyncIterator[ScriptedRemoteServer]:
    """A scripted remote server that listens on localhost."""
    async with fake_remote() as remote:
        yield remote

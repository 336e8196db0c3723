"""Fixtures of the behaviour tests."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest
import pytest_asyncio
from aiohttp import ClientSession

from support.projects.gateway import Gateway, running_gateway
from support.projects.registered_setup import raw_http
from support.servers.sdk_servers.third_party import ThirdParty, third_party


@pytest.fixture
async def http() -> AsyncIterator[ClientSession]:
    """Connections of raw clients."""
    async with raw_http() as session:
        yield session


@pytest.fixture(scope="module")
def third_party_server() -> Iterator[ThirdParty]:
    """A third-party MCP server over HTTP, in both protocol generations."""
    with third_party("http") as server:
        yield server


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def gateway(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Gateway]:
    """A manager with a user's configuration folder, shared by the tests of a file."""
    async with running_gateway(tmp_path_factory.mktemp("gateway")) as running:
        yield running

"""Fixtures of the behaviour tests.

They use the manager and its workspace servers as clients do. The folders:
`handshake`: how a session gets a workspace, and what its client is told about it;
`sessions`: streams, subscriptions, notifications and input requests of clients with sessions;
`protocol_eras`: stateless requests, and clients and servers of both generations of the protocol;
`workspace_resolution`: which folder, roots or arguments lead to which workspace;
`forwarding`: calls on their way to a workspace server, and answers on their way back;
`trust`: what needs the user's consent, an approval or a token, and what is kept from clients;
`tool_sources`: tools, prompts, resources, skills and tasks of a workspace;
`registration`: servers that other programs start and register.
"""

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

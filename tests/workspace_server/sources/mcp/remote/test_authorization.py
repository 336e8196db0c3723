"""The Authorization header that a server receives, by the settings of its entry."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from workspace_server.config.model import EntryOrigin, RemoteServer
from workspace_server.sources.mcp.remote.authorization import ConfiguredToken

SERVER = RemoteServer("docs", "https://example.com/mcp", EntryOrigin(Path("/p/.mcp.json"), "workspace"))


@pytest.mark.parametrize(
    ("members", "shown"),
    [
        ({}, None),
        ({"token": "t"}, "Bearer t"),
        ({"token_env": "TOKEN"}, "Bearer from the environment"),
        ({"headers": {"Authorization": "Basic eDp5"}}, "Basic eDp5"),
        ({"headers": {"authorization": "Bearer h"}, "token": "t"}, "Bearer t"),
        ({"headers": {"X-Team": "blue"}}, None),
    ],
)
async def test_the_authorization_header_follows_the_entry(
    members: dict[str, object], shown: str | None
) -> None:
    server = replace(SERVER, **members)
    assert await ConfiguredToken(server, {"TOKEN": "from the environment"}, None).header() == shown

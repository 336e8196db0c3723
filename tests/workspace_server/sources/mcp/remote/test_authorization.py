"""What a remote server is shown, by what its entry says."""

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
async def test_what_the_entry_says_is_what_the_server_is_shown(
    members: dict[str, object], shown: str | None
) -> None:
    server = replace(SERVER, **members)
    assert await ConfiguredToken(server, {"TOKEN": "from the environment"}, None).header() == shown

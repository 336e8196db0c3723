"""The Authorization header that a server receives, by the settings of its entry."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from lm_tools_bridge.machine import private_files
from workspace_server.config.model import EntryOrigin, RemoteServer
from workspace_server.sources.mcp.remote.authorization import (
    ConfiguredToken,
    OwnManagerToken,
    is_team_offer,
)

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


OFFER = replace(
    SERVER, url="http://127.0.0.1:47100/team/docs", origin=EntryOrigin(Path("/u/workspace.toml"), "user")
)


@pytest.mark.parametrize(
    ("members", "is_own"),
    [
        ({}, True),
        ({"origin": SERVER.origin}, False),
        ({"url": "http://127.0.0.1:47101/team/docs"}, False),
        ({"url": "http://127.0.0.1:47100/mcp"}, False),
        ({"url": "http://127.0.0.1:47100/team/../status"}, False),
        ({"url": "http://127.0.0.1:47100/team/docs/x"}, False),
        ({"url": "http://localhost:47100/team/docs"}, False),
        ({"url": "http://127.0.0.1:47100@example.com/team/docs"}, False),
        ({"url": "https://example.com/team/docs"}, False),
        ({"token": "t"}, False),
        ({"headers": {"Authorization": "Bearer t"}}, False),
        ({"auth": "oauth"}, False),
    ],
)
def test_only_an_offer_of_the_users_own_team_gets_the_own_token(
    members: dict[str, object], is_own: bool
) -> None:
    assert is_team_offer(replace(OFFER, **members), 47100) is is_own


async def test_the_own_token_is_read_when_it_is_needed(tmp_path: Path) -> None:
    own = OwnManagerToken(tmp_path)
    assert await own.header() is None
    private_files.write(tmp_path / "own-token", b"lmtb_first\n")
    assert await own.renew(None, {})  # the manager required one since
    first = await own.header()
    assert first == "Bearer lmtb_first"
    assert not await own.renew(first, {})
    private_files.write(tmp_path / "own-token", b"lmtb_second\n")
    assert await own.renew(first, {})
    assert await own.header() == "Bearer lmtb_second"

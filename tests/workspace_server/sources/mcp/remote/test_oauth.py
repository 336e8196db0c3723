"""Tokens that expire, and logging in."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import aiohttp
import pytest

from protocol.errors import Reason, Refusal
from support.servers.oauth_server import Keeper, OAuthServer, fake_oauth
from support.servers.remote_source import MakeSource, call, entry
from workspace_server.config.model import RemoteServer
from workspace_server.sources.mcp.remote.login import LoginFailed, login
from workspace_server.sources.mcp.remote.login_storage import key_of
from workspace_server.sources.mcp.remote.oauth import OAuth
from workspace_server.sources.mcp.remote.source import RemoteSource

ROBOT = {"auth": "oauth", "client_id": "robot", "client_secret": "hunter2"}


@pytest.fixture
async def oauth() -> AsyncIterator[OAuthServer]:
    async with fake_oauth() as fake:
        yield fake


@pytest.fixture
def keeper() -> Keeper:
    return Keeper()


@pytest.fixture
def dependencies(keeper: Keeper) -> dict[str, Any]:
    async def authorize(server: RemoteServer) -> OAuth:
        return OAuth(server, keeper)

    return {"authorize": authorize}


def stored(keeper: Keeper, server: RemoteServer, access: str, refresh: str | None) -> None:
    """As if somebody had logged in."""
    tokens = {"access_token": access, "token_type": "Bearer", "refresh_token": refresh}
    client = {"client_id": "registered", "token_endpoint_auth_method": "none"}
    keeper.values[key_of(server)] = json.dumps({"tokens": tokens, "client": client})


async def twenty(source: RemoteSource) -> list[Any]:
    return await asyncio.gather(*(call(source, "echo", {"n": number}) for number in range(20)))


async def test_twenty_calls_on_an_expired_token_make_one_refresh(
    oauth: OAuthServer, keeper: Keeper, dependencies: dict[str, Any], make_source: MakeSource
) -> None:
    """One retry each, the new tokens are stored."""
    server = entry(oauth.url, auth="oauth")
    stored(keeper, server, "first", "again")
    oauth.valid, oauth.refresh = {"first"}, {"again"}
    source = make_source(oauth.url, auth="oauth", dependencies=dependencies)
    assert len(await source.list_tools()) == 1
    oauth.valid.clear()
    results = await twenty(source)
    assert [json.loads(result["content"][0]["text"])["arguments"]["n"] for result in results] == list(
        range(20)
    )
    assert oauth.grants == {"refresh_token": 1}
    assert oauth.remote.count("tools/call") == 20
    assert oauth.asked[0]["client_id"] == "registered"
    assert oauth.asked[0]["resource"] == oauth.url
    kept = json.loads(keeper.values[key_of(server)])
    assert kept["tokens"]["access_token"] in oauth.valid
    assert kept["tokens"]["refresh_token"] in oauth.refresh
    assert kept["client"]["client_id"] == "registered"


async def test_client_credentials_need_nobody(
    oauth: OAuthServer, keeper: Keeper, dependencies: dict[str, Any], make_source: MakeSource
) -> None:
    """From nothing, after expiry, and when 20 calls are refused at once."""
    source = make_source(oauth.url, **ROBOT, scope="read", dependencies=dependencies)
    assert len(await source.list_tools()) == 1
    assert oauth.grants == {"client_credentials": 1}
    assert oauth.asked[0]["scope"] == "read"
    oauth.valid.clear()
    assert all("content" in result for result in await twenty(source))
    assert oauth.grants == {"client_credentials": 2}
    assert "hunter2" not in f"{source.status()} {source.error} {keeper.values}"


async def test_a_token_that_is_about_to_expire_is_not_used(
    oauth: OAuthServer, dependencies: dict[str, Any], make_source: MakeSource
) -> None:
    oauth.expires_in = 5
    source = make_source(oauth.url, **ROBOT, dependencies=dependencies)
    await source.list_tools()
    first = oauth.grants["client_credentials"]
    await call(source)
    assert oauth.grants["client_credentials"] == first + 1


@pytest.mark.parametrize("refresh", [None, "revoked"])
async def test_without_a_way_to_renew_the_user_is_asked_to_log_in(
    oauth: OAuthServer,
    keeper: Keeper,
    dependencies: dict[str, Any],
    make_source: MakeSource,
    refresh: str | None,
) -> None:
    """`auth_required`, 47109 with the next step."""
    server = entry(oauth.url, auth="oauth")
    stored(keeper, server, "first", refresh)
    oauth.valid = {"first"}
    source = make_source(oauth.url, auth="oauth", dependencies=dependencies)
    await source.list_tools()
    oauth.valid.clear()
    for outcome in await twenty(source):
        assert isinstance(outcome, Refusal)
        assert (outcome.reason, outcome.delivered) == (Reason.SOURCE_UNAVAILABLE, "no")
        assert "lmtb servers login away" in outcome.text
    assert source.state == "auth_required"
    assert oauth.grants["refresh_token"] <= 1
    stored(keeper, server, "second", None)
    oauth.valid = {"second"}
    await source.refresh()
    assert len(await source.list_tools()) == 1
    assert "content" in await call(source)


async def test_nobody_has_logged_in(
    oauth: OAuthServer, dependencies: dict[str, Any], make_source: MakeSource
) -> None:
    source = make_source(oauth.url, auth="oauth", dependencies=dependencies)
    assert await source.list_tools() == ()
    assert source.state == "auth_required"
    outcome = await call(source)
    assert isinstance(outcome, Refusal)
    assert "lmtb servers login away" in outcome.text


async def test_an_authorization_server_that_is_down_is_no_missing_login(
    oauth: OAuthServer, dependencies: dict[str, Any], make_source: MakeSource
) -> None:
    oauth.broken = True
    source = make_source(oauth.url, **ROBOT, dependencies=dependencies)
    await source.list_tools()
    assert source.state == "backoff"
    assert "HTTP 503" in (source.error or "")


@pytest.mark.parametrize(
    "issuer",
    ["http://169.254.169.254", "http://evil.example", "https://127.0.0.1:1", "http://0x7f.1"],
)
async def test_credentials_do_not_go_where_a_server_says(
    oauth: OAuthServer, dependencies: dict[str, Any], make_source: MakeSource, issuer: str
) -> None:
    """Metadata that leads to a forbidden place, or to one without TLS."""
    oauth.issuer = issuer
    source = make_source(oauth.url, **ROBOT, dependencies=dependencies)
    await source.list_tools()
    assert source.state != "ready"
    assert oauth.grants == {}


async def test_credentials_stay_with_their_issuer(
    oauth: OAuthServer, keeper: Keeper, dependencies: dict[str, Any], make_source: MakeSource
) -> None:
    """A server that names another authorization server than before gets nothing."""
    first = make_source(oauth.url, **ROBOT, dependencies=dependencies)
    await first.list_tools()
    oauth.valid.clear()
    other = oauth.origin.replace("127.0.0.1", "localhost")
    oauth.issuer = other
    second = make_source(oauth.url, **ROBOT, dependencies=dependencies)
    await second.list_tools()
    assert second.state == "auth_required"
    assert "another authorization server" in (second.error or "")
    assert oauth.grants == {"client_credentials": 1}


async def browse(oauth: OAuthServer, url: str, **changed: str) -> None:
    """The person's browser: agrees, and comes back."""
    query = dict(parse_qsl(urlsplit(url).query))
    target = oauth.authorize(query)
    for key, value in changed.items():
        target = target.replace(f"{key}={query[key]}", f"{key}={value}")
    async with aiohttp.ClientSession() as session:
        for address in (target.replace("/callback", "/other"), target):
            async with session.get(address) as response:
                await response.read()


async def test_a_login_stores_tokens_that_a_source_uses(
    oauth: OAuthServer, keeper: Keeper, dependencies: dict[str, Any], make_source: MakeSource
) -> None:
    """Discovery, registration, PKCE and state are the SDK's; the redirect is ours."""
    server = entry(oauth.url, auth="oauth")
    browsers: list[asyncio.Task[None]] = []
    await login(
        server, keeper, lambda url: browsers.append(asyncio.ensure_future(browse(oauth, url))), timeout_s=10
    )
    await asyncio.gather(*browsers)
    assert oauth.grants == {"authorization_code": 1}
    source = make_source(oauth.url, auth="oauth", dependencies=dependencies)
    assert len(await source.list_tools()) == 1
    oauth.valid.clear()
    assert "content" in await call(source)
    assert oauth.grants == {"authorization_code": 1, "refresh_token": 1}


async def test_a_login_that_somebody_else_answers_fails(oauth: OAuthServer, keeper: Keeper) -> None:
    """A wrong state; nothing is stored."""
    browsers: list[asyncio.Task[None]] = []

    def open_url(url: str) -> None:
        browsers.append(asyncio.ensure_future(browse(oauth, url, state="forged")))

    with pytest.raises(LoginFailed):
        await login(entry(oauth.url, auth="oauth"), keeper, open_url, timeout_s=10)
    await asyncio.gather(*browsers)
    assert oauth.grants == {}


async def test_a_login_that_nobody_answers_ends(oauth: OAuthServer, keeper: Keeper) -> None:
    with pytest.raises(LoginFailed, match=r"0\.1 s"):
        await login(entry(oauth.url, auth="oauth"), keeper, lambda url: None, timeout_s=0.1)

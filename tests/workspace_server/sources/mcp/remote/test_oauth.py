"""OAuth of remote servers: renewing expired tokens, and logging in."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import aiohttp
import pytest

from lm_tools_bridge.protocol.errors import Reason, Refusal
from support.servers.mcp_sources.oauth_server import MemorySecretStore, OAuthServer, fake_oauth
from support.servers.mcp_sources.remote_source import MakeSource, call, entry
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
def secret_store() -> MemorySecretStore:
    return MemorySecretStore()


@pytest.fixture
def dependencies(secret_store: MemorySecretStore) -> dict[str, Any]:
    async def authorize(server: RemoteServer) -> OAuth:
        return OAuth(server, secret_store)

    return {"authorize": authorize}


def stored(secret_store: MemorySecretStore, server: RemoteServer, access: str, refresh: str | None) -> None:
    """Stores tokens as a login does."""
    tokens = {"access_token": access, "token_type": "Bearer", "refresh_token": refresh}
    client = {"client_id": "registered", "token_endpoint_auth_method": "none"}
    secret_store.values[key_of(server)] = json.dumps({"tokens": tokens, "client": client})


async def twenty(source: RemoteSource) -> list[Any]:
    return await asyncio.gather(*(call(source, "echo", {"n": number}) for number in range(20)))


async def test_twenty_calls_on_an_expired_token_make_one_refresh(
    oauth: OAuthServer, secret_store: MemorySecretStore, dependencies: dict[str, Any], make_source: MakeSource
) -> None:
    """Each call is repeated once, and the new tokens are stored."""
    server = entry(oauth.url, auth="oauth")
    stored(secret_store, server, "first", "again")
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
    assert oauth.token_requests[0]["client_id"] == "registered"
    assert oauth.token_requests[0]["resource"] == oauth.url
    saved = json.loads(secret_store.values[key_of(server)])
    assert saved["tokens"]["access_token"] in oauth.valid
    assert saved["tokens"]["refresh_token"] in oauth.refresh
    assert saved["client"]["client_id"] == "registered"


async def test_client_credentials_need_no_login(
    oauth: OAuthServer, secret_store: MemorySecretStore, dependencies: dict[str, Any], make_source: MakeSource
) -> None:
    """A token is fetched at first, after expiry, and only once when 20 calls are refused at the same time."""
    source = make_source(oauth.url, **ROBOT, scope="read", dependencies=dependencies)
    assert len(await source.list_tools()) == 1
    assert oauth.grants == {"client_credentials": 1}
    assert oauth.token_requests[0]["scope"] == "read"
    oauth.valid.clear()
    assert all("content" in result for result in await twenty(source))
    assert oauth.grants == {"client_credentials": 2}
    assert "hunter2" not in f"{source.status()} {source.error} {secret_store.values}"


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
    secret_store: MemorySecretStore,
    dependencies: dict[str, Any],
    make_source: MakeSource,
    refresh: str | None,
) -> None:
    """The state is `auth_required`, and the refusal of a call names the command that logs in."""
    server = entry(oauth.url, auth="oauth")
    stored(secret_store, server, "first", refresh)
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
    stored(secret_store, server, "second", None)
    oauth.valid = {"second"}
    await source.refresh()
    assert len(await source.list_tools()) == 1
    assert "content" in await call(source)


class Refused(set[str]):
    """Tokens that are issued and not accepted."""

    def add(self, _token: str) -> None:
        """Do not accept it."""


async def test_a_server_that_refuses_renewed_tokens_is_left_alone(
    oauth: OAuthServer, secret_store: MemorySecretStore, dependencies: dict[str, Any], make_source: MakeSource
) -> None:
    """Each call renews and is sent again once at most, and its refusal says what the user can do."""
    stored(secret_store, entry(oauth.url, auth="oauth"), "first", "again")
    oauth.valid, oauth.refresh = {"first"}, {"again"}
    source = make_source(oauth.url, auth="oauth", dependencies=dependencies)
    await source.list_tools()
    oauth.valid, oauth.refused = Refused(), 0
    outcomes = await twenty(source)
    assert all(isinstance(one, Refusal) and "lmtb servers login away" in one.text for one in outcomes)
    assert oauth.refused <= 40
    assert source.state == "auth_required"
    before = oauth.refused, oauth.grants.total()
    assert isinstance(await call(source), Refusal)
    assert (oauth.refused, oauth.grants.total()) == before


async def test_twenty_calls_ask_a_failing_authorization_server_once(
    oauth: OAuthServer, secret_store: MemorySecretStore, dependencies: dict[str, Any], make_source: MakeSource
) -> None:
    """They were not executed, which the refusals say; once it works again, no login is needed."""
    stored(secret_store, entry(oauth.url, auth="oauth"), "first", "again")
    oauth.valid, oauth.refresh = {"first"}, {"again"}
    now = [1000.0]

    async def authorize(server: RemoteServer) -> OAuth:
        return OAuth(server, secret_store, wall=lambda: now[0])

    source = make_source(oauth.url, auth="oauth", dependencies={**dependencies, "authorize": authorize})
    await source.list_tools()
    oauth.valid.clear()
    oauth.broken = True
    outcomes = await twenty(source)
    assert oauth.grants == {"refresh_token": 1}
    for outcome in outcomes:
        assert isinstance(outcome, Refusal)
        assert (outcome.reason, outcome.delivered) == (Reason.SOURCE_UNAVAILABLE, "no")
        assert 'Source "remote:away"' in outcome.message
        assert "authorization server answered HTTP 503" in outcome.message
    oauth.broken, now[0] = False, 1010.0
    await source.refresh()
    assert "content" in await call(source)


async def test_a_source_without_login_requires_authorization(
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
async def test_credentials_are_not_sent_to_forbidden_issuers(
    oauth: OAuthServer, dependencies: dict[str, Any], make_source: MakeSource, issuer: str
) -> None:
    """The metadata names an address that is forbidden, or one without TLS."""
    oauth.issuer = issuer
    source = make_source(oauth.url, **ROBOT, dependencies=dependencies)
    await source.list_tools()
    assert source.state != "ready"
    assert oauth.grants == {}


async def test_credentials_stay_with_their_issuer(
    oauth: OAuthServer, secret_store: MemorySecretStore, dependencies: dict[str, Any], make_source: MakeSource
) -> None:
    """Nothing is sent if a server names another authorization server than before."""
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
    """Does what the user's browser does: approves, and follows the redirect."""
    query = dict(parse_qsl(urlsplit(url).query))
    target = oauth.authorize(query)
    for key, value in changed.items():
        target = target.replace(f"{key}={query[key]}", f"{key}={value}")
    async with aiohttp.ClientSession() as session:
        for address in (target.replace("/callback", "/other"), target):
            async with session.get(address) as response:
                await response.read()


async def test_a_login_stores_tokens_that_a_source_uses(
    oauth: OAuthServer, secret_store: MemorySecretStore, dependencies: dict[str, Any], make_source: MakeSource
) -> None:
    """The SDK does discovery, registration, PKCE and state; this project receives the redirect."""
    server = entry(oauth.url, auth="oauth")
    browsers: list[asyncio.Task[None]] = []
    await login(
        server,
        secret_store,
        lambda url: browsers.append(asyncio.ensure_future(browse(oauth, url))),
        timeout_s=10,
    )
    await asyncio.gather(*browsers)
    assert oauth.grants == {"authorization_code": 1}
    source = make_source(oauth.url, auth="oauth", dependencies=dependencies)
    assert len(await source.list_tools()) == 1
    oauth.valid.clear()
    assert "content" in await call(source)
    assert oauth.grants == {"authorization_code": 1, "refresh_token": 1}


async def test_a_login_with_a_wrong_state_fails(oauth: OAuthServer, secret_store: MemorySecretStore) -> None:
    """Nothing is stored."""
    browsers: list[asyncio.Task[None]] = []

    def open_url(url: str) -> None:
        browsers.append(asyncio.ensure_future(browse(oauth, url, state="forged")))

    with pytest.raises(LoginFailed):
        await login(entry(oauth.url, auth="oauth"), secret_store, open_url, timeout_s=10)
    await asyncio.gather(*browsers)
    assert oauth.grants == {}


@pytest.mark.parametrize("page", ["file:///etc/passwd", "--upload-pack=x"])
async def test_only_a_web_page_is_opened_to_sign_in(
    oauth: OAuthServer, secret_store: MemorySecretStore, page: str
) -> None:
    """Whatever the authorization server names."""
    oauth.page = page
    opened: list[str] = []
    with pytest.raises(LoginFailed):
        await login(entry(oauth.url, auth="oauth"), secret_store, opened.append, timeout_s=0.5)
    assert all(url.startswith(f"{oauth.origin}/") for url in opened)


async def test_a_login_without_an_answer_times_out(
    oauth: OAuthServer, secret_store: MemorySecretStore
) -> None:
    with pytest.raises(LoginFailed, match=r"0\.1 s"):
        await login(entry(oauth.url, auth="oauth"), secret_store, lambda url: None, timeout_s=0.1)

"""Signing in at a remote server: a whole login with a person at a browser, and who is not let near one."""

from __future__ import annotations

import asyncio
import webbrowser
from collections.abc import AsyncIterator
from concurrent.futures import Future
from urllib.parse import parse_qsl, urlsplit

import aiohttp
import pytest
from click.testing import Result

from support.processes.timeouts import within
from support.projects.command_home import Home
from support.servers.mcp_sources.oauth_server import OAuthServer, fake_oauth
from workspace_server.command import sign_in


@pytest.fixture
async def oauth() -> AsyncIterator[OAuthServer]:
    async with fake_oauth() as fake:
        yield fake


@pytest.fixture(autouse=True)
def no_keyring(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the machine has: the tokens of tests stay in the test's own folder."""
    monkeypatch.setenv("PYTHON_KEYRING_BACKEND", "keyring.backends.fail.Keyring")


def configure(home: Home, url: str, more: str = 'auth = "oauth"') -> None:
    """The user's own entry, which needs no trust."""
    home.config_dir.mkdir(exist_ok=True)
    text = f'[[mcp.remote_servers]]\nnamespace = "far"\nurl = "{url}"\n{more}\n'
    (home.config_dir / "workspace.toml").write_text(text)


class Browser:
    """What opens pages; the person agrees, or refuses."""

    def __init__(self, oauth: OAuthServer, *, agrees: bool = True) -> None:
        self._oauth = oauth
        self._agrees = agrees
        self._loop = asyncio.get_running_loop()
        self.opened: list[str] = []
        self.visits: list[Future[None]] = []

    def open(self, url: str) -> bool:
        self.opened.append(url)
        self.visits.append(asyncio.run_coroutine_threadsafe(self._visit(url), self._loop))
        return True

    async def _visit(self, url: str) -> None:
        query = dict(parse_qsl(urlsplit(url).query))
        target = self._oauth.authorize(query)
        if not self._agrees:
            target = f"{query['redirect_uri']}?error=access_denied&state={query['state']}"
        async with aiohttp.ClientSession() as session, session.get(target) as response:
            await response.read()


async def logged_in(home: Home, browser: Browser, monkeypatch: pytest.MonkeyPatch) -> Result:
    """Run the verb beside this loop, which serves and browses."""
    monkeypatch.setattr(webbrowser, "open", browser.open)
    async with asyncio.timeout(within(10)):
        return await asyncio.to_thread(home.run, "login", home.root, "far")


async def test_a_login_stores_tokens_and_shows_none(
    home: Home, oauth: OAuthServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The page's address is also printed, for a browser that is somewhere else."""
    configure(home, oauth.url)
    browser = Browser(oauth)
    result = await logged_in(home, browser, monkeypatch)
    assert result.exit_code == 0, result.output
    (url,) = browser.opened
    assert url.startswith(f"{oauth.origin}/authorize?")
    assert f"\n  {url}\n" in result.stdout
    assert result.stdout.endswith("Signed in at far. Its tools follow; look with: lmtb servers\n")
    (key,) = (await asyncio.to_thread(home.json, "secrets", "list"))["keys"]
    assert key.startswith("mcp-oauth.far.")
    assert oauth.grants == {"authorization_code": 1}
    assert not any(token in result.output for token in (*oauth.valid, *oauth.refresh))


async def test_the_address_alone_is_printed_where_no_browser_shall_be_opened(
    home: Home, oauth: OAuthServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The person opens it on another machine."""
    configure(home, oauth.url)
    elsewhere, print_address = Browser(oauth), sign_in._tell

    def tell(url: str) -> None:
        print_address(url)
        elsewhere.open(url)

    monkeypatch.setattr(webbrowser, "open", lambda _: pytest.fail("a browser was opened"))
    monkeypatch.setattr(sign_in, "_tell", tell)
    result = await asyncio.to_thread(home.run, "login", "--no-browser", home.root, "far")
    assert result.exit_code == 0, result.output
    assert result.stdout.startswith(f"Sign in on this page:\n  {oauth.origin}/authorize?")
    assert "browser" not in result.stdout


async def test_a_login_that_is_refused_says_so(
    home: Home, oauth: OAuthServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    configure(home, oauth.url)
    result = await logged_in(home, Browser(oauth, agrees=False), monkeypatch)
    assert result.exit_code == 1
    assert "the login was refused (access_denied)" in result.stderr
    assert not oauth.valid


async def test_a_server_that_is_down_is_no_traceback(
    home: Home, oauth: OAuthServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    configure(home, "http://127.0.0.1:1/mcp")
    result = await logged_in(home, Browser(oauth), monkeypatch)
    assert result.exit_code == 1
    assert "far" in result.stderr and "Next step" in result.stderr


@pytest.mark.parametrize("was", ["never", "changed"])
def test_an_address_of_an_untrusted_workspace_gets_no_login(
    home: Home, monkeypatch: pytest.MonkeyPatch, was: str
) -> None:
    """It may only look like the real one."""
    monkeypatch.setattr(sign_in, "_sign_in", lambda *_: pytest.fail("went on"))
    entry = {"url": "http://127.0.0.1:1/mcp", "type": "http", "oauth": {}}
    home.servers(far=entry)
    if was == "changed":
        assert home.run("trust", home.root, "--yes").exit_code == 0
        home.servers(far={**entry, "url": "http://127.0.0.1:2/mcp"})
    result = home.run("login", home.root, "far")
    assert result.exit_code == 1
    assert f"lmtb trust {home.root}" in result.stderr


def test_a_trusted_one_gets_it(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    monkeypatch.setattr(sign_in, "_sign_in", lambda server, *_: asked.append(server.url))
    home.servers(far={"url": "http://127.0.0.1:1/mcp", "type": "http", "oauth": {}})
    assert home.run("trust", home.root, "--yes").exit_code == 0
    assert home.run("login", home.root, "far").exit_code == 0
    assert asked == ["http://127.0.0.1:1/mcp"]


@pytest.mark.parametrize(
    ("more", "name", "said"),
    [
        ('auth = "oauth"', "near", 'no remote server "near"\nNext step: name one of its remote servers: far'),
        ("", "far", 'does not sign in with OAuth\nNext step: write auth = "oauth" into'),
    ],
)
def test_what_cannot_be_signed_in_at_is_said_with_the_next_step(
    home: Home, more: str, name: str, said: str
) -> None:
    configure(home, "http://127.0.0.1:1/mcp", more)
    result = home.run("login", home.root, name)
    assert result.exit_code == 1
    assert said in result.stderr

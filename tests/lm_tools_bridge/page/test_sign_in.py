"""Signing in to a remote server from the page: the address, what follows, and its end."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from urllib.parse import parse_qsl, urlsplit

import aiohttp
import psutil
import pytest

from lm_tools_bridge.page.sign_in import SignInPage, SignIns
from manager.configuration.paths import Paths
from support.processes.managers.manager_in_process import make_project, manager_paths
from support.processes.timeouts import within
from support.servers.mcp_sources.oauth_server import OAuthServer, fake_oauth


@pytest.fixture
async def oauth() -> AsyncIterator[OAuthServer]:
    async with fake_oauth() as fake:
        yield fake


@pytest.fixture
def user(tmp_path: Path, oauth: OAuthServer, monkeypatch: pytest.MonkeyPatch) -> Paths:
    """A user with a remote server that wants a login."""
    monkeypatch.setenv("PYTHON_KEYRING_BACKEND", "keyring.backends.fail.Keyring")
    paths = manager_paths(tmp_path / "user")
    paths.config_dir.mkdir(parents=True)
    entry = f'[[mcp.remote_servers]]\nnamespace = "far"\nurl = "{oauth.url}"\nauth = "oauth"\n'
    (paths.config_dir / "workspace.toml").write_text(entry)
    return paths


@pytest.fixture
async def sign_ins(user: Paths) -> AsyncIterator[SignIns]:
    made = SignIns(user, lambda: None)
    yield made
    await made.close()


async def nothing() -> None:
    """What follows a login that nobody waits for."""


def children() -> set[int]:
    return {one.pid for one in psutil.Process(os.getpid()).children()}


async def test_a_person_signs_in_at_the_address_and_then_something_follows(
    sign_ins: SignIns, oauth: OAuthServer, tmp_path: Path
) -> None:
    followed = asyncio.Event()

    async def then() -> None:
        followed.set()

    page = await sign_ins.begin(str(make_project(tmp_path / "shop")), "far", then)
    assert isinstance(page, SignInPage)
    assert page.url.startswith(f"{oauth.origin}/authorize?")
    target = oauth.authorize(dict(parse_qsl(urlsplit(page.url).query)))
    async with aiohttp.ClientSession() as session, session.get(target) as response:
        assert response.status == 200
    async with asyncio.timeout(within(10)):
        await followed.wait()
    assert oauth.grants == {"authorization_code": 1}


async def test_a_second_sign_in_takes_the_place_of_the_first(sign_ins: SignIns, tmp_path: Path) -> None:
    root, before = str(make_project(tmp_path / "shop")), children()
    for _ in range(2):
        assert isinstance(await sign_ins.begin(root, "far", nothing), SignInPage)
        assert len(children() - before) == 1
    await sign_ins.close()
    assert children() == before


@pytest.mark.parametrize(
    ("namespace", "said"), [("near", 'no remote server "near"'), ("--help", 'no remote server "--help"')]
)
async def test_what_cannot_be_signed_in_at_is_told_with_the_next_step(
    sign_ins: SignIns, tmp_path: Path, namespace: str, said: str
) -> None:
    before = children()
    found = await sign_ins.begin(str(make_project(tmp_path / "shop")), namespace, nothing)
    assert isinstance(found, str)
    assert said in found
    assert "name one of its remote servers: far" in found
    assert children() == before


@pytest.mark.parametrize("url", ["javascript:alert(1)", "file:///etc/passwd", "data:text/html,x", 7, None])
async def test_no_other_address_than_of_the_web_reaches_the_browser(
    user: Paths, tmp_path: Path, url: object
) -> None:
    program = f"import json; print(json.dumps({{'url': {url!r}}}))"
    sign_ins = SignIns(user, lambda: None, lambda *_: [sys.executable, "-c", program])
    found = await sign_ins.begin(str(tmp_path), "far", nothing)
    assert found == "it failed and did not say why"

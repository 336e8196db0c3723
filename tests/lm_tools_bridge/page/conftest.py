"""A client with cookies, and a browser. Leaves the tests in one out unless `--browser` asks for them."""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    outward = [item for item in items if item.path.name.endswith("_in_browser.py")]
    if not config.getoption("--browser"):
        config.hook.pytest_deselected(items=outward)
        items[:] = [item for item in items if item not in outward]


@pytest.fixture
async def http() -> AsyncIterator[aiohttp.ClientSession]:
    jar = aiohttp.CookieJar(unsafe=True)  # cookies of IP addresses, as browsers keep them
    async with aiohttp.ClientSession(cookie_jar=jar) as session:
        yield session


@pytest.fixture
async def browser() -> AsyncIterator[Any]:
    from playwright.async_api import async_playwright

    async with async_playwright() as driver:
        launched = await driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield launched
        await launched.close()


@pytest.fixture
async def tab(browser: Any) -> AsyncIterator[Any]:
    """A tab that must not print errors to its console."""
    errors: list[str] = []
    page = await browser.new_page()
    page.on("console", lambda message: errors.append(message.text) if message.type == "error" else None)
    page.on("pageerror", lambda error: errors.append(str(error)))
    yield page
    assert errors == []

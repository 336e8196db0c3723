"""A client with cookies. Leaves the tests in a browser out unless `--browser` asks for them."""

from __future__ import annotations

from collections.abc import AsyncIterator

import aiohttp
import pytest


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    outward = [item for item in items if item.path.name == "test_page_in_browser.py"]
    if not config.getoption("--browser"):
        config.hook.pytest_deselected(items=outward)
        items[:] = [item for item in items if item not in outward]


@pytest.fixture
async def http() -> AsyncIterator[aiohttp.ClientSession]:
    jar = aiohttp.CookieJar(unsafe=True)  # cookies of IP addresses, as browsers keep them
    async with aiohttp.ClientSession(cookie_jar=jar) as session:
        yield session

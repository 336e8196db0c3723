"""Fixtures of the behaviour tests."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from aiohttp import ClientSession

from support.projects.registered_setup import raw_http


@pytest.fixture
async def http() -> AsyncIterator[ClientSession]:
    """Connections of raw clients."""
    async with raw_http() as session:
        yield session

"""Chooses the event loops of the tests: the standard library's, uvloop, or one test run on each."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

import pytest

try:
    from uvloop import new_event_loop as uvloop_factory
except ImportError:
    uvloop_factory = None  # does not exist on every platform

ON_BOTH = {
    "listener/test_connection.py",
    "upstream/test_connection.py",
    "upstream/test_pool.py",
    "upstream/test_read_buffer.py",
}
ON_UVLOOP = {"route_cache/test_wire.py"}
"""The route cache has no code for either loop, and a manager uses uvloop where it exists."""


def pytest_asyncio_loop_factories(
    config: pytest.Config, item: pytest.Item
) -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    standard: dict[str, Callable[[], asyncio.AbstractEventLoop]] = {"asyncio": asyncio.new_event_loop}
    module = f"{item.path.parent.name}/{item.path.name}"
    if uvloop_factory is None or module not in ON_BOTH | ON_UVLOOP:
        return standard
    uvloop: dict[str, Callable[[], asyncio.AbstractEventLoop]] = {"uvloop": uvloop_factory}
    return uvloop if module in ON_UVLOOP else standard | uvloop

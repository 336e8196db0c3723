"""The tests of the upstream client run on the stdlib loop and, where it exists, on uvloop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

from support.servers.scripted_peer import connect, loop_faults, pool_to, serve  # noqa: F401  fixtures

try:
    import uvloop
except ImportError:
    uvloop = None


def pytest_asyncio_loop_factories(config, item) -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    factories = {"asyncio": asyncio.new_event_loop}
    if uvloop is not None and item.path.name in {"test_connection.py", "test_pool.py", "test_read_buffer.py"}:
        factories["uvloop"] = uvloop.new_event_loop
    return factories

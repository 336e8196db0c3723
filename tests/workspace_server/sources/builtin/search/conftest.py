"""The searches run on the stdlib loop and, where it exists, on uvloop, which is what a workspace server uses."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

import pytest

try:
    from uvloop import new_event_loop as uvloop_factory
except ImportError:
    uvloop_factory = None  # does not exist on every platform

STARTING_PROGRAMS = {"test_process.py", "test_ripgrep.py", "test_fallback.py"}


def pytest_asyncio_loop_factories(
    config: pytest.Config, item: pytest.Item
) -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    factories: dict[str, Callable[[], asyncio.AbstractEventLoop]] = {"asyncio": asyncio.new_event_loop}
    if uvloop_factory is not None and item.path.name in STARTING_PROGRAMS:
        factories["uvloop"] = uvloop_factory
    return factories

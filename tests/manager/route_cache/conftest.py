"""Runs the tests on real connections with one event loop, as the route cache has no code for either."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

try:
    import uvloop
except ImportError:
    uvloop = None


def pytest_asyncio_loop_factories(
    config: Any, item: Any
) -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    standard: dict[str, Callable[[], asyncio.AbstractEventLoop]] = {"asyncio": asyncio.new_event_loop}
    if uvloop is None:
        return standard
    return {"uvloop": uvloop.new_event_loop} if item.path.name == "test_wire.py" else standard

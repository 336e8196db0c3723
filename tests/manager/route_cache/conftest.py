"""The route cache has no code of its own for an event loop: its tests on real connections run on one of the two."""

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

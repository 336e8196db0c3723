"""Connections run on the loop of the standard library and, where it exists, on uvloop: so do their tests."""

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
    both = standard | {"uvloop": uvloop.new_event_loop}
    return both if item.path.name == "test_connection.py" else standard

"""The front runs on the loop of the standard library and, where it exists, on uvloop: so do its tests.

Those of the fast path, which has no code of its own for either, run on one of the two.
"""

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
    other = {"uvloop": uvloop.new_event_loop}
    return {"test_front.py": standard | other, "test_fast_wire.py": other}.get(item.path.name, standard)

"""Chooses the event loop: uvloop, which is quicker, wherever it runs."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable


def loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """What makes the event loop of a runner; None for the loop of the standard library."""
    if sys.platform == "win32":
        return None
    import uvloop

    return uvloop.new_event_loop

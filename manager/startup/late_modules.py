"""Loads the modules that the manager needs later, soon after its start: an upgrade may remove their files.

They would double the time to the first answer if they were loaded at the start.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from importlib import import_module
from typing import Final

from manager.logs.log import logger

AFTER_S: Final = 0.5
"""Delay after the start, so that the first requests do not wait for it."""
MODULES: Final = (
    "manager.admin.prometheus_text",
    "psutil",
    "ctypes",
)
"""Modules that are imported where they are used, and not by the server of the pages."""
Load = Callable[[], Awaitable[None]]


async def load(servers: Sequence[Load]) -> None:
    """Load the servers of the pages, then all other modules, one by one in a thread."""
    await asyncio.sleep(AFTER_S)
    for server in servers:
        await server()
    for name in MODULES:
        with suppress(ImportError):  # told where it is needed
            await asyncio.to_thread(import_module, name)
    logger().debug("late_modules.loaded")

"""Tells a caller that wants progress that its call waits for a server to start."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from lm_tools_bridge.protocol import names
from workspace_server.call_context import CallContext

PROGRESS_S: Final = 2.0
"""Seconds between two notifications."""
PROGRESS_STEP: Final = 0.001
"""So little that the progress of the tool itself, which follows, is more."""


@asynccontextmanager
async def told_of_start(context: CallContext, source: str) -> AsyncIterator[asyncio.Task[None] | None]:
    """Tell a caller that the source is starting, until the task is cancelled or the block is left."""
    if "progressToken" not in context.meta:
        yield None
        return
    telling = asyncio.create_task(_tell(context, source), name=f"progress-{source}")
    try:
        yield telling
    finally:
        telling.cancel()
        await asyncio.gather(telling, return_exceptions=True)


async def _tell(context: CallContext, source: str) -> None:
    began, count = time.monotonic(), 0
    while True:
        await asyncio.sleep(PROGRESS_S)
        count += 1
        message = f"waiting for {source} to start ({time.monotonic() - began:.0f} s)"
        params = {
            "progressToken": context.meta["progressToken"],
            "progress": count * PROGRESS_STEP,
            "message": message,
        }
        await context.notify(names.PROGRESS, params)

"""Tests of what a session's loop does with a Ctrl-C that comes as a signal."""

from __future__ import annotations

import asyncio
import gc
import signal
from types import SimpleNamespace
from typing import Any
from unittest.mock import AsyncMock

from lm_tools_bridge.agent.command_line.arguments import CANCELLED
from lm_tools_bridge.agent.command_line.session_loop import SessionLoop
from lm_tools_bridge.agent.screen.line_input import LineInput
from lm_tools_bridge.agent.screen.screen import Interrupts
from support.processes.timeouts import GUARD_S


async def test_ctrl_c_counts_while_no_prompt_waits_for_it() -> None:
    """The session is still being loaded."""
    is_loaded = asyncio.Event()

    async def session() -> Any:
        await is_loaded.wait()
        return SimpleNamespace(has_left=False)

    interrupts, nobody = Interrupts(lambda: 0.0), LineInput(0)
    opening: Any = SimpleNamespace(session=session, warm_up=AsyncMock())
    loop = SessionLoop(AsyncMock(), interrupts, nobody.interrupt, opening, "loading")
    running = asyncio.create_task(loop.run(waits=True))
    try:
        async with asyncio.timeout(GUARD_S):
            await asyncio.sleep(0)
            for _ in range(2):
                signal.raise_signal(signal.SIGINT)
            while not interrupts.leaving:
                await asyncio.sleep(0.001)
            is_loaded.set()
            assert await running == CANCELLED
    finally:
        running.cancel()
        gc.unfreeze()

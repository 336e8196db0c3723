"""Runs one turn for a script, and turns its outcome into an exit code."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Mapping
from typing import Final

from lm_tools_bridge.agent.command_line.exit_codes import CANCELLED
from lm_tools_bridge.agent.conversation.conversation import Conversation
from lm_tools_bridge.agent.outcomes import Ending

CODES: Final[Mapping[Ending, int]] = {
    Ending.COMPLETED: 0,
    Ending.LIMIT_REACHED: 3,
    Ending.REPEATED_CALLS: 3,
    Ending.PROVIDER_FAILED: 4,
    Ending.CANCELLED: CANCELLED,
}


async def one_turn(conversation: Conversation, text: str) -> int:
    """The exit code of a turn. Ctrl-C and SIGTERM cancel it in order."""
    loop = asyncio.get_running_loop()
    task = loop.create_task(conversation.turn(text), name="turn")
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, task.cancel)
    try:
        outcome = await task
    except asyncio.CancelledError:
        return CODES[Ending.CANCELLED]
    return CODES[outcome.ending]

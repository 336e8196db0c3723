"""Runs one turn for a script, and turns its outcome into an exit code."""

from __future__ import annotations

import asyncio
import signal

from agent.command_line.exit_codes import CODES
from agent.conversation.conversation import Conversation
from agent.outcomes import Ending


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

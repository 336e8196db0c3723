"""Runs one turn for a script, and turns its outcome into an exit code."""

from __future__ import annotations

import asyncio
import signal
import sys

from agent.command_line.exit_codes import CODES
from agent.conversation.conversation import Conversation
from agent.outcomes import Ending

STDIN: str = "-"
"""In the place of the text: read it from standard input."""
_LONGEST = 8 * 1024 * 1024


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


def text_of(given: str) -> str:
    """The text of the turn: as given, or from standard input."""
    return sys.stdin.read(_LONGEST) if given == STDIN else given

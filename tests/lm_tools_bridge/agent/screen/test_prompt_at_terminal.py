"""The prompt at a real terminal, while something else is shown."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from support.processes.terminals.screen_session import screen_session

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="needs a pseudo terminal")
PROGRAM = """
import asyncio, os, sys
from lm_tools_bridge.agent.interaction import Tone
from lm_tools_bridge.agent.screen.screen import Interrupts
from lm_tools_bridge.agent.screen.terminal_screen import TerminalScreen

async def main():
    screen = TerminalScreen(Interrupts(lambda: 0.0), lambda _: [])

    async def later():
        while not os.path.exists(sys.argv[1]):
            await asyncio.sleep(0.01)
        screen.notice("the manager is back \\x1b[2J", Tone.WARNING)

    task = asyncio.create_task(later())
    text = await screen.next_input("MODEL: tiny")
    await task
    screen.close()
    print("entered", repr(text))

asyncio.run(main())
"""


def test_a_notice_appears_above_the_prompt_and_keeps_what_is_typed(tmp_path: Path) -> None:
    go = tmp_path / "go"
    environ = {**os.environ, "TERM": "xterm-256color"}
    with screen_session([sys.executable, "-c", PROGRAM, str(go)], environ, cwd=tmp_path) as terminal:
        terminal.sees("MODEL: tiny")
        terminal.press("half a quest")
        terminal.sees("> half a quest")
        go.touch()
        terminal.sees("the manager is back")
        terminal.see(lambda shown: shown.rstrip().endswith("> half a quest"), "the prompt below it")
        lines = [line for line in terminal.lines if line]
        assert lines[-3:] == ["the manager is back \\x1b[2J", "MODEL: tiny", "> half a quest"]
        terminal.press("ion\r")
        terminal.sees("entered 'half a question'")
        assert terminal.ended() == 0

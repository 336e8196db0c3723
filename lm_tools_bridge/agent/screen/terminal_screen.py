"""Shows the agent on a terminal: boxes, replies as they arrive, one line of activity, and the prompt."""

from __future__ import annotations

import asyncio
import shutil
import sys
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from lm_tools_bridge.agent.interaction import Box, Question, Tone
from lm_tools_bridge.agent.screen import screen
from lm_tools_bridge.agent.screen.line_editor import LineEditor, QuietKeys
from lm_tools_bridge.agent.screen.screen import Completions, Interrupted, Interrupts
from lm_tools_bridge.text.printable import printable

if TYPE_CHECKING:
    from lm_tools_bridge.agent.screen.reply_box import ReplyBox

_RESET: Final = "\x1b[0m"
_COLOURS: Final[Mapping[Box, str]] = {
    Box.ASSISTANT: "\x1b[37m",
    Box.GUARD: "\x1b[33m",
    Box.OUTPUT: "\x1b[32m",
    Box.SUDO: "\x1b[35m",
    Box.AUTO: "\x1b[36m",
}
_TONES: Final[Mapping[Tone, str]] = {
    Tone.INFO: "\x1b[2m",
    Tone.WARNING: "\x1b[33m",
    Tone.ERROR: "\x1b[31m",
}
_DIM: Final = "\x1b[2m"
_ERASED: Final = "\r\x1b[2K"
_TURNS: Final = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
_EVERY_S: Final = 0.2
"""Five turns a second look alive, also over a slow ssh."""


def _size() -> tuple[int, int]:
    size = shutil.get_terminal_size()
    return size.columns, size.lines


class TerminalScreen:
    """One terminal. Between prompts, keys are not shown, so that they do not mix with what is printed."""

    def __init__(self, interrupts: Interrupts, completions: Completions) -> None:
        self._interrupts = interrupts
        self._editor = LineEditor(completions)
        self._keys = QuietKeys(sys.stdin.fileno())
        self._reply: ReplyBox | None = None
        self._is_thinking = False
        self._activity = ""
        self._began = 0.0
        self._spinner: asyncio.Task[None] | None = None
        self._is_drawn = False

    # -- what is shown ------------------------------------------------------------------------------------

    def reply_text(self, text: str) -> None:
        """Show a piece of the model's reply in its box."""
        if self._reply is None:
            if not text.strip():
                return
            self._end_thinking()
            from lm_tools_bridge.agent.screen.reply_box import ReplyBox, rows_of_block

            heading = f"{_COLOURS[Box.ASSISTANT]}{{}}{_RESET}"
            self._reply = ReplyBox(_size, rows_of_block, heading)
        self._write(self._reply.feed(text))

    def thinking(self, text: str) -> None:
        """Show a piece of what the model thinks, dim."""
        self._end_reply()
        self._is_thinking = True
        self._write(f"{_DIM}{printable(text, lines=True)}{_RESET}")

    def reply_ended(self) -> None:
        """Close the reply's box."""
        self._end_reply()
        self._end_thinking()

    def box(self, kind: Box, lines: Sequence[str]) -> None:
        """Show a box in the colour of its kind."""
        self.reply_ended()
        drawn = screen.box(kind.value, lines, _size()[0])
        self._write("".join(f"{_COLOURS[kind]}{line}{_RESET}\n" for line in drawn))

    def notice(self, text: str, tone: Tone = Tone.INFO) -> None:
        """Show a notice of the agent itself, broken at blanks."""
        self.reply_ended()
        rows = screen.wrapped(printable(text), screen.width(_size()[0]))
        self._write("".join(f"{_TONES[tone]}{row}{_RESET}\n" for row in rows))

    def lines(self, lines: Sequence[str]) -> None:
        """Show lines of the agent itself."""
        self.reply_ended()
        self._write("".join(f"{printable(line, lines=True)}\n" for line in lines))

    def activity(self, text: str | None) -> None:
        """Show what goes on, with its duration; the line disappears before anything else is printed."""
        if text is None:
            self._erase()
            self._activity = ""
            if self._spinner is not None:
                self._spinner.cancel()
                self._spinner = None
            return
        if not self._activity:
            self._began = time.monotonic()
        self._activity = printable(text, width=200)
        if self._spinner is None:
            self._spinner = asyncio.get_running_loop().create_task(self._spin(), name="activity")

    def event(self, kind: str, details: Mapping[str, Any]) -> None:
        """Nothing: events are for programs."""

    # -- what is asked ------------------------------------------------------------------------------------

    async def ask(self, question: Question) -> str | None:
        """Ask for one line. What was typed before the question is no answer to it."""
        self.reply_ended()
        self._erase()
        spinner, self._activity = self._activity, ""
        self._keys.forget()
        try:
            return await self._editor.answer(
                question.prompt, hidden=question.hidden, initial=question.initial
            )
        except EOFError:
            return None
        except KeyboardInterrupt:
            self._interrupts.press()
            # a cancelled turn gets its cancellation here, and not again at what it does at its end
            await asyncio.sleep(0)
            raise asyncio.CancelledError from None
        finally:
            self._activity = spinner

    async def next_input(self, state: str) -> str | None:
        """Prompt for the next input."""
        self.activity(None)
        self.reply_ended()
        try:
            return await self._editor.line(state)
        except EOFError:
            return None
        except KeyboardInterrupt:
            raise Interrupted from None

    def interrupt(self) -> bool:
        """End the prompt as the key Ctrl-C does; returns whether one waits."""
        return self._editor.interrupt()

    def close(self) -> None:
        """Restore the terminal as it was."""
        self.activity(None)
        self.reply_ended()
        self._keys.close()

    # -- how ----------------------------------------------------------------------------------------------

    def _end_reply(self) -> None:
        if self._reply is not None:
            self._write(self._reply.end())
            self._reply = None

    def _end_thinking(self) -> None:
        if self._is_thinking:
            self._write("\n")
            self._is_thinking = False

    def _write(self, text: str) -> None:
        self._erase()
        sys.stdout.write(text)
        sys.stdout.flush()

    def _erase(self) -> None:
        if self._is_drawn:
            self._is_drawn = False
            sys.stdout.write(_ERASED)
            sys.stdout.flush()

    async def _spin(self) -> None:
        turn = 0
        while True:
            await asyncio.sleep(_EVERY_S)
            if self._activity and self._reply is None and not self._is_thinking:
                turn += 1
                self._draw(_TURNS[turn % len(_TURNS)])

    def _draw(self, mark: str) -> None:
        seconds = time.monotonic() - self._began
        line = f"{mark} {self._activity} ({seconds:.0f} s, Ctrl-C cancels)"
        sys.stdout.write(f"{_ERASED}{_DIM}{screen.cut(line, _size()[0] - 1)}{_RESET}")
        sys.stdout.flush()
        self._is_drawn = True

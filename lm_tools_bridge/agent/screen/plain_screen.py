"""Shows the agent where there is no terminal with colours: as plain text, or as JSON lines for programs."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Mapping, Sequence
from typing import Any, TextIO

from lm_tools_bridge.agent.interaction import Box, Question, Tone
from lm_tools_bridge.agent.screen.line_input import LineInput
from lm_tools_bridge.text.printable import printable


class JsonScreen:
    """One object a line, each with its `type`; ASCII only, so that nothing in it can act on a terminal.

    `delta`: a piece of the reply. `thinking`: a piece of what the model thinks aloud. `box`: a box with
    `title` and `lines`. `notice`: a line of the agent with its `tone`. Others, such as `text`, `call`,
    `result` and `outcome`, have the members that belong to them. Nobody is asked: the answer is always no.
    """

    def __init__(self, out: TextIO) -> None:
        self._out = out

    def reply_text(self, text: str) -> None:
        """Write a piece of the reply."""
        self.event("delta", {"text": text})

    def thinking(self, text: str) -> None:
        """Write a piece of what the model thinks."""
        self.event("thinking", {"text": text})

    def reply_ended(self) -> None:
        """Nothing: the outcome or the next call tells it."""

    def box(self, kind: Box, lines: Sequence[str]) -> None:
        """Write a box."""
        self.event("box", {"title": kind.value, "lines": list(lines)})

    def lines(self, lines: Sequence[str]) -> None:
        """Write lines of the agent as one notice."""
        self.notice("\n".join(lines))

    def notice(self, text: str, tone: Tone = Tone.INFO) -> None:
        """Write a notice."""
        self.event("notice", {"tone": tone.value, "text": text})

    def activity(self, text: str | None) -> None:
        """Nothing: it is for eyes."""

    def event(self, kind: str, details: Mapping[str, Any]) -> None:
        """Write an event."""
        self._out.write(f"{json.dumps({'type': kind, **details}, default=str)}\n")
        self._out.flush()

    async def ask(self, question: Question) -> str | None:
        """Nobody can be asked."""
        return None

    async def next_input(self, state: str) -> str | None:
        """There is no input beside the one of the command line."""
        return None

    def close(self) -> None:
        """Nothing is left to write."""


class PlainScreen:
    """The same texts as on a terminal, without boxes and escape codes.

    Args:
        out: where replies go.
        aside: where everything else goes; the same stream in a session.
        line_input: where answers and inputs come from; None if nobody is asked.
        asks: whether a person is at the other end of `given`, so that questions can be answered there.
    """

    def __init__(self, out: TextIO, aside: TextIO, line_input: LineInput | None, *, asks: bool) -> None:
        self._out = out
        self._aside = aside
        self._given = line_input
        self._asks = asks
        self._is_open = False

    def reply_text(self, text: str) -> None:
        """Show a piece of the model's reply."""
        visible = printable(text.replace("\r", ""), lines=True)
        self._out.write(visible)
        self._out.flush()
        self._is_open = not visible.endswith("\n") if visible else self._is_open

    def thinking(self, text: str) -> None:
        """Thoughts are left out: nothing would tell them from the reply."""

    def reply_ended(self) -> None:
        """End the reply's last line."""
        if self._is_open:
            self._out.write("\n")
            self._out.flush()
        self._is_open = False

    def box(self, kind: Box, lines: Sequence[str]) -> None:
        """Show the title and the lines."""
        self.lines([kind.value, *lines])

    def lines(self, lines: Sequence[str]) -> None:
        """Show lines."""
        self.reply_ended()
        for line in lines:
            self._aside.write(f"{printable(line, lines=True)}\n")
        self._aside.flush()

    def notice(self, text: str, tone: Tone = Tone.INFO) -> None:
        """Show one line; how serious it is stands in front of it."""
        visible = printable(text)  # a name in it must not look like a notice of its own
        self.lines([visible if tone is Tone.INFO else f"{tone.value}: {visible}"])

    def activity(self, text: str | None) -> None:
        """Nothing: a line that is replaced needs a terminal."""

    def event(self, kind: str, details: Mapping[str, Any]) -> None:
        """Nothing: events are for programs."""

    async def ask(self, question: Question) -> str | None:
        """Ask, if a person can answer; an answer that must not be seen is not read here."""
        self.reply_ended()
        if self._given is None or not self._asks:
            return None
        self._given.forget()  # before the prompt is seen, so that a quick answer counts
        self._aside.write(printable(question.prompt))
        self._aside.flush()
        if question.hidden:
            return await self._given.hidden_line()
        return await self._answered(self._given.line())

    async def next_input(self, state: str) -> str | None:
        """The next line; the state is shown where a person reads it."""
        self.reply_ended()
        if self._given is None:
            return None
        if self._asks:
            self._aside.write(f"{printable(state)}\n> ")
            self._aside.flush()
        return await self._answered(self._given.line())

    async def _answered(self, line: Awaitable[str | None]) -> str | None:
        """A line; where a key ended it instead of Enter, the terminal's line is ended here."""
        text = None
        try:
            text = await line
        finally:
            if text is None and self._asks:
                self._aside.write("\n")
                self._aside.flush()
        return text

    def close(self) -> None:
        """End the last line."""
        self.reply_ended()

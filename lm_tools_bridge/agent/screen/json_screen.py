"""Writes what happens as one JSON object a line, for programs that run the agent."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, TextIO

from lm_tools_bridge.agent.interaction import Box, Question, Tone


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

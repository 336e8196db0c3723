"""Defines how the agent shows things to a person and asks them, on a terminal, in a pipe or in an editor."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final, Protocol


class Box(StrEnum):
    """The kinds of boxes; the value is the title."""

    ASSISTANT = "ASSISTANT"
    GUARD = "GUARD - ACTION PENDING"
    OUTPUT = "SYSTEM OUTPUT LOG"
    SUDO = "SUDO"
    AUTO = "AUTO-EXECUTING"


class Tone(StrEnum):
    """How serious a notice is."""

    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


class Effect(StrEnum):
    """What an answer to an approval does."""

    ONCE = "once"
    """Allows what was asked about."""
    ALWAYS = "always"
    """Allows it and others like it, until the session ends."""
    NO = "no"


@dataclass(frozen=True, slots=True)
class Choice:
    """One of the usual answers to a question: what would be typed, and what it means in words."""

    answer: str
    text: str
    effect: Effect


YES: Final = Choice("y", "Allow once", Effect.ONCE)
NO: Final = Choice("n", "Reject", Effect.NO)


@dataclass(frozen=True, slots=True)
class Question:
    """A question for one line of text.

    `hidden`: what is typed is not shown. `initial`: text that can be edited. Answers are never remembered.
    `choices`: the usual answers, for those who show buttons; others may be typed as well. `subject`: what the
    question is about, for those who do not show the prompt; empty if the box before it says that.
    """

    prompt: str
    hidden: bool = False
    initial: str = ""
    choices: tuple[Choice, ...] = ()
    subject: str = ""


class Interaction(Protocol):
    """The person in front of the agent.

    Every text given to it may be hostile: an implementation escapes control characters before it shows them.
    Only the prompt and notices come from the agent itself.
    """

    def reply_text(self, text: str) -> None:
        """Show a piece of the model's reply as it arrives."""
        ...

    def thinking(self, text: str) -> None:
        """Show a piece of what the model thinks aloud."""
        ...

    def reply_ended(self) -> None:
        """Finish what is shown of the current reply."""
        ...

    def box(self, kind: Box, lines: Sequence[str]) -> None:
        """Show a box of one kind with these lines."""
        ...

    def notice(self, text: str, tone: Tone = Tone.INFO) -> None:
        """Show one line of the agent itself."""
        ...

    def activity(self, text: str | None) -> None:
        """Show what is going on at the moment, replacing the previous such line; None removes it."""
        ...

    def event(self, kind: str, details: Mapping[str, Any]) -> None:
        """Report an event for programs that read `--json`, such as `call`, `result`, `outcome`."""
        ...

    async def ask(self, question: Question) -> str | None:
        """Ask for one line; None if nobody can be asked or the input ended. Cancelled by Ctrl-C."""
        ...

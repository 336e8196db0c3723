"""Defines how the agent shows things to a person and asks them, also whether a call may run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final, Protocol

from lm_tools_bridge.agent.messages import Call, Tool

DENIED: Final = "User denied execution"
"""What the model is told of a call that the person did not allow."""


class Verdict(StrEnum):
    """How a call was decided; the value is the word in the audit file."""

    ALLOWED = "ALLOWED"
    """A person said yes, now or earlier for calls like this one."""
    DENIED = "DENIED"
    """A person or a rule said no, or nobody could be asked."""
    ABORTED = "ABORTED"
    """The person cancelled the turn: instead of answering, or while the call ran."""
    AUTO = "AUTO"
    """No question was needed: the guard is off, or the tool only reads."""


@dataclass(frozen=True, slots=True)
class Decision:
    """The verdict on one call, with the arguments it is to run with: those of the call, or edited ones.

    `reason` is what the model is told if the call does not run.
    """

    verdict: Verdict
    arguments: Mapping[str, Any]
    reason: str = ""

    @property
    def runs(self) -> bool:
        """Whether the call is to run."""
        return self.verdict in (Verdict.ALLOWED, Verdict.AUTO)


class Guard(Protocol):
    """Decides each call before it runs, by rules or by asking the person."""

    async def decide(self, call: Call, tool: Tool) -> Decision:
        """Decide on a call whose arguments are an object. Cancelled if the person cancels the turn."""
        ...

    def finished(self, call: Call, decision: Decision, *, seconds: float, failed: bool | None) -> None:
        """Record how a decided call ended; `failed` is None if it did not run."""
        ...


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

"""Defines the decision whether a call may run, and what asks for it."""

from __future__ import annotations

from collections.abc import Mapping
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

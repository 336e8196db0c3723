"""Tells whether a command may become root. Pure."""

from __future__ import annotations

from enum import Enum
from typing import Final

from agent.shell.programs import programs_in

BECOMES_ROOT: Final = frozenset({"sudo", "sudoedit", "doas", "pkexec", "su", "run0"})


class Root(Enum):
    """Whether a command becomes root."""

    NO = "no"
    YES = "yes"
    UNCLEAR = "unclear"
    """It cannot be parsed, or names programs that only the shell will know. Counts as yes."""


def becomes_root(command: str) -> Root:
    """Whether a command may start a program that gives it the rights of root, anywhere in it."""
    found = programs_in(command)
    if found.names & BECOMES_ROOT:
        return Root.YES
    return Root.NO if found.is_whole and found.is_decided else Root.UNCLEAR

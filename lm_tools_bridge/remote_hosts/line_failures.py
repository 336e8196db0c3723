"""Tells why a host cannot be reached, from what its tool wrote and how it ended. Pure.

Models get the fixed text of a kind alone: what a host or its login writes could be meant to mislead them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final


class FailureKind(Enum):
    """Why there is no line: word for programs, sentence, next step. `{host}` and `{name}` are filled in."""

    def __init__(self, word: str, text: str, next_step: str) -> None:
        self.word = word
        self.text = text
        self.next_step = next_step

    HOST_KEY_CHANGED = (
        "host_key_changed",
        "the host key of {host} is not the one that is known, so nothing was sent to it",
        "ask the user to find out why the key changed; lmtb remote status {name} shows what ssh says",
    )
    HOST_KEY_UNKNOWN = (
        "host_key_unknown",
        "the host key of {host} is not known yet",
        "ask the user to run in a terminal: lmtb remote connect {name}",
    )
    NEEDS_PERSON = (
        "login_needs_person",
        "{host} asks for a password or a second factor",
        "ask the user to log in in a terminal: lmtb remote connect {name}",
    )
    NOT_INSTALLED = (
        "not_installed",
        "lm-tools-bridge is not installed on {host}",
        "ask the user to run: lmtb remote install {name}",
    )
    OTHER_PROTOCOL = (
        "other_protocol",
        "lm-tools-bridge on {host} speaks another version of the protocol between hosts",
        "ask the user to run: lmtb remote install {name}",
    )
    CANNOT_SERVE = (
        "cannot_serve",
        "lm-tools-bridge on {host} cannot serve",
        "ask the user to run: lmtb remote status {name}",
    )
    NO_TOOL = (
        "no_tool",
        "the program that reaches {host} is not installed on this machine",
        "ask the user to run: lmtb remote status {name}",
    )
    UNREACHABLE = (
        "unreachable",
        "{host} cannot be reached",
        "wait, then retry; if that fails again, ask the user to run: lmtb remote status {name}",
    )
    CUT = ("line_cut", "the line to {host} was cut", "wait, then retry; the line is made again by itself")


@dataclass(frozen=True, slots=True)
class LineFailure:
    """Why there is no line.

    Attributes:
        said: the last lines of the host or its tool, for people only.
    """

    kind: FailureKind
    said: tuple[str, ...] = ()


_SIGNS: Final[Sequence[tuple[re.Pattern[str], FailureKind]]] = (
    (re.compile(r"REMOTE HOST IDENTIFICATION HAS CHANGED|host key .* has changed", re.I),
     FailureKind.HOST_KEY_CHANGED),
    (re.compile(r"Host key verification failed|No .* host key is known", re.I), FailureKind.HOST_KEY_UNKNOWN),
    (re.compile(r"Permission denied \(|Too many authentication failures|passphrase", re.I),
     FailureKind.NEEDS_PERSON),
)  # fmt: skip
_NOT_FOUND: Final = (126, 127)
_MAX_LINES: Final = 12


def failure_of(exit_code: int | None, written: str) -> LineFailure:
    """Why a tool ended before the host greeted.

    Args:
        exit_code: of the tool; None if it had to be ended.
        written: what it wrote to its standard error, and the host before the greeting.
    """
    lines = tuple(line for line in written.splitlines() if line.strip())[-_MAX_LINES:]
    for sign, kind in _SIGNS:
        if sign.search(written):
            return LineFailure(kind, lines)
    return LineFailure(
        FailureKind.NOT_INSTALLED if exit_code in _NOT_FOUND else FailureKind.UNREACHABLE, lines
    )

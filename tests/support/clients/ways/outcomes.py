"""Judges which project answered a model, from the contents of the files of all projects. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path

from support.clients.ways.conversations import Reading


class Outcome(IntEnum):
    """What came of a call, the best first."""

    RIGHT = 0
    BY_CALL = 1
    """Right, but the tool is not listed: the model reaches it through the manager's `callTool`."""
    NAMED = 2
    """Right, after the model was told to name its folder, and did."""
    ROOT = 3
    """The right project, but the file of another folder in it."""
    REFUSED = 4
    NO_TOOLS = 5
    NOT_RUN = 6
    WRONG = 7

    @property
    def word(self) -> str:
        """What the table says."""
        return {
            Outcome.RIGHT: "right", Outcome.BY_CALL: "right, by `callTool`",
            Outcome.NAMED: "right, once named", Outcome.ROOT: "root",
            Outcome.REFUSED: "refused", Outcome.NO_TOOLS: "no tools", Outcome.NOT_RUN: "not run",
            Outcome.WRONG: "**WRONG**",
        }[self]  # fmt: skip


@dataclass(frozen=True)
class Folder:
    """A folder in which agents work.

    Attributes:
        project: the root of the project that it belongs to, itself for most.
        text: the content of its file, which is nowhere else.
    """

    path: Path
    project: Path
    text: str


def outcome_of(reading: Reading, folders: Sequence[Folder]) -> Outcome:
    """What a reading came to."""
    expected = next(folder for folder in folders if folder.path == reading.expected)
    answering = [folder for folder in folders if folder.text in reading.text]
    if expected in answering:
        if reading.asked:
            return Outcome.NAMED
        return Outcome.RIGHT if reading.was_offered else Outcome.BY_CALL
    if answering:
        return Outcome.ROOT if answering[0].path == expected.project else Outcome.WRONG
    return Outcome.REFUSED if reading.was_offered else Outcome.NO_TOOLS


def worst(outcomes: Iterable[Outcome]) -> Outcome:
    """The worst of several; no outcome at all is one that was not run."""
    return max(outcomes, default=Outcome.NOT_RUN)

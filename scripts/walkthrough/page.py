"""Reads the steps of a page: the files to write, the commands to type, and what they print.

A fence says with its first line what its block is:

    ```python file=shop/stock.py   a file of the home folder
    ```console                     commands after `$ `, each with the output that is expected
    ```console fails               the same; the commands end with an error
    ```console needs=claude        only where that program is installed
    ```console not-run             only shown

In expected output `…` stands for any text. Blanks and line ends count as one blank, because a terminal wraps
lines. A line that ends in a question and its answer, `[y/N]: y`, is answered.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

FENCE: Final = re.compile(
    r"^```(?P<language>\w+)(?P<rest>[^\n]*)\n(?P<text>.*?)^```$", re.DOTALL | re.MULTILINE
)
_PROGRESS: Final = re.compile(r"^[^\n]* \.\.\.\r?\n", re.MULTILINE)
"""A line of what takes long; it depends on the machine whether there is one."""
_QUESTION: Final = re.compile(r"\[(?:y/N|Y/n)\]: (?P<answer>\w+)$", re.MULTILINE)
_ANY_TEXT: Final = "…"


@dataclass(frozen=True)
class File:
    """A file to write, below the home folder."""

    path: str
    text: str


@dataclass(frozen=True)
class Command:
    """A command line to type, and what it prints.

    Attributes:
        fails: whether it ends with an error.
        needs: the program without which it is not run.
    """

    line: str
    expected: str = ""
    fails: bool = False
    needs: str | None = None

    @property
    def answer(self) -> str:
        """What to answer when it asks."""
        found = _QUESTION.search(self.expected)
        return found["answer"] if found else ""

    def is_met_by(self, printed: str) -> bool:
        """Whether this is the expected output."""
        parts = [" ".join(part.split()) for part in self.expected.split(_ANY_TEXT)]
        pattern = r"\s?.*?\s?".join(map(re.escape, parts))
        shown = _PROGRESS.sub("", printed)
        return re.fullmatch(pattern, " ".join(shown.split())) is not None


Step = File | Command


def steps(page: Path) -> Iterator[Step]:
    """All steps of a page, in their order, without those that are only shown."""
    for fence in FENCE.finditer(page.read_text("utf-8")):
        attributes = dict(word.partition("=")[::2] for word in fence["rest"].split())
        if "file" in attributes:
            yield File(attributes["file"], fence["text"])
        elif fence["language"] == "console" and "not-run" not in attributes:
            for shown in re.split(r"^\$ ", fence["text"], flags=re.MULTILINE)[1:]:
                line, _, expected = shown.partition("\n")
                yield Command(line, expected, "fails" in attributes, attributes.get("needs"))

"""Reads the lines of files for positions and previews, each file once per call. Blocks.

What an answer shows of a file comes from here: lines that the gate let through, and words of a server that
repeat nothing of other files.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Final

from lm_tools_bridge.code_intelligence.tree.disk_text import FileLines, decoded
from lm_tools_bridge.machine import file_calls
from lm_tools_bridge.machine.file_calls import real_path
from workspace_server.files.file_gate import FileGate

MAX_FILE: Final = 8 * 1024 * 1024
"""Bytes: larger files are generated, and reading many of them would take seconds."""
MAX_FILES: Final = 2000
"""Files of one call, all of which are held until it ends."""
MAX_WIDTH: Final = 300
"""Characters of a line in a preview."""
MAX_BEHIND: Final = 200
"""Files behind one link whose words are compared; a folder with more is taken to have every word."""
WITHHELD: Final = "(not shown: it may repeat a file outside the workspace)"
_WORD: Final = re.compile(r"\w{4,}")
"""Shorter words tell nothing, and stand everywhere."""


def no_links() -> Sequence[str]:
    """The links out of a project that has none."""
    return ()


class Texts:
    """The lines of files as they are on disk, for one call.

    Args:
        gate: which files may be shown.
        links_out: the links of the project that lead out of it, which servers follow.
    """

    def __init__(self, gate: FileGate, links_out: Callable[[], Sequence[str]] = no_links) -> None:
        self._gate = gate
        self._links_out = links_out
        self._known: dict[str, FileLines | None] = {}

    def lines(self, path: Path) -> Sequence[str] | None:
        """The lines without their ends.

        None if the file must not be shown, cannot be read, is too large, or is no regular file.
        """
        name = str(path)
        if name not in self._known:
            self._known[name] = self._read_lines(name) if len(self._known) < MAX_FILES else None
        return self._known[name]

    def admits(self, path: Path) -> bool:
        """Whether the file that a path leads to may be shown."""
        return self._gate.admits(path)

    def showable_lines(self, lines: Sequence[str] | None) -> Sequence[str] | None:
        """Lines that a server was given, if they were read from a file that may be shown."""
        is_open = isinstance(lines, FileLines) and self._gate.holds(lines.real)
        return lines if is_open else None

    def may_say(self, words: str, about: Iterable[Path], caller_words: str = "") -> bool:
        """Whether a server's words about files may be shown: what it infers can quote a file that must not.

        That is not so if one of the files itself must not be shown, or if a file behind a link out of the
        project has one of the words, and those that the words are about have not.

        Args:
            words: what the server says.
            about: the files.
            caller_words: what the caller said, which may be repeated.
        """
        own = list(about)
        if not all(map(self.admits, own)):
            return False
        behind = self._behind
        if not behind:
            return True
        sources = "\n".join([caller_words, *(line for path in own for line in self.lines(path) or ())])
        foreign = {word for word in _WORD.findall(words) if word not in sources}
        return not any(text is None or any(word in text for word in foreign) for text in behind)

    @cached_property
    def _behind(self) -> Sequence[str | None]:
        """The texts behind the links that lead out; None for one that cannot be compared."""
        outside = (link for link in self._links_out() if not self._gate.admits(link))
        return [text for link in outside for text in _texts_behind(link)]

    def _read_lines(self, path: str) -> FileLines | None:
        try:
            descriptor = self._gate.open(path)
        except (OSError, ValueError):  # or a name that no file can have
            return None
        try:
            size, real = os.fstat(descriptor).st_size, real_path(descriptor, path)
            if size > MAX_FILE:
                return None
            # a regular file gives all of it at once; a buffer of the largest size would take longer to make
            return FileLines(decoded(os.read(descriptor, size + 1))[0], real)
        except OSError:
            return None
        finally:
            os.close(descriptor)


def _texts_behind(link: str) -> Iterator[str | None]:
    """The text of the file behind a link, or of those in the folder."""
    if not Path(link).is_dir():
        yield _compared(link)
        return
    names = (f"{folder}/{name}" for folder, _, files in os.walk(link) for name in files)
    for count, name in enumerate(names):
        yield _compared(name) if count < MAX_BEHIND else None
        if count == MAX_BEHIND:
            return


def _compared(path: str) -> str | None:
    """A text to compare words with, never to show; None if it cannot be read whole.

    The kernel's own files have no size, and are not the same for each process.
    """
    try:
        descriptor = os.open(path, file_calls.READ_FILE)
    except OSError:
        return "" if not os.access(path, os.R_OK) else None
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode) or status.st_size > MAX_FILE:
            return None
        text = os.read(descriptor, MAX_FILE + 1 if not status.st_size else status.st_size + 1)
        return None if text and not status.st_size else text.decode("utf-8", "replace")
    except OSError:
        return None
    finally:
        os.close(descriptor)


def cut(line: str) -> str:
    """A line as previews show it."""
    return line if len(line) <= MAX_WIDTH else line[:MAX_WIDTH] + "…"

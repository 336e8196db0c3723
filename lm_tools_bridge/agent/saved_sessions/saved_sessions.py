"""The sessions of a folder that can be resumed, and the one that is being saved."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Final

from lm_tools_bridge.agent.messages import Message
from lm_tools_bridge.agent.saved_sessions.session_files import LARGEST, Identity, SessionFiles
from lm_tools_bridge.agent.saved_sessions.session_text import (
    Heading,
    broken_line,
    decoded,
    encoded,
    title_of,
)
from lm_tools_bridge.machine.disks import worded
from lm_tools_bridge.machine.private_files import UnsafePathError

_STEP: Final = "its first line has to be an object that names the folder: repair it, or remove the file"


@dataclass(frozen=True, slots=True)
class SavedSession:
    """A saved session: its id, when it was last saved (local time), and how it began."""

    id: str
    when: str
    title: str


class SavedSessions:
    """The saved sessions of one folder.

    Every session has its own file. A resumed session goes on in its file, unless another agent writes to the
    same one: then it goes on in a new file, and nothing is lost.
    """

    def __init__(
        self,
        folder: Path,
        workspace: Path,
        *,
        clock: Callable[[], float],
        chance: Callable[[], str],
        problem: Callable[[str], None],
    ) -> None:
        """Save nothing yet.

        Args:
            folder: where the files are; made private when the first one is written.
            workspace: the folder that the agent works in.
            clock: seconds since 1970.
            chance: a random text of letters and digits.
            problem: is told once why sessions are not saved, or why one cannot be read.
        """
        self._files = SessionFiles(folder)
        self._workspace = str(workspace)
        self._clock = clock
        self._chance = chance
        self._problem = problem
        self._lock = threading.Lock()
        self._id = ""
        self._identity: Identity | None = None
        self._saves = 0
        self._saved = 0
        self._was_told = False
        self._was_damage_told = False

    def entries(self) -> Sequence[SavedSession]:
        """The sessions of this folder, the last one first. Damaged files are told once. Blocks."""
        try:
            files, damaged = self._files.found()
        except OSError as error:
            self._problem(f"saved sessions cannot be read: {worded(error)}")
            return ()
        if damaged and not self._was_damage_told:
            self._was_damage_told = True
            last = max(damaged, key=lambda path: path.stat().st_mtime)
            more = f" (and {len(damaged) - 1} more)" if len(damaged) > 1 else ""
            self._problem(f"a saved session is damaged and cannot be resumed: {last}{more}; {_STEP}")
        return [
            SavedSession(
                file.id, f"{datetime.fromtimestamp(file.heading.saved):%Y-%m-%d %H:%M}", file.heading.title
            )
            for file in files
            if file.heading.workspace == self._workspace
        ]

    def load(self, session_id: str) -> Sequence[Message]:
        """The history of a session, in which it goes on from now on; empty if it cannot be read. Blocks."""
        try:
            content = self._files.read(session_id)
        except (UnsafePathError, OSError) as error:
            self._problem(f"the session cannot be read: {worded(error)}")
            return ()
        if content is None:
            self._problem("the session is no longer there")
            return ()
        with self._lock:
            self._id, self._identity = session_id, self._files.identity(session_id)
        if (line := broken_line(content)) is not None:
            path = self._files.path(session_id)
            self._problem(f"the session is damaged from line {line} of {path} on; what is before it is used")
        return decoded(content)

    def reserve(self) -> str:
        """Begin a new session, and choose its id before it is saved."""
        with self._lock:
            self._id, self._identity = self._new_id(self._clock()), None
            return self._id

    async def keep(self, messages: Sequence[Message]) -> None:
        """Save the history. An empty one ends the session: what follows is a new one. Never raises."""
        self._saves += 1
        if not messages:
            with self._lock:
                self._id, self._saved = "", self._saves
            return
        await asyncio.to_thread(self._write, tuple(messages), self._saves)

    def _write(self, messages: Sequence[Message], save: int) -> None:
        with self._lock:
            if save < self._saved:
                return  # a cancelled save that comes late
            self._saved = save
            now = self._clock()
            content = encoded(Heading(self._workspace, title_of(messages), now), messages, LARGEST)
            if not self._id or self._files.identity(self._id) not in {None, self._identity}:
                self._id = self._new_id(now)
            try:
                self._files.write(self._id, content)
            except (UnsafePathError, OSError) as error:
                self._tell(f"this session is not saved: {worded(error)}")
            self._identity = self._files.identity(self._id)

    def _new_id(self, now: float) -> str:
        return f"{datetime.fromtimestamp(now):%Y%m%d-%H%M%S}-{self._chance()}"

    def _tell(self, text: str) -> None:
        if not self._was_told:
            self._was_told = True
            self._problem(text)

"""The sessions of a folder that can be resumed, as JSON lines in few, small, private files.

The first line describes the session; each further line is one message. Pictures in results are not saved.
"""

from __future__ import annotations

import asyncio
import json
import os
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from lm_tools_bridge.agent.messages import (
    AssistantMessage,
    Call,
    Message,
    Result,
    SystemMessage,
    ToolMessage,
    UserMessage,
)
from lm_tools_bridge.machine import file_calls, private_files
from lm_tools_bridge.machine.disks import worded
from lm_tools_bridge.machine.private_files import UnsafePathError

FORMAT: Final = 1
"""Another number is a later version's file, which is not read."""
_TITLE: Final = 80  # characters: a line of the list of sessions


@dataclass(frozen=True, slots=True)
class Heading:
    """The description of a session: its folder, how it began, when it was saved (seconds since 1970)."""

    workspace: str
    title: str
    saved: float


def encoded(heading: Heading, messages: Sequence[Message], most: int) -> bytes:
    """The text of a session of at most `most` bytes; the oldest turns are left out where it is longer."""
    first = _line(
        {"format": FORMAT, "workspace": heading.workspace, "title": heading.title, "saved": heading.saved}
    )
    lines = [_line(value) for message in messages if (value := _value(message)) is not None]
    size = len(first) + sum(map(len, lines))
    start = 0
    while size > most and start < len(lines):
        size -= len(lines[start])
        start += 1
    return b"".join([first, *lines[start:]])


def heading_of(line: bytes) -> Heading | None:
    """The description in the first line of a session; None if it is none of ours."""
    value = _object(line)
    if value is None or value.get("format") != FORMAT:
        return None
    workspace, title, saved = value.get("workspace"), value.get("title"), value.get("saved")
    if not isinstance(workspace, str) or not isinstance(title, str) or not isinstance(saved, int | float):
        return None
    return Heading(workspace, title, saved)


def decoded(content: bytes) -> list[Message]:
    """The messages of a session up to the first line that is not whole."""
    messages: list[Message] = []
    for line in content.splitlines()[1:]:
        value = _object(line)
        message = _message(value) if value is not None else None
        if message is None:
            break
        messages.append(message)
    return messages


def broken_line(content: bytes) -> int | None:
    """The number of the first line that is no whole message, counted from 1; None if all are."""
    for number, line in enumerate(content.splitlines()[1:], start=2):
        value = _object(line)
        if value is None or _message(value) is None:
            return number
    return None


def title_of(messages: Sequence[Message]) -> str:
    """How a session began, in one line."""
    first = next((message.text for message in messages if isinstance(message, UserMessage)), "")
    return " ".join(first.split())[:_TITLE]


def _line(value: Mapping[str, Any]) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode() + b"\n"


def _object(line: bytes) -> dict[str, Any] | None:
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _value(message: Message) -> dict[str, Any] | None:
    match message:
        case UserMessage(text):
            return {"role": "user", "text": text}
        case AssistantMessage(text, calls):
            return {"role": "assistant", "text": text, "calls": [_call_value(call) for call in calls]}
        case ToolMessage(result):
            return {
                "role": "result", "callId": result.call_id, "name": result.name, "text": result.text,
                "isError": result.is_error, "code": result.code,
            }  # fmt: skip
        case SystemMessage():  # made anew in each session
            return None


def _call_value(call: Call) -> dict[str, Any]:
    value = {"id": call.id, "name": call.name, "arguments": call.arguments, "problem": call.problem}
    return value if call.provider_data is None else {**value, "providerData": call.provider_data}


def _message(value: Mapping[str, Any]) -> Message | None:
    try:
        match value.get("role"):
            case "user":
                return UserMessage(str(value["text"]))
            case "assistant":
                return AssistantMessage(str(value["text"]), tuple(_call(call) for call in value["calls"]))
            case "result":
                text, code = str(value["text"]), value.get("code")
                is_error = bool(value.get("isError"))
                return ToolMessage(Result(str(value["callId"]), str(value["name"]), text, is_error, (), code))
    except (KeyError, TypeError, AttributeError):
        pass
    return None


def _call(value: Mapping[str, Any]) -> Call:
    arguments, problem = value.get("arguments"), value.get("problem")
    return Call(
        str(value["id"]),
        str(value["name"]),
        arguments if isinstance(arguments, dict) else None,
        problem if isinstance(problem, str) else None,
        value.get("providerData"),
    )


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


LARGEST: Final = 4 * 1024 * 1024
"""Bytes of one session."""
MOST: Final = 200
"""Sessions that are kept, of all folders together."""
MOST_BYTES: Final = 128 * 1024 * 1024
"""Bytes of all sessions together."""
_SUFFIX: Final = ".jsonl"
_LONGEST_HEADING: Final = 65_536
"""A heading has a path (4 KiB at most, six times that as JSON escapes) and a title."""

Identity = tuple[int, int]
"""Tells whether a file is still the one that was read or written: its inode and its time of change."""


@dataclass(frozen=True, slots=True)
class SessionFile:
    """A saved session: its id and its heading."""

    id: str
    heading: Heading


class SessionFiles:
    """The sessions of one user."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def found(self) -> tuple[list[SessionFile], list[Path]]:
        """All sessions, the last one first, and the regular files that are none because they are damaged.

        Raises:
            OSError: the folder cannot be read.
        """
        files: list[SessionFile] = []
        damaged: list[Path] = []
        for path in sorted(self._folder.glob(f"*{_SUFFIX}")) if self._folder.exists() else ():
            heading = _heading(path)
            if heading is not None:
                files.append(SessionFile(path.name.removesuffix(_SUFFIX), heading))
            elif path.is_file() and not path.is_symlink():
                damaged.append(path)
        return sorted(files, key=lambda file: file.heading.saved, reverse=True), damaged

    def path(self, session_id: str) -> Path:
        """Where a session is."""
        return self._path(session_id)

    def read(self, session_id: str) -> bytes | None:
        """The content of a session, None if there is none of this id.

        Raises:
            UnsafePathError, OSError: it cannot be read.
        """
        return private_files.read(self._path(session_id), LARGEST)

    def write(self, session_id: str, content: bytes) -> None:
        """Save a session in the place of its older state; the oldest sessions make room for a new one.

        Raises:
            UnsafePathError, OSError: it cannot be written; the older state is still there.
        """
        private_files.make_private(self._folder)
        path = self._path(session_id)
        is_new = not path.exists()
        private_files.write(path, content, durable=False)
        if is_new:
            self._remove_oldest(keep=path)

    def identity(self, session_id: str) -> Identity | None:
        """What tells whether another process has changed a session; None if there is no file."""
        try:
            status = os.lstat(self._path(session_id))
        except OSError:
            return None
        return status.st_ino, status.st_mtime_ns

    def _path(self, session_id: str) -> Path:
        return self._folder / (session_id.replace("/", "_") + _SUFFIX)

    def _remove_oldest(self, keep: Path) -> None:
        with suppress(OSError):
            private_files.remove_unfinished(self._folder)
            sizes = {path: path.lstat() for path in self._folder.glob(f"*{_SUFFIX}")}
            newest = sorted(sizes, key=lambda path: sizes[path].st_mtime_ns, reverse=True)
            total = 0
            for number, path in enumerate(newest, start=1):
                total += sizes[path].st_size
                if (number > MOST or total > MOST_BYTES) and path != keep:
                    path.unlink(missing_ok=True)


def _heading(path: Path) -> Heading | None:
    try:
        descriptor = os.open(path, file_calls.READ_NO_LINK)
    except OSError:
        return None
    with os.fdopen(descriptor, "rb") as file, suppress(OSError):
        return heading_of(file.readline(_LONGEST_HEADING))
    return None

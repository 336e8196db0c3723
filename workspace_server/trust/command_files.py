"""Finds the program of a command and the workspace's files that it names, which trust depends on.

Of a file inside the workspace the bytes count, of a program outside its path. Files that a program loads
without naming them in its command are not covered. A data file, which its program writes and nothing runs,
may change.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import stat
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePath
from typing import Any, Final

from lm_tools_bridge.machine import file_calls
from workspace_server.files.change_detection import ChangeDetector, FileIdentity, file_identity, is_settled
from workspace_server.trust.item import file_name

_STORES: Final = frozenset({
    "data", "database", "datafile", "db", "dbfile", "dbpath", "duckdb", "history", "log", "logfile", "logs",
    "memory", "output", "sqlite", "sqlite3", "storage",
})  # fmt: skip
_FILLERS: Final = frozenset({"file", "filename", "filepath", "location", "name", "path"})
SUFFIXES: Final = (
    ".csv", ".db", ".db3", ".duckdb", ".json", ".jsonl", ".log", ".md", ".ndjson", ".sqlite", ".sqlite3",
    ".tsv", ".txt",
)  # fmt: skip
_CODE: Final = (".cjs", ".js", ".mjs", ".mts", ".py", ".ts")
_SERVER: Final = re.compile(r"mcp|server")
_VALUELESS: Final = frozenset({"--", "-I", "-m", "-q", "-u", "-y", "--quiet", "--yes"})
"""Options after which the next word is what is run, with all words after it as its arguments."""
NO_OPTION: Final = "it must be given by an option that names a store, in one word, such as --db-path=notes.db"


def data_arguments(command: Sequence[str]) -> Mapping[int, str]:
    """The paths that may be data files, as written, by the position of their argument in the command. Pure.

    `--db=t.db` is one: no program runs a part of a word. In `--db t.db` the second word is one only directly
    after the server, because many launchers (npx, electron, ipython) skip an option that they do not know and
    run the word after it.
    """
    reasons: dict[int, str] = {}
    for at in range(1, len(command)):
        option, equals, value = command[at].partition("=")
        if not _names_store(option):
            continue
        if equals:
            reasons[at] = value
        elif command[at + 1 : at + 2] and _goes_to_server(command[:at]):
            reasons[at + 1] = command[at + 1]
    return {at: path for at, path in reasons.items() if path and not path.startswith("-")}


def why_not_data(path: str, cwd: str, root: str) -> str | None:
    """Why the file at this path, relative to `cwd`, cannot be data; None if it can, also if it is missing.

    Args:
        path: the path as written.
        cwd: the working folder of the command.
        root: the workspace, with links resolved.
    """
    if PurePath(path).suffix.lower() not in SUFFIXES:
        return f"its name must end in {', '.join(SUFFIXES[:-1])} or {SUFFIXES[-1]}"
    try:
        place = os.path.normpath(os.path.join(os.path.realpath(cwd), path))
        if os.path.realpath(place) != place or os.path.realpath(os.path.join(cwd, path)) != place:
            return "a symbolic link leads to it"
        if not Path(place).is_relative_to(root):
            return "it lies outside of the project"
        mode = os.lstat(place).st_mode
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError):
        return "it cannot be read"
    if not stat.S_ISREG(mode):
        return "it is not a plain file"
    return "it is executable" if mode & 0o111 else None


def _names_store(option: str) -> bool:
    """Whether a long option's name consists of words for a store and its place only, such as `--db-path`."""
    words = option.removeprefix("--").lower().replace("_", "-").split("-")
    if not option.startswith("--") or not _STORES.intersection(words):
        return False
    return _STORES.union(_FILLERS).issuperset(words)


def _goes_to_server(words: Sequence[str]) -> bool:
    """Whether an option after these words is certainly one of the server, and not of what starts it."""
    at = len(words) - 1
    while at >= 0:
        word, before = words[at], words[at - 1] if at else ""
        if word.startswith("-"):
            at -= 1
        elif not before.startswith("-") or before in _VALUELESS:
            return _names_server(word)
        elif word.isdigit() or _names_store(before):  # a value that nobody could run, and one like this one
            at -= 2
        else:
            return False
    return False


def _names_server(word: str) -> bool:
    name = os.path.basename(word).lower()
    return "=" not in word and (_SERVER.search(name) is not None or name.endswith(_CODE))


MAX_KEPT: Final = 8 * 1024 * 1024
"""Bytes of one command's files that are kept in memory; of further files only hashes are kept."""
# Bytes of all files of a command: hashing more would take seconds.
MAX_HASHED: Final = 512 * 1024 * 1024
_CHUNK: Final = 1024 * 1024
_FLAGS: Final = file_calls.CLOSE_ON_EXEC | file_calls.NO_WAIT


@dataclass(frozen=True, slots=True)
class CommandFiles:
    """The program and files that a command names; `facts` and `files` as in `TrustItem`.

    `program` is a path, None if not found. `facts` maps each argument to the path of its file, relative
    to the workspace if it lies inside. `data` are the exempt files, `may_be_data` those that could be.
    """

    program: str | None
    facts: dict[str, str] = field(default_factory=dict)
    files: dict[str, bytes] = field(default_factory=dict)
    data: list[str] = field(default_factory=list)
    may_be_data: list[str] = field(default_factory=list)
    refused: dict[str, str] = field(default_factory=dict)
    """Files that cannot be data although the entry says so, with the reason."""


class CommandFileReader:
    """Reads the files that commands name, and caches unchanged ones. Blocks."""

    def __init__(self, root: Path) -> None:
        self._root = os.path.realpath(root)
        self._known: dict[tuple[str, bool], tuple[FileIdentity, bytes | str]] = {}

    def named(
        self,
        command: Sequence[str],
        cwd: str,
        path: str,
        change_detector: ChangeDetector | None = None,
        data: Collection[str] = (),
    ) -> CommandFiles:
        """What `command`, started in `cwd` with the search path `path`, names.

        Args:
            command: program and arguments.
            cwd: the working folder.
            path: the search path.
            change_detector: receives the paths that the result depends on.
            data: the files, as the command writes them, that are exempt if `why_not_data` permits it.
        """
        program = _locate(command[0], cwd, path) if command else None
        if change_detector is not None and command:
            for place in _places(command[0], path):
                change_detector.add_path(place)
        command_files = CommandFiles(program, refused=dict.fromkeys(data, NO_OPTION))
        stores = data_arguments(command)
        for position, written in enumerate([program or "", *command[1:]]):
            store = stores.get(position)
            is_data = store is not None and self._note_data(store, cwd, data, command_files)
            # a data file's path is watched although its content is not compared: it may become executable
            for candidate in _candidates(written):
                if change_detector is not None:
                    change_detector.add_path(os.path.join(cwd, candidate))
                    change_detector.add_path(os.path.dirname(os.path.join(cwd, candidate)))  # may be a link
                if not is_data or candidate != store:
                    self._add(candidate, cwd, command_files)
        return command_files

    def _note_data(self, path: str, cwd: str, data: Collection[str], command_files: CommandFiles) -> bool:
        """Note a file that may be data; returns whether it is exempt."""
        reason = why_not_data(path, cwd, self._root)
        if reason is not None:
            if path in command_files.refused:
                command_files.refused[path] = reason
            return False
        command_files.refused.pop(path, None)
        paths = command_files.data if path in data else command_files.may_be_data
        if path not in paths:
            paths.append(path)
        return path in data

    def is_file(self, argument: str, cwd: str) -> bool:
        """Whether an argument, relative to `cwd`, names a file."""
        try:
            return Path(cwd, argument).is_file()
        except (OSError, ValueError):
            return False

    def _add(self, candidate: str, cwd: str, command_files: CommandFiles) -> None:
        path = os.path.join(cwd, candidate)  # `..` must stay: it may follow a link
        try:
            status = os.stat(path)
            real = os.path.realpath(path) if stat.S_ISREG(status.st_mode) else None
        except (OSError, ValueError):  # too long, with a NUL, or missing
            return
        if real is None:
            return
        inside = self._is_inside(real)
        if not (inside or self._is_inside(os.path.normpath(path))):
            return
        place_text = os.path.relpath(real, self._root) if inside else real
        command_files.facts[candidate] = place_text
        if not inside:
            return
        name = file_name(place_text, executable=bool(status.st_mode & 0o111))
        content = self._content(real, status, MAX_KEPT - sum(map(len, command_files.files.values())))
        if isinstance(content, bytes):
            command_files.files[name] = content
        else:
            command_files.facts[name.replace("\0", " ")] = content

    def _is_inside(self, path: str) -> bool:
        return Path(path).is_relative_to(self._root)

    def _content(self, path: str, status: os.stat_result, room: int) -> bytes | str:
        # the room depends on this command only, not on what was read before, so digests are stable
        place, stamp = (path, status.st_size <= room), file_identity(status)
        content = self._known.get(place)
        if content is None or content[0] != stamp:
            now = time.time_ns()
            content = _read(path, stamp, room)
            if is_settled(content[0], now):
                self._known[place] = content
        return content[1]


def _candidates(argument: str) -> dict[str, None]:
    """The parts of an argument that may be paths: all of it, `--option=path`, and each of `path:path`."""
    parts = [argument, argument.partition("=")[2]]
    parts += [part for whole in parts if os.pathsep in whole for part in whole.split(os.pathsep)]
    return dict.fromkeys(filter(None, parts))


def _locate(name: str, cwd: str, path: str) -> str | None:
    if os.sep in name:
        return os.path.join(cwd, name)
    entries = _entries(path)
    try:
        return shutil.which(name, path=os.pathsep.join(entries)) if entries else None
    except ValueError:
        return None


def _entries(path: str) -> list[str]:
    # relative entries would find programs of the workspace
    return [entry for entry in path.split(os.pathsep) if os.path.isabs(entry)]


def _places(name: str, path: str) -> list[str]:
    """The paths at which a program of this name may be found."""
    return [] if os.sep in name else [f"{entry}/{name}" for entry in _entries(path)]


def _read(path: str, stamp: FileIdentity, room: int) -> tuple[FileIdentity, bytes | str]:
    """The content, or a text in its place that changes whenever the content does."""
    try:
        descriptor = os.open(path, os.O_RDONLY | _FLAGS)
        with os.fdopen(descriptor, "rb") as file:
            status = os.fstat(descriptor)
            stamp = file_identity(status)
            if not stat.S_ISREG(status.st_mode):
                return stamp, "no plain file"
            if status.st_size > MAX_HASHED:
                return stamp, _by_status(stamp)
            if status.st_size > room:
                return stamp, _hash(file)
            content = file.read(room + 1)
    except OSError:  # executable but not readable
        return stamp, _by_status(stamp)
    return stamp, content if len(content) <= room else _by_status(stamp)


def _hash(file: Any) -> str:
    state, size = hashlib.sha256(), 0
    while (chunk := file.read(_CHUNK)) and size <= MAX_HASHED:
        state.update(chunk)
        size += len(chunk)
    return f"{size} bytes, sha256:{state.hexdigest()}"


def _by_status(stamp: FileIdentity) -> str:
    """The text for a file that was not read; its change time, which nobody can set, reveals every change."""
    return f"not read, {'.'.join(map(str, stamp))}"

"""Decides which files of a command may be data: files that its program writes and that nothing runs.

Trust pins every file that a command names. A file is exempt only if the trusted entry (`data = [...]`) or the
user says so, and if this module permits it. Everything it does not recognise stays pinned: a program may run
any argument, so neither a file's content nor its position after the program is evidence.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePath
from typing import Final

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

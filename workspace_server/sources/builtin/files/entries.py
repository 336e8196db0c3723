"""Reads what is in directories; also as a program for another process.

The program (`python -I -S entries.py`) imports the standard library only. It reads the arguments of
`read_below` from standard input, as `marshal` writes them, answers with the length of its results and these,
and ends with its input. Blocks.
"""

from __future__ import annotations

import marshal
import os
import re
import sys
import time

# Both ends of the pipe are ours: any size that holds every length will do.
LENGTH_BYTES = 8
IGNORE_FILES = (".rgignore", ".ignore", ".gitignore")
"""The names of ignore files; the rules of an earlier one win."""
Stamp = tuple[int, int, int, int]
"""Device, inode, times of modification and of change of a directory or an ignore file."""
Entries = tuple[int, Stamp | None, str, int, str, list[str]] | None
"""When the read began (wall clock, nanoseconds), the directory's stamp before it, the names of regular files,
their number, the names of directories, both as `in_order` returns them, and the names of links; None if the
directory cannot be read."""


def stamp_of(path: str) -> Stamp | None:
    """The stamp of a path, None if nothing is there."""
    try:
        status = os.stat(path)  # noqa: PTH116  this is called for every directory of a tree
    except (OSError, ValueError):
        return None
    return status.st_dev, status.st_ino, status.st_mtime_ns, status.st_ctime_ns


def read_entries(path: str) -> Entries:
    """What is in a directory now."""
    now = time.time_ns()
    stamp = stamp_of(path)
    try:
        with os.scandir(path) as listed:
            entries = list(listed)
        files = [entry.name for entry in entries if entry.is_file(follow_symlinks=False)]
        if len(files) == len(entries):
            return now, stamp, in_order(files), len(files), "", []
        directories = [entry.name for entry in entries if entry.is_dir(follow_symlinks=False)]
        links: list[str] = []
        if len(files) + len(directories) != len(entries):
            links = [entry.name for entry in entries if entry.is_symlink()]
        return now, stamp, in_order(files), len(files), in_order(directories), links
    except OSError:
        return None


def in_order(names: list[str]) -> str:
    """Sort names by their bytes; returns them as one text, with a `/` before and behind each."""
    if not names:
        return ""
    names.sort()
    text = f"/{'/'.join(names)}/"
    if not text.isascii():  # characters may have another order than their bytes
        names.sort(key=os.fsencode)
        text = f"/{'/'.join(names)}/"
    return text


def names_in(text: str) -> list[str]:
    """The names in a text that `in_order` returned."""
    return text[1:-1].split("/") if text else []


def read_below(path: str, unsure: list[str] | None, most: int) -> list[tuple[str, Entries]]:
    """What is in a directory and in those below it, `most` in all, in walk order, each with its path.

    Where a rule might apply, it stops: it does not enter directories whose names match one of `unsure`, and
    nothing below an ignore file. None for `unsure`: any name may match.
    """
    patterns = [re.compile(pattern) for pattern in unsure or ()]
    entries_by_path: list[tuple[str, Entries]] = []
    waiting = [path]
    while waiting and len(entries_by_path) < most:
        path = waiting.pop()
        entries = read_entries(path)
        entries_by_path.append((path, entries))
        if entries is None or not entries[4] or unsure is None:
            continue
        _, _, files, _, directories, links = entries
        if any(name in links or f"/{name}/" in files for name in IGNORE_FILES):
            continue
        names = names_in(directories)
        if any(pattern.search(directories) for pattern in patterns):
            names = [name for name in names if not any(each.search(f"/{name}/") for each in patterns)]
        waiting += [f"{path}/{name}" for name in reversed(names) if name != ".git"]
    return entries_by_path


def main() -> None:
    """Answer requests until the input ends."""
    requests, answers = sys.stdin.buffer, sys.stdout.buffer
    while True:
        try:
            path, unsure, most = marshal.load(requests)  # noqa: S302  of the process that started this one
        except EOFError:
            return
        answer = marshal.dumps(read_below(path, unsure, most))
        answers.write(len(answer).to_bytes(LENGTH_BYTES, "big") + answer)
        answers.flush()


if __name__ == "__main__":
    main()

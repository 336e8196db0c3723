"""The program behind the fallback engine: matches lines of files in a process that can be killed.

A regular expression can keep Python's `re` busy for ever and `re` cannot be interrupted, hence a process.
It runs as a script (`python -I line_matcher.py`) and imports only the standard library.

It reads one JSON request from stdin: `{pattern, literal, ignoreCase, limit, keep, headBytes, root, files}`,
the files relative to the root, all their bytes as Latin-1. It writes one JSON array for each of the first
`keep` matching lines, `[file index, line number, head, longer, start, occurrences]` with `head` as Latin-1,
counts up to `limit` lines, and ends with `{"done": true, "count": n}` or `{"error": reason, "position": n}`.
"""

from __future__ import annotations

import codecs
import io
import json
import os
import re
import stat
import sys
import warnings
from collections.abc import Iterator
from typing import Any

# Larger files are read by lines, to bound the memory; below, one read is faster.
WHOLE_FILE = 16 * 1024 * 1024
_GROUPS = {
    "(?=": "look-around is not supported",
    "(?!": "look-around is not supported",
    "(?<=": "look-around is not supported",
    "(?<!": "look-around is not supported",
    "(?>": "atomic groups are not supported",
    "(?(": "conditionals are not supported",
    "(?#": "comments are not supported",
    "(?P=": "backreferences are not supported",
}


class InvalidPattern(Exception):
    """The pattern is invalid; with the reason and, if known, the 0-based position."""

    def __init__(self, reason: str, position: int | None) -> None:
        super().__init__(reason)
        self.position = position


def check_syntax(pattern: str) -> None:
    """Refuse syntax that Python supports but ripgrep does not, so that a query means the same to both.

    Raises:
        InvalidPattern: with the position of the unsupported syntax.
    """
    index, in_class = 0, False
    while index < len(pattern):
        if pattern[index] == "\\":
            if pattern[index + 1 : index + 2] in set("nr"):
                raise InvalidPattern("a line end cannot be matched; lines are searched one by one", index)
            if pattern[index + 1 : index + 2] in set("123456789") and not in_class:
                raise InvalidPattern("backreferences are not supported", index)
            index += 2
            continue
        if in_class:
            in_class = pattern[index] != "]"
        elif pattern[index] == "[":
            in_class = True
            index += len(re.match(r"\^?\]?", pattern[index + 1 :]).group())  # type: ignore[union-attr]  # may be empty
        elif pattern[index] == "{" and not re.match(r"\d+(,\d*)?\}", pattern[index + 1 :]):
            raise InvalidPattern(
                "repetition quantifier expects a valid decimal; write \\{ for the character", index
            )
        else:
            for opening, reason in _GROUPS.items():
                if pattern.startswith(opening, index):
                    raise InvalidPattern(reason, index)
        index += 1


def compile_query(pattern: str, *, literal: bool, ignore_case: bool) -> re.Pattern[str]:
    """Compile a pattern.

    Raises:
        InvalidPattern: the pattern is invalid.
    """
    if not literal:
        check_syntax(pattern)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            return re.compile(re.escape(pattern) if literal else pattern, re.IGNORECASE if ignore_case else 0)
    except re.error as error:
        raise InvalidPattern(error.msg, error.pos) from None
    except (Warning, RecursionError, OverflowError, MemoryError) as error:
        raise InvalidPattern(str(error) or "too complex", None) from None


def lines_of(path: bytes, prefilter: re.Pattern[str] | None) -> Iterator[str]:
    """The lines of a regular file, without line ends, with invalid bytes as surrogates.

    Yields nothing if the file is not regular, or if `prefilter` matches nowhere in it.

    Raises:
        OSError: the file cannot be read.
        UnicodeError: the file is binary: it contains a NUL, or a line longer than `WHOLE_FILE` characters.
    """
    descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    with os.fdopen(descriptor, "rb") as file:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            return
        start = file.read(3)
        file.seek(3 if start == codecs.BOM_UTF8 else 0)
        encoding, errors = "utf-8", "surrogateescape"
        if start[:2] in {codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE}:
            encoding, errors = "utf-16", "replace"
        text: io.TextIOBase = io.TextIOWrapper(file, encoding, errors, newline="\n")
        if status.st_size <= WHOLE_FILE:
            whole = text.read()
            if "\0" in whole:
                raise UnicodeError("binary")
            if prefilter is not None and not prefilter.search(whole):
                return
            text = io.StringIO(whole, newline="\n")
        while line := text.readline(WHOLE_FILE + 1):
            if "\0" in line or len(line) > WHOLE_FILE:
                raise UnicodeError("binary")
            yield line.removesuffix("\n").removesuffix("\r")


def matches_in(
    path: bytes, regex: re.Pattern[str], *, literal: bool, limit: int, head_bytes: int
) -> list[list[Any]]:
    """`[number, head, longer, start, occurrences]` of the first `limit` matching lines; none if binary."""
    rows: list[list[Any]] = []
    try:
        for number, line in enumerate(lines_of(path, regex if literal else None), 1):
            first = regex.search(line) if len(rows) < limit else None
            if first is None:
                continue
            filled = sum(match.start() != match.end() for match in regex.finditer(line))
            raw = line.encode("utf-8", "surrogateescape")
            head = raw[:head_bytes]
            start = len(line[: first.start()].encode("utf-8", "surrogateescape"))
            rows.append([number, head.decode("latin-1"), len(raw) > len(head), start, max(1, filled)])
    except (OSError, UnicodeError):
        return []
    return rows


def main() -> None:
    """Answer the request on stdin."""
    request = json.loads(sys.stdin.buffer.read())
    literal: bool = request["literal"]
    limit: int = request["limit"]
    keep: int = request["keep"]
    count = 0
    root: bytes = request["root"].encode("latin-1")

    def write(value: object) -> None:
        sys.stdout.write(json.dumps(value) + "\n")

    try:
        regex = compile_query(request["pattern"], literal=literal, ignore_case=request["ignoreCase"])
    except InvalidPattern as refused:
        write({"error": str(refused), "position": refused.position})
        return
    for index, name in enumerate(request["files"]):
        if count >= limit:
            break
        path = os.path.join(root, name.encode("latin-1"))  # noqa: PTH118 - bytes, which pathlib does not take
        left = limit - count
        matches = matches_in(path, regex, literal=literal, limit=left, head_bytes=request["headBytes"])
        for line in matches[: max(0, keep - count)]:
            write([index, *line])
        if matches and count < keep:
            sys.stdout.flush()
        count += len(matches)
    write({"done": True, "count": count})


if __name__ == "__main__":
    main()

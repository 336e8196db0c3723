"""Searches with ripgrep.

ripgrep walks and matches; our own filters decide once more what may be shown, so that both engines give the
same results. Include patterns are never passed as `-g`, which would bring ignored files back. They go into an
ignore file of the lowest precedence, which only saves ripgrep work.
"""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from workspace_server.sources.builtin.search.process import Exit, run
from workspace_server.sources.builtin.search.query import (
    BadRegex,
    EngineUnavailable,
    Findings,
    Line,
    Scope,
    TextQuery,
)
from workspace_server.sources.builtin.search.ripgrep_json import RipgrepJson
from workspace_server.workspace import Workspace

MAX_REFUSED_LINKS: Final = 500

_ALWAYS: Final = (
    *("--no-config", "--no-messages", "--no-ignore-messages", "--color=never", "--sort=path", "--hidden"),
    *("--no-require-git", "--no-ignore-parent", "--no-ignore-global", "--no-ignore-exclude"),
)
_GLOB_SPECIAL: Final = re.compile(r"([\\*?\[\]{}! ])")


def find_ripgrep(setting: str | None, workspace: Workspace, environ: Mapping[str, str]) -> str | None:
    """Path of ripgrep: the setting ("" disables it), else from PATH, else beside our interpreter. Blocks.

    A program inside the workspace is never used, even if it is on PATH, because it is not trusted.
    """
    if setting is not None:
        return setting or None
    places = [*environ.get("PATH", "").split(os.pathsep), str(Path(sys.executable).parent)]
    for place in places:
        if not Path(place).is_absolute():
            continue
        program = shutil.which("rg", path=place)
        if program and not any(
            workspace.contains(path.resolve()) for path in (Path(program), Path(program).parent)
        ):
            return program
    return None


async def list_files(program: str, scope: Scope, limit: int, found: Findings[str]) -> None:
    """Add the first `limit` wanted files to `found`, relative to the folder, in walk order.

    Raises:
        EngineUnavailable: ripgrep cannot run this search.
    """
    rest = b""

    def consume(chunk: bytes) -> bool:
        nonlocal rest
        *names, rest = (rest + chunk).split(b"\0")
        for raw in names:
            name = os.fsdecode(raw).replace(os.sep, "/").removeprefix("./")
            if _wanted(scope, name):
                found.items.append(name)
            if len(found.items) >= limit:
                return False
        return True

    flags, include = await _walk_flags(scope)
    command = [program, *flags, "--files", "-0", "--", "./"]
    ended = await run(command, scope.tree.folder.path, consume, stdin=include)
    if ended.code not in {0, 1, 2, None} or (ended.code == 2 and ended.stderr):
        raise EngineUnavailable(ended.stderr)


async def find_lines(program: str, scope: Scope, query: TextQuery, limit: int, found: Findings[Line]) -> None:
    """Add the first `limit` matching lines of wanted files to `found`, in walk order, then by line.

    Raises:
        BadRegex: the pattern is not a valid regular expression.
        EngineUnavailable: ripgrep cannot run this search.
    """
    reader = RipgrepJson(keep=limit, wanted=lambda name: _wanted(scope, name))

    def consume(chunk: bytes) -> bool:
        reader.feed(chunk)
        return len(reader.lines) < limit

    pattern = ["-i" if query.ignore_case else "-s", *([] if query.regex else ["-F"]), "-e", query.text]
    flags, include = await _walk_flags(scope)
    command = [program, *flags, "--json", "--crlf", "--no-mmap", *pattern, "--", "./"]
    try:
        ended = await run(command, scope.tree.folder.path, consume, stdin=include)
    finally:
        found.items += reader.lines + reader.pending
    if ended.code is not None and not reader.summary:
        _raise_for(ended, query)


def _raise_for(ended: Exit, query: TextQuery) -> None:
    stderr = ended.stderr.replace("\r\n", "\n")
    parse = re.search(r"regex parse error:\n    .*\n    ( *)\^.*\n(?:error: )?(.*)", stderr)
    if query.regex and parse:
        raise BadRegex(parse[2], len(parse[1]))
    literal = re.search(r"the literal .* is not allowed in a regex", stderr)
    if query.regex and literal:
        at = re.search(r"(?<!\\)(?:\\\\)*\\[nr]", query.text)
        raise BadRegex(
            "a line end cannot be matched; lines are searched one by one", at.end() - 2 if at else None
        )
    if query.regex and re.search("regex|size limit|nest", stderr, re.IGNORECASE):
        raise BadRegex(" ".join(stderr.split())[:500], None)
    raise EngineUnavailable(stderr)


def _wanted(scope: Scope, name: str) -> bool:
    return scope.wanted(name) and not (scope.tree.excludes.globs and scope.tree.excludes(name))


async def _walk_flags(scope: Scope) -> tuple[list[str], bytes | None]:
    stop = threading.Event()
    try:
        return await asyncio.to_thread(_flags, scope, stop)
    finally:
        stop.set()


def _flags(scope: Scope, stop: threading.Event) -> tuple[list[str], bytes | None]:
    """The flags that make ripgrep walk this scope, and the ignore file for its standard input."""
    tree = scope.tree
    flags = [*_ALWAYS, "-g", "!.git"]
    flags += [part for glob in tree.excludes.portable() for part in ("-g", f"!/{glob}")]
    if tree.rules.follow_symlinks:
        links = list(tree.links(stop.is_set))
        refused = [link.relative for link in links if link.refused_link]
        if len(refused) > MAX_REFUSED_LINKS:
            raise EngineUnavailable("too many links that lead out")
        if len(refused) < len(links):
            flags.append("--follow")
            flags += [part for name in refused for part in ("-g", "!/" + _GLOB_SPECIAL.sub(r"\\\1", name))]
    if not tree.rules.use_ignore_files:
        flags.append("--no-ignore")
    includes = scope.wanted.portable()
    include: bytes | None = None
    if sys.platform != "win32" and not scope.wanted.everything and includes == scope.wanted.globs:
        include = "".join(["*\n!*/\n", *(f"!/{glob}\n" for glob in includes)]).encode()
        flags += ["--ignore-file", "/dev/stdin"]
    flags += [part for file in tree.extra_files for part in ("--ignore-file", str(file))]
    return flags, include

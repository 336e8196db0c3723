"""The verb log: prints the log of the manager, of a workspace's server, or of a program behind it.

Lines come from the log files, so that they can be read when nothing runs.
"""

from __future__ import annotations

import errno
import os
import re
import select
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import click

from lm_tools_bridge.terminal.command_line import Failure, examples, json_option, print_line, say
from lm_tools_bridge.text.near_names import did_you_mean
from manager.cli import completion, workspace_command
from manager.cli.output.manager_access import user_paths
from manager.routing.matching import workspace_id
from manager.status_reading import format_log_line, parse_log_line, project_names

# New lines seem to come at once, for five `fstat` a second.
POLL_S: Final = 0.2
# Bytes of one read, and how far before the end the last lines are looked for.
_READ: Final = 1024 * 1024
_LEVELS: Final = ("debug", "info", "warning", "error")


@click.command(epilog=examples("lmtb log -f", "lmtb log --server github"))
@click.option(
    "--cwd", type=click.Path(path_type=Path), help="The log of the workspace of this folder; here: --cwd ."
)
@click.option(
    "--project",
    "--workspace",
    "workspace",
    metavar="ID",
    help="The log of the project with this id; its name without the hash will do.",
    shell_complete=completion.workspaces,
)
@click.option(
    "--server",
    metavar="NAME",
    help="Only lines of this source: an id from `lmtb servers`, or the part after its colon.",
    shell_complete=completion.sources,
)
@click.option("--level", type=click.Choice(_LEVELS), default="debug", help="Only entries from this level on.")
@click.option("-f", "--follow", is_flag=True, help="Keep printing new lines until Ctrl-C.")
@click.option(
    "-n", "--lines", type=click.IntRange(0, 10_000), default=50, help="Print at most this many lines."
)
@json_option
def log(
    *,
    cwd: Path | None,
    workspace: str | None,
    server: str | None,
    level: str,
    follow: bool,
    lines: int,
    as_json: bool,
) -> None:
    """Show the manager's log, or that of a workspace, oldest line first.

    A workspace's log has the lines of its server and of the programs behind it. With --server alone, it is
    the workspace of the current folder. A line is: time, level, event, fields. With --json, each line is an
    object.
    """
    file = _file(cwd, workspace, server)
    line_filter = _Wanted(server, _LEVELS.index(level))
    if not file.exists() and not follow:
        raise _no_log(file)
    try:
        reader = Reader(file)
        matching_lines = [line for line in reader.tail() if line_filter.has(line)]
        for line in matching_lines[-lines:] if lines else ():
            _show(line, as_json=as_json)
        if not matching_lines and not as_json:
            _say_nothing_there(server, reader.tail())
        for line in reader.following() if follow else ():
            if line_filter.has(line):
                _show(line, as_json=as_json)
    except KeyboardInterrupt:  # how the user ends it
        return


def _say_nothing_there(server: str | None, lines: list[str]) -> None:
    """Say that there is no line, and which servers have some, if one was named."""
    if server is None:
        say("no lines yet", err=True)
        return
    sources = {str(entry["source"]) for line in lines if (entry := parse_log_line(line)).get("source")}
    servers = sorted(source.partition(":")[2] or source for source in sources)
    names = f"; there are lines from {', '.join(servers)}" if servers else ""
    say(f'no lines yet from "{server}"{did_you_mean(server, servers)}{names}', err=True)


@dataclass(frozen=True, slots=True)
class _Wanted:
    """Which lines are shown. Lines that are no entries, such as tracebacks, have every level."""

    server: str | None
    least: int

    def has(self, line: str) -> bool:
        entry = parse_log_line(line)
        level = entry.get("level")
        if level in _LEVELS and _LEVELS.index(str(level)) < self.least:
            return False
        source = entry.get("source")
        return self.server is None or (
            isinstance(source, str) and self.server in (source, source.partition(":")[2])
        )


def _file(cwd: Path | None, workspace: str | None, server: str | None) -> Path:
    """The file that has the lines."""
    paths = user_paths()
    if workspace is not None:
        if cwd is not None:
            raise click.UsageError("--cwd and --project both name a project: give one of them")
        if not re.fullmatch("[a-z0-9-]+", workspace):
            raise click.UsageError("--project needs an id from `lmtb workspaces`")
        return paths.logs_dir / f"{_identity(workspace)}.log"
    if cwd is not None or server is not None:
        return paths.logs_dir / f"{workspace_id(workspace_command.root_of(cwd))}.log"
    return paths.log_file


def _identity(workspace: str) -> str:
    """The id of a workspace by its id, or by its name without the hash if no other is called so."""
    projects = project_names(completion.logged_workspaces())
    return next((identity for identity, name in projects.items() if name == workspace), workspace)


def _no_log(file: Path) -> Failure:
    if file == user_paths().log_file:
        text, step = "the manager has no log yet", "start it with: lmtb up"
    else:
        text = "this workspace has no log yet"
        step = "its server starts with the first request; the manager's own log: lmtb log"
    return Failure(text, step, reason="no_log")


class Reader:
    """Reads a log while programs append to it. It may be emptied or replaced meanwhile."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._inode: int | None = None
        self._place = 0
        self._rest = b""

    def tail(self) -> list[str]:
        """The last lines; what comes after them is `following`."""
        status = self._status()
        if status is None:
            return []
        self._inode, self._place = status.st_ino, max(0, status.st_size - _READ)
        is_cut = self._place > 0
        return self._more()[1 if is_cut else 0 :]

    def following(self) -> Iterator[str]:
        """Lines as they are written, also after the file was replaced by a new one. Never ends."""
        while True:
            status = self._status()
            if status is not None and (status.st_ino != self._inode or status.st_size < self._place):
                self._inode, self._place, self._rest = status.st_ino, 0, b""
            if status is None or status.st_size == self._place:
                _pause()
            else:
                yield from self._more()

    def _more(self) -> list[str]:
        """The lines that have become whole since; a line without an end waits for it."""
        try:
            with self._file.open("rb") as opened:
                opened.seek(self._place)
                chunk = opened.read(_READ)
        except OSError:
            return []
        self._place += len(chunk)
        *whole, self._rest = (self._rest + chunk).split(b"\n")
        return [line.decode("utf-8", "replace") for line in whole]

    def _status(self) -> os.stat_result | None:
        try:
            return self._file.stat()
        except OSError:
            return None


def _pause() -> None:
    """Wait before the next look at the file.

    Raises:
        BrokenPipeError: nobody reads the output any more, as of `lmtb log -f | head`.
    """
    try:
        output = sys.stdout.fileno()
    except (OSError, ValueError):
        time.sleep(POLL_S)
        return
    if not hasattr(select, "poll"):  # Windows
        time.sleep(POLL_S)
        return
    gone = select.poll()
    gone.register(output, 0)  # only errors and hang-ups
    if gone.poll(POLL_S * 1000):
        raise BrokenPipeError(errno.EPIPE, os.strerror(errno.EPIPE))


def _show(line: str, *, as_json: bool) -> None:
    if as_json:
        print_line(parse_log_line(line) or {"text": line})
    else:
        say(format_log_line(line))

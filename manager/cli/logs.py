"""The verb logs: prints the log of a workspace's server and of the programs behind it.

The verb `log` prints the manager's own lines. Here lines come from the file, so that they can be read when
nothing runs.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import click

from host.command_line import Failure
from host.printable import printable
from manager.cli import workspace_command
from manager.cli.output.manager_access import user_paths
from manager.cli.output.workspace_options import cwd_option
from manager.routing.workspace.workspace_id import workspace_id

POLL_S: Final = 0.2
_READ: Final = 1024 * 1024
_SHOWN_FIRST: Final = ("timestamp", "level", "event")


@click.command()
@cwd_option
@click.option("--server", help="Only lines of this source: an id from `lmtb servers`, or its namespace.")
@click.option("-f", "--follow", is_flag=True, help="Keep printing new lines until Ctrl-C.")
@click.option(
    "-n", "--lines", type=click.IntRange(0, 10_000), default=50, help="Print at most this many lines."
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object per line for programs.")
@click.pass_obj
def logs(cwd: Path | None, server: str | None, follow: bool, lines: int, as_json: bool) -> None:
    """Show the log of a workspace's server, oldest line first."""
    file = user_paths().logs_dir / f"{workspace_id(workspace_command.root_of(cwd))}.log"
    if not file.exists() and not follow:
        raise Failure(
            "this workspace has no log yet",
            "its server starts with the first request; the manager's own log: lmtb log",
            reason="no_log",
        )
    try:
        reader = Reader(file)
        found = [line for line in reader.tail() if _is_from(line, server)]
        for line in found[-lines:] if lines else ():
            _show(line, as_json=as_json)
        if not found and not as_json:
            click.echo("no lines yet" + (f" from {server}" if server else ""), err=True)
        for line in reader.following() if follow else ():
            if _is_from(line, server):
                _show(line, as_json=as_json)
    except KeyboardInterrupt:  # how the user ends it
        return


class Reader:
    """Reads a file of lines that somebody else appends to, and replaces when it has grown long."""

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
                time.sleep(POLL_S)
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


def _is_from(line: str, server: str | None) -> bool:
    if server is None:
        return True
    source = _parsed(line).get("source")
    return isinstance(source, str) and server in (source, source.partition(":")[2])


def _show(line: str, *, as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps(_parsed(line) or {"text": line}))
    else:
        click.echo(printable(_formatted(line)))


def _formatted(line: str) -> str:
    fields = _parsed(line)
    if not fields:
        return line
    head = " ".join(str(fields.pop(name, "-")) for name in _SHOWN_FIRST)
    return " ".join([head, *(f"{name}={value}" for name, value in fields.items())])


def _parsed(line: str) -> dict[str, Any]:
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}

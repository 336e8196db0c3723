"""The verb logs: what the server of a folder's workspace, and the servers behind it, wrote.

The manager's own lines are the verb `log`. The lines are read from the file, so that they can be read when
nothing runs any more.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import click

from manager.cli import content
from manager.cli.output import Failure, printable
from manager.cli.reach import user_paths
from manager.routing.workspace_id import workspace_id

POLL_S: Final = 0.2
_READ: Final = 1024 * 1024
_SHOWN_FIRST: Final = ("timestamp", "level", "event")


@click.command()
@click.option(
    "--cwd", type=click.Path(path_type=Path), help="A folder in the workspace; default: the current."
)
@click.option("--server", help="Only lines of this source: an id of `lmtb servers`, or its namespace.")
@click.option("-f", "--follow", is_flag=True, help="Go on with what is written from now on.")
@click.option("-n", "--lines", type=click.IntRange(0, 10_000), default=50, help="At most so many lines.")
def logs(cwd: Path | None, server: str | None, follow: bool, lines: int) -> None:
    """Show what the server of a folder's workspace wrote, oldest line first."""
    file = user_paths().logs_dir / f"{workspace_id(content.root_of(cwd))}.log"
    if not file.exists() and not follow:
        raise Failure(
            "this workspace has written nothing yet",
            "its server starts with the first request; look at the manager's own lines with: lmtb log",
        )
    wanted = [line for line in _tail(file) if _is_about(line, server)]
    for line in wanted[len(wanted) - lines :] if lines else ():
        _show(line)
    if follow:
        try:
            for line in _following(file):
                if _is_about(line, server):
                    _show(line)
        except KeyboardInterrupt:
            return


def _tail(file: Path) -> list[str]:
    try:
        with file.open("rb") as opened:
            opened.seek(max(0, opened.seek(0, os.SEEK_END) - _READ))
            return opened.read().decode("utf-8", "replace").splitlines()
    except OSError:
        return []


def _following(file: Path) -> Iterator[str]:
    """Lines as they are written, also after the file was replaced by a new one."""
    place, inode, rest = _size(file), _inode(file), b""
    while True:
        if _inode(file) != inode or _size(file) < place:
            place, inode, rest = 0, _inode(file), b""
        if _size(file) > place:
            with file.open("rb") as opened:
                opened.seek(place)
                chunk = opened.read(_READ)
            place += len(chunk)
            *whole, rest = (rest + chunk).split(b"\n")
            yield from (line.decode("utf-8", "replace") for line in whole)
        else:
            time.sleep(POLL_S)


def _size(file: Path) -> int:
    try:
        return file.stat().st_size
    except OSError:
        return 0


def _inode(file: Path) -> int:
    try:
        return file.stat().st_ino
    except OSError:
        return 0


def _is_about(line: str, server: str | None) -> bool:
    if server is None:
        return True
    source = _parsed(line).get("source")
    return isinstance(source, str) and server in (source, source.partition(":")[2])


def _show(line: str) -> None:
    click.echo(printable(_worded(line), lines=False))


def _worded(line: str) -> str:
    fields = _parsed(line)
    if not fields:
        return line
    head = " ".join(str(fields.pop(name, "-")) for name in _SHOWN_FIRST)
    return " ".join([head, *(f"{name}={value}" for name, value in fields.items())])


def _parsed(line: str) -> dict[str, Any]:
    try:
        value = json.loads(line)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}

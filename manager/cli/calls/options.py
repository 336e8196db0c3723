"""Defines the options that choose among recorded calls, and opens the database of the calls."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

import click

from host.command_line import Command, Failure
from manager.cli.completion import suggestions
from manager.cli.output.manager_access import user_paths
from manager.recorder.queries.call_filter import Filter
from manager.recorder.queries.call_log import CallLog
from manager.recorder.queries.moments import moment_of, seconds_of

SLOW_MS: Final = 1000.0
"""Milliseconds from which a call is slow, unless the option says otherwise."""


class Length(click.ParamType[float]):
    """A length of time in seconds."""

    name = "time"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """The seconds of a text."""
        seconds = value if isinstance(value, float) else seconds_of(str(value))
        if seconds is None:
            self.fail(f"{value!r} is no length of time, such as 30s, 5m, 2h or 3d", param, ctx)
        return seconds


class Moment(click.ParamType[int]):
    """A moment, as ms since 1970: a length of time before now, or a date with or without a time."""

    name = "time"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """The milliseconds of a text."""
        if isinstance(value, int):
            return value
        moment = moment_of(str(value), time.time())
        if moment is None:
            self.fail(
                f"{value!r} is neither a length such as 2h nor a time such as 2026-05-01T14:30", param, ctx
            )
        return moment


_OPTIONS: Final[tuple[Callable[[Any], Any], ...]] = (
    click.option(
        "--client",
        metavar="NAME",
        help="Only calls of this client.",
        shell_complete=suggestions.recorded("client"),
    ),
    click.option(
        "--project",
        metavar="ID",
        help="Only calls of this workspace; its name without the hash will do.",
        shell_complete=suggestions.recorded("project"),
    ),
    click.option(
        "--tool",
        metavar="NAME",
        help="Only calls of this tool. Names may contain * and ?.",
        shell_complete=suggestions.recorded("tool"),
    ),
    click.option("--session", metavar="DIGEST", help="Only calls of this session (see `lmtb calls show`)."),
    click.option("--errors", is_flag=True, help="Only calls that failed."),
    click.option(
        "--slow",
        "slow_ms",
        type=click.FloatRange(min=0),
        is_flag=False,
        flag_value=SLOW_MS,
        metavar="[MS]",
        help="Only calls that took longer than 1000 ms, or than MS.",
    ),
    click.option("--since", type=Moment(), help="Only calls since then: 30m, 2h, 3d, or a date."),
)


def filter_options(command: Command) -> Command:
    """Add the options that choose among calls; `filter_of` reads them."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def filter_of(given: Mapping[str, Any]) -> Filter:
    """The filter that the options ask for."""
    slow_ms = given["slow_ms"]
    return Filter(
        client=given["client"],
        project=given["project"],
        tool=given["tool"],
        session=given["session"],
        errors=given["errors"],
        slower_than_us=None if slow_ms is None else round(slow_ms * 1000),
        since_ms=given["since"],
    )


@contextmanager
def explained() -> Iterator[None]:
    """Turn errors of the database into a failure with a next step."""
    try:
        yield
    except sqlite3.Error as error:
        path = user_paths().calls_file
        raise Failure(
            f"{path} cannot be read: {error}", "check with: lmtb doctor", reason="unreadable"
        ) from error


@contextmanager
def open_log() -> Iterator[CallLog | None]:
    """The recorded calls; None if there are none yet."""
    with explained():
        log = CallLog.open(user_paths().calls_file)
        if log is None:
            yield None
            return
        with log:
            yield log

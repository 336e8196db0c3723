"""Defines the options that choose among recorded calls, and opens the database of the calls."""

from __future__ import annotations

import os
import re
import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

import click

from lm_tools_bridge.recorder.call_log import CallLog, Filter
from lm_tools_bridge.recorder.database import NewerFile
from lm_tools_bridge.terminal.command_line import Command, Failure
from lm_tools_bridge.text.quantities import moment_of
from manager import exit_codes
from manager.cli import completion
from manager.cli.output.manager_access import user_paths
from manager.cli.workspace_command import root_of
from manager.client import Control, ControlRefusal, ManagerFault, NoManager
from manager.configuration.settings import ConfigurationError, Settings, load_settings
from manager.routing.matching import workspace_id

SLOW_MS: Final = 1000.0
"""Milliseconds from which a call is slow, unless the option says otherwise."""

_WRITTEN_S: Final = 2.0
"""A manager that takes longer has other worries: what is written already is shown."""
_PROJECT_ID: Final = re.compile(r".*-[0-9a-f]{12}")
OFF: Final = "the setting record_calls is off"
_STEPS: Final = {
    "SQLITE_FULL": "free some space on its disk, then repeat it",
    "SQLITE_BUSY": "another program is writing to it: repeat it",
    "SQLITE_NOTADB": "move it away; a running manager does so itself, and begins a new one",
    "SQLITE_CORRUPT": "move it away; a running manager does so itself, and begins a new one",
}
"""Name of an error of the database -> what helps."""
LARGEST_ID: Final = 2**53
"""Higher than any id that a call can have."""
_MOST_MS: Final = 1e9
"""Eleven days: no call takes longer."""


class CallNumber(click.ParamType[int]):
    """The id of a recorded call."""

    name = "id"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """The number of a text."""
        number = int(value) if str(value).isdecimal() and len(str(value)) < 17 else 0
        if not 0 < number < LARGEST_ID:
            self.fail(f"{value!r} is no id of a call: lmtb calls lists them, in its first column", param, ctx)
        return number


class Milliseconds(click.ParamType[float]):
    """A duration in milliseconds."""

    name = "ms"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """The milliseconds of a text."""
        try:
            milliseconds = float(value)
        except ValueError:
            milliseconds = -1
        if not 0 <= milliseconds <= _MOST_MS:
            self.fail(f"{value!r} is no number of milliseconds, such as 200", param, ctx)
        return milliseconds


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


def suggest_recorded(member: str) -> completion.Suggest:
    """Suggest what recorded calls have as their `client`, `project` or `tool`."""

    def find(_: click.Context) -> Iterable[tuple[str, str | None]]:
        log = CallLog.open(user_paths().calls_file)
        if log is None:
            return []
        with log:
            return [(name, None) for name in log.names(member)]

    return completion.suggesting(find)


_OPTIONS: Final[tuple[Callable[[Any], Any], ...]] = (
    click.option(
        "--client",
        metavar="NAME",
        help="Only calls of this client.",
        shell_complete=suggest_recorded("client"),
    ),
    click.option(
        "--project",
        metavar="ID",
        help="Only calls of this project: its name, its id, or a folder in it, such as `.`.",
        shell_complete=suggest_recorded("project"),
    ),
    click.option(
        "--tool",
        metavar="NAME",
        help="Only calls of this tool. Names may contain * and ?.",
        shell_complete=suggest_recorded("tool"),
    ),
    click.option("--session", metavar="DIGEST", help="Only calls of this session (see `lmtb calls show`)."),
    click.option("--errors", is_flag=True, help="Only calls that failed."),
    click.option(
        "--slow",
        "slow_ms",
        type=Milliseconds(),
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


def filter_of(options: Mapping[str, Any]) -> Filter:
    """The filter that the options ask for."""
    slow_ms = options["slow_ms"]
    return Filter(
        client=options["client"],
        project=_id_of_folder(options["project"]) or options["project"],
        tool=options["tool"],
        session=options["session"],
        errors=options["errors"],
        slower_than_us=None if slow_ms is None else round(slow_ms * 1000),
        since_ms=options["since"],
    )


def are_recorded() -> bool:
    """Whether a manager that starts now would record calls, as far as this environment tells.

    Raises:
        Failure: the configuration cannot be used.
    """
    return user_settings().record_calls


@contextmanager
def explained() -> Iterator[None]:
    """Turn errors of the database into a failure with a next step."""
    try:
        yield
    except sqlite3.Error as error:
        path = user_paths().calls_file
        raise Failure(f"{path} cannot be read: {error}", step_after(error), reason="unreadable") from error


def step_after(error: sqlite3.Error) -> str:
    """What helps after an error of the database."""
    if isinstance(error, NewerFile):
        return "use the newer version, or move the file away"
    return _STEPS.get(getattr(error, "sqlite_errorname", ""), "check with: lmtb doctor")


@contextmanager
def open_log(*, written_first: bool = True) -> Iterator[CallLog | None]:
    """The recorded calls; None if there are none yet.

    Args:
        written_first: whether a manager that runs writes the calls first that have just ended.
    """
    if written_first:
        with suppress(NoManager, ManagerFault, ControlRefusal):
            Control(user_paths().control_socket, _WRITTEN_S).post("/recorded/write", {})
    with explained():
        log = CallLog.open(user_paths().calls_file)
        if log is None:
            yield None
            return
        with log:
            yield log


def _id_of_folder(name: str | None) -> str | None:
    """The id of the project that a folder is in; None for a name that is no path."""
    if name is None or not ("/" in name or name in (".", "..", "~")):
        return None
    return workspace_id(root_of(Path(name).expanduser()))


def project_named(name: str, projects: Iterable[str]) -> str:
    """The id of a project.

    Args:
        name: a folder in it, written with a `/` or as `.`; an id, which need not be known yet; or the
            beginning of a known one, without the hash.
        projects: ids.

    Raises:
        Failure: no known project has this name, or several have.
    """
    if (identity := _id_of_folder(name)) is not None:
        return identity
    ids = set(projects)
    if name in ids:
        return name
    matches = sorted(project for project in ids if project.rpartition("-")[0] == name)
    if len(matches) == 1:
        return matches[0]
    if matches:
        raise Failure(
            f"{len(matches)} projects are named {name}",
            f"name one: {', '.join(matches)}",
            reason="ambiguous_project",
        )
    if _PROJECT_ID.fullmatch(name):
        return name
    raise Failure(f"no project {name} is known", "list them with: lmtb workspaces", reason="unknown_project")


def user_settings() -> Settings:
    """The settings of `config.toml` and of this environment.

    Raises:
        Failure: the configuration cannot be used.
    """
    try:
        return load_settings(user_paths().config_file, os.environ, {})
    except ConfigurationError as error:
        raise Failure(
            f"the configuration cannot be used: {error}",
            "correct it, then run this again",
            exit_code=exit_codes.HOPELESS,
            reason="configuration",
        ) from error

"""The verb up: starts the manager in the background, or waits for one that starts, with progress."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

import click

from lm_tools_bridge.terminal.command_line import Failure, examples, json_option, print_json, say
from lm_tools_bridge.terminal.views import Note, Tone
from lm_tools_bridge.terminal.waiting import waiting
from lm_tools_bridge.text.printable import printable
from manager import __version__, exit_codes
from manager.cli.output.manager_access import explained, user_paths
from manager.cli.service import service_manager as service_files
from manager.client import Control, ManagerFault, NoManager
from manager.features import offer_first_steps
from manager.status_reading import format_log_line, parse_log_line
from manager.stdio_bridge.manager_start import UNIT, ManagerStarter

# Shorter than what a person notices: a start that is over is told at once.
_PAUSE_S: Final = 0.02
# A start that is over before says nothing of its progress.
_REPORT_AFTER_S: Final = 0.5
# Slow enough to read, quick enough to show that the start goes on.
_REPORT_EVERY_S: Final = 2.0
# The reason of a failed start is among the last lines, and they fit on a screen.
_LOG_LINES: Final = 15
# Holds that many lines, each with a traceback.
_LOG_BYTES: Final = 64 * 1024


class Attempt:
    """Starts a manager and waits for it, or only waits for one."""

    def __init__(self, starter: ManagerStarter, timeout: float) -> None:
        self._starter = starter
        self._timeout = timeout
        self._began = time.monotonic()
        self._report_at = self._began + _REPORT_AFTER_S
        self._log_size = _size(starter.log)

    def start(self, control: Control) -> dict[str, Any]:
        """The status of the manager, as soon as it answers. A manager that somebody else starts will do.

        Raises:
            Failure: it does not start, or not in time.
        """
        return self.wait(lambda: answer(control), lambda: "starting the manager", self._start)

    def wait(
        self,
        ask: Callable[[], dict[str, Any] | None],
        what: Callable[[], str],
        act: Callable[[], str | None] = lambda: None,
    ) -> dict[str, Any]:
        """The answer of `ask`, as soon as there is one.

        Args:
            what: what is waited for, for people.
            act: called before each wait; returns why it is hopeless.

        Raises:
            Failure: it is hopeless, or takes too long.
        """
        with waiting(what()) as tell:
            while (answer := ask()) is None:
                now = time.monotonic()
                if problem := act():
                    raise self.failure(problem)
                if now - self._began >= self._timeout:
                    raise self.failure(f"the manager does not answer after {self._timeout:g} s")
                if now >= self._report_at:
                    self._report(now, what(), tell)
                time.sleep(_PAUSE_S)
        return answer

    def _start(self) -> str | None:
        return self._starter.start(time.monotonic())

    def _report(self, now: float, what: str, tell: Callable[[str], None]) -> None:
        self._report_at = now + _REPORT_EVERY_S
        tell(what)
        if not sys.stderr.isatty():  # a terminal has a spinner
            say(f"{what} ... {now - self._began:.0f} s", err=True)
        if self._starter.is_service and service_files.state(UNIT) == "failed":
            raise self.failure(f"systemd could not start {UNIT}")

    def failure(self, problem: str) -> Failure:
        """The failure, with the last lines of the log or the way to them."""
        if self._starter.is_service:
            step = f"read why with: journalctl --user -u {UNIT} -n 20"
            return Failure(problem, step, reason="not_started")
        lines = _tail(self._starter.log, self._log_size)
        if (refused := _refusal(lines)) is not None:
            return Failure(*refused, exit_code=exit_codes.FAILED, reason="not_started")
        message = "\n".join([problem, *(f"  {line}" for line in map(_readable, lines))])
        step = f"{'correct what the log says, or ' if lines else ''}look closer with: lmtb doctor"
        return Failure(message, step, exit_code=exit_codes.FAILED, reason="not_started")


def answer(control: Control, *, ignore_faults: bool = True) -> dict[str, Any] | None:
    """The status of the running manager; None if none answers."""
    try:
        return control.get("/status")
    except NoManager:
        return None
    except ManagerFault:
        if ignore_faults:  # it is starting or ending
            return None
        raise


def _size(file: Path) -> int:
    try:
        return file.stat().st_size
    except OSError:
        return 0


def _tail(file: Path, start: int) -> list[str]:
    """The last lines that were written since the file had `start` bytes, or since it was replaced."""
    try:
        with file.open("rb") as opened:
            size = os.fstat(opened.fileno()).st_size
            begin = start if start <= size else 0
            opened.seek(max(begin, size - _LOG_BYTES))
            text = opened.read().decode(errors="replace")
    except OSError:
        return []
    return text.splitlines()[-_LOG_LINES:]


def _readable(line: str) -> str:
    return printable(format_log_line(line))


_STEP: Final = "Next step: "


def _refusal(lines: Sequence[str]) -> tuple[str, str] | None:
    """Why the manager refused to start and what helps, if it said so: its log has both."""
    for before, line in zip(["", *lines], lines, strict=False):
        fields = parse_log_line(line)
        if fields.get("event") == "start.refused":
            return printable(str(fields.get("why"))), printable(str(fields.get("hint")))
        if line.startswith(_STEP) and before:
            return printable(before), printable(line.removeprefix(_STEP))
    return None


@click.command(epilog=examples("lmtb up"))
@click.option(
    "--timeout",
    type=click.FloatRange(min=0),
    default=100.0,
    show_default=True,
    help="Longest wait, in seconds. A port that was just released can be blocked for 75 s.",
)
@json_option
def up(timeout: float, as_json: bool) -> None:
    """Start the manager in the background and wait until it answers.

    If the service is installed, systemd starts it. Otherwise the manager runs on its own, and ends with
    `lmtb stop` or with the machine. Succeeds if a manager runs already. The first time, at a terminal, it
    offers what `lmtb client add --all` does.
    """
    paths = user_paths()
    control = Control(paths.control_socket)
    with explained():
        status = answer(control, ignore_faults=False)
    if status is not None:
        _report(status, as_json=as_json, started=False)
        return
    starter = ManagerStarter(paths)
    is_first = not paths.state_file.exists()
    with explained():
        status = Attempt(starter, timeout).start(control)
    _report(status, as_json=as_json, started=True, starter=starter)
    if is_first and not as_json and sys.stdin.isatty() and sys.stdout.isatty():
        offer_first_steps()


def _report(
    status: dict[str, Any], *, as_json: bool, started: bool, starter: ManagerStarter | None = None
) -> None:
    address, pid, version = (status.get(name) for name in ("address", "pid", "version"))
    if as_json:
        print_json({"started": started, "address": address, "pid": pid, "version": version})
        return
    head = "the manager is ready" if started else "the manager is already running"
    say(Note(f"{head} at {address} (pid {pid}, version {version})", Tone.GOOD))
    if version != __version__:
        say(f"this program is version {__version__}; to change over: lmtb restart")
    say("Connect your agents: lmtb client add --all     Any other client: lmtb client show other")
    say("State: lmtb status     Stop: lmtb stop")
    if starter is not None:
        say(f"Log: {f'journalctl --user -u {UNIT}' if starter.is_service else starter.log}")

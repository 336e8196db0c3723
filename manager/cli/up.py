"""The verb up: starts the manager in the background and waits until it answers."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any, Final

import click

from host.command_line import Failure, json_option, print_json
from host.printable import printable
from manager import __version__, exit_codes
from manager.cli.output.manager_access import explained, user_paths
from manager.cli.service import systemctl
from manager.client import Control, ManagerFault, NoManager
from manager.documentation import page
from manager.stdio_bridge.manager_start import UNIT, ManagerStarter

_PAUSE_S: Final = 0.02
_REPORT_AFTER_S: Final = 0.5
_REPORT_EVERY_S: Final = 2.0
_LOG_LINES: Final = 15
_LOG_BYTES: Final = 64 * 1024


@click.command()
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
    `lmtb stop` or with the machine. Succeeds if a manager runs already.
    """
    paths = user_paths()
    control = Control(paths.control_socket)
    with explained():
        status = _answer(control, ignore_faults=False)
    if status is not None:
        _report(status, as_json=as_json, started=False)
        return
    starter = ManagerStarter(paths)
    attempt = _Attempt(starter, timeout, shows_progress=not as_json)
    with explained():
        status = attempt.wait(control)
    _report(status, as_json=as_json, started=True, starter=starter)


class _Attempt:
    """Starts a manager and waits for it."""

    def __init__(self, starter: ManagerStarter, timeout: float, *, shows_progress: bool) -> None:
        self._starter = starter
        self._timeout = timeout
        self._shows_progress = shows_progress
        self._began = time.monotonic()
        self._report_at = self._began + _REPORT_AFTER_S
        self._log_size = _size(starter.log)

    def wait(self, control: Control) -> dict[str, Any]:
        """The status of the manager, as soon as it answers. A manager that somebody else starts will do."""
        while (status := _answer(control)) is None:
            now = time.monotonic()
            if problem := self._starter.start(now):
                raise self._failure(problem)
            if now - self._began >= self._timeout:
                raise self._failure(f"the manager does not answer after {self._timeout:g} s")
            if now >= self._report_at:
                self._report(now)
            time.sleep(_PAUSE_S)
        return status

    def _report(self, now: float) -> None:
        self._report_at = now + _REPORT_EVERY_S
        if self._shows_progress:
            click.echo(f"starting the manager ... {now - self._began:.0f} s", err=True)
        if self._starter.is_service and systemctl.state(UNIT) == "failed":
            raise self._failure(f"systemd could not start {UNIT}")

    def _failure(self, problem: str) -> Failure:
        if self._starter.is_service:
            step = f"read why with: journalctl --user -u {UNIT} -n 20"
            return Failure(problem, step, reason="not_started")
        lines = _tail(self._starter.log, self._log_size)
        said = "\n".join([problem, *(f"  {line}" for line in lines)])
        step = "correct what the log says, or look closer with: lmtb doctor"
        return Failure(said, step, exit_code=exit_codes.FAILED, reason="not_started")


def _answer(control: Control, *, ignore_faults: bool = True) -> dict[str, Any] | None:
    """The status of the running manager; None if none answers."""
    try:
        return control.get("/status")
    except NoManager:
        return None
    except ManagerFault:
        if ignore_faults:  # it is starting or ending
            return None
        raise


def _report(
    status: dict[str, Any], *, as_json: bool, started: bool, starter: ManagerStarter | None = None
) -> None:
    address, pid, version = (status.get(name) for name in ("address", "pid", "version"))
    if as_json:
        print_json({"ok": True, "started": started, "address": address, "pid": pid, "version": version})
        return
    head = "the manager is ready" if started else "the manager is already running"
    click.echo(printable(f"{head} at {address} (pid {pid}, version {version})"))
    if version != __version__:
        step = "lmtb stop --keep-servers, then lmtb up"
        click.echo(f"this program is version {__version__}; to change over: {step}")
    log = ""
    if starter is not None:
        source = f"journalctl --user -u {UNIT}" if starter.is_service else str(starter.log)
        log = f"     Log: {printable(source)}"
    click.echo(printable(f"Connect your clients: lmtb client add; for others see {page('clients')}"))
    click.echo(f"State: lmtb status     Stop: lmtb stop{log}")


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
    return [printable(line) for line in text.splitlines()][-_LOG_LINES:]

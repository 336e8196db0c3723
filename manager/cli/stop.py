"""The verb stop: stops the manager and waits until its process and its servers have ended.

A manager that serves its port while its control socket is gone makes the socket again soon; the verb waits.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import click

from lm_tools_bridge.machine.process_ending import has_ended, open_pidfd
from lm_tools_bridge.terminal.command_line import Failure, examples, json_option, print_json, say
from lm_tools_bridge.terminal.waiting import waiting
from manager import exit_codes
from manager.cli.output.manager_access import explained, user_paths
from manager.client import Control, ControlRefusal, ManagerFault, NoManager
from manager.configuration.paths import Paths
from manager.status_reading import objects

# The manager looks every 2 s whether its socket is gone (`housekeeping.py`); a busy one needs several
# looks.
WAIT_S: Final = 10.0
# Shorter than what a person notices.
_MISSING_SOCKET_PAUSE_S: Final = 0.1
# The health page answers in milliseconds; a program that does not in this time is not a manager that
# serves.
_ANSWER_S: Final = 2.0


def wait_for_control_socket(paths: Paths, *, quiet: bool) -> bool:
    """Whether the manager's control socket came back; False at once if no manager serves the port.

    Args:
        quiet: whether to print nothing while waiting.

    Raises:
        Failure: a manager serves, but its control socket stays away.
    """
    if not _serves_port(paths):
        return False
    if not quiet:
        click.echo("the manager's control socket is gone; the manager makes it again within seconds ...")
    deadline = time.monotonic() + WAIT_S
    control = Control(paths.control_socket)
    while time.monotonic() < deadline:
        try:
            control.get("/health")
        except (NoManager, ManagerFault):
            time.sleep(_MISSING_SOCKET_PAUSE_S)
        else:
            return True
    raise Failure(
        f"a manager serves the configured port, but not {paths.control_socket}",
        "see which program it is: lmtb doctor",
        reason="no_control_socket",
    )


def _serves_port(paths: Paths) -> bool:
    """Whether a manager of this user answers on the configured port; it refuses all other users."""
    import http.client  # 20 ms that only this case needs

    from manager.configuration.settings import ConfigurationError, load_settings

    try:
        port = load_settings(paths.config_file, os.environ, {}).http_port
    except ConfigurationError:
        return False
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=_ANSWER_S)
    try:
        connection.request("GET", "/mcp/health")
        response = connection.getresponse()
        return response.status == 200 and response.read(100) == b'{"ok":true}'
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


# Shorter than what a person notices: most stops are over after a few looks.
_PAUSE_S: Final = 0.05
# Calls in flight may hold a stop for long; a line more often would only fill the screen.
_REPORT_EVERY_S: Final = 3.0
_UNIT: Final = "lm-tools-bridge.socket"


@click.command(epilog=examples("lmtb stop"))
@click.option("--keep-servers", is_flag=True, help="Leave workspace servers running for the next manager.")
@click.option(
    "--timeout",
    type=click.FloatRange(min=0),
    default=60.0,
    show_default=True,
    help="Longest wait, in seconds.",
)
@json_option
def stop(keep_servers: bool, timeout: float, as_json: bool) -> None:
    """Stop the manager and wait until it is gone.

    Calls in flight finish first. Succeeds if no manager runs.
    """
    paths = user_paths()
    control = Control(paths.control_socket)
    if not _is_there(control) and not wait_for_control_socket(paths, quiet=as_json):
        _report(as_json, stopped=False, text="no manager is running; nothing to stop")
        return
    with explained():
        status = control.get("/status")
        running = [] if keep_servers else objects(control.get("/list"), "instances")
    watched = [WatchedProcess(int(status["pid"]))]
    watched += [
        WatchedProcess(server["pid"])
        for server in running
        if server.get("owner") == "manager" and server.get("pid")
    ]
    started = time.monotonic()
    with explained():
        control.post("/shutdown", {"reason": "lmtb stop", "keepServers": keep_servers})
    with waiting("stopping the manager") as tell:
        is_gone = _wait_until_gone(control, watched, started + timeout, tell)
    if not is_gone:
        raise Failure(
            f"the manager (pid {watched[0].pid}) is still running after {timeout:g} s",
            f"wait and try again, or end it with: kill -KILL {watched[0].pid}",
            reason="still_running",
        )
    _report(
        as_json, stopped=True, pid=watched[0].pid, text=f"stopped after {time.monotonic() - started:.1f} s"
    )
    if _unit_installed():
        say(
            f"systemd starts it again at the next connection; to stop for good: systemctl --user stop {_UNIT}"
        )


class WatchedProcess:
    """A process that is watched until it is gone; with a pidfd, no later process is taken for it."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self._pidfd = open_pidfd(pid)
        self._gone = False

    def is_gone(self) -> bool:
        """Whether it has ended; one that its parent has not asked about yet has ended, too."""
        if self._gone:
            return True
        if self._pidfd is not None:
            self._gone = has_ended(self._pidfd)
            if self._gone:
                os.close(self._pidfd)
            return self._gone
        try:
            os.kill(self.pid, 0)
        except ProcessLookupError:
            self._gone = True
        except PermissionError:
            pass
        return self._gone


def _wait_until_gone(
    control: Control, watched: list[WatchedProcess], deadline: float, tell: Callable[[str], None]
) -> bool:
    report_at = time.monotonic() + _REPORT_EVERY_S
    while not (all(process.is_gone() for process in watched) and not _answers(control)):
        now = time.monotonic()
        if now >= deadline:
            return False
        if now >= report_at:
            report_at = now + _REPORT_EVERY_S
            text = f"still stopping{_what_remains(control)}"
            if sys.stderr.isatty():
                tell(text)
            else:
                say(f"{text} ...")
        time.sleep(_PAUSE_S)
    return True


def _is_there(control: Control) -> bool:
    try:
        with explained():
            control.get("/health")
    except Failure as failure:
        if failure.exit_code != exit_codes.NO_MANAGER:
            raise
        return False
    return True


def _answers(control: Control) -> bool:
    try:
        control.get("/health")
    except (NoManager, ManagerFault):
        return False
    except ControlRefusal:
        return True
    return True


def _what_remains(control: Control) -> str:
    """What the manager is waiting for, as far as it still says so."""
    try:
        status: dict[str, Any] = control.get("/mcp/status")
    except (NoManager, ManagerFault, ControlRefusal):
        return ", its servers are ending"
    calls = sum(
        instance["inFlight"]
        for instance in objects(status, "instanceDetails")
        if isinstance(instance.get("inFlight"), int)
    )
    return f", {calls} calls in flight" if calls else ""


def _report(as_json: bool, *, stopped: bool, text: str, pid: int | None = None) -> None:
    if as_json:
        print_json({"stopped": stopped, "pid": pid})
    else:
        say(text)


def _unit_installed() -> bool:
    config = os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config"
    return Path(config, "systemd", "user", _UNIT).exists()

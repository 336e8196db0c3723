"""The verb up: starts the manager in the background and waits until it answers."""

from __future__ import annotations

from typing import Any

import click

from lm_tools_bridge.terminal.command_line import json_option, print_json, say
from lm_tools_bridge.terminal.tones import Tone
from lm_tools_bridge.terminal.views import Note
from manager import __version__
from manager.cli.lifecycle.starting import Attempt, answer
from manager.cli.output.manager_access import explained, user_paths
from manager.client import Control
from manager.stdio_bridge.manager_start import UNIT, ManagerStarter


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
        status = answer(control, ignore_faults=False)
    if status is not None:
        _report(status, as_json=as_json, started=False)
        return
    starter = ManagerStarter(paths)
    with explained():
        status = Attempt(starter, timeout).start(control)
    _report(status, as_json=as_json, started=True, starter=starter)


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

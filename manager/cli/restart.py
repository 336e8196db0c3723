"""The verb restart: changes over to the installed version, with sessions and running servers kept."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Mapping
from typing import Any, Final

import click

from lm_tools_bridge.terminal.command_line import Failure, examples, json_option, print_json, say
from lm_tools_bridge.text.printable import printable
from manager import __version__
from manager.cli.output.manager_access import explained, user_paths
from manager.cli.service import facts as service_facts
from manager.cli.stop import WatchedProcess
from manager.cli.up import Attempt, answer
from manager.client import Control, ControlRefusal, ManagerFault, NoManager
from manager.status_reading import objects
from manager.stdio_bridge.manager_start import ManagerStarter

CHECK_S: Final = 45.0
"""Longest answer to the request: the manager first checks that the installed program can be loaded."""


@click.command(epilog=examples("lmtb restart", "lmtb restart --servers"))
@click.option("--servers", is_flag=True, help="Start workspace servers anew, too, instead of keeping them.")
@click.option(
    "--timeout",
    type=click.FloatRange(min=0),
    default=100.0,
    show_default=True,
    help="Longest wait, in seconds. Calls in flight may take 30 s.",
)
@json_option
def restart(servers: bool, timeout: float, as_json: bool) -> None:
    """Start the installed version of the manager; sessions and running servers are kept.

    Use it after an upgrade. Calls in flight finish first, new ones wait. Works however the manager was
    started; starts it if none runs. If the installed program cannot be loaded, the running manager goes on.
    """
    paths = user_paths()
    control = Control(paths.control_socket)
    with explained():
        before = answer(control, ignore_faults=False)
    starter = ManagerStarter(paths)
    starter.is_service = before is not None and before.get("startedBy") == "service"
    attempt, began = Attempt(starter, timeout), time.monotonic()
    if before is None:
        after = attempt.start(control)
    elif before.get("prefix") == sys.prefix:
        after = _in_place(control, Control(paths.control_socket, CHECK_S), before, attempt, keep=not servers)
    else:
        _refuse_others(before)
        after = _by_stopping(control, before, attempt, keep=not servers)
    _report(before, after, time.monotonic() - began, as_json=as_json)


def _in_place(
    control: Control, patient: Control, before: dict[str, Any], attempt: Attempt, *, keep: bool
) -> dict[str, Any]:
    """The manager's process becomes the installed program."""
    process = WatchedProcess(int(before["pid"]))
    with explained():
        try:
            patient.post("/restart", {"reason": "lmtb restart", "keepServers": keep})
        except ControlRefusal as refusal:
            step = "install it again, then: lmtb restart; the manager goes on as before"
            raise Failure(str(refusal), step, reason=refusal.reason) from refusal

    def restarted() -> dict[str, Any] | None:
        # an earlier version may have had its runtime folder elsewhere
        status = answer(Control(user_paths().control_socket))
        return status if status and status.get("startedAt") != before.get("startedAt") else None

    def end_reason() -> str | None:
        return "the manager ended instead of restarting" if process.is_gone() else None

    return attempt.wait(restarted, lambda: f"restarting{_calls(control)}", end_reason)


def _by_stopping(control: Control, before: dict[str, Any], attempt: Attempt, *, keep: bool) -> dict[str, Any]:
    """The manager of another installation ends, then this program starts."""
    process = WatchedProcess(int(before["pid"]))
    with explained():
        control.post("/shutdown", {"reason": "lmtb restart", "keepServers": keep})
    attempt.wait(lambda: {} if process.is_gone() else None, lambda: f"stopping{_calls(control)}")
    return attempt.start(Control(user_paths().control_socket))


def _refuse_others(before: dict[str, Any]) -> None:
    """Fail where this program would not be what starts next."""
    where = printable(before.get("prefix") or "another place")
    text = f"the manager (pid {before.get('pid')}) runs from another installation, in {where}"
    if before.get("startedBy") == "foreground":
        step = "stop it with Ctrl-C where it was started, then: lmtb up; sessions go on"
        raise Failure(text, step, reason="other_installation")
    if before.get("startedBy") == "service":
        situation = service_facts.gather().seen
        if dict(situation.found) != dict(situation.wanted):
            step = "let the service run this program: lmtb service install, then: lmtb restart"
            raise Failure(f"{text}, as the service", step, reason="other_installation")


def _calls(control: Control) -> str:
    """What the manager waits for, as far as it says so."""
    try:
        instances = objects(control.get("/mcp/status"), "instanceDetails")
    except (NoManager, ManagerFault, ControlRefusal):
        return ""
    count = sum(instance["inFlight"] for instance in instances if isinstance(instance.get("inFlight"), int))
    return f", {count} calls in flight" if count else ""


def _report(before: dict[str, Any] | None, after: dict[str, Any], seconds: float, *, as_json: bool) -> None:
    with explained():
        status = Control(user_paths().control_socket).get("/mcp/status")
    servers = objects(status, "instanceDetails")
    report = {
        "started": before is None,
        "from": before and before.get("version"),
        "version": after.get("version"),
        "address": after.get("address"),
        "pid": after.get("pid"),
        "sessions": status.get("sessions"),
        "servers": len(servers),
        "outdatedServers": sum(bool(server.get("outdated")) for server in servers),
    }
    if as_json:
        print_json(report)
    else:
        say(*(printable(line) for line in _lines(report, seconds)))


def _lines(report: Mapping[str, Any], seconds: float) -> Iterator[str]:
    """The report for people."""
    old, new, outdated = report["from"], report["version"], report["outdatedServers"]
    where = f"at {report['address']} (pid {report['pid']}, {seconds:.1f} s)"
    if report["started"]:
        yield f"no manager was running; started version {new} {where}"
        return
    change = f"{old} → {new}" if old != new else f"version {new}, as before"
    yield f"restarted: {change}, {where}"
    sessions = _count_words(report["sessions"], "session")
    yield f"kept: {sessions}, {_count_words(report['servers'], 'workspace server')}"
    if outdated:
        servers = _count_words(outdated, "server")
        yield f"{servers} of another version: replaced when idle; at once with: lmtb restart --servers"
    if new != __version__:
        yield f"this program is version {__version__}; install one of both anew"


def _count_words(number: object, what: str) -> str:
    return f"1 {what}" if number == 1 else f"{number} {what}s"

"""The verb service: installs, uninstalls and describes the service that starts the manager at login."""

from __future__ import annotations

import click

from lm_tools_bridge.machine import private_files
from lm_tools_bridge.machine.private_files import UnsafePathError
from lm_tools_bridge.terminal.command_line import (
    Failure,
    SubVerbs,
    confirm,
    examples,
    json_option,
    print_json,
    say,
)
from lm_tools_bridge.terminal.views import Fact, FactList
from manager import __version__, exit_codes
from manager.cli.service import service_manager as service_files
from manager.cli.service.facts import Facts, gather
from manager.cli.service.plan import (
    Command,
    Plan,
    Refused,
    Supervisor,
    installation,
    removal,
    step_after_failure,
)
from manager.cli.service.service_manager import Outcome

_yes = click.option("--yes", "-y", is_flag=True, help="Do not ask.")


@click.group(cls=SubVerbs, epilog=examples("lmtb service install", "lmtb service status"))
def service() -> None:
    """Start the manager at login, with systemd (Linux) or launchd (macOS, untested)."""


@service.command()
@_yes
@json_option
def install(yes: bool, as_json: bool) -> None:
    """Install and start the service. Shows what is written, and asks.

    The service runs this very program. Install again after moving it or after changing http_port.
    """
    plan = installation(_facts().seen)
    if isinstance(plan, Refused):
        raise Failure(plan.message, plan.next_step, reason=plan.reason)
    _change(plan, "Install the service?", yes=yes, as_json=as_json)
    if not plan.is_empty:
        say("the service is installed and active; check with: lmtb service status")


@service.command()
@_yes
@json_option
def uninstall(yes: bool, as_json: bool) -> None:
    """Stop the service and remove its files. Your settings and secrets stay."""
    plan = removal(_facts().seen)
    _change(plan, "Remove the service?", yes=yes, as_json=as_json)
    if not plan.is_empty:
        say("the service is removed; to start the manager without it: lmtb up")


@service.command()
@json_option
def status(as_json: bool) -> None:
    """Show whether the service is installed, enabled and running, and which version runs."""
    facts = _facts()
    situation = facts.seen
    version = None if facts.status is None else facts.status.get("version")
    if as_json:
        print_json(
            {
                "supervisor": situation.supervisor.value,
                "installed": bool(situation.found) and len(situation.found) == len(situation.wanted),
                "current": dict(situation.found) == dict(situation.wanted),
                "enabled": situation.is_enabled,
                "active": situation.is_active,
                "manager": facts.status,
                "version": version,
                "sameVersion": version == __version__,
            }
        )
        return
    say(FactList([Fact(name, text) for name, text in _lines(facts, version)]))


def carry_out(plan: Plan) -> None:
    """Do what a plan says, in its order.

    Raises:
        Failure: a file cannot be written or removed, or a command after that fails.
    """
    for command in plan.before:
        # the service may be gone or unknown already; what remains is removed all the same
        outcome = _run(command)
        if not outcome.ok:
            say(f"warning: {' '.join(command)}: {outcome.text}", err=True)
    try:
        for path, content in plan.writes:
            path.parent.mkdir(parents=True, exist_ok=True)
            private_files.write(path, content, 0o644)
        for path in plan.removals:
            path.unlink(missing_ok=True)
    except OSError as error:
        raise Failure(f"{error.filename}: {error.strerror}", "make its folder writable") from error
    for command in plan.after:
        outcome = _run(command)
        if not outcome.ok:
            text = f"{' '.join(command)} failed: {outcome.text or 'no reason given'}"
            raise Failure(text, step_after_failure(command), reason="not_started")


def _run(command: Command) -> Outcome:
    """Run a command, and say so: it can wait for the manager's port, or for calls in flight."""
    say(f"{' '.join(command)} ...", err=True)
    return service_files.run(command)


def show(plan: Plan) -> None:
    """Print what a plan will do."""
    for path, content in plan.writes:
        say(f"write {path}:")
        for line in content.decode().splitlines():
            if line and not line.startswith("#"):
                say(f"    {line}")
    for command in plan.before:
        say(f"run {' '.join(command)}")
    for path in plan.removals:
        say(f"remove {path}")
    for command in plan.after:
        say(f"run {' '.join(command)}")
    for note in plan.notes:
        say(f"note: {note}" if not plan.is_empty else note)


def _change(plan: Plan, question: str, *, yes: bool, as_json: bool) -> None:
    """Show a plan, ask, and carry it out."""
    show(plan)
    if not (plan.is_empty or yes or confirm(question, "this changes the service", piped=True)):
        raise Failure("nothing was changed", "run it again when you have decided", reason="declined")
    if not plan.is_empty:
        carry_out(plan)
    if as_json:
        print_json({"result": "unchanged" if plan.is_empty else "done", **plan_json(plan)})


def plan_json(plan: Plan) -> dict[str, object]:
    """A plan for programs."""
    return {
        "written": [str(path) for path, _ in plan.writes],
        "removed": [str(path) for path in plan.removals],
        "commands": [list(command) for command in (*plan.before, *plan.after)],
        "notes": list(plan.notes),
    }


def _facts() -> Facts:
    try:
        return gather()
    except UnsafePathError as error:
        text = f"{error.path} {error.reason}"
        raise Failure(text, error.hint, exit_code=exit_codes.HOPELESS, reason="unsafe_path") from error


def _lines(facts: Facts, version: object) -> list[tuple[str, str]]:
    situation = facts.seen
    if situation.supervisor in {Supervisor.NONE, Supervisor.NO_USER_SYSTEMD}:
        first = f"cannot be asked here ({situation.supervisor.value}); without it: lmtb up"
    else:
        first = situation.supervisor.value + (
            " (untested)" if situation.supervisor is Supervisor.LAUNCHD else ""
        )
    lines = [("service", first), ("installed", _installed(facts))]
    lines.append(("enabled", "yes, it starts at login" if situation.is_enabled else "no"))
    lines.append(("active", "yes" if situation.is_active else "no"))
    lines.append(("manager", situation.manager or "none is running"))
    if version is not None:
        same = "the same version as this program" if version == __version__ else _other_version()
        lines.append(("version", f"{version}, {same}"))
    return lines


def _installed(facts: Facts) -> str:
    situation = facts.seen
    if not situation.found:
        return "no; install it with: lmtb service install"
    folder = next(iter(situation.found)).parent
    if len(situation.found) < len(situation.wanted):
        return f"in part, in {folder}; complete it with: lmtb service install"
    if dict(situation.found) != dict(situation.wanted):
        return f"in {folder}, but not as this program would write it; renew it with: lmtb service install"
    return f"in {folder}, for this program"


def _other_version() -> str:
    return f"but this program is {__version__}; to change over: lmtb restart"

"""The verb record: begins and stops recording the contents of calls, and removes them."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any, Final

import click
import msgspec

from lm_tools_bridge.machine.disks import worded
from lm_tools_bridge.machine.private_files import UnsafePathError
from lm_tools_bridge.recorder import retention
from lm_tools_bridge.recorder.cli.options import OFF, are_recorded, open_log, project_named, step_after
from lm_tools_bridge.recorder.contents import ALL, ContentRule, drop_rules, read_rules, set_rule
from lm_tools_bridge.recorder.database import open_to_write
from lm_tools_bridge.terminal.command_line import (
    Failure,
    Length,
    SubVerbs,
    confirm,
    examples,
    json_option,
    print_json,
    say,
)
from lm_tools_bridge.terminal.views import Fact, FactList, Note, Tone
from manager.cli import completion
from manager.cli.output.manager_access import user_paths

_EVERYWHERE: Final = "all projects"
_project_option = click.option(
    "--project",
    metavar="ID",
    help="Only this project: its name, its id, or a folder in it, such as `.`. Default: all.",
    shell_complete=completion.workspaces,
)


@click.group(cls=SubVerbs, epilog=examples("lmtb record on --contents", "lmtb record status"))
def record() -> None:
    """Record arguments and results of calls, too, for a while.

    That a call took place is always recorded (lmtb calls); what was in it only if you ask for it here.
    """


@record.command()
@click.option("--contents", is_flag=True, required=True, help="Record arguments and results.")
@_project_option
@click.option("--for", "length", type=Length(), help="Stop after this time, such as 1h; default: never.")
@json_option
def on(contents: bool, project: str | None, length: float | None, as_json: bool) -> None:
    """Begin to record arguments and results. Secrets that are recognised are hidden."""
    if not are_recorded():
        raise Failure(
            f"nothing would be recorded: {OFF}",
            "set record_calls = true in config.toml, then run: lmtb restart",
            reason="recording_off",
        )
    project = None if project is None else project_named(project, _known())
    made_ms = round(time.time() * 1000)
    until = None if length is None else made_ms + round(length * 1000)
    with _database() as database:
        set_rule(database, ContentRule(project or ALL, made_ms, until))
    if as_json:
        print_json({"contents": contents, "project": project, "until": until})
        return
    end = "until you stop it: lmtb record off" if until is None else f"until {_clock(until)}"
    say(f"arguments and results of {project or _EVERYWHERE} are recorded {end}")
    say(Note("Secrets that look like ordinary words are not recognised. Remove all with: lmtb record purge"))


@record.command()
@_project_option
@json_option
def off(project: str | None, as_json: bool) -> None:
    """Stop recording arguments and results. What was recorded stays until it expires or is purged."""
    with _database() as database:
        rules = read_rules(database)
        if project is not None:
            project = project_named(project, [*_known(), *(rule.project for rule in rules)])
        count = drop_rules(database, project)
        rest = _active(read_rules(database))
    if as_json:
        print_json({"stopped": count, "rules": [_rule(rule) for rule in rest]})
    elif not count:
        say("arguments and results were not recorded")
    else:
        say("arguments and results are no longer recorded" + (f", except of {_names(rest)}" if rest else ""))


@record.command()
@json_option
def status(as_json: bool) -> None:
    """Show what is recorded, since when, and how much it is."""
    with open_log() as log:
        coverage = None if log is None else log.coverage()
    rules: list[ContentRule] = []
    if coverage is not None:
        with _database() as database:
            rules = _active(read_rules(database))
    if as_json:
        held = {} if coverage is None else msgspec.to_builtins(coverage)
        print_json(
            {
                "file": str(user_paths().calls_file),
                "held": held or None,
                "rules": [_rule(rule) for rule in rules],
            }
        )
        return
    facts = [
        Fact(
            "contents",
            f"recorded for {_names(rules)}" if rules else "not recorded",
            Tone.WARN if rules else None,
        )
    ]
    if coverage is not None:
        since = "" if coverage.oldest is None else f" since {_clock(coverage.oldest)}"
        facts.insert(0, Fact("calls", f"{coverage.calls:,}{since}"))
        facts.append(Fact("kept contents", f"of {coverage.contents:,} calls"))
        facts.append(Fact("size", f"{coverage.bytes / 1e6:.1f} MB"))
    say(FactList(facts), "in the file", f"  {user_paths().calls_file}")  # alone, to be copied whole


@record.command()
@click.option("--all", "everything", is_flag=True, help="Remove the records of calls, too.")
@click.option("--yes", "-y", is_flag=True, help="Do not ask.")
@json_option
def purge(everything: bool, yes: bool, as_json: bool) -> None:
    """Remove all recorded arguments and results; nothing of them stays in the file."""
    what = "all recorded calls" if everything else "all recorded arguments and results"
    if not yes and not confirm(f"Remove {what}?", f"this removes {what}"):
        raise Failure("nothing was removed", "answer y, or give --yes", reason="declined")
    with _database() as database:
        calls, contents = retention.purge(database, calls=everything)
    if as_json:
        print_json({"calls": calls, "contents": contents})
    else:
        say(f"removed {calls:,} calls and the contents of {contents:,}")


def _known() -> Iterator[str]:
    """The projects that have a log or recorded calls."""
    yield from completion.logged_workspaces()
    with open_log() as log:
        yield from () if log is None else log.names("project")


@contextmanager
def _database() -> Iterator[sqlite3.Connection]:
    """The database, which is made if there is none; a running manager notices changes within a second."""
    path = user_paths().calls_file
    try:
        with closing(open_to_write(path)) as database:
            yield database
    except sqlite3.Error as error:
        raise Failure(f"{path} cannot be used: {error}", step_after(error), reason="unusable") from error
    except (OSError, UnsafePathError) as error:
        raise Failure(worded(error), "check with: lmtb doctor", reason="unusable") from error


def _active(rules: list[ContentRule]) -> list[ContentRule]:
    now = time.time() * 1000
    return [rule for rule in rules if rule.until is None or rule.until > now]


def _names(rules: list[ContentRule]) -> str:
    ends = ((rule.project or _EVERYWHERE, rule.until) for rule in rules)
    return ", ".join(name if until is None else f"{name} until {_clock(until)}" for name, until in ends)


def _rule(rule: ContentRule) -> dict[str, Any]:
    return {"project": rule.project or None, "until": rule.until}


def _clock(at_ms: int) -> str:
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(at_ms / 1000))

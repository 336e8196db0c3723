"""The verb replay: sends recorded calls again, and says how the results differ; dry unless told otherwise."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import groupby
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import click
import msgspec

from lm_tools_bridge.machine.own_token import own_headers
from lm_tools_bridge.recorder.cli.calls import existing
from lm_tools_bridge.recorder.cli.options import CallNumber, open_log, user_settings
from lm_tools_bridge.recorder.replay import (
    CONTENTS_STEP,
    Plan,
    RecordedCall,
    Replayed,
    read_file,
    recorded_call,
    renamed,
    send,
)
from lm_tools_bridge.terminal.command_line import (
    Failure,
    confirm,
    examples,
    is_json,
    json_option,
    print_json,
    say,
)
from lm_tools_bridge.terminal.views import Column, Kind, Note, Table, Tone
from lm_tools_bridge.text.printable import printable
from lm_tools_bridge.text.redaction import hidden_keys
from manager.cli.output.manager_access import mcp_address, user_paths

_COLUMNS: Final = (
    Column("CALL", Kind.NAME),
    Column("TOOL", Kind.NAME),
    Column("TO", Kind.TEXT),
    Column("WOULD", Kind.DETAIL),
)
_TONES: Final = {
    "same": Tone.GOOD, "different": Tone.BAD, "sent": Tone.GOOD, "skipped": Tone.WARN, "failed": Tone.BAD,
}  # fmt: skip


@click.command(epilog=examples("lmtb replay 17"))
@click.argument("numbers", metavar="[ID]...", nargs=-1, type=CallNumber())
@click.option(
    "--to", "address", metavar="URL", help="Send them to this MCP server instead of the project's tools."
)
@click.option(
    "--server", metavar="NAME", help="Send them to this server of the project instead, by its namespace."
)
@click.option(
    "--dry-run/--send",
    "is_dry",
    default=None,
    help="Only say what would be sent (default), or say it and send it.",
)
@click.option(
    "--assert",
    "file",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Take the calls of an exported file; with --send, fail if a result differs.",
)
@click.option(
    "--ignore",
    "ignored",
    multiple=True,
    metavar="POINTER",
    help="Do not compare this place, such as /structuredContent/time; * is any one member.",
)
@click.option("--yes", "-y", is_flag=True, help="Do not ask about tools that may change something.")
@json_option
def replay(
    *,
    numbers: tuple[int, ...],
    address: str | None,
    server: str | None,
    is_dry: bool | None,
    file: Path | None,
    ignored: tuple[str, ...],
    yes: bool,
    as_json: bool,
) -> None:
    """Send recorded calls again, and show how the results differ.

    Calls need recorded arguments: lmtb record on --contents. A recorded session is a test of your own MCP
    server: export it with lmtb calls export --contents --session DIGEST -o FILE, and run lmtb replay --assert
    FILE --to URL --send; the exit code is 1 if a result differs, a call could not be sent, or --send is
    missing.
    """
    calls = _chosen(numbers, file)
    if address is not None and server is not None:
        raise click.UsageError("--to and --server both say where to: give one of them")
    if address is not None and urlsplit(address).scheme not in ("http", "https"):
        raise click.UsageError("--to needs an address such as http://127.0.0.1:8000/mcp")
    if is_dry is not False:
        _show_plan(calls, address, server, as_json=as_json)
        if file is not None and is_dry is None:
            raise SystemExit(1)  # who forgot --send must not believe that the results are the same
        return
    if not (yes or as_json):
        _show_calls(calls, address, server)
    done = _replayed(calls, address, server, _permission(yes), ignored)
    _report(done, as_json=as_json)
    wrong = {"different", "failed"} if file is None else {"different", "failed", "skipped", "sent"}
    if any(replayed.outcome in wrong for replayed in done):
        raise SystemExit(1)


def _chosen(numbers: Sequence[int], file: Path | None) -> list[RecordedCall]:
    if (file is None) == (not numbers):
        raise click.UsageError("name recorded calls by their ids (lmtb calls), or a file with --assert")
    if file is not None:
        return read_file(file)
    with open_log() as log:
        pairs = [(existing(log, number), None if log is None else log.contents(number)) for number in numbers]
    return [recorded_call(str(call.id), call, contents) for call, contents in pairs]


def _permission(yes: bool) -> Callable[[str], bool]:
    """Asks once for each tool that does not say that it only reads."""
    answers: dict[str, bool] = {}

    def may_write(tool: str) -> bool:
        if yes:
            return True
        if tool not in answers:
            change = f"{tool} may change something"
            answers[tool] = confirm(f"{change}. Call it again?", change, step="repeat it with --yes")
        return answers[tool]

    return may_write


def _show_calls(calls: Sequence[RecordedCall], address: str | None, server: str | None) -> None:
    """Show every argument before anything is asked or sent: a file may come from somebody else."""
    for call in calls:
        place = address or call.project or "-"
        say(printable(f"{call.name}: {renamed(call.tool, server)} at {place} would {_would(call)}"))


def _show_plan(
    calls: Sequence[RecordedCall], address: str | None, server: str | None, *, as_json: bool
) -> None:
    if as_json:
        rows = [{"call": c.name, "tool": renamed(c.tool, server), "to": address or c.project,
                 "problem": c.problem, "arguments": c.arguments} for c in calls]  # fmt: skip
        print_json({"dryRun": True, "calls": rows})
        return
    cells = [
        (call.name, renamed(call.tool, server), address or call.project or "-", _would(call))
        for call in calls
    ]
    say(Table(_COLUMNS, cells), "", "Nothing was sent. To send it: add --send")
    if any(call.problem and "not recorded" in call.problem for call in calls):
        say(f"Next step: {CONTENTS_STEP}")


def _would(call: RecordedCall) -> str:
    if call.problem is not None:
        return f"be skipped: {call.problem}"
    return f"be called with {msgspec.json.encode(call.arguments).decode()}"


def _replayed(
    calls: Sequence[RecordedCall],
    address: str | None,
    server: str | None,
    may_write: Callable[[str], bool],
    ignored: Sequence[str],
) -> list[Replayed]:
    paths = user_paths()
    keys = hidden_keys(user_settings().record_hidden_keys)
    done = []
    for project, of_project in groupby(calls, key=lambda call: call.project):
        target = address or _project_address(project)
        own = {} if address else own_headers(paths.runtime_dir)
        plan = Plan(target, may_write, server, ignored, keys, own)
        done += send(list(of_project), plan)
    return done


def _project_address(project: str | None) -> str:
    if project is None:
        raise Failure("the call belongs to no project", "say where to with --to URL", reason="no_project")
    return f"{mcp_address().removesuffix('/mcp')}/w/{project}/mcp?show_all=true"


def _report(done: Sequence[Replayed], *, as_json: bool) -> None:
    if as_json or is_json():
        outcomes = [replayed.outcome for replayed in done]
        counts = {outcome: outcomes.count(outcome) for outcome in dict.fromkeys(outcomes)}
        print_json({"counts": counts, "calls": msgspec.to_builtins(list(done))})
        return
    for replayed in done:
        why = f": {replayed.why}" if replayed.why else ""
        say(Note(f"{replayed.call} {replayed.tool}: {replayed.outcome}{why}", _TONES[replayed.outcome]))
        for difference in replayed.differences:
            say(*(f"    {line}" for line in difference.lines()))
    same = sum(replayed.outcome == "same" for replayed in done)
    say("", f"{same} of {len(done)} results are the same as recorded")

"""The verb calls: lists and follows recorded calls; its subverbs show one, export and count."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import click
import msgspec

from lm_tools_bridge.recorder.call_log import Call, CallLog, Filter
from lm_tools_bridge.recorder.cli import views
from lm_tools_bridge.recorder.cli.options import (
    OFF,
    CallNumber,
    are_recorded,
    explained,
    filter_of,
    filter_options,
    open_log,
)
from lm_tools_bridge.recorder.server_output import output_during
from lm_tools_bridge.recorder.statistics import tool_figures
from lm_tools_bridge.terminal.command_line import (
    Failure,
    SubVerbs,
    examples,
    json_option,
    print_json,
    print_line,
    say,
)
from lm_tools_bridge.terminal.views import Note
from manager.cli.output.manager_access import user_paths
from manager.status_reading import format_log_line

POLL_S: Final = 0.25
"""The recorder writes twice a second (`FLUSH_S`): following adds half of that delay at most."""
_NONE: Final = "no calls yet; they are recorded while the manager runs"
_NO_MATCH: Final = "no recorded call matches"


@click.group(cls=SubVerbs, invoke_without_command=True, epilog=examples("lmtb calls", "lmtb calls --follow"))
@filter_options
@click.option(
    "-n", "--lines", type=click.IntRange(1, 100_000), default=20, help="Show at most this many calls."
)
@click.option("-f", "--follow", is_flag=True, help="Keep printing calls as they end, until Ctrl-C.")
@json_option
@click.pass_context
def calls(ctx: click.Context, /, *, lines: int, follow: bool, as_json: bool, **options: Any) -> None:
    """Show what agents did: the last calls, oldest first.

    With --json, `calls` lists them; with --follow, each is one line. Arguments and results are not recorded
    unless you ask for it: see lmtb record.
    """
    if ctx.invoked_subcommand is not None:
        return
    call_filter = filter_of(options)
    with open_log() as log:
        newest = [] if log is None else log.find(call_filter, lines)[::-1]
        last = 0 if log is None else log.last_id()
    if follow:
        _follow(call_filter, newest, last, as_json=as_json)
    elif as_json:
        print_json({"calls": [views.as_json(call) for call in newest]})
    elif newest:
        say(views.call_table(newest, time.time() * 1000))
    else:
        say(_none() if not last else _NO_MATCH)


def _none() -> str:
    return _NONE if are_recorded() else f"no calls yet: {OFF}"


def _follow(call_filter: Filter, newest: list[Call], last: int, *, as_json: bool) -> None:
    try:
        for call in itertools.chain(newest, _following(call_filter, last)):
            if as_json:
                print_line(views.as_json(call))
            else:
                say(views.call_line(call, time.time() * 1000))
    except KeyboardInterrupt:  # how the user ends it
        return


def _following(call_filter: Filter, last: int) -> Iterator[Call]:
    """Calls as they are recorded. Never ends; the database may appear, or be made again, meanwhile."""
    while True:
        time.sleep(POLL_S)
        with open_log(written_first=False) as log:
            newest = 0 if log is None else log.last_id()
            if log is None or newest == last:
                continue
            last = min(last, newest)
            yield from log.in_order(msgspec.structs.replace(call_filter, after=last))
            last = newest


@calls.command()
@click.argument("number", metavar="ID", type=CallNumber())
@json_option
def show(number: int, as_json: bool) -> None:
    """Show all that is known of one call, and what its server wrote to its log meanwhile."""
    with open_log() as log:
        call = existing(log, number)
        contents = None if log is None else log.contents(number)
    output = output_during(user_paths().logs_dir, call)
    if as_json:
        members = {
            "call": views.as_json(call),
            "contents": None if contents is None else views.as_json(contents),
        }
        print_json({**members, "serverOutput": msgspec.to_builtins(output)})
        return
    say(views.call_facts(call), *views.contents_views(contents))
    if output:
        say("", Note("The server's log at that time (>: from the call's source):"))
        say(*(f"{'>' if line.is_of_call else ' '} {format_log_line(line.text)}" for line in output))


def existing(log: CallLog | None, number: int) -> Call:
    """The call with this id; fails if there is none."""
    call = None if log is None else log.get(number)
    if call is None:
        raise Failure(
            f"there is no recorded call {number}", "list them with: lmtb calls", reason="no_such_call"
        )
    return call


@calls.command()
@filter_options
@json_option
def stats(*, as_json: bool, **options: Any) -> None:
    """Show for each tool and client: calls, errors, median and 99th percentile, bytes, estimated tokens.

    One token is counted for every 4 bytes of arguments and answers.
    """
    with open_log() as log:
        figures = [] if log is None else tool_figures(log.figures(filter_of(options)))
        has_any = log is not None and log.last_id() > 0
    if as_json:
        print_json({"tools": [views.as_json(row) for row in figures]})
    elif figures:
        say(views.figure_table(figures))
    else:
        say(_NO_MATCH if has_any else _none())


@calls.command()
@filter_options
@click.option("--contents", is_flag=True, help="With arguments and results, where they were recorded.")
@click.option(
    "--otlp", metavar="URL", help="Send them as spans to this OpenTelemetry address instead (extra: otel)."
)
@click.option("-o", "--output", type=click.Path(path_type=Path, dir_okay=False), help="Write to this file.")
@json_option
def export(*, contents: bool, otlp: str | None, output: Path | None, as_json: bool, **options: Any) -> None:
    """Export recorded calls, oldest first: one JSON object a line.

    With --contents, the lines can be replayed: lmtb replay --assert FILE.
    """
    with open_log() as log:
        matches = iter(()) if log is None else log.in_order(filter_of(options))
        if otlp is not None:
            from lm_tools_bridge.recorder.cli import otlp as exporter

            count = exporter.send(matches, otlp)
        elif output is not None:
            count = _write(output, log, matches, contents=contents)
        else:
            for call in matches:
                print_line(_exported(log, call, contents=contents))
            return
    if as_json:
        print_json({"exported": count})
    else:
        say(f"exported {count:,} {'call' if count == 1 else 'calls'}")


def _write(file: Path, log: CallLog | None, matches: Iterator[Call], *, contents: bool) -> int:
    """Write calls to a file that only this user can read. Returns how many."""
    from lm_tools_bridge.machine import private_files

    lines = [msgspec.json.encode(_exported(log, call, contents=contents)) for call in matches]
    with explained():
        private_files.write(file.absolute(), b"".join(line + b"\n" for line in lines))
    return len(lines)


def _exported(log: CallLog | None, call: Call, *, contents: bool) -> dict[str, Any]:
    call_contents = log.contents(call.id) if contents and log is not None else None
    return views.as_json(call) | ({} if call_contents is None else {"contents": views.as_json(call_contents)})

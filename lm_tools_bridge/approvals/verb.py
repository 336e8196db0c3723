"""The verb approvals: lists the calls that wait for a person, and answers them, in place at a terminal."""

from __future__ import annotations

import os
import select
import shlex
import sys
import termios
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import click

from lm_tools_bridge.protocol.internal.request_state import short_approval_id
from lm_tools_bridge.terminal.command_line import (
    Failure,
    SubVerbs,
    examples,
    json_option,
    print_json,
    print_line,
    say,
)
from lm_tools_bridge.terminal.views import Column, Kind, Note, Table, Tone
from lm_tools_bridge.text.printable import operand, printable
from manager.cli import workspace_command
from manager.cli.output.manager_access import explained, user_paths
from manager.cli.workspace_command import change_tool
from manager.client import Control
from manager.features import has_feature
from manager.status_reading import objects

_COLUMNS: Final = (
    Column("ID", Kind.NAME),
    Column("TOOL", Kind.NAME),
    Column("CLIENT", rank=1),
    Column("WORKSPACE", Kind.NAME),
    Column("WAITS SINCE", Kind.AGO),
)
LOOK_S: Final = 0.5
"""How often the manager is asked while a person thinks."""
_POLICY_S: Final = 20.0
"""Longest time that writing the policy may take: it starts the program of the workspace server."""
_MAX_LINE: Final = 4096
"""Bytes of one line: a terminal gives no longer ones."""
_ASKED: Final = "Allow it? [y = once, a = always, in every project{}, N = no, s = skip] "
_WORDS: Final = {"y": "once", "yes": "once", "a": "always", "always": "always", "s": "skip", "skip": "skip"}
_NOTHING: Final = "no call waits for approval"


@click.group(cls=SubVerbs, invoke_without_command=True, epilog=examples("lmtb approvals"))
@click.option("--follow", is_flag=True, help="Go on, and show each call that begins to wait.")
@json_option
@click.pass_context
def approvals(ctx: click.Context, follow: bool, as_json: bool) -> None:
    """Show the calls that wait for your approval, and answer them.

    At a terminal each is shown with its arguments, and asked about. The first answer counts, whether it is
    given here, on the page (lmtb ui) or in the client.
    """
    if ctx.invoked_subcommand is not None:
        return
    asks = sys.stdin.isatty() and sys.stdout.isatty() and not as_json
    if follow:
        _follow(asks=asks, as_json=as_json)
    elif as_json:
        print_json({"approvals": _waiting()})
    else:
        _show(_waiting(), asks=asks)
        _say_elsewhere()


@approvals.command()
@click.argument("identity", metavar="ID")
@click.option("--always", is_flag=True, help="Do not ask again for this tool, in every project.")
@click.option("--yes", "-y", is_flag=True, help="Approve without a terminal.")
@json_option
def approve(identity: str, always: bool, yes: bool, as_json: bool) -> None:
    """Approve a call, once."""
    if not (yes or sys.stdin.isatty()):
        text = "approving a call needs a person, and there is no terminal"
        raise Failure(text, "repeat it at a terminal, or with --yes", reason="not_confirmed")
    _print_answer(_answer(identity, approve=True), always=always, as_json=as_json)


@approvals.command()
@click.argument("identity", metavar="ID")
@json_option
def deny(identity: str, as_json: bool) -> None:
    """Deny a call."""
    _print_answer(_answer(identity, approve=False), always=False, as_json=as_json)


def _show(rows: list[dict[str, Any]], *, asks: bool) -> None:
    if not rows:
        say(_NOTHING)
    elif asks:
        for row in rows:
            ask(row, input_line)
    else:
        say(Table(_COLUMNS, [_row(row) for row in rows]))


def _say_elsewhere() -> None:
    """Name the hosts whose managers are too old to tell which calls wait there."""
    if not has_feature("remote_hosts"):
        return
    with explained():
        lines = objects(Control(user_paths().control_socket).post("/lines", {}), "lines")
    deaf = [line for line in lines if line.get("state") == "connected" and not line.get("tellsApprovals")]
    hosts = [printable(str(line.get("name"))) for line in deaf]
    if hosts:
        names = ", ".join(hosts)
        say("", f"Calls of projects on {names} are answered there: run lmtb approvals on that host.")


def _waiting() -> list[dict[str, Any]]:
    with explained():
        return objects(Control(user_paths().control_socket).get("/approvals"), "approvals")


def _answer(identity: str, *, approve: bool) -> dict[str, Any]:
    with explained():
        control = Control(user_paths().control_socket)
        return control.post("/approvals/answer", {"id": identity, "approve": approve})


def _print_answer(result: Mapping[str, Any], *, always: bool, as_json: bool) -> None:
    if not result.get("counts"):
        raise Failure(str(result.get("message")), "see what waits: lmtb approvals", reason="not_waiting")
    policy = _allow_always(result.get("approval")) if always else None
    if as_json:
        print_json({"outcome": result.get("outcome"), "approval": result.get("approval"), "always": policy})
    else:
        say(Note(printable(str(result.get("message"))), Tone.GOOD), *([policy] if policy else []))


def _allow_always(call: object) -> str:
    """Write the policy as `lmtb tools allow` does, on the host of the call; returns what happened."""
    row = call if isinstance(call, Mapping) else {}
    tool, host = str(row.get("tool")), row.get("host")
    place = str(row.get("root")) if host else None
    written = (
        workspace_command.answer_of("tools", "allow", "--", tool, limit_s=_POLICY_S)
        if place is None
        else _allowed_there(place, tool)
    )
    if written is None:
        here = "" if place is None else f"--cwd {shlex.quote(place)} "
        raise Failure(
            f"this call was approved, but {printable(tool)} will ask again: its policy could not be written",
            f"lmtb tools allow {here}{operand(printable(tool))}",
        )
    where = f"in every project{_there(row)}: {printable(written.get('file'))}"
    return f"{printable(tool)} runs without asking from now on, {where}"


def _allowed_there(place: str, tool: str) -> Mapping[str, Any] | None:
    if not has_feature("remote_hosts"):
        return None

    try:
        return change_tool(place, tool, "allow")
    except Failure:
        return None


def _there(row: Mapping[str, Any]) -> str:
    """The host of a call that is not on this one, for the end of a clause."""
    return f" on {printable(row.get('host'))}" if row.get("host") else ""


# -- at a terminal ------------------------------------------------------------------------------------------


def _follow(*, asks: bool, as_json: bool) -> None:
    """Show each call once when it begins to wait, until Ctrl-C."""
    ids: set[str] = set()
    if asks:
        say("waiting for calls that need approval; Ctrl-C ends")
    while True:
        for row in _waiting():
            if row.get("id") in ids:
                continue
            ids.add(str(row.get("id")))
            if asks:
                ask(row, input_line)
            elif as_json:
                print_line(row)
            else:
                say(*_lines(row))
        time.sleep(LOOK_S)


def ask(row: Mapping[str, Any], read: Callable[[float], str | None]) -> None:
    """Show one call and take the answer, unless it is answered elsewhere first."""
    say("", *_lines(row))
    click.echo(_ASKED.format(_there(row)), nl=False)
    _drop_typed()
    while (word := read(LOOK_S)) is None:
        if (how := _find_end(str(row.get("id")))) is not None:
            click.echo()
            say(Note(f"{printable(str(row.get('tool')))}: {printable(how)}", Tone.OFF))
            return
    decided = _WORDS.get(word.strip().lower(), "no")
    if decided == "skip":
        return
    result = _answer(str(row.get("id")), approve=decided != "no")
    say(Note(printable(str(result.get("message"))), Tone.GOOD if result.get("counts") else Tone.WARN))
    if decided == "always" and result.get("counts"):
        say(_allow_always(result.get("approval")))


def _find_end(identity: str) -> str | None:
    """How a call was answered elsewhere; None while it waits."""
    with explained():
        answer = Control(user_paths().control_socket).get("/approvals")
    if any(row.get("id") == identity for row in objects(answer, "approvals")):
        return None
    ends = [str(end.get("how")) for end in objects(answer, "ended") if end.get("id") == identity]
    return ends[-1] if ends else "it no longer waits"


def input_line(seconds: float) -> str | None:
    """The next line of the terminal, None if there is none in time.

    Raises:
        click.Abort: the terminal is closed.
    """
    if not select.select([sys.stdin], [], [], seconds)[0]:
        return None
    line = os.read(
        sys.stdin.fileno(), _MAX_LINE
    )  # a terminal gives one line; a buffer would keep further ones
    if not line:
        raise click.Abort
    return line.decode(errors="replace")


def _drop_typed() -> None:
    """Drop what was typed before: it was no answer to the call that is shown now."""
    if sys.stdin.isatty():
        termios.tcflush(sys.stdin, termios.TCIFLUSH)


def _lines(row: Mapping[str, Any]) -> Sequence[str | Note]:
    """A call with its arguments; whatever they contain is shown and never executed."""
    client = row.get("client") or "an unnamed client"
    identity = short_approval_id(str(row.get("id")))
    head = f"{identity}  {row.get('tool')}  of {row.get('workspace')}{_there(row)}, called by {client}"
    question = str(row.get("question")).split("\n")
    return [Note(printable(head), Tone.WARN), *(f"  {printable(line)}" for line in question)]


def _row(row: Mapping[str, Any]) -> tuple[object, ...]:
    since = row.get("since")
    age = max(0, int(time.time() - since / 1000)) if isinstance(since, int) else None
    identity = short_approval_id(str(row.get("id")))
    return (identity, *(row.get(name) for name in ("tool", "client", "workspace")), age)

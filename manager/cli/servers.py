"""The verbs servers and secrets: list, restart and sign in to sources of tools, and store tokens."""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import click

from lm_tools_bridge.protocol.internal.source_states import DOWN, label_of
from lm_tools_bridge.terminal.command_line import Failure, SubVerbs, examples, json_option, print_json, say
from lm_tools_bridge.terminal.views import Column, Kind, Table
from lm_tools_bridge.text.printable import operand, printable
from manager.cli import completion, workspace_command
from manager.cli.output.manager_access import ask_about
from manager.cli.output.workspace_options import cwd_option, print_issues, source_id
from manager.cli.workspace_command import find_host, is_remote, run
from manager.status_reading import objects, shell_hint


@click.group(cls=SubVerbs, epilog=examples("lmtb secrets set GITHUB_TOKEN", "lmtb secrets list"))
def secrets() -> None:
    """Store tokens that servers and tools need. No log and no list ever shows a value."""


@secrets.command(name="set")
@click.argument("key", shell_complete=completion.secrets)
@click.option("--stdin", is_flag=True, help="Read the value from standard input.")
@json_option
def set_(key: str, stdin: bool, **_: bool) -> None:
    """Store a secret. Prompts for the value and never shows it."""
    run("secrets", "set", *(["--stdin"] if stdin else []), "--", key)


@secrets.command(name="list")
@json_option
def list_(**_: bool) -> None:
    """List the names of the stored secrets."""
    run("secrets", "list")


@secrets.command()
@click.argument("key", shell_complete=completion.secrets)
@json_option
def delete(key: str, **_: bool) -> None:
    """Delete a secret."""
    run("secrets", "delete", "--", key)


_FIRST: Final = DOWN | {"pending_trust"}
_SHOWN_BY_STATE: Final = frozenset({"SOURCE_UNAVAILABLE", "SOURCE_STARTING"})
"""Codes of issues that repeat the errors of the table."""
# The cause is among the last lines; `lmtb log` has all of them.
_STDERR_LINES: Final = 5
_PROCESS: Final = ("pid", "restarts", "error")
_COLUMNS: Final = (
    Column("SOURCE", Kind.NAME),
    Column("STATE", Kind.STATE),
    Column("TOOLS", Kind.NUMBER),
    Column("CALLABLE", Kind.NUMBER, rank=1),
    Column("TOKENS", Kind.NUMBER, rank=2),
    Column("PID", Kind.NUMBER, rank=4),
    Column("RESTARTS", Kind.NUMBER, rank=3),
    Column("ERROR", Kind.DETAIL),
)


@click.group(
    cls=SubVerbs,
    invoke_without_command=True,
    epilog=examples("lmtb servers", "lmtb servers restart stdio:github", "lmtb servers login sentry"),
)
@cwd_option
@json_option
@click.pass_context
def servers(ctx: click.Context, as_json: bool) -> None:
    """List the sources of a workspace's tools, those that need attention first.

    TOKENS estimates how much of a model's context the listed tools of a source take.
    """
    if ctx.invoked_subcommand is None:
        _print(ask_about("/inspect", ctx.obj), None, as_json=as_json)


@servers.command()
@click.argument("source", required=False, shell_complete=completion.sources)
@cwd_option
@json_option
@click.pass_obj
def restart(cwd: Path | None, source: str | None, as_json: bool) -> None:
    """Restart a source, in whatever state it is, and list its tools again. Calls that run in it end.

    SOURCE is an id from `lmtb servers`, or the part after its colon. Without it, all sources are restarted.
    """
    identity = None if source is None else source_id(source, objects(ask_about("/inspect", cwd), "sources"))
    done = ask_about("/restart_sources", cwd, source=identity).get("restarted")
    restarted: Mapping[str, Any] = done if isinstance(done, dict) else {}
    if not as_json:
        say(*(f"{printable(name)}: {printable(text)}" for name, text in restarted.items()), "")
    _print(ask_about("/inspect", cwd), identity, as_json=as_json, restarted=restarted)


@servers.command()
@click.argument("server", shell_complete=completion.sources)
@click.argument("word", type=click.Choice(["project", "off", "default"]))
@cwd_option
@json_option
@click.pass_obj
def sandbox(cwd: Path | None, /, server: str, word: str, **_: bool) -> None:
    """Run a stdio server of a project in a sandbox, without one, or as its entry says (default).

    In a sandbox it writes to the project, temporary files and caches of its own, and reads what you can read.
    """
    workspace_command.run("sandbox", "choose", "--root", workspace_command.root_of(cwd), "--", server, word)


@servers.command(name="allow-write")
@click.argument("server", shell_complete=completion.sources)
@click.argument("path", type=click.Path(path_type=Path))
@cwd_option
@json_option
@click.pass_obj
def allow_write(cwd: Path | None, /, server: str, path: Path, **_: bool) -> None:
    """Let a stdio server of a project write to PATH from its sandbox."""
    place = os.path.abspath(path.expanduser())  # noqa: PTH100  links are followed by who writes the choice
    root = workspace_command.root_of(cwd)
    workspace_command.run("sandbox", "allow-write", "--root", root, "--", server, place)


@servers.command()
@click.argument("namespace", shell_complete=completion.sources)
@click.option("--no-browser", is_flag=True, help="Only print the address of the page to sign in on.")
@cwd_option
@json_option
@click.pass_obj
def login(cwd: Path | None, /, namespace: str, no_browser: bool, **_: bool) -> None:
    """Sign in to a remote server that uses OAuth, in your browser."""
    if cwd is not None and is_remote(cwd):
        raise _signed_in_there(cwd, namespace)
    options = ("--no-browser",) if no_browser else ()
    workspace_command.run("login", *options, "--", workspace_command.root_of(cwd), namespace)


def _signed_in_there(place: Path, namespace: str) -> Failure:
    """Logins are kept on the host of the project."""
    host, folder = find_host(place)
    command = f"lmtb servers login --cwd {shlex.quote(folder)} {operand(namespace)}"
    text = f"the login is kept on {host.name}, so it is made at a terminal there"
    return Failure(text, f"run there: {command}", reason="sign_in_there")


def _print(answer: Mapping[str, Any], only: str | None, *, as_json: bool, **more: object) -> None:
    sources = [row for row in objects(answer, "sources") if only in (None, row.get("id"))]
    if as_json:
        print_json({"sources": sources, "issues": objects(answer, "issues"), **more})
        return
    rows = objects(answer, "tools")
    sources.sort(key=lambda source: source.get("state") not in _FIRST)
    say(Table(_COLUMNS, [cells for source in sources for cells in (_cells(source, rows), *_inner(source))]))
    for source in sources:
        if last := _last_lines(source):
            say("", f"{source.get('id')} last wrote:", *(f"  {line}" for line in last), err=True)
        for path in source.get("refusedBySandbox") or ():
            name = operand(str(source.get("id")).partition(":")[2])
            step = f"lmtb servers allow-write {name} {operand(printable(path))}"
            say(
                "",
                f"its sandbox did not let {source.get('id')} write {printable(path)}; to allow that: {step}",
            )
        if (hint := shell_hint(source, os.environ)) is not None:
            say("", hint, err=True)
    if only is None:
        untold = [row for row in objects(answer, "issues") if row.get("code") not in _SHOWN_BY_STATE]
        print_issues({"issues": untold})


def _last_lines(source: Mapping[str, Any]) -> list[str]:
    """What a server that is down wrote last; nothing if its error quotes that already."""
    lines = source.get("stderr")
    last = lines[-_STDERR_LINES:] if isinstance(lines, list) else []
    is_told = all(str(line) in str(source.get("error")) for line in last)
    return last if source.get("state") in DOWN and not is_told else []


def _cells(source: Mapping[str, Any], tools: Sequence[Mapping[str, Any]]) -> tuple[object, ...]:
    state = _state(source)
    listed_tools = [tool for tool in tools if tool.get("source") == source.get("id") and tool.get("listed")]
    cost = sum(tool.get("tokens") or 0 for tool in listed_tools)
    tool_count, callable_ = source.get("toolCount"), source.get("enabledToolCount")
    rest = (source.get(name) for name in _PROCESS)
    return (source.get("id"), state, tool_count, callable_, cost, *rest)


def _state(source: Mapping[str, Any]) -> str:
    """The state, how long a start takes so far, and whether the list of tools may be outdated."""
    seconds = source.get("startingForS")
    notes = [f"{seconds} s"] if isinstance(seconds, int) else []
    notes += ["stale"] if source.get("stale") else []
    return " ".join([label_of(source.get("state")), *([f"({', '.join(notes)})"] if notes else [])])


def _inner(source: Mapping[str, Any]) -> list[tuple[object, ...]]:
    """A row for each language server that the source has started."""
    return [
        (
            f"  {server.get('name')}",
            label_of(server.get("state")),
            "",
            "",
            "",
            *(server.get(name) for name in _PROCESS),
        )
        for server in objects(source, "languageServers")
    ]

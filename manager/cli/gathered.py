"""Verbs about what a folder's workspace gathers: tools, servers.

What they show is asked from the running manager, which asks the workspace server. What they change is written
by the workspace server's own command, see `content.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import click

from manager.cli import content
from manager.cli.output import Failure, print_json, printable, table
from manager.cli.reach import ask_about, objects

_json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON for programs.")
_cwd_option = click.option(
    "--cwd",
    type=click.Path(path_type=Path),
    help="A folder in the workspace; default: the current folder.",
)
_ALARMING: Final = frozenset({"failed", "backoff", "crash_looping", "auth_required", "pending_trust"})


@click.group(invoke_without_command=True)
@_cwd_option
@click.option("--all", "hidden_too", is_flag=True, help="Also tools that cannot be called, with the reason.")
@_json_option
@click.pass_context
def tools(ctx: click.Context, cwd: Path | None, hidden_too: bool, as_json: bool) -> None:
    """List the tools of a folder's workspace: source, visibility, state, and the tokens each costs.

    Further verbs below change what is offered.
    """
    ctx.obj = cwd
    if ctx.invoked_subcommand is not None:
        return
    answer = ask_about("/inspect", cwd)
    if as_json:
        print_json({"ok": True, **answer})
        return
    rows = objects(answer, "tools")
    shown = [row for row in rows if hidden_too or row.get("state") == "callable"]
    heads = ("TOOL", "SOURCE", "VISIBILITY", "STATE", "TOKENS", "DESCRIPTION")
    click.echo(table(heads, map(_tool_row, shown), flexible=("DESCRIPTION",)))
    _say_costs(rows, shown)
    _say_issues(answer)


@tools.command()
@click.argument("name")
@click.pass_obj
def why(cwd: Path | None, name: str) -> None:
    """Say why a tool is not listed, or cannot be called."""
    answer = ask_about("/inspect", cwd)
    row = next((one for one in objects(answer, "tools") if one.get("name") == name), None)
    if row is None:
        about = [one for one in objects(answer, "issues") if one.get("toolName") == name]
        for issue in about:
            click.echo(printable(f"{issue.get('message')} ({issue.get('details') or issue.get('code')})"))
        if not about:
            raise Failure(
                f"no source of this workspace offers a tool named {name}",
                "list the tools with: lmtb tools --all; the sources with: lmtb servers",
                reason="tool_not_found",
            )
    elif row.get("state") != "callable":
        click.echo(printable(f"{name} cannot be called: {row.get('reason')}"))
    elif row.get("listed"):
        click.echo(printable(f"{name} is listed and can be called; it comes from {row.get('source')}"))
    else:
        text = f"{name} can be called, and tool_search finds it; it is not listed because its visibility is"
        click.echo(printable(f"{text} {row.get('visibility')}"))


@tools.command()
@click.argument("name")
@click.pass_obj
def enable(cwd: Path | None, name: str) -> None:
    """Offer a tool."""
    content.run("tools", "enable", name, "--root", content.root_of(cwd))


@tools.command()
@click.argument("name")
@click.pass_obj
def disable(cwd: Path | None, name: str) -> None:
    """Do not offer a tool any more."""
    content.run("tools", "disable", name, "--root", content.root_of(cwd))


@tools.command()
@click.argument("name")
@click.pass_obj
def allow(cwd: Path | None, name: str) -> None:
    """Let a tool run without asking each time."""
    content.run("tools", "allow", name)


@tools.command(name="ask")
@click.argument("name")
@click.pass_obj
def ask_first(cwd: Path | None, name: str) -> None:
    """Ask a person before every call of a tool."""
    content.run("tools", "ask", name)


@tools.command()
@click.argument("name")
@click.pass_obj
def deny(cwd: Path | None, name: str) -> None:
    """Never let a tool run."""
    content.run("tools", "deny", name)


@click.group(invoke_without_command=True)
@_cwd_option
@_json_option
@click.pass_context
def servers(ctx: click.Context, cwd: Path | None, as_json: bool) -> None:
    """List where a folder's workspace has its tools from, and how each source is."""
    ctx.obj = cwd
    if ctx.invoked_subcommand is not None:
        return
    answer = ask_about("/inspect", cwd)
    found = objects(answer, "sources")
    if as_json:
        print_json({"ok": True, "sources": found, "issues": objects(answer, "issues")})
        return
    heads = ("SOURCE", "KIND", "STATE", "TOOLS", "CALLABLE", "PID", "RESTARTS", "ERROR")
    click.echo(table(heads, map(_source_row, found), flexible=("ERROR",)))
    for source in found:
        if source.get("state") in _ALARMING:
            for line in source.get("stderr") or ():
                click.echo(printable(f"  {source.get('id')}: {line}"), err=True)
    _say_issues(answer)


@servers.command()
@click.argument("source", required=False)
@click.pass_obj
def restart(cwd: Path | None, source: str | None) -> None:
    """Try a source that is down at once, or all, and list its tools anew.

    SOURCE is an id of `lmtb servers`.
    """
    ask_about("/refresh", cwd, source=source)
    click.echo("asked; see: lmtb servers")


@servers.command()
@click.argument("namespace")
@click.pass_obj
def login(cwd: Path | None, namespace: str) -> None:
    """Sign in at a remote server that wants OAuth, in your browser."""
    content.run("login", content.root_of(cwd), namespace)


def _tool_row(tool: Mapping[str, Any]) -> tuple[object, ...]:
    state = tool.get("state")
    text = tool.get("description") if state == "callable" else tool.get("reason")
    shown = state if state != "callable" or tool.get("listed") else "not listed"
    return (
        tool.get("name"), tool.get("source"), tool.get("visibility"),
        "listed" if shown == "callable" else shown, tool.get("tokens"), first_sentence(text),
    )  # fmt: skip


def _source_row(source: Mapping[str, Any]) -> tuple[object, ...]:
    state = f"{source.get('state')}{' (stale)' if source.get('stale') else ''}"
    numbers = [source.get(name) for name in ("toolCount", "enabledToolCount", "pid", "restarts")]
    figures = [number if isinstance(number, int) else None for number in numbers]
    return (source.get("id"), source.get("kind"), state, *figures, source.get("error"))


def _say_costs(rows: list[dict[str, Any]], shown: list[dict[str, Any]]) -> None:
    listed = [row for row in shown if row.get("listed")]
    cost = sum(row.get("tokens") or 0 for row in listed)
    hidden = len(rows) - sum(1 for row in rows if row.get("state") == "callable")
    text = f"\n{len(listed)} tools listed, about {cost} tokens in a model's context"
    if hidden and len(shown) < len(rows):
        text += f"; {hidden} cannot be called, see: lmtb tools --all"
    click.echo(text)


def _say_issues(answer: Mapping[str, Any]) -> None:
    for issue in objects(answer, "issues"):
        about = f"{issue.get('message')}"
        if details := issue.get("details"):
            about += f" ({details})"
        click.echo(printable(f"{issue.get('level')}: {about}"), err=True)


def first_sentence(description: object) -> str:
    """The beginning of a description, on one line."""
    text = " ".join(description.split()) if isinstance(description, str) else ""
    return text.split(". ", 1)[0].removesuffix(".")

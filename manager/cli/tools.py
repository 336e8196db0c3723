"""The verb tools: lists a workspace's tools, explains why one is missing, and enables or restricts them.

The lists come from the running manager, which asks the workspace server. Changes are written by the workspace
server's own command, see `workspace_command.py`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import click

from host.command_line import Failure, json_option, print_json
from host.printable import printable
from manager.cli import workspace_command
from manager.cli.output.manager_access import ask_about
from manager.cli.output.responses import TRUST_PENDING, first_sentence, issue_text, objects
from manager.cli.output.text import table
from manager.cli.output.workspace_options import cwd_option, print_issues

_GROUPS: Final = ("custom_rule:", "custom", "copilot", "vscode", "other")
"""The beginnings of groups' ids in the order in which they are shown."""


@click.group(invoke_without_command=True)
@cwd_option
@click.option(
    "--all", "hidden_too", is_flag=True, help="Also list tools that cannot be called, with the reason."
)
@json_option
@click.pass_context
def tools(ctx: click.Context, hidden_too: bool, as_json: bool) -> None:
    """List the tools of a folder's workspace: source, state, and the tokens each costs a model.

    Tools marked `on demand` are not listed to clients, which find them with tool_search. --json always
    prints all tools. The commands below change what is offered.
    """
    if ctx.invoked_subcommand is not None:
        return
    answer = ask_about("/inspect", ctx.obj)
    if as_json:
        print_json({"ok": True, **answer})
        return
    order = {source.get("id"): place for place, source in enumerate(objects(answer, "sources"))}
    rows = sorted(objects(answer, "tools"), key=lambda row: (*_rank(row), order.get(row.get("source"), 999)))
    callable_ = [row for row in rows if row.get("state") == "callable"]
    hidden = [row for row in rows if row.get("state") != "callable"]
    if callable_:
        _show(callable_)
    if hidden_too and hidden:
        heads = ("CANNOT BE CALLED", "SOURCE", "REASON")
        cells = [(row.get("name"), row.get("source"), row.get("reason")) for row in hidden]
        click.echo(f"\n{table(heads, cells, flexible=('REASON',))}")
    _say_costs(callable_, 0 if hidden_too else len(hidden))
    print_issues(answer)


@tools.command()
@click.argument("name")
@cwd_option
@json_option
@click.pass_obj
def why(cwd: Path | None, name: str, as_json: bool) -> None:
    """Explain whether a tool is listed, and if not, why."""
    answer = ask_about("/inspect", cwd)
    row = next((one for one in objects(answer, "tools") if one.get("name") == name), None)
    about = [one for one in objects(answer, "issues") if one.get("toolName") == name]
    if row is None and not about:
        raise _unknown(name, objects(answer, "tools"))
    if as_json:
        print_json({"ok": True, "tool": row, "issues": about})
        return
    if row is not None:
        click.echo(printable(_explained(row)))
    for issue in about:
        if row is None or issue.get("code") != TRUST_PENDING:  # the reason says so already
            click.echo(printable(issue_text(issue)))


_force_option: Final = click.option(
    "--force", is_flag=True, help="Also if no source offers a tool of this name now."
)


@tools.command()
@click.argument("name")
@cwd_option
@_force_option
@click.pass_obj
def enable(cwd: Path | None, name: str, force: bool) -> None:
    """Enable a tool."""
    root = workspace_command.root_of(cwd)
    _refuse_unknown(name, cwd, force=force)
    workspace_command.run("tools", "enable", name, "--root", root)


@tools.command()
@click.argument("name")
@cwd_option
@_force_option
@click.pass_obj
def disable(cwd: Path | None, name: str, force: bool) -> None:
    """Disable a tool: clients can no longer see, find or call it."""
    root = workspace_command.root_of(cwd)
    _refuse_unknown(name, cwd, force=force)
    workspace_command.run("tools", "disable", name, "--root", root)


@tools.command()
@click.argument("name")
@cwd_option
@_force_option
@click.pass_obj
def allow(cwd: Path | None, name: str, force: bool) -> None:
    """Allow a tool to run without asking, in every workspace."""
    _refuse_unknown(name, cwd, force=force)
    workspace_command.run("tools", "allow", name)


@tools.command(name="ask")
@click.argument("name")
@cwd_option
@_force_option
@click.pass_obj
def ask_first(cwd: Path | None, name: str, force: bool) -> None:
    """Ask a person before every call of a tool, in every workspace."""
    _refuse_unknown(name, cwd, force=force)
    workspace_command.run("tools", "ask", name)


@tools.command()
@click.argument("name")
@cwd_option
@_force_option
@click.pass_obj
def deny(cwd: Path | None, name: str, force: bool) -> None:
    """Forbid a tool in every workspace."""
    _refuse_unknown(name, cwd, force=force)
    workspace_command.run("tools", "deny", name)


def _rank(row: Mapping[str, Any]) -> tuple[int, str]:
    """Where a tool's group stands among the groups."""
    identity, label = _group(row)
    places = [place for place, start in enumerate(_GROUPS) if identity.startswith(start)]
    return (places[0] if places else len(_GROUPS), label)


def _group(row: Mapping[str, Any]) -> tuple[str, str]:
    group = row.get("group")
    return (str(group.get("id")), str(group.get("label"))) if isinstance(group, dict) else ("other", "")


def _show(rows: Sequence[Mapping[str, Any]]) -> None:
    """The table; where there are several groups, each below its label."""
    heads = ("TOOL", "SOURCE", "STATE", "TOKENS", "DESCRIPTION")
    head, *lines = table(heads, map(_cells, rows), flexible=("DESCRIPTION",), optional="DESCRIPTION").split(
        "\n"
    )
    click.echo(head)
    labels = [_group(row)[1] for row in rows]
    for before, label, line in zip(["", *labels], labels, lines, strict=False):
        if label != before and len(set(labels)) > 1:
            click.echo(f"\n{printable(label)}")
        click.echo(line)


def _cells(row: Mapping[str, Any]) -> tuple[object, ...]:
    state = "on demand"
    if row.get("listed"):
        state = "always listed" if row.get("visibility") == "always" else "listed"
    return (
        row.get("name"), row.get("source"), state, row.get("tokens"), first_sentence(row.get("description"))
    )  # fmt: skip


def _say_costs(callable_: Sequence[Mapping[str, Any]], unseen: int) -> None:
    listed = [row for row in callable_ if row.get("listed")]
    cost = sum(row.get("tokens") or 0 for row in listed)
    click.echo("\n" + "; ".join(_sums(len(listed), cost, len(callable_) - len(listed), unseen)))


def _sums(listed: int, cost: int, on_demand: int, unseen: int) -> Iterator[str]:
    yield f"{listed} {'tool' if listed == 1 else 'tools'} listed, about {cost} tokens in a model's context"
    if on_demand:
        yield f"{on_demand} more on demand"
    if unseen:
        yield f"{unseen} cannot be called, see: lmtb tools --all"


def _explained(row: Mapping[str, Any]) -> str:
    name, source = row.get("name"), row.get("source")
    if row.get("state") != "callable":
        reason = str(row.get("reason"))
        step = f"; enable it with: lmtb tools enable {name}" if reason.startswith("disabled: ") else ""
        return f"{name} cannot be called: {reason}{step}"
    if row.get("listed"):
        return f"{name} is listed and can be called; it comes from {source}"
    return f"{name} of {source} can be called, but is not listed: it is on demand, tool_search finds it"


def _unknown(name: str, rows: Sequence[Mapping[str, Any]]) -> Failure:
    from difflib import get_close_matches  # noqa: PLC0415 - only who mistypes pays for it

    known = {str(row.get("name")).lower(): str(row.get("name")) for row in rows}
    near = [known[one] for one in get_close_matches(name.lower()[:128], known, n=3)]
    step = "list the tools with: lmtb tools --all; the sources with: lmtb servers."
    text = f"no source of this workspace offers a tool named {name}"
    return Failure(text, f"did you mean {', '.join(near)}?" if near else step, reason="tool_not_found")


def _refuse_unknown(name: str, cwd: Path | None, *, force: bool) -> None:
    """Refuse a name that no source offers: a rule for a mistyped name would have no effect.

    Without a manager nobody knows which tools there are; then a note says so.
    """
    if force:
        return
    try:
        answer = ask_about("/inspect", cwd)
    except Failure as failure:
        text = f"note: whether there is a tool named {name} was not checked, because {failure.message}"
        click.echo(printable(text), err=True)
        return
    rows = objects(answer, "tools")
    if all(row.get("name") != name for row in rows):
        unknown = _unknown(name, rows)
        step = f"{unknown.next_step} If its source is only down now, add --force"
        raise Failure(unknown.message, step, reason=unknown.reason)

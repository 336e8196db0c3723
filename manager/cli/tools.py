"""The verb tools: lists a workspace's tools, explains why one is missing, and changes what is offered.

The lists come from the running manager, which asks the workspace server. Changes are written by the workspace
server's own command, see `workspace_command.py`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import click

from lm_tools_bridge.terminal.command_line import Failure, SubVerbs, examples, json_option, print_json, say
from lm_tools_bridge.terminal.views import Column, Kind, Table
from lm_tools_bridge.text.near_names import near
from lm_tools_bridge.text.printable import operand
from manager.cli import completion, workspace_command
from manager.cli.output.manager_access import ask, ask_about, current_folder
from manager.cli.output.workspace_options import cwd_option, print_issues, source_id
from manager.cli.workspace_command import change_tool, change_visibility, is_remote, print_change
from manager.routing.client_profiles import PROFILES
from manager.status_reading import (
    TRUST_PENDING,
    VISIBILITIES,
    clients_starting,
    context_cost,
    first_request_cost,
    first_sentence,
    issue_text,
    listing_of_tool,
    objects,
    origin_of_listing,
    quoted,
    state_words,
)

_WHOLE_IDS: Final = frozenset({"builtin", "language_servers", "script", "script_user", "script_system"})
"""Ids of sources that have no colon."""
_GROUPS: Final = ("custom_rule:", "custom", "copilot", "vscode", "other")
"""The beginnings of groups' ids in the order in which they are shown."""
_COLUMNS: Final = (
    Column("TOOL", Kind.NAME),
    Column("SOURCE", Kind.NAME, rank=4),
    Column("STATE", Kind.STATE, rank=3),
    Column("TOKENS", Kind.NUMBER, rank=1),
    Column("DESCRIPTION", rank=2),
)
_SKILL_COLUMNS: Final = (
    Column("SKILL", Kind.NAME),
    Column("SOURCE", Kind.NAME, rank=4),
    Column("STATE", Kind.STATE, rank=3),
    Column("FILES", Kind.NUMBER, rank=1),
    Column("DESCRIPTION", rank=2),
)
_HELPFUL: Final = {
    "disabled: ": "; enable it with: lmtb tools enable ",
    "not exposed: ": "; expose it with: lmtb tools expose ",
}
"""The beginning of a reason why a tool cannot be called -> the command that changes it."""
_TRUNCATED: Final = "_LIST_TRUNCATED"
_HIDDEN_COLUMNS: Final = (
    Column("CANNOT BE CALLED", Kind.NAME),
    Column("SOURCE", Kind.NAME, rank=1),
    Column("REASON", Kind.DETAIL),
)


@click.group(
    cls=SubVerbs,
    invoke_without_command=True,
    epilog=examples("lmtb tools", "lmtb tools why lm_readFile", "lmtb tools disable calculator"),
)
@cwd_option
@click.option(
    "--all", "hidden_too", is_flag=True, help="Also list tools that cannot be called, with the reason."
)
@json_option
@click.pass_context
def tools(ctx: click.Context, hidden_too: bool, as_json: bool) -> None:
    """List the tools and skills of a folder's workspace: source, state, and the tokens each tool costs.

    Tools marked `on demand` are not listed to clients, which find them with tool_search. `(yours)` marks
    what you chose. --json always prints all tools. The commands below change what is offered.
    """
    if ctx.invoked_subcommand is not None:
        return
    answer = ask_about("/inspect", ctx.obj)
    if as_json:
        print_json({**answer, "firstRequests": _first_requests(answer)})
        return
    order = {source.get("id"): place for place, source in enumerate(objects(answer, "sources"))}
    rows = sorted(objects(answer, "tools"), key=lambda row: (*_rank(row), order.get(row.get("source"), 999)))
    callable_ = [row for row in rows if row.get("state") == "callable"]
    hidden = [row for row in rows if row.get("state") != "callable"]
    if callable_:
        _show(callable_)
    if hidden_too and hidden:
        cells = [(row.get("name"), row.get("source"), row.get("reason")) for row in hidden]
        say("", Table(_HIDDEN_COLUMNS, cells))
    _say_costs(answer, callable_, 0 if hidden_too else len(hidden))
    _show_skills(objects(answer, "skills"))
    print_issues(answer)


@tools.command()
@click.argument("name", shell_complete=completion.tools)
@cwd_option
@json_option
@click.pass_obj
def why(cwd: Path | None, name: str, as_json: bool) -> None:
    """Explain whether a tool is listed, and if not, why."""
    answer = ask_about("/inspect", cwd)
    row = next((candidate for candidate in objects(answer, "tools") if candidate.get("name") == name), None)
    about = [candidate for candidate in objects(answer, "issues") if candidate.get("toolName") == name]
    if row is None and not about:
        raise _unknown(name, answer)
    if as_json:
        print_json({"tool": row, "issues": about})
        return
    if row is not None:
        say(_explained(row) + _elsewhere(row, answer, cwd))
    for issue in about:
        if row is None or issue.get("code") != TRUST_PENDING:  # the reason says so already
            say(issue_text(issue))


def _changing_verb(verb: str, about: str, *, of_workspace: bool) -> None:
    """Add a verb that changes what is allowed of a tool; `of_workspace`: its settings say in which file."""

    @tools.command(verb, help=about)
    @click.argument("name", shell_complete=completion.tools)
    @cwd_option
    @click.option("--force", is_flag=True, help="Also if no source offers a tool of this name now.")
    @json_option
    @click.pass_obj
    def change(cwd: Path | None, /, name: str, force: bool, **_: bool) -> None:
        if cwd is not None and is_remote(cwd):
            _refuse_unknown(name, cwd, force=force)
            print_change(name, verb, change_tool(cwd, name, verb))
            return
        place = ["--root", workspace_command.root_of(cwd)] if of_workspace else []
        _refuse_unknown(name, cwd, force=force)
        workspace_command.run("tools", verb, *place, "--", name)


_changing_verb("enable", "Enable a tool.", of_workspace=True)
_changing_verb("disable", "Disable a tool: clients can no longer see, find or call it.", of_workspace=True)
_changing_verb(
    "expose", "Let a tool be enabled, such as one of a source that is off by default.", of_workspace=True
)
_changing_verb(
    "unexpose", "Hide a tool from clients, and from the choice of tools as well.", of_workspace=True
)
_changing_verb("allow", "Allow a tool to run without asking, in every workspace.", of_workspace=False)
_changing_verb("ask", "Ask a person before every call of a tool, in every workspace.", of_workspace=False)
_changing_verb("deny", "Forbid a tool in every workspace.", of_workspace=False)


@tools.command()
@click.argument("name", shell_complete=completion.tools)
@click.argument("visibility", type=click.Choice(VISIBILITIES))
@click.option("--source", "of_source", is_flag=True, help="NAME is a source: choose for all of its tools.")
@cwd_option
@click.option("--force", is_flag=True, help="Also if there is no such tool or source now.")
@json_option
@click.pass_obj
def visibility(
    cwd: Path | None, /, name: str, visibility: str, of_source: bool, force: bool, **_: bool
) -> None:
    """Choose in which lists a tool appears.

    The choice is for you, in one workspace. native: in the usual list. ondemand: in no list, tool_search
    finds it. always: in the list of discovery mode, too. default: take your choice back. A choice for a tool
    wins over one for its source.
    """
    if not of_source:
        _refuse_unknown(name, cwd, force=force)
    elif not force:
        name = _source_of(name, cwd)
    if cwd is not None and is_remote(cwd):
        print_change(name, visibility, change_visibility(cwd, name, visibility, of_source=of_source))
        return
    root = workspace_command.root_of(cwd)
    option = ["--source"] if of_source else []
    workspace_command.run("tools", "visibility", "--root", root, *option, "--", name, visibility)


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
    say(Table(_COLUMNS, [_cells(row) for row in rows], groups=[_group(row)[1] for row in rows]))


def _show_skills(rows: Sequence[Mapping[str, Any]]) -> None:
    if rows:
        say("", Table(_SKILL_COLUMNS, [_skill_cells(row) for row in rows]))


def _skill_cells(row: Mapping[str, Any]) -> tuple[object, ...]:
    """A skill's name with its owner, as in its URI; for a server's skill the URI tells them apart."""
    state = "waits for trust" if row.get("state") == "pending" else row.get("state")
    address = str(row.get("uri") or "").removeprefix("skill://").removesuffix("/SKILL.md")
    about = first_sentence(row.get("description"))
    return (address or row.get("name"), row.get("source"), state, row.get("fileCount"), about)


def _cells(row: Mapping[str, Any]) -> tuple[object, ...]:
    rest = (row.get("tokens"), first_sentence(row.get("description")))
    return (row.get("name"), row.get("source"), listing_of_tool(row), *rest)


def _say_costs(answer: Mapping[str, Any], callable_: Sequence[Mapping[str, Any]], unseen: int) -> None:
    listed_tools, meta = [row for row in callable_ if row.get("listed")], objects(answer, "metaTools")
    cost = context_cost((*listed_tools, *meta, _instructions(answer)))
    repeating = [row for row in listed_tools if row.get("repeatsClients")]
    with_them = f" with {' and '.join(str(meta_tool.get('name')) for meta_tool in meta)}" if meta else ""
    unlisted = sum("unlisted" in row for row in callable_)
    on_demand = len(callable_) - len(listed_tools) - unlisted
    say("", "; ".join(_sums(len(listed_tools), with_them, cost, on_demand, unlisted, unseen)))
    if repeating:
        rest = cost - context_cost(repeating)
        text = f"{len(repeating)} are listed only to agents without file tools of their own"
        say(f"{text}: about {rest} tokens for {_titles_with_file_tools()}")
    if listed_tools and _instructions(answer):
        costs = ", ".join(f"{row['client']} {row['tokens']}" for row in _first_requests(answer))
        say(f"in the first request of clients that find tools by a search, about: {costs}")


def _titles_with_file_tools() -> str:
    titles = [profile.title for profile in PROFILES if profile.has_file_tools]
    return f"{', '.join(titles[:-1])} and {titles[-1]}"


def _first_requests(answer: Mapping[str, Any]) -> list[dict[str, Any]]:
    """What clients that defer tools send of ours at first: `client` and `tokens`."""
    tools = [row for row in objects(answer, "tools") if row.get("listed")]
    tools += objects(answer, "metaTools")
    return [
        {"client": profile.title, "tokens": first_request_cost(profile, tools, _instructions(answer))}
        for profile in PROFILES
        if profile.defers_tools
    ]


def _instructions(answer: Mapping[str, Any]) -> Mapping[str, Any]:
    """What the answer says of the instructions; servers of other programs say nothing."""
    instructions = answer.get("instructions")
    return instructions if isinstance(instructions, dict) else {}


def _sums(  # noqa: PLR0917  the numbers of one sentence
    listed_count: int, with_them: str, cost: int, on_demand: int, unlisted: int, unseen: int
) -> Iterator[str]:
    tools = "tool" if listed_count == 1 else "tools"
    yield f"{listed_count} {tools} listed{with_them}, about {cost} tokens in a model's context"
    if on_demand:
        yield f"{on_demand} more on demand"
    if unlisted:
        yield f"{unlisted} more can be called without being listed, see: lmtb tools why NAME"
    if unseen:
        yield f"{unseen} cannot be called, see: lmtb tools --all"


def _explained(row: Mapping[str, Any]) -> str:
    name, source = str(row.get("name")), row.get("source")
    if row.get("state") != "callable":
        reason = str(row.get("reason"))
        step = next((step for start, step in _HELPFUL.items() if reason.startswith(start)), "")
        return f"{name} cannot be called: {reason}{step and step + operand(name)}"
    if row.get("approval") == "deny":
        step = f"allow it with: lmtb tools allow {operand(name)}"
        return f"{name} of {source} is denied, so that every call is refused; {step}"
    if row.get("listed") and row.get("repeatsClients"):
        text = f"{name} of {source} can be called, and is listed to agents without file tools of their own"
        return f"{text}; list it to all with: lmtb tools visibility {operand(name)} native"
    if row.get("listed"):
        return f"{name} is listed and can be called; it comes from {source} ({origin_of_listing(row)})"
    if row.get("unlisted"):
        step = f"list it with: lmtb tools visibility {operand(name)} native"
        return f"{name} of {source} can be called, but is not listed: {row['unlisted']}; {step}"
    text = f"{name} of {source} can be called, but is not listed: it is on demand, tool_search finds it"
    return f"{text} ({origin_of_listing(row)})"


def _elsewhere(row: Mapping[str, Any], answer: Mapping[str, Any], cwd: Path | None) -> str:
    """Which clients that were seen here do not get the tool from us, because they start its server."""
    sources = (source for source in objects(answer, "sources") if source.get("id") == row.get("source"))
    source = next(sources, {})
    file, namespace = source.get("file"), str(source.get("namespace"))
    if not row.get("listed") or not isinstance(file, str):
        return ""
    status, folder = ask("/mcp/status"), Path(current_folder(cwd))
    roots = {
        str(instance.get("root")): str(instance.get("workspace"))
        for instance in objects(status, "instanceDetails")
    }
    root = max((root for root in roots if folder.is_relative_to(root)), key=len, default="")
    titles = clients_starting(status, roots.get(root, ""), file, namespace)
    if not titles:
        return ""
    starts = "which starts" if len(titles) == 1 else "which start"
    return (
        f"; it is not in the list of {' and '.join(titles)}, {starts} {quoted([namespace])} of {file} itself"
    )


def _unknown(name: str, answer: Mapping[str, Any]) -> Failure:
    sources = (
        source
        for source in objects(answer, "sources")
        if source.get("namespace") and name.startswith(str(source["namespace"]))
    )
    failures = (_unknown_of(name, source, answer) for source in sources)
    if (failure := next(filter(None, failures), None)) is not None:
        return failure
    matches = near(name, (str(row.get("name")) for row in objects(answer, "tools")), count=3)
    step = "list the tools with: lmtb tools --all; the sources with: lmtb servers."
    text = f"no source of this workspace offers a tool named {name}"
    if name.startswith("lm_") and not matches:
        step = "tools for code need a language server; which is missing: lmtb languages"
    return Failure(text, f"did you mean {', '.join(matches)}?" if matches else step, reason="tool_not_found")


def _unknown_of(name: str, source: Mapping[str, Any], answer: Mapping[str, Any]) -> Failure | None:
    """Why a source that could have a tool does not offer it; None if it explains nothing."""
    identity, state = source.get("id"), str(source.get("state"))
    cut = (
        issue
        for issue in objects(answer, "issues")
        if str(issue.get("code")).endswith(_TRUNCATED) and f"source {identity}" in str(issue.get("details"))
    )
    if (issue := next(cut, None)) is not None:
        text = f"{name} is not known, because the list of {identity} was cut: {issue.get('message')}"
        return Failure(text, "offer fewer tools from that server.", reason="tool_not_found")
    if state == "ready" and not source.get("error"):
        return None
    text = f'{name} is not known, because "{identity}" {state_words(state)}'
    text += f": {source['error']}" if source.get("error") else ""
    step = {"pending_trust": "review it, then: lmtb trust.", "disabled": "set enabled = true in its entry."}
    return Failure(text, step.get(state, "look closer with: lmtb servers."), reason="tool_not_found")


def _refuse_unknown(name: str, cwd: Path | None, *, force: bool) -> None:
    """Refuse a name that no source offers: a rule for a mistyped name would have no effect.

    Without a manager nobody knows which tools there are; then a note says so.
    """
    answer = None if force else _inspected(f"tool named {name}", cwd)
    if answer is None:
        return
    rows = objects(answer, "tools")
    if all(row.get("name") != name for row in rows):
        unknown = _unknown(name, answer)
        step = f"{unknown.next_step} If its source is only down now, add --force"
        raise Failure(unknown.message, step, reason=unknown.reason)


def _source_of(name: str, cwd: Path | None) -> str:
    """The id of a source that a person named; a short name needs a manager, which knows the ids."""
    answer = _inspected(f"source with the id {name}", cwd)
    if answer is not None:
        return source_id(name, objects(answer, "sources"))
    if ":" in name or name in _WHOLE_IDS:
        return name
    text = f"{name} is no whole id of a source, and only a manager knows which one is meant"
    step = f"start it with: lmtb up, or write the whole id, such as stdio:{name} or remote:{name}"
    raise Failure(text, step, reason="unknown_source")


def _inspected(what: str, cwd: Path | None) -> dict[str, Any] | None:
    """What the workspace's server says; None, with a note about what was not checked, if nobody answers."""
    try:
        return ask_about("/inspect", cwd)
    except Failure as failure:
        text = f"note: whether there is a {what} was not checked, because {failure.message}"
        say(text, err=True)
        return None

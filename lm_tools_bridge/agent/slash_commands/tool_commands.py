"""The commands about tools and where they come from: `/list`, `/tools`, `/servers`, `/toggle`, `/last`."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from lm_tools_bridge.agent.interaction import Box, Tone
from lm_tools_bridge.agent.slash_commands.session import Session, problem_of
from lm_tools_bridge.agent.slash_commands.tool_menu import chosen, menu, table
from lm_tools_bridge.terminal.views import Column, Kind
from lm_tools_bridge.text.near_names import did_you_mean

if TYPE_CHECKING:
    from lm_tools_bridge.agent.conversation.toolbox import Offer

_LOCAL: Final = "os_assistant"
_STATES: Final[Mapping[str, str]] = {
    "ready": "ACTIVE", "connected": "ACTIVE", "starting": "PENDING", "connecting": "PENDING",
    "pending_trust": "PENDING", "auth_required": "PENDING", "backoff": "PENDING", "disabled": "DISABLED",
    "stopped": "ACTIVE",
}  # fmt: skip
"""The states of sources, in the words of this table; all others are errors."""
_PROJECTS: Final = (
    "{} belongs to the workspace and cannot be switched here: set enabled in its entry of workspace.toml, "
    "or switch its tools one by one with /tools NAME off"
)


async def list_tools(session: Session, argument: str) -> None:
    """List the tools, or show one with its schema."""
    await session.toolbox.refresh()
    names = [tool.name for tool in session.toolbox.tools()]
    if not argument:
        session.screen.lines(menu(names) if names else [_without_tools(session)])
        return
    offer = _offer(session, argument)
    if offer is None:
        hint = did_you_mean(argument, [item.name for item in session.toolbox.offers])
        session.screen.notice(f"there is no tool {argument}{hint}", Tone.WARNING)
        return
    schema = json.dumps(offer.tool.input_schema, indent=2, ensure_ascii=False)
    notes = [f"({key}: {value})" for key, value in offer.tool.annotations.items() if value is not None]
    about = (f"{offer.name}, from {offer.source.name}", *offer.tool.description.splitlines(), *notes)
    changes = session.schema_changes(offer.tool.input_schema)
    change_lines = (
        [f"changed for {session.conversation.provider}:", *(f"  {item}" for item in changes)]
        if changes
        else []
    )
    session.screen.lines([*about, *schema.splitlines(), *change_lines])


async def tools(session: Session, argument: str) -> None:
    """Show the state and use of tools, or switch one on or off."""
    await session.toolbox.refresh()
    if not argument:
        session.screen.lines(_states_of_tools(session))
        return
    name, _, wish = argument.rpartition(" ")
    if wish not in {"on", "off"} or not name:
        session.screen.notice("enter: /tools NAME on, or /tools NAME off", Tone.WARNING)
        return
    await _switch(session, name.strip(), on=wish == "on")


async def _switch(session: Session, name: str, *, on: bool) -> None:
    toolbox = session.toolbox
    offer = _offer(session, name)
    names = {candidate.name for candidate in toolbox.offers} | toolbox.disabled
    tool_name = offer.name if offer is not None else name
    # a tool that is off for every client is not offered, and is switched on by its name
    if offer is None and name not in names and not on:
        session.screen.notice(f"there is no tool {name}{did_you_mean(name, names)}", Tone.WARNING)
        return
    toolbox.enable(tool_name, on)
    is_ours = tool_name.startswith(f"{_LOCAL}_") if offer is None else offer.source.name == _LOCAL
    if not is_ours:
        own_name = tool_name if offer is None else offer.tool.name
        problem = problem_of(await session.lmtb("tools", "enable" if on else "disable", own_name))
        if problem is not None:
            session.screen.notice(
                f"{tool_name} is {'on' if on else 'off'} in this session only: {problem}", Tone.WARNING
            )
            return
        await toolbox.refresh()
    where = " in this session" if is_ours else ""
    session.screen.notice(f"{tool_name} is {'on' if on else 'off'}{where}")


def _states_of_tools(session: Session) -> list[str]:
    toolbox = session.toolbox
    if not toolbox.offers and not toolbox.disabled:
        return [_without_tools(session)]
    rows: list[list[object]] = []
    for offer in toolbox.offers:
        use = toolbox.uses.get(offer.tool.name)
        state = "DISABLED" if offer.name in toolbox.disabled else "ACTIVE"
        last = None if use is None else "error" if use.failed else "ok"
        when = None if use is None else time.strftime("%H:%M:%S", time.localtime(use.began))
        rows.append([offer.name, state, offer.source.name, use.calls if use else 0, when, last])
    gone = toolbox.disabled - {offer.name for offer in toolbox.offers}
    rows.extend([name, "DISABLED", None, 0, None, None] for name in sorted(gone))
    columns = (
        Column("TOOL", Kind.NAME), Column("STATE"), Column("SOURCE", rank=2), Column("CALLS", Kind.NUMBER, 1),
        Column("LAST USE", rank=2), Column("RESULT", rank=1),
    )  # fmt: skip
    return table(columns, rows)


async def servers(session: Session, _: str) -> None:
    """Show every source: the agent's own, and those of the workspace behind the manager."""
    answer = await session.lmtb("servers")
    toolbox = session.toolbox
    rows: list[list[object]] = []
    for state in toolbox.states():
        on = toolbox.is_source_on(state.name)
        word = _STATES.get(state.state, "ERROR") if on else "DISABLED"
        kind = "local" if state.name == _LOCAL else "mcp"
        rows.append([state.name, word, kind, None, state.detail or None])
    problem = problem_of(answer)
    sources = answer.get("sources")
    rows.extend(_workspace_row(source) for source in (sources if isinstance(sources, list) else []))
    columns = (
        Column("SOURCE", Kind.NAME), Column("STATE"), Column("KIND"), Column("RUNS", rank=1),
        Column("DETAIL", Kind.DETAIL),
    )  # fmt: skip
    session.screen.lines(table(columns, rows))
    if problem is not None:
        session.screen.notice(f"the workspace's sources are not known: {problem}", Tone.WARNING)


def _workspace_row(source: Mapping[str, Any]) -> list[object]:
    identity = str(source.get("id", ""))
    kind = identity.partition(":")[0]
    word = _STATES.get(str(source.get("state", "")).partition(" ")[0], "ERROR")
    problem = source.get("error")
    runs = source.get("program") or source.get("origin")  # neither has arguments, a path or a query
    cells = [cell if isinstance(cell, str) else None for cell in (runs, problem)]
    return [f"  {identity}", word, kind, *cells]


async def toggle(session: Session, argument: str) -> None:
    """Switch a source of this session on or off."""
    toolbox = session.toolbox
    names = [source.name for source in toolbox.sources]
    if argument not in names:
        if argument and (identity := await _projects_source(session, argument)) is not None:
            session.screen.notice(_PROJECTS.format(identity), Tone.WARNING)
            return
        hint = did_you_mean(argument, names)
        text = f"there is no source {argument}{hint}; can be switched: {', '.join(names)}"
        session.screen.notice(text if argument else f"enter: /toggle NAME; {', '.join(names)}", Tone.WARNING)
        return
    on = not toolbox.is_source_on(argument)
    toolbox.enable_source(argument, on)
    await toolbox.refresh()
    session.screen.notice(f"{argument} is {'on' if on else 'off'}")


async def _projects_source(session: Session, name: str) -> str | None:
    """The source of the workspace with this id or name, as `/servers` lists it."""
    sources = (await session.lmtb("servers")).get("sources")
    identities = [str(source.get("id", "")) for source in (sources if isinstance(sources, list) else [])]
    return next((identity for identity in identities if name in (identity, identity.partition(":")[2])), None)


async def last(session: Session, _: str) -> None:
    """Show the last result of a tool, whole."""
    result = session.last if session.is_manual else session.conversation.last_result
    result = result or session.last
    if result is None:
        session.screen.notice("no tool gave a result yet")
        return
    session.screen.box(Box.OUTPUT, [f"{result.name}:", *result.text.splitlines()])


def _offer(session: Session, name: str) -> Offer | None:
    match = chosen(name, [candidate.name for candidate in session.toolbox.offers])
    return next((candidate for candidate in session.toolbox.offers if candidate.name == match), None)


def _without_tools(session: Session) -> str:
    details = "; ".join(f"{state.name}: {state.detail}" for state in session.toolbox.states() if state.detail)
    return f"there are no tools ({details})" if details else "there are no tools"

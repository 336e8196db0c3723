"""Renders a project's own page, with the buttons that change what its tools may do. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from lm_tools_bridge.page.html import (
    Action,
    button,
    copyable,
    document,
    facts,
    lines,
    menu,
    source_action,
    state,
    steps,
    table,
    text,
)
from lm_tools_bridge.page.project_selection import AgentCost, ProjectView, Waiting
from lm_tools_bridge.protocol.internal.source_states import DOWN
from manager.status_reading import VISIBILITIES, first_sentence, listing_of_tool, source_step

_STDERR_LINES: Final = 10  # a short traceback; the whole output is in the log
_DECISIONS: Final = {"allow": "Allow", "ask": "Ask", "deny": "Deny"}
_LISTINGS: Final = {
    "native": "List",
    "ondemand": "On demand",
    "always": "List always",
    "default": "As its source says",
}
_IN_LISTS: Final = "In the lists of agents"
_BEFORE: Final = "Before a call"
_WHETHER: Final = "At all"
_HOW: Final[Mapping[str, str]] = {
    "all": "all tools, with every request",
    "nothing": "that there are tools; it finds them by a search",
    "names": "names only; it finds the rest by a search",
    "beginnings": "names and beginnings; it finds the rest by a search",
}
_DISABLED: Final = "disabled: "
"""How the reason begins of a tool that can be enabled."""


def project_page(view: ProjectView) -> str:
    """The whole page."""
    sections = {
        "project": _project(view),
        "trust": _trust(view.waiting),
        "issues": _issues(view.issues),
        "context": _context(view),
        "sources": _sources(view),
        "tools": _tools(view),
    }
    return document(view.name, {name: html for name, html in sections.items() if html})


def unknown_project() -> str:
    """The page for an id that no project has."""
    about = "<h2>No such project</h2><p>No project has this id any more. All are on the "
    return document("No such project", {"project": f'{about}<a href="/">first page</a>.</p>'})


def _project(view: ProjectView) -> str:
    project = view.project
    tool_summary = f"{view.listed} listed, about {view.tokens:,} tokens in a model’s context"
    rows = {
        "State": state(project.state),
        "Tools": tool_summary if view.problem is None else "–",
        "Folder": f"<code>{text(project.root)}</code>",
    }
    start = Action("start-server", "Start", (("root", project.root),))
    note = "" if view.problem is None else f"<p>{text(view.problem)}</p>"
    if not project.is_running or (project.is_elsewhere and view.problem is not None):
        note += f"<p>{button(start)}</p>"
    return f'<h2 class="title">{text(view.name)}</h2>{facts(rows)}{note}'


def _trust(waiting: Waiting | None) -> str:
    if waiting is None:
        return ""
    items = "".join(
        f'<li class="warn"><p>{text(change.get("kind"))}: {text(change.get("title"))}</p>'
        f"{lines(_lines(change))}</li>"
        for change in waiting.changes
    )
    problem = f"<p>{text(waiting.problem)}</p>" if waiting.problem else ""
    return (
        f'<h2>Waits for your trust</h2>{problem}<ul class="needs">{items}</ul>'
        "<p>Until then, nothing of it runs. Trust it at a terminal with: "
        f"{copyable(waiting.command)}</p>"
    )


def _lines(change: Mapping[str, Any]) -> Sequence[object]:
    change_lines = change.get("lines")
    return change_lines if isinstance(change_lines, list) else ()


def _issues(issues: Sequence[Mapping[str, Any]]) -> str:
    if not issues:
        return ""
    rows = "".join(map(_issue, issues))
    return f'<h2>Issues</h2><ul class="needs">{rows}</ul>'


def _issue(issue: Mapping[str, Any]) -> str:
    tone = "bad" if issue.get("level") == "error" else "warn"
    details = f"<p>{text(issue.get('details'))}</p>" if issue.get("details") else ""
    return f'<li class="{tone}"><p>{text(issue.get("message"))}</p>{details}</li>'


def _sources(view: ProjectView) -> str:
    heads = ("Source", "State", "Tools", "Lists of its tools", "Restarts", "What it says", "Action")
    sources = [source for source in view.sources if not _is_empty(source)]
    rows = (_source(source, view.project.root) for source in sources)
    empty = ", ".join(str(source.get("id")) for source in view.sources if _is_empty(source))
    rest = f"<p>Without tools: {text(empty)}.</p>" if empty else ""
    return table("Sources", heads, rows, "None is known.", figures=("Tools", "Restarts")) + rest


def _is_empty(source: Mapping[str, Any]) -> bool:
    """Whether a source of this program is ready and has no tools, as most have in most projects."""
    has_none = source.get("state") == "ready" and not source.get("toolCount")
    return has_none and ":" not in str(source.get("id"))


def _source(source: Mapping[str, Any], root: str) -> Sequence[str]:
    name = str(source.get("id"))
    is_down = source.get("state") in DOWN
    return (
        text(name),
        state(source.get("state")) + (" (tools as last known)" if source.get("stale") else ""),
        text(source.get("toolCount")),
        _source_listing(source),
        text(source.get("restarts")),
        "".join(_words(source, root)) if is_down else "–",
        button(source_action(source, root)) if is_down else _source_menu(source, root),
    )


def _source_listing(source: Mapping[str, Any]) -> str:
    """What was chosen for all tools of a source."""
    if not source.get("toolCount"):
        return ""
    visibility = source.get("visibility")
    return f"{text(_LISTINGS.get(str(visibility)))} (yours)" if visibility else text(_LISTINGS["default"])


def _source_menu(source: Mapping[str, Any], root: str) -> str:
    if not source.get("toolCount"):
        return ""
    name, visibility = str(source.get("id")), source.get("visibility")
    members = (("root", root), ("source", name))
    listings = _listings(visibility, visibility is not None, members, f"tools of {name}")
    return menu("Change", f"tools of {name}", {_IN_LISTS: listings})


def _listings(
    now: object, is_chosen: bool, members: tuple[tuple[str, str], ...], about: str
) -> Iterator[Action]:
    """The visibilities that can be chosen; the way back only where there is a choice."""
    for visibility in VISIBILITIES:
        if is_chosen if visibility == "default" else visibility != now:
            fields = (*members, ("visibility", visibility))
            yield Action("set-visibility", _LISTINGS[visibility], fields, about)


def _words(source: Mapping[str, Any], root: str) -> Iterator[str]:
    """The error of a source that is down, what it wrote last, and what helps."""
    yield f"<p>{text(source.get('error'))}</p>"
    written = source.get("stderr")
    yield lines(written[-_STDERR_LINES:] if isinstance(written, list) else ())
    yield f"<p>{steps(source_step(source, root))}</p>"


def _context(view: ProjectView) -> str:
    """What the tools cost each agent."""
    if not view.costs:
        return ""
    most = max(cost.tokens for cost in view.costs)
    rows = (
        (
            text(", ".join(cost.agent for cost in costs)),
            _amount(costs[0].tokens, most),
            text(_HOW[costs[0].how]),
            "in this project now" if costs[0].is_here else "",
        )
        for costs in _alike(view.costs)
    )
    heads = ("Agent", "First request", "It gets", "Connected")
    return table("Context tokens by agent", heads, rows, "", figures=("First request",))


def _alike(costs: Sequence[AgentCost]) -> Iterator[list[AgentCost]]:
    """Each agent that is here by itself, and all others that cost the same together."""
    yield from ([cost] for cost in costs if cost.is_here)
    others: dict[tuple[int, str], list[AgentCost]] = {}
    for cost in costs:
        if not cost.is_here:
            others.setdefault((cost.tokens, cost.how), []).append(cost)
    yield from others.values()


def _amount(tokens: object, most: int) -> str:
    """Tokens, with a bar beside them that shows their share of the most."""
    if not isinstance(tokens, int):
        return text(tokens)
    width = round(60 * tokens / most) if most else 0
    return (
        f'{tokens:,} <svg class="bar" viewBox="0 0 60 8" aria-hidden="true">'
        f'<rect class="track" width="60" height="8" rx="2"/><rect width="{width}" height="8" rx="2"/></svg>'
    )


def _tools(view: ProjectView) -> str:
    heads = ("Tool", "Source", "In lists", "Tokens", "Before a call", "Action")
    most = max((row["tokens"] for row in view.tools if isinstance(row.get("tokens"), int)), default=0)
    rows = (_tool(tool, view.project.root, most) for tool in view.tools)
    rest = f"<p>{view.left_out} more: <code>lmtb tools --all</code></p>" if view.left_out else ""
    on_host = " Files on the project’s own host say all of this." if view.project.is_elsewhere else ""
    about = (
        "<p>The tools that cost most are first. The source of a tool says whether the tool is listed, or "
        "found on demand with tool_search; you can choose otherwise for this project. Enable and Disable are "
        "for all of your projects, unless this project sets <code>useWorkspaceSettings</code>. Allow, Ask "
        f"and Deny are for all of your projects; a project can only be stricter.{on_host}</p>"
        if view.tools
        else ""
    )
    return table("Tools", heads, rows, "None is known.", figures=("Tokens",)) + rest + about


def _tool(row: Mapping[str, Any], root: str, most: int) -> Sequence[str]:
    return (
        f'<strong>{text(row.get("name"))}</strong><span class="about">'
        f"{text(first_sentence(row.get('description')))}</span>",
        text(row.get("source")),
        _tool_state(row),
        _amount(row.get("tokens"), most),
        text(row.get("approval")),
        _tool_menu(row, root),
    )


def _tool_state(row: Mapping[str, Any]) -> str:
    if row.get("state") != "callable":
        return f"{state('disabled' if _is_disabled(row) else row.get('state'))} {text(row.get('reason'))}"
    return state(listing_of_tool(row))


def _tool_menu(row: Mapping[str, Any], root: str) -> str:
    """All that can be changed of a tool now."""
    name = str(row.get("name"))
    if row.get("state") != "callable":
        enable = [_change("enable", "Enable", row, root)] if _is_disabled(row) else []
        return menu("Change", name, {_WHETHER: enable})
    is_chosen = row.get("visibilityOrigin") == "yours"
    decisions = (
        _change(decision, label, row, root)
        for decision, label in _DECISIONS.items()
        if decision != row.get("approval")
    )
    return menu(
        "Change",
        name,
        {
            _IN_LISTS: _listings(row.get("visibility"), is_chosen, (("root", root), ("tool", name)), name),
            _BEFORE: decisions,
            _WHETHER: [_change("disable", "Disable", row, root)],
        },
    )


def _is_disabled(row: Mapping[str, Any]) -> bool:
    return str(row.get("reason")).startswith(_DISABLED)


def _change(change: str, label: str, row: Mapping[str, Any], root: str) -> Action:
    name = str(row.get("name"))
    return Action("set-tool", label, (("root", root), ("tool", name), ("change", change)), about=name)

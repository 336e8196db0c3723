"""Renders the page and its parts. A part is replaced as a whole when its data change. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from lm_tools_bridge.page.connections import connections_html
from lm_tools_bridge.page.health import health_html
from lm_tools_bridge.page.html import (
    CALLS_PATH,
    HAS_CALLS,
    Action,
    button,
    capitalized,
    copyable,
    document,
    facts,
    lines,
    link,
    project_path,
    state,
    steps,
    table,
    text,
)
from lm_tools_bridge.page.needs import Need
from lm_tools_bridge.page.overview_view import ManagerFacts, PageView
from lm_tools_bridge.terminal.views import MARKS
from lm_tools_bridge.text.quantities import duration, latency, size
from manager.savings import Savings, savings_text
from manager.status_reading import client_title

_BROWSERS: Final = (
    ("Edg", "Edge"),
    ("OPR", "Opera"),
    ("Firefox", "Firefox"),
    ("HeadlessChrome", "Chrome without a window"),
    ("Chrome", "Chrome"),
    ("Version", "Safari"),
)
"""Product in a `User-Agent` -> its name. Browsers also name those that they resemble, which come later."""
_SYSTEMS: Final = (
    ("Android", "Android"),
    ("iPhone", "iPhone"),
    ("iPad", "iPad"),
    ("Mac OS X", "macOS"),
    ("Windows", "Windows"),
    ("CrOS", "ChromeOS"),
    ("Linux", "Linux"),
)


def browser_name(user_agent: str) -> str:
    """A name such as `Firefox 140 on Linux`; the whole text if it names no known browser.

    Args:
        user_agent: the header field `User-Agent`, which anybody can invent.
    """
    for product, name in _BROWSERS:
        match = re.search(rf"\b{product}/([0-9]{{1,4}})", user_agent)
        if match is not None:
            system = next((word for mark, word in _SYSTEMS if mark in user_agent), None)
            return f"{name} {match[1]}" + (f" on {system}" if system else "")
    return user_agent


_PAGES: Final = {"trust": "See what changed", "issues": "See the issues"}
"""Labels of links to parts of a project's page."""
_ALL_CALLS: Final = f"<p>{link(CALLS_PATH, 'All recorded calls')}</p>" if HAS_CALLS else ""


def parts(view: PageView) -> dict[str, str]:
    """The parts of the page by the id of their element, in their order."""
    names = view.names
    return {
        "connections": connections_html(view.connections, len(view.needs) + view.more["needs"]),
        "savings": _savings(view.savings),
        "needs": _needs(view.needs, view.more["needs"], names),
        "projects": _projects(view.projects, names) + _rest(view.more["projects"], "lmtb workspaces"),
        "calls": _calls(view.calls, names) + _rest(view.more["calls"], "lmtb top") + _ALL_CALLS,
        "clients": _clients(view.clients, names) + _rest(view.more["clients"], "lmtb clients"),
        "manager": _manager(view.manager),
        "health": health_html(view.health),
        "browsers": _browsers(view.browsers),
    }


def page(view: PageView) -> str:
    """The whole page."""
    return document("", parts(view), changes="/page/changes", first=("connections", "savings", "needs"))


def _rest(count: int, command: str) -> str:
    return f"<p>{count:,} more: {copyable(command)}</p>" if count else ""


def _savings(savings: Savings | None) -> str:
    """The figures where something is saved, and the sentence of `lmtb status`."""
    words = f"<p>{text(capitalized(savings_text(savings)))}.</p>"
    big = ""
    if savings is not None and (savings.processes > 0 or savings.memory > 0):
        amounts = (
            (
                f"{savings.processes:,}",
                "process not running" if savings.processes == 1 else "processes not running",
            ),
            (str(size(savings.memory)), "of memory not used"),
        )
        counts = (savings.processes, savings.memory)
        figures = "".join(
            f"<div><dd>{amount}</dd><dt>{label}</dt></div>"
            for (amount, label), count in zip(amounts, counts, strict=True)
            if count > 0
        )
        big = f'<dl class="big">{figures}</dl>'
    return f"<h2>Saved now</h2>{big}{words}"


def _needs(needs: Sequence[Need], more: int, names: Mapping[str, str]) -> str:
    if not needs:
        return '<h2>What needs you</h2><p class="state good">Nothing. All is well.</p>'
    items = "".join(_need(need, names) for need in needs)
    return f'<h2>What needs you</h2><ul class="needs">{items}</ul>{_rest(more, "lmtb status")}'


def _need(need: Need, names: Mapping[str, str]) -> str:
    name = need.project and names.get(need.project, need.project)
    project = f"<strong>{text(name)}</strong> " if name else ""
    return (
        f'<li class="{need.tone.value}"><p><span aria-hidden="true">{MARKS[need.tone]}</span> '
        f"{project}{text(need.text)}</p>{lines(need.words)}{_clicks(need)}"
        f'<p class="steps">{steps(need.next_step)}</p></li>'
    )


def _clicks(need: Need) -> str:
    """What one click does: the buttons and the link. A button that is alone is the one that stands out."""
    actions = (*([need.action] if need.action else []), *need.more_actions)
    buttons = f"{' '.join(map(button, actions))}{_page_of(need)}"
    kind = "buttons one" if len(actions) == 1 else "buttons"
    return f'<p class="{kind}">{buttons}</p>' if buttons else ""


def _page_of(need: Need) -> str:
    if need.page is None or need.project is None:
        return ""
    return link(f"{project_path(need.project)}#{need.page}", _PAGES[need.page])


def _browsers(rows: Sequence[Mapping[str, Any]]) -> str:
    heads = ("Number", "Browser", "Opened", "Last action", "Action")
    empty = "None may act. Open one with: <code>lmtb ui</code>"
    return table("Browsers that may act", heads, map(_browser, rows), empty)


def _browser(row: Mapping[str, Any]) -> Sequence[str]:
    number = str(row.get("number"))
    end = Action("end-session", "End", (("number", number),), f"browser {number}")
    ages = (duration(_coarse(row.get(name))) for name in ("openedAgeSec", "actedAgeSec"))
    return (
        text(number),
        text(browser_name(str(row.get("browser")))),
        *(text(f"{age} ago") for age in ages),
        button(end),
    )


def _coarse(seconds: object) -> int:
    """Whole minutes, so that a page at rest does not change each second."""
    return max(60, seconds // 60 * 60) if isinstance(seconds, int) else 60


def _manager(manager_facts: ManagerFacts) -> str:
    rows = {
        "State": state(manager_facts.state),
        "Version": text(manager_facts.version),
        "Address": f"<code>{text(manager_facts.address)}</code>",
        "Up": text(duration(manager_facts.up_s)),
        "Memory": text(size(manager_facts.memory)),
        "Calls": text(manager_facts.calls),
        "Errors": text(manager_facts.errors),
        "Own time of a call": text(_pair(manager_facts.own_ms)),
    }
    return f"<h2>Manager</h2>{facts(rows)}"


def _pair(percentiles: Mapping[str, Any] | None) -> str | None:
    if not percentiles:
        return None
    return f"{latency(percentiles.get('p50'))} (p50), {latency(percentiles.get('p99'))} (p99)"


def _projects(rows: Sequence[Mapping[str, Any]], names: Mapping[str, str]) -> str:
    heads = ("Project", "State", "Servers", "Clients", "Calls", "Errors", "p99", "Memory", "CPU", "Folder")
    return table(
        "Projects",
        heads,
        (_project(row, names) for row in rows),
        "None yet: one appears with the first request from its folder.",
        figures=heads[3:9],
    )


def _project(row: Mapping[str, Any], names: Mapping[str, str]) -> Sequence[str]:
    server_ms, percent = row.get("serverMs"), row.get("cpuPercent")
    p99 = server_ms.get("p99") if isinstance(server_ms, Mapping) else None
    sources = "".join(
        f"<li>{text(source.get('id'))} {state(source.get('state'))}</li>" for source in row["servers"]
    )
    return (
        link(project_path(row.get("workspace")), _name(row, names)),
        state(row.get("state")),
        f'<ul class="sources">{sources}</ul>' if sources else "–",
        text(row.get("clients") or None),
        text(row.get("calls")),
        text(row.get("errors")),
        text(latency(p99)),
        text(size(row.get("rssBytes"))),
        text(None if percent is None else f"{percent} %"),
        f"<code>{text(row.get('root'))}</code>",
    )


def _name(row: Mapping[str, Any], names: Mapping[str, str]) -> str | None:
    """The name of a row's project."""
    workspace = row.get("workspace")
    return None if workspace is None else names.get(str(workspace), str(workspace))


def _calls(rows: Sequence[Mapping[str, Any]], names: Mapping[str, str]) -> str:
    heads = ("Tool", "State", "Time", "Client", "Project", "Action")
    return table(
        "Calls",
        heads,
        (_call(row, names) for row in rows),
        "None runs now, and none of the last was slow enough to be listed.",
        figures=("Time",),
    )


def _call(row: Mapping[str, Any], names: Mapping[str, str]) -> Sequence[str]:
    return (
        text(row.get("tool")),
        state(row.get("state")),
        text(latency(row.get("ms"))),
        text(_client_name(row.get("client"))),
        text(_name(row, names)),
        button(_stop(row)) if row.get("root") else "",
    )


def _stop(row: Mapping[str, Any]) -> Action:
    members = tuple((name, str(row.get(name))) for name in ("root", "number", "tool"))
    return Action("stop-call", "Stop", members)


def _client_name(name: object) -> str | None:
    return client_title(str(name)) if name else None


def _clients(rows: Sequence[Mapping[str, Any]], names: Mapping[str, str]) -> str:
    heads = ("Client", "State", "Project", "Found by", "Last call")
    return table(
        "Clients",
        heads,
        (_client(row, names) for row in rows),
        f"None was seen lately. To connect one: {copyable('lmtb client add')}",
    )


def _client(row: Mapping[str, Any], names: Mapping[str, str]) -> Sequence[str]:
    name = " ".join(str(part) for part in (_client_name(row.get("name")), row.get("version")) if part)
    age = duration(row.get("lastCallAgeSec"))
    return (
        text(name),
        state(row.get("state")),
        text(_name(row, names)),
        text(row.get("source")),
        text(f"{age} ago" if age else None),
    )

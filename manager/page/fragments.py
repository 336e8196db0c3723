"""Renders the page and its parts as HTML, which escapes every value that it did not write itself. Pure.

A part is what is replaced as a whole when its data change. Nothing is inline but markup: no style, no script.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any, Final

from host.printable import printable
from host.terminal.quantities import duration, latency, size
from host.terminal.tones import MARKS, Tone, tone_of
from manager.page.needs import Action, Need
from manager.page.view import ManagerFacts, PageView

ASSET_PATHS: Final = {"page.css": "/page/page.css", "page.js": "/page/page.js"}
_TITLE: Final = "LM Tools Bridge"


def parts(view: PageView) -> dict[str, str]:
    """The parts of the page by the id of their element, in their order."""
    return {
        "needs": _needs(view.needs),
        "manager": _manager(view.manager),
        "projects": _projects(view.projects),
        "calls": _calls(view.calls),
        "clients": _clients(view.clients),
    }


def page(view: PageView) -> str:
    """The whole page."""
    sections = "".join(f'<section id="{name}">{html}</section>' for name, html in parts(view).items())
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{_TITLE}</title>'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<meta name="color-scheme" content="light dark">'
        f'<link rel="stylesheet" href="{ASSET_PATHS["page.css"]}">'
        f'<script src="{ASSET_PATHS["page.js"]}" defer></script></head>'
        f'<body><header><h1>{_TITLE}</h1><p id="connection" role="status">'
        "<noscript>Without scripts this page does not change by itself: reload it.</noscript></p></header>"
        f"<main>{sections}</main>"
        '<footer><p id="access">Buttons work in a page that <code>lmtb ui</code> opened.</p></footer>'
        "</body></html>"
    )


def _text(value: object) -> str:
    """A value as HTML text; an unknown one as a dash."""
    return "–" if value is None or value == "" else escape(printable(str(value)))


def _state(value: object) -> str:
    tone = tone_of(str(value or "")) or Tone.OFF
    mark = f'<span aria-hidden="true">{MARKS[tone]}</span>'
    return f'<span class="state {tone.value}">{mark} {_text(value)}</span>'


def _table(caption: str, heads: Sequence[str], rows: Iterable[Sequence[str]], empty: str) -> str:
    body = "".join(
        "<tr>"
        + "".join(
            f'<td data-head="{escape(head)}">{cell}</td>' for head, cell in zip(heads, row, strict=True)
        )
        + "</tr>"
        for row in rows
    )
    if not body:
        return f"<h2>{caption}</h2><p>{empty}</p>"
    head = "".join(f'<th scope="col">{escape(name)}</th>' for name in heads)
    return f"<h2>{caption}</h2><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _needs(found: Sequence[Need]) -> str:
    if not found:
        return '<h2>What needs you</h2><p class="state good">Nothing. All is well.</p>'
    return f'<h2>What needs you</h2><ul class="needs">{"".join(map(_need, found))}</ul>'


def _need(need: Need) -> str:
    project = f"<strong>{_text(need.project)}</strong> " if need.project else ""
    words = f"<pre>{_text(chr(10).join(need.words))}</pre>" if need.words else ""
    return (
        f'<li class="{need.tone.value}"><p><span aria-hidden="true">{MARKS[need.tone]}</span> '
        f"{project}{_text(need.text)}</p>{words}<p><code>{_text(need.next_step)}</code> "
        f"{_button(need.action) if need.action else ''}</p></li>"
    )


def _button(action: Action) -> str:
    members = "".join(f' data-{name}="{escape(value)}"' for name, value in action.members)
    return (
        f'<button type="button" data-action="{action.name}"{members} disabled>{escape(action.label)}</button>'
    )


def _manager(facts: ManagerFacts) -> str:
    shown = {
        "State": _state(facts.state),
        "Version": _text(facts.version),
        "Address": f"<code>{_text(facts.address)}</code>",
        "Up": _text(duration(facts.up_s)),
        "Memory": _text(size(facts.memory)),
        "Calls": _text(facts.calls),
        "Errors": _text(facts.errors),
        "Own time of a call": _text(_pair(facts.own_ms)),
    }
    rows = "".join(f"<div><dt>{name}</dt><dd>{value}</dd></div>" for name, value in shown.items())
    return f"<h2>Manager</h2><dl>{rows}</dl>"


def _pair(percentiles: Mapping[str, Any] | None) -> str | None:
    if not percentiles:
        return None
    return f"{latency(percentiles.get('p50'))} (p50), {latency(percentiles.get('p99'))} (p99)"


def _projects(rows: Sequence[Mapping[str, Any]]) -> str:
    heads = ("Project", "State", "Calls", "Errors", "p99", "Memory", "Sources", "Folder")
    return _table(
        "Projects",
        heads,
        map(_project, rows),
        "None yet: one appears with the first request from its folder.",
    )


def _project(row: Mapping[str, Any]) -> Sequence[str]:
    server_ms = row.get("serverMs")
    p99 = server_ms.get("p99") if isinstance(server_ms, Mapping) else None
    sources = "".join(f"<li>{_text(one.get('id'))} {_state(one.get('state'))}</li>" for one in row["sources"])
    return (
        f"<strong>{_text(row.get('workspace'))}</strong>",
        _state(row.get("state")),
        _text(row.get("calls")),
        _text(row.get("errors")),
        _text(latency(p99)),
        _text(size(row.get("rssBytes"))),
        f'<ul class="sources">{sources}</ul>' if sources else "–",
        f"<code>{_text(row.get('root'))}</code>",
    )


def _calls(rows: Sequence[Mapping[str, Any]]) -> str:
    heads = ("Tool", "State", "Time", "Client", "Project", "")
    return _table(
        "Calls", heads, map(_call, rows), "None runs now, and none of the last was slow enough to be listed."
    )


def _call(row: Mapping[str, Any]) -> Sequence[str]:
    return (
        _text(row.get("tool")),
        _state(row.get("state")),
        _text(latency(row.get("ms"))),
        _text(row.get("client")),
        _text(row.get("workspace")),
        _button(_stop(row)) if row.get("root") else "",
    )


def _stop(row: Mapping[str, Any]) -> Action:
    members = tuple((name, str(row.get(name))) for name in ("root", "number", "tool"))
    return Action("stop-call", "Stop", members)


def _clients(rows: Sequence[Mapping[str, Any]]) -> str:
    heads = ("Client", "State", "Project", "Found by", "Last call")
    return _table(
        "Clients", heads, map(_client, rows), "None was seen lately. To connect one: lmtb client add"
    )


def _client(row: Mapping[str, Any]) -> Sequence[str]:
    name = " ".join(str(row[part]) for part in ("name", "version") if row.get(part))
    age = duration(row.get("lastCallAgeSec"))
    return (
        _text(name),
        _state(row.get("state")),
        _text(row.get("workspace")),
        _text(row.get("source")),
        _text(f"{age} ago" if age else None),
    )

"""Builds HTML and escapes every value: text, tables, buttons, documents. Pure.

Nothing is inline but markup: no style, no script.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any, Final
from urllib.parse import urlencode

from lm_tools_bridge.protocol.internal.source_states import STATES
from lm_tools_bridge.terminal.views import MARKS, Tone, tone_of
from lm_tools_bridge.text.printable import printable
from manager.features import has_feature
from manager.status_reading import is_login_here

ASSET_PATHS: Final = {"page.css": "/page/page.css", "page.js": "/page/page.js"}
CALLS_PATH: Final = "/page/calls"
"""The address of the recorded calls."""
_TITLE: Final = "LM Tools Bridge"
_NEXT_STEP: Final = re.compile(r"""'[^']*'|"[^"]*"|(?P<end>; )(?=[a-z ]+: lmtb |or )""")
"""The end of a step. Quoted words are stepped over: names of folders and servers are quoted in commands."""
_STATES: Final = {
    "unhealthy": "does not answer",
    **{word: state.words for word, state in STATES.items() if not (state.is_healthy or state.is_starting)},
}
HAS_CALLS: Final = has_feature("recorder")
"""Whether there are pages of recorded calls."""
_CALLS_LINK: Final = f' <a href="{CALLS_PATH}">Recorded calls</a>' if HAS_CALLS else ""
_SITE: Final = f'<nav aria-label="Pages of this site"><a href="/">Overview</a>{_CALLS_LINK}</nav>'
_ACCESS: Final = (
    '<p id="access">To use the buttons, open this page with <code>lmtb ui</code>. It can be read without.</p>'
)


@dataclass(frozen=True, slots=True)
class Action:
    """What a button does: the name of an action, its label, and its members (`actions.py`).

    `about` completes the label for those who hear it and do not see the row.
    """

    name: str
    label: str
    members: tuple[tuple[str, str], ...] = ()
    about: str = ""


def document(
    title: str, sections: Mapping[str, str], *, changes: str | None = None, first: Collection[str] = ()
) -> str:
    """A whole page.

    Args:
        title: what comes before the product's name; empty for the first page.
        sections: their HTML by the id of their element.
        changes: the address of the event stream that replaces sections; None where there is none.
        first: ids of the sections that are beside each other, where there is room, above all others.
    """
    parts = {name: f'<section id="{name}">{html}</section>' for name, html in sections.items()}
    top = "".join(parts.pop(name) for name in first)
    body = (
        f'<div class="top">{top}</div>' if top else ""
    ) + f'<div class="rest">{"".join(parts.values())}</div>'
    live = "" if changes is None else f' data-changes="{changes}"'
    access = _ACCESS if changes or " data-action=" in body else ""
    whole = f"{escape(printable(title))} – {_TITLE}" if title else _TITLE
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{whole}</title>'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<meta name="color-scheme" content="light dark">'
        f'<link rel="stylesheet" href="{ASSET_PATHS["page.css"]}">'
        f'<script src="{ASSET_PATHS["page.js"]}" defer></script></head>'
        f'<body><header><h1><a href="/">{_TITLE}</a></h1>{_SITE}<p id="connection" role="status">'
        "<noscript>Without scripts this page does not change by itself: reload it.</noscript></p>"
        f"{access}</header>"
        f"<main{live}>{body}</main></body></html>"
    )


def text(value: object) -> str:
    """A value as HTML text; an unknown one as a dash."""
    return "–" if value is None or value == "" else escape(printable(str(value)))


def lines(values: Iterable[object]) -> str:
    """Lines of a program's output or of a file; empty if there are none."""
    block = "\n".join(escape(printable(str(value))) for value in values)
    return f"<pre>{block}</pre>" if block else ""


def state(value: object) -> str:
    """A state in plain words, with its mark and colour."""
    return toned(plain_state(value), tone_of(str(value or "")) or Tone.OFF)


def plain_state(value: object) -> str | None:
    """A state of a server or source as a person says it: behind the name of what is in it."""
    return None if value is None else _STATES.get(str(value), str(value))


def toned(value: object, tone: Tone) -> str:
    """A word with the mark and colour of a tone."""
    mark = f'<span aria-hidden="true">{MARKS[tone]}</span>'
    return f'<span class="state {tone.value}">{mark} {text(value)}</span>'


def copyable(command: str) -> str:
    """A command: one click selects all of it, and a button copies it where scripts run."""
    return (
        f'<span class="command"><code>{text(command)}</code> '
        '<button type="button" data-copy hidden>Copy</button></span>'
    )


def steps(text_of_steps: str) -> str:
    """What helps: sentences, whose commands can be copied by themselves, without the words before them.

    Args:
        text_of_steps: `WORDS: COMMAND` or a sentence, several with `; ` between. Names from elsewhere are
            only in commands, quoted for a shell.
    """
    ends = [match.span("end") for match in _NEXT_STEP.finditer(text_of_steps) if match["end"]]
    starts = [0, *(end for _, end in ends)]
    stops = [*(begin for begin, _ in ends), len(text_of_steps)]
    return "<br>".join(_step(text_of_steps[start:stop]) for start, stop in zip(starts, stops, strict=True))


def _step(step_text: str) -> str:
    words, separator, command = step_text.partition(": lmtb ")
    if separator:
        return f"{text(capitalized(words))}: {copyable(f'lmtb {command}')}"
    return copyable(step_text) if step_text.startswith("lmtb ") else text(step_text)


def capitalized(sentence: str) -> str:
    """A sentence that begins with a capital letter."""
    return sentence[:1].upper() + sentence[1:]


def link(path: str, label: object) -> str:
    """A link to a page of ours."""
    return f'<a href="{escape(path)}"><strong>{text(label)}</strong></a>'


def project_path(workspace: object) -> str:
    """The address of a project's own page."""
    return f"/page/project?{urlencode({'id': str(workspace)}, errors='surrogatepass')}"


def facts(values: Mapping[str, str]) -> str:
    """Names with their values, which are HTML."""
    rows = "".join(f"<div><dt>{name}</dt><dd>{value}</dd></div>" for name, value in values.items())
    return f"<dl>{rows}</dl>"


def table(
    caption: str,
    heads: Sequence[str],
    rows: Iterable[Sequence[str]],
    empty: str,
    *,
    figures: Collection[str] = (),
) -> str:
    """A table of HTML cells below its caption.

    Args:
        empty: the sentence to show if it has no rows.
        figures: heads of the columns of figures, which are on one line each and end below each other.
    """
    kinds = [' class="figure"' if head in figures else "" for head in heads]
    opened = [f'<td data-head="{escape(head)}"{kind}>' for head, kind in zip(heads, kinds, strict=True)]
    body = "".join(
        f"<tr>{''.join(f'{cell}{inner}</td>' for cell, inner in zip(opened, row, strict=True))}</tr>"
        for row in rows
    )
    if not body:
        return f"<h2>{caption}</h2><p>{empty}</p>"
    head = "".join(
        f'<th scope="col"{kind}>{escape(name)}</th>' for name, kind in zip(heads, kinds, strict=True)
    )
    return f"<h2>{caption}</h2><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def button(action: Action) -> str:
    """A button, which the page's script enables for a browser that may act."""
    members = "".join(f' data-{name}="{escape(value)}"' for name, value in action.members)
    about = f' aria-label="{escape(printable(f"{action.label} {action.about}"))}"' if action.about else ""
    return (
        f'<button type="button" data-action="{action.name}"{members}{about} disabled>'
        f"{escape(action.label)}</button>"
    )


def menu(label: str, about: str, groups: Mapping[str, Iterable[Action]]) -> str:
    """A menu of buttons below headings, which opens without a script; empty if it has no button.

    Args:
        about: completes the label for those who hear it and do not see the row.
        groups: the buttons below each heading.
    """
    blocks = {head: "".join(map(button, actions)) for head, actions in groups.items()}
    body = "".join(f"<p>{text(head)}</p>{buttons}" for head, buttons in blocks.items() if buttons)
    if not body:
        return ""
    name = escape(printable(f"{label} {about}"))
    return (
        f'<details class="menu" name="menu"><summary aria-label="{name}">{text(label)}</summary>'
        f"<div>{body}</div></details>"
    )


def source_action(source: Mapping[str, Any], root: str) -> Action:
    """The button for a source that is down: sign in where that is what is missing, else try again.

    Logins are kept on the host of the project, so one signs in there.
    """
    name = str(source.get("id"))
    members = (("root", root), ("source", name))
    if source.get("state") == "auth_required" and name.startswith("remote:") and is_login_here(root):
        return Action("sign-in", "Sign in", members, name)
    return Action("retry-source", "Retry", members, name)

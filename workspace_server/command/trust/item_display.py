"""Formats the items that wait for trust: what would run, with which program and files.

All texts come from the workspace, so they are escaped.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import click

from lm_tools_bridge.text.printable import printable
from workspace_server.trust.difference import ItemChange, file_line
from workspace_server.trust.item import DATA, TrustItem, Verdict
from workspace_server.trust.record import recorded_file

MAX_TITLE: Final = 4_000
_MAX_DETAILS: Final = 60
_WORDS: Final[Mapping[Verdict, str]] = {"never": "new", "changed": "changed", "trusted": "trusted"}
_COLOURS: Final[Mapping[Verdict, str]] = {"never": "yellow", "changed": "yellow", "trusted": "green"}


def item_lines(items: Sequence[TrustItem], verdicts: Mapping[str, Verdict]) -> Iterator[str]:
    """All items, with details of those that wait for trust; printable lines."""
    for item in items:
        verdict = verdicts[item.key]
        word = click.style(f"{_WORDS[verdict]:8}", fg=_COLOURS[verdict])
        yield f"  {word} {printable(item.title, width=MAX_TITLE)}"
        if verdict == "trusted":
            continue
        details = list(_details(item))
        for line in details[:_MAX_DETAILS]:
            yield f"             {printable(line, width=MAX_TITLE)}"
        if len(details) > _MAX_DETAILS:
            yield f"             … and {len(details) - _MAX_DETAILS} more"


def change_lines(changes: Sequence[ItemChange]) -> Iterator[str]:
    """Changes line by line; printable lines."""
    for change in changes:
        yield f"{change.kind}: {change.title}"
        for line in change.lines:
            yield f"    {click.style(line, fg=_line_colour(line))}"


def as_json(item: TrustItem, verdict: Verdict) -> dict[str, Any]:
    """An item as a JSON object."""
    content = item.facts.get("content")
    return {
        "key": item.key,
        "title": item.title,
        "state": _WORDS[verdict],
        "digest": item.digest(),
        "files": [file_line(name, *_size_and_hash(content)) for name, content in sorted(item.files.items())],
        "data": item.facts.get(DATA, []),
        "mayBeData": list(item.may_be_data),
        **({} if content is None else {"content": content}),
    }


def _details(item: TrustItem) -> Iterator[str]:
    facts = item.facts
    if "program" in facts:
        yield f"program: {facts['program'] or 'not found on the PATH of workspace servers'}"
    for name, label in (
        ("interpreter", "program"),
        ("env", "sets"),
        ("headers", "sends"),
        ("cwd", "starts in"),
    ):
        value = facts.get(name)
        if value not in (None, "", ".", [], {}):
            yield f"{label}: {value if isinstance(value, str) else ', '.join(map(str, value))}"
    if facts.get("auth", "none") != "none":
        yield f"signs in by: {facts['auth']}"
    if "from" in facts:
        yield f"configured in: {facts['from']}"
    for path in facts.get(DATA, ()):
        yield f"data: {path} (may change without asking again)"
    for path in item.may_be_data:
        yield f"data file? {path} (a change asks again, unless you call it data)"
    for path, reason in item.not_data.items():
        yield f"no data: {path}: {reason}"
    for name, content in sorted(item.files.items()):
        yield f"file: {file_line(name, *_size_and_hash(content))}"


def _size_and_hash(content: bytes) -> tuple[int, str]:
    file = recorded_file(content, 0)
    return file.size, file.sha256


def _line_colour(line: str) -> str | None:
    return {"-": "red", "+": "green"}.get(line[:1])

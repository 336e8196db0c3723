"""Shows what changed since a workspace was trusted, as a line diff of limited length. Pure.

All text may be hostile, so it is escaped before it is compared.
"""

from __future__ import annotations

import difflib
import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final, Literal

from lm_tools_bridge.text.printable import printable
from workspace_server.trust.item import TrustItem, split_name
from workspace_server.trust.records import RecordedFile, RecordedItem, recorded_file
from workspace_server.trust.redaction import shortened

# A person reads the difference in a terminal before trusting it; longer ones say that they are cut.
MAX_LINES: Final = 400
MAX_WIDTH: Final = 400
_MAX_COMPARED: Final = 2_000
"""Lines of a text that are compared; the cost grows with the square of this."""

ChangeKind = Literal["added", "changed", "removed"]


@dataclass(frozen=True, slots=True)
class ItemChange:
    """One item that differs from what was trusted, and the diff. All texts are escaped for printing."""

    key: str
    kind: ChangeKind
    title: str
    lines: tuple[str, ...]


def differences(recorded: Mapping[str, RecordedItem], items: Sequence[TrustItem]) -> list[ItemChange]:
    """All changed items: those of `items` in their order, then the removed ones."""
    changes = []
    for item in items:
        before = recorded.get(item.key)
        if before is None or before.digest != item.digest():
            now = RecordedItem(item.digest(), item.title, item.facts, _files(item))
            kind: ChangeKind = "added" if before is None else "changed"
            changes.append(_change(item.key, kind, item.title, before or RecordedItem("", ""), now))
    there = {item.key for item in items}
    gone = sorted(recorded.keys() - there)
    changes += [
        _change(key, "removed", recorded[key].title, recorded[key], RecordedItem("", "")) for key in gone
    ]
    return changes


def changed_data(recorded: RecordedItem | None, item: TrustItem) -> tuple[str, ...]:
    """The files that may be data and that appeared, vanished or changed since the item was trusted."""
    if recorded is None:
        return ()
    now = _files(item) if item.may_be_data else {}
    return tuple(
        path
        for path in item.may_be_data
        if _state_of(path, recorded.facts, recorded.files) != _state_of(path, item.facts, now)
    )


def _state_of(path: str, facts: Mapping[str, Any], files: Mapping[str, RecordedFile]) -> tuple[object, ...]:
    digests = facts.get("files", {})
    digest = digests.get(path)
    return digest, digests.get(digest), files.get(digest)


def fact_lines(facts: Any, name: str = "") -> Iterator[str]:
    """The configuration as lines `name.name = JSON value`, hashes shortened; not escaped."""
    if isinstance(facts, Mapping) and (facts or not name):
        for key in sorted(facts, key=str):
            yield from fact_lines(facts[key], f"{name}.{key}" if name else str(key))
    elif isinstance(facts, list | tuple) and facts:
        for place, fact in enumerate(facts):
            yield from fact_lines(fact, f"{name}[{place}]")
    else:
        yield f"{name} = {shortened(json.dumps(facts, ensure_ascii=False, default=str))}"


def file_line(name: str, size: int, sha256: str) -> str:
    """One line that describes a file of an item; not escaped."""
    path, flags = split_name(name)
    return f"{path} ({', '.join([*flags, f'{size} bytes', f'sha256 {sha256[:8]}'])})"


def _files(item: TrustItem) -> dict[str, RecordedFile]:
    return {name: recorded_file(content) for name, content in item.files.items()}


def _change(key: str, kind: ChangeKind, title: str, before: RecordedItem, now: RecordedItem) -> ItemChange:
    lines = list(islice(_lines(before, now), MAX_LINES + 1)) or [
        "(changed, but the difference cannot be shown)"
    ]
    if len(lines) > MAX_LINES:
        lines[MAX_LINES:] = ["… (cut here; read the files themselves)"]
    return ItemChange(printable(key), kind, printable(title, width=MAX_WIDTH), tuple(lines))


def _lines(before: RecordedItem, now: RecordedItem) -> Iterator[str]:
    yield from _unified(list(fact_lines(before.facts)), list(fact_lines(now.facts)), "configuration")
    for name in sorted(before.files.keys() | now.files.keys()):
        old, new = before.files.get(name), now.files.get(name)
        if old == new:
            continue
        if (old is None or old.text is not None) and (new is None or new.text is not None):
            yield from _unified(_text_lines(old), _text_lines(new), name)
        if old is not None:
            yield "- " + printable(file_line(name, old.size, old.sha256), width=MAX_WIDTH)
        if new is not None:
            yield "+ " + printable(file_line(name, new.size, new.sha256), width=MAX_WIDTH)


def _text_lines(file: RecordedFile | None) -> list[str]:
    # split at line feeds only; other line separators are shown as escapes
    return [] if file is None or file.text is None else file.text.split("\n")


def _unified(before: Sequence[str], now: Sequence[str], name: str) -> Iterator[str]:
    heading = printable(split_name(name)[0], width=MAX_WIDTH)
    old, new = _fit(before), _fit(now)
    if max(len(old), len(new)) > _MAX_COMPARED:
        yield f"{heading}: too long to show line by line; read the file itself"
    else:
        yield from difflib.unified_diff(old, new, heading, heading, lineterm="")


def _fit(lines: Sequence[str]) -> list[str]:
    return [_fit_line(line) for line in islice(lines, _MAX_COMPARED + 1)]


def _fit_line(line: str) -> str:
    line_text = printable(line, width=MAX_WIDTH)
    if len(line) <= MAX_WIDTH:
        return line_text
    return f"{line_text} sha256 {hashlib.sha256(line.encode('utf-8', 'surrogatepass')).hexdigest()[:8]}"

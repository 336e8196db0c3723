"""Shows a workspace's items and their trust at one moment, and finds items by the names people give them.

All texts of items come from the workspace, so they are escaped.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import click

from lm_tools_bridge.protocol.issues import Issue
from lm_tools_bridge.terminal.command_line import Failure
from lm_tools_bridge.text.near_names import did_you_mean
from lm_tools_bridge.text.printable import printable
from workspace_server.command.arguments import UserFolders
from workspace_server.command.trust_items import Gathered, gather
from workspace_server.trust.difference import ItemChange, file_line
from workspace_server.trust.item import DATA, TrustItem, Verdict
from workspace_server.trust.record import RecordedItem, recorded_file
from workspace_server.trust.store import TrustStore

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


def item_as_json(item: TrustItem, verdict: Verdict) -> dict[str, Any]:
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


@dataclass(frozen=True, slots=True)
class TrustView:
    """The items of a workspace, or the chosen ones, and their trust at one moment.

    `others` are the keys of the items that were not chosen.
    """

    root: Path
    items: Sequence[TrustItem]
    issues: Sequence[Issue]
    verdicts: Mapping[str, Verdict]
    recorded: Mapping[str, RecordedItem]
    problem: str | None
    gathered: Gathered
    others: tuple[str, ...] = ()

    @property
    def waiting(self) -> int:
        """The number of items that are not trusted."""
        return sum(verdict != "trusted" for verdict in self.verdicts.values())

    @property
    def removed(self) -> list[str]:
        """The keys of trusted items that the workspace has no more."""
        return sorted(self.recorded.keys() - self.verdicts.keys() - set(self.others))

    @property
    def settled(self) -> bool:
        """Whether everything is trusted and no recorded item was removed."""
        return not self.waiting and not self.removed and self.problem is None

    def data_files(self, *, all_items: bool = False) -> dict[str, tuple[str, ...]]:
        """The files that the user may mark as data, by item key; of items that wait for trust, or of all."""
        items = [item for item in self.items if all_items or self.verdicts[item.key] != "trusted"]
        return {item.key: item.may_be_data for item in items if item.may_be_data}

    def chosen(self, names: Sequence[str]) -> TrustView:
        """The view of the items with these names; this view if there are none.

        Raises:
            Failure: no item has one of the names.
        """
        if not names:
            return self
        keys = {key for name in names for key in self._keys_of(name)}
        items = [item for item in self.items if item.key in keys]
        verdicts = {key: verdict for key, verdict in self.verdicts.items() if key in keys}
        recorded = {key: item for key, item in self.recorded.items() if key in keys}
        return replace(
            self,
            items=items,
            issues=(),
            verdicts=verdicts,
            recorded=recorded,
            others=tuple(item.key for item in self.items if item.key not in keys),
        )

    def with_data(self, found: Mapping[str, Sequence[str]]) -> TrustView:
        """This view with these `data_files` as data.

        Raises:
            Failure: something else changed since the view was read.
        """
        items = self.gathered.items
        marks = {item.key: (*item.facts.get(DATA, ()), *found.get(item.key, ())) for item in items}
        again = self.gathered.with_data(marks)
        if again is None:
            text = "something changed while you were asked; nothing was trusted"
            raise Failure(text, "run lmtb trust again", reason="changed")
        return replace(self, items=[item for item in again if item.key in self.verdicts])

    def as_json(self) -> dict[str, Any]:
        """The view as a JSON object."""
        items = [item_as_json(item, self.verdicts[item.key]) for item in self.items]
        return {
            "root": str(self.root),
            "trusted": not self.waiting and self.problem is None,
            "items": items,
            "removed": self.removed,
            "issues": [issue.as_json() for issue in self.issues],
            "problem": self.problem,
        }

    def _keys_of(self, name: str) -> list[str]:
        keys = [item.key for item in self.items if name in _names_of(item)]
        if not keys:
            names = sorted({one for item in self.items for one in _names_of(item)})
            titles = ", ".join(sorted(short_name(item) for item in self.items)) or "nothing"
            raise Failure(
                f"{self.root} has no item {name}{did_you_mean(name, names)}",
                f"name one of: {printable(titles, width=MAX_TITLE)}",
                reason="unknown_item",
            )
        return keys


def read_view(store: TrustStore, root: Path, folders: UserFolders) -> TrustView:
    """Read the items of a workspace and their trust. Runs nothing of it."""
    marks = store.data_marks(root)
    items = gather(root, folders.config_dir, os.environ, folders.path, marks)
    verdicts = store.verdicts(root, {item.key: item.digest() for item in items.items})
    issue = store.issue(root)
    problem = None if issue is None else issue.message
    return TrustView(root, items.items, items.issues, verdicts, store.recorded(root), problem, items)


def _names_of(item: TrustItem) -> Iterable[str]:
    """What people may call an item: its key, the key without its kind, a tool's name or folder."""
    kind, _, name = item.key.partition(":")
    return {item.key, name or kind, short_name(item)}


def short_name(item: TrustItem) -> str:
    """The name of a tool or server; `settings` for those."""
    return item.title.partition(":")[0].rpartition(" ")[2]

"""Entries of lists that the official client refuses are repaired, because it refuses the whole list for one."""

from __future__ import annotations

import copy
import json
from typing import Any

import msgspec
import pytest
from mcp_types import methods

from workspace_server.sources.mcp.lists import definitions
from workspace_server.sources.mcp.lists.definitions import (
    PROMPTS,
    RESOURCES,
    TEMPLATES,
    TOOLS,
    ListKind,
    repaired,
)

WRONG: list[Any] = [None, 5, -1, 1.5, "x", "", [], [5], [None], ["x"], {}, {"x": 5}, True]
ICON = {"src": "data:,", "mimeType": "image/png", "sizes": ["1x1"], "theme": "dark"}
COMMON = {"title": "T", "description": "D", "icons": [ICON], "_meta": {"k": [1]}}
ANNOTATIONS = {"audience": ["user"], "priority": 0.5, "lastModified": "2026-01-01T00:00:00Z"}
WHOLE: dict[ListKind, dict[str, Any]] = {
    TOOLS: {
        **COMMON,
        "name": "t",
        "inputSchema": {"type": "object"},
        "outputSchema": {"type": "object"},
        "annotations": {"title": "T", "readOnlyHint": True, "destructiveHint": False, "idempotentHint": True,
                        "openWorldHint": False},
        "execution": {"taskSupport": "optional"},
    },
    PROMPTS: {**COMMON, "name": "p", "arguments": [{"name": "a", "title": "A", "description": "D", "required": True}]},
    RESOURCES: {**COMMON, "uri": "x:y", "name": "r", "mimeType": "a/b", "size": 5, "annotations": ANNOTATIONS},
    TEMPLATES: {**COMMON, "uriTemplate": "x:{y}", "name": "t", "mimeType": "a/b", "annotations": ANNOTATIONS},
}  # fmt: skip
KINDS = pytest.mark.parametrize("kind", WHOLE, ids=lambda kind: kind.word)


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The path of every member and entry."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [found for key, one in inner for found in ((*path, key), *places(one, (*path, key)))]


def broken(kind: ListKind) -> list[dict[str, Any]]:
    """Entries that each have one wrong value, or lack one member."""
    made = []
    for place in places(WHOLE[kind]):
        if place[0] in (kind.key, "inputSchema", "outputSchema") and place != ("outputSchema",):
            continue  # asked for by this; checked elsewhere
        for value in (*WRONG, ...):
            entry = copy.deepcopy(WHOLE[kind])
            holder: Any = entry
            for step in place[:-1]:
                holder = holder[step]
            if value is ...:
                del holder[place[-1]]
            elif place == ("outputSchema",) and isinstance(value, dict):
                continue  # the manager removes it for clients of the older revisions
            else:
                holder[place[-1]] = value
            made.append({**entry, kind.key: f"{entry[kind.key]}{len(made)}"})
    return made


def read(kind: ListKind, entries: list[dict[str, Any]]) -> Any:
    raws = [msgspec.Raw(json.dumps(entry).encode()) for entry in entries]
    return definitions.read(raws, "s") if kind is TOOLS else definitions.read_others(raws, "s", kind)


@KINDS
@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
def test_the_official_client_can_read_every_repaired_list(kind: ListKind, revision: str) -> None:
    entries = broken(kind)
    items = read(kind, entries).items
    assert len(items) == len(entries) > 100
    hints = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"}
    listed = {kind.member: [dict(one.definition) for one in items], **hints}
    assert methods.parse_server_result(kind.method, revision, listed)


@KINDS
def test_a_valid_entry_stays_as_it_is(kind: ListKind) -> None:
    entry = {**WHOLE[kind], "x-unknown": [None, 5]}
    assert repaired(entry, kind, "n") == (entry, ())


def test_the_issue_names_the_entry_and_the_members_that_were_removed() -> None:
    wrong = {"annotations": {"readOnlyHint": 1, "title": "T"}, "description": 5, "title": None}
    found = read(TOOLS, [{"name": "a", "inputSchema": {"type": "object"}, **wrong}])
    assert found.items[0].definition == {
        "name": "a", "inputSchema": {"type": "object"}, "annotations": {"title": "T"}
    }  # fmt: skip
    (issue,) = found.issues
    assert (issue.level, issue.code, issue.tool_name) == ("warning", "TOOL_MEMBERS_REMOVED", "a")
    assert issue.message.endswith("they are left out: annotations.readOnlyHint, description")


def test_a_resource_without_a_name_is_called_by_its_uri() -> None:
    (entry,) = read(RESOURCES, [{"uri": "x:y"}]).items
    assert entry.definition == {"uri": "x:y", "name": "x:y"}


@pytest.mark.parametrize(
    ("text", "stays"),
    [
        ("2026-02-28T23:59:59Z", True),
        ("2026-01-01T00:00:00.123+02:00", True),
        ("2026-01-01T00:00:00", False),
        ("2026-01-01", False),
        ("2026-02-30T00:00:00Z", False),
        ("yesterday", False),
    ],
)
def test_a_date_without_time_and_zone_is_removed(text: str, stays: bool) -> None:
    """The TypeScript SDK refuses the whole list for it."""
    (entry,) = read(RESOURCES, [{"uri": "x:y", "name": "r", "annotations": {"lastModified": text}}]).items
    assert entry.definition["annotations"] == ({"lastModified": text} if stays else {})

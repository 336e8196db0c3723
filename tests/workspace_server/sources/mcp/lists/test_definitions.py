"""Reading the definitions a server lists: limits, duplicate names, text clean-up, changed definitions."""

from __future__ import annotations

import json

import msgspec
import pytest

from workspace_server.sources.mcp.lists import definitions
from workspace_server.sources.mcp.lists.definitions import Definitions
from workspace_server.tool import Tool

SCHEMA = {"type": "object"}


def read(*entries: object) -> Definitions[Tool]:
    raws = [msgspec.Raw(one if isinstance(one, bytes) else json.dumps(one).encode()) for one in entries]
    return definitions.read(
        raws, "stdio:x", visibility="ondemand", visibilities={"often.used": "always"}, timeout_s=7
    )


def test_every_member_of_a_definition_is_kept() -> None:
    given = {
        "name": "a.b",
        "inputSchema": SCHEMA,
        "title": "T",
        "icons": [{"src": "x"}],
        "x": {"y": None},
        "n": 2**60,
    }
    (tool,) = read(given).items
    assert tool.definition == given
    assert (tool.name, tool.visibility, tool.timeout_s) == ("a.b", "ondemand", 7)


def test_a_server_without_apps_has_no_tools_for_apps_and_its_others_have_no_page() -> None:
    page = {"ui": {"resourceUri": "ui://a/b"}, "ui/resourceUri": "ui://a/b", "x": 1}
    entries = [
        msgspec.Raw(json.dumps({"name": name, "inputSchema": SCHEMA, "_meta": meta}).encode())
        for name, meta in (("show", page), ("refresh", {"ui": {"visibility": ["app"]}}), ("plain", {"x": 1}))
    ]
    with_apps = definitions.read(entries, "stdio:x").items
    assert [tool.name for tool in with_apps] == ["show", "refresh", "plain"]
    without = definitions.read(entries, "stdio:x", apps=False).items
    assert [(tool.name, tool.definition["_meta"]) for tool in without] == [
        ("show", {"x": 1}),
        ("plain", {"x": 1}),
    ]


def test_single_tools_can_have_another_visibility() -> None:
    """The setting names tools by the server's own names."""
    found = read({"name": "often.used"}, {"name": "often"}).items
    assert [tool.visibility for tool in found] == ["always", "ondemand"]


def test_the_first_of_two_tools_with_one_name_stays() -> None:
    """Names are compared after invisible characters were removed."""
    found = read({"name": "a", "n": 1}, {"name": "b"}, {"name": "a", "n": 2}, {"name": "a\u200b", "n": 3})
    assert [(tool.name, tool.definition.get("n")) for tool in found.items] == [("a", 1), ("b", None)]
    assert [(one.level, one.code, one.message) for one in found.issues] == [
        ("warning", "TOOL_NAME_DUPLICATE", 'Tool "a" is already registered')
    ] * 2


@pytest.mark.parametrize(
    "entry",
    [{}, [], 7, {"name": 7}, {"name": ""}, {"name": "\u200b"}, {"name": "x" * 257}, b'{"name":"a","n":1e999}',
     b'{"name":"a","n":' + b"[" * 50_000 + b"]" * 50_000 + b"}"],
    ids=["empty", "list", "number", "name no string", "no name", "invisible", "long", "number nobody holds", "deep"],
)  # fmt: skip
def test_an_entry_that_is_no_tool_is_left_out_and_the_others_stay(entry: object) -> None:
    found = read(entry, {"name": "good", "inputSchema": SCHEMA})
    assert [tool.name for tool in found.items] == ["good"]
    assert [one.level for one in found.issues] == ["error"]


def test_texts_a_model_reads_are_cleaned_and_values_are_not() -> None:
    dirty = "\x1b[31mred\x1b[0m \u202eabc\u200b\U000e0041\x07"
    found = read({
        "name": "d\u200bel\n",
        "description": dirty,
        "annotations": {"title": dirty},
        "inputSchema": {
            "type": "object",
            "description": dirty,
            "properties": {
                "description": {"description": dirty, "const": dirty, "examples": [{"title": dirty}]},
                "default": {"title": dirty, "default": {"description": dirty}, "enum": [dirty]},
            },
            "$defs": {"x": {"anyOf": [{"description": dirty}]}},
        },
        "x-vendor": dirty,
    })  # fmt: skip
    (tool,) = found.items
    clean = "red abc"
    assert tool.definition == {
        "name": "del",
        "description": clean,
        "annotations": {"title": clean},
        "inputSchema": {
            "type": "object",
            "description": clean,
            "properties": {
                "description": {"description": clean, "const": dirty, "examples": [{"title": dirty}]},
                "default": {"title": clean, "default": {"description": dirty}, "enum": [dirty]},
            },
            "$defs": {"x": {"anyOf": [{"description": clean}]}},
        },
        "x-vendor": dirty,
    }
    assert found.originals == {"del": "d\u200bel\n"}


@pytest.mark.parametrize("annotations", [{"destructiveHint": True}, {"readOnlyHint": True}, {"x": 5}, {}])
def test_annotations_pass_through_and_decide_nothing(annotations: object) -> None:
    """Clients act on annotations; this project does not, because the user has already trusted the server."""
    (tool,) = read({"name": "a", "annotations": annotations}).items
    assert tool.definition["annotations"] == annotations
    assert tool.requires_approval is False


def test_a_changed_definition_is_reported_with_both_hashes() -> None:
    before = read({"name": "a", "description": "nice"}, {"name": "b"}).hashes
    now = read({"description": "nasty", "name": "a"}, {"name": "b"}, {"name": "new"}).hashes
    (issue,) = definitions.changed(before, now, "stdio:x")
    assert (issue.level, issue.code, issue.tool_name) == ("warning", "TOOL_DEFINITION_CHANGED", "a")
    assert issue.details is not None
    assert before["a"][:16] in issue.details
    assert now["a"][:16] in issue.details


def test_the_order_of_members_is_no_change() -> None:
    before = read({"name": "a", "description": "d", "inputSchema": {"type": "object", "x": 1}}).hashes
    now = read({"inputSchema": {"x": 1, "type": "object"}, "description": "d", "name": "a"}).hashes
    assert definitions.changed(before, now, "stdio:x") == []


def test_the_fingerprint_is_of_the_content() -> None:
    one, two, again = (
        read({"name": "a", "description": text}).items[0].fingerprint for text in ("x", "y", "x")
    )
    assert one == again != two

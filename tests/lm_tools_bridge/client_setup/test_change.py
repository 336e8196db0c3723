"""Tests what becomes of a file's bytes, whose entry it is, and which files are refused."""

from __future__ import annotations

import json
from typing import Any

import pytest

from lm_tools_bridge.client_setup.change import (
    ENTRY_NAME,
    Change,
    FileFormat,
    Unchanged,
    addition,
    entry_in,
    is_ours,
    removal,
    state_of,
)
from lm_tools_bridge.client_setup.refusals import Refusal
from lm_tools_bridge.text.jsonc_parser import JSON, Dialect

STRICT = FileFormat("mcpServers", JSON)
RELAXED = FileFormat("mcpServers", Dialect(comments=True, trailing_commas=True))
TOML = FileFormat("mcp_servers", None)
WANTED = {"url": "http://127.0.0.1:5/mcp"}
FOREIGN = {"url": "https://example.com/mcp"}
BOM = b"\xef\xbb\xbf"


def content(entry: Any, **others: Any) -> bytes:
    return json.dumps({"mcpServers": {**others, ENTRY_NAME: entry}}, indent=2).encode()


def added(before: bytes | None, form: FileFormat = STRICT, **options: Any) -> bytes:
    change = addition(before, form, WANTED, "f", **options)
    assert isinstance(change, Change), change
    assert change.before == before
    return change.after


@pytest.mark.parametrize("form", [STRICT, RELAXED, TOML])
@pytest.mark.parametrize("before", [None, b"", b"\n", BOM])
def test_an_entry_is_added_to_no_file_and_to_an_empty_one(form: FileFormat, before: bytes | None) -> None:
    after = added(before, form)
    assert entry_in(after, form, "f") == WANTED
    assert after.startswith(BOM) == (before == BOM)
    assert isinstance(addition(after, form, WANTED, "f"), Unchanged)


def test_a_byte_order_mark_and_line_endings_stay() -> None:
    before = BOM + b'{\r\n  "a": 1\r\n}\r\n'
    after = added(before)
    assert after.startswith(BOM + b'{\r\n  "a": 1,\r\n')
    assert after.count(b"\n") == after.count(b"\r\n")


def test_another_port_is_brought_up_to_date_and_what_the_user_added_stays() -> None:
    mine = {"url": "http://127.0.0.1:9/mcp", "alwaysLoad": True, "timeout": 5}
    after = json.loads(added(content(mine)))
    assert after["mcpServers"][ENTRY_NAME] == {**mine, **WANTED}


def test_comments_in_an_entry_survive_another_port() -> None:
    before = (
        b'{"mcpServers": {"lm-tools-bridge": {\n  // local\n  "url": "http://127.0.0.1:9/mcp" // port\n}}}'
    )
    assert added(before, RELAXED) == before.replace(b":9/", b":5/")


def test_what_the_user_added_is_no_reason_for_a_change() -> None:
    assert isinstance(addition(content({**WANTED, "timeout": 5}), STRICT, WANTED, "f"), Unchanged)


def test_an_entry_that_is_not_ours_is_kept_unless_forced() -> None:
    before = content(FOREIGN, a={"command": "x"})
    for refused in (addition(before, STRICT, WANTED, "f"), removal(before, STRICT, "f")):
        assert isinstance(refused, Refusal)
        assert refused.reason == "not_ours"
        assert "--force" in refused.next_step
    assert json.loads(added(before, force=True))["mcpServers"] == {"a": {"command": "x"}, ENTRY_NAME: WANTED}
    removed = removal(before, STRICT, "f", force=True)
    assert isinstance(removed, Change)
    assert json.loads(removed.after) == {"mcpServers": {"a": {"command": "x"}}}


def test_a_foreign_toml_table_is_replaced_as_a_whole_if_forced() -> None:
    before = b'[mcp_servers.lm-tools-bridge]\ncommand = "x"\nargs = ["y"]\n'
    assert isinstance(addition(before, TOML, WANTED, "f"), Refusal)
    assert entry_in(added(before, TOML, force=True), TOML, "f") == WANTED


@pytest.mark.parametrize(
    ("entry", "ours"),
    [
        (WANTED, True),
        ({"httpUrl": "http://localhost:1/mcp?cwd=$PWD"}, True),
        ({"serverUrl": "http://[::1]:1/mcp"}, True),
        ({"url": "http://127.0.0.1:1/w/p-1/mcp"}, True),
        ({"command": "/x/bin/lmtb", "args": ["connect"]}, True),
        ({"transport": {"type": "streamableHttp", "url": "http://127.0.0.1:1/mcp"}}, True),
        ({"transport": {"type": "stdio", "command": "lmtb", "args": ["connect"]}}, True),
        ({"transport": "http", "url": "https://example.com/mcp"}, False),
        ({"command": "C:\\x\\lmtb.exe", "args": ["connect", "--cwd", "/p"]}, True),
        (FOREIGN, False),
        ({"url": "http://127.0.0.1:1/other"}, False),
        ({"url": "http://[broken"}, False),
        ({"url": 5}, False),
        ({"command": "lmtb", "args": []}, False),
        ({"command": "npx", "args": ["connect"]}, False),
        ({}, False),
    ],
)
def test_an_entry_is_ours_if_it_leads_to_a_manager(entry: dict[str, Any], ours: bool) -> None:
    assert is_ours(entry) is ours


def test_the_states_of_an_entry() -> None:
    assert state_of(None, WANTED) == "missing"
    assert state_of(WANTED, WANTED) == "current"
    assert state_of({"url": "http://127.0.0.1:6/mcp"}, WANTED) == "outdated"
    assert state_of(FOREIGN, WANTED) == "not_ours"


@pytest.mark.parametrize("form", [STRICT, TOML])
def test_nothing_is_removed_from_a_file_without_our_entry(form: FileFormat) -> None:
    assert isinstance(removal(b"", form, "f"), Unchanged)
    assert isinstance(removal(None, form, "f"), Unchanged)


BROKEN = [
    (STRICT, b'{"mcpServers": {', "invalid_syntax", 1),
    (STRICT, b"{\n  // no\n}", "invalid_syntax", 2),
    (STRICT, b"[]", "not_an_object", None),
    (STRICT, b'{"mcpServers": []}', "not_an_object", None),
    (STRICT, b'{"mcpServers": {"lm-tools-bridge": "x"}}', "not_an_object", None),
    (STRICT, b'{"a": 1}\n\xff', "invalid_syntax", 2),
    (RELAXED, b"{'a': 1}", "invalid_syntax", 1),
    (TOML, b"a = 1\nb =\n", "invalid_syntax", 2),
    (TOML, b"mcp_servers = 1\n", "not_an_object", None),
    (TOML, "x = 'é'".encode("utf-16"), "invalid_syntax", 1),
]


@pytest.mark.parametrize(("form", "before", "reason", "line"), BROKEN)
def test_a_broken_file_is_refused_with_its_name_and_line(
    form: FileFormat, before: bytes, reason: str, line: int | None
) -> None:
    for refused in (addition(before, form, WANTED, "/the/file"), removal(before, form, "/the/file")):
        assert isinstance(refused, Refusal)
        assert (refused.reason, refused.line) == (reason, line)
        assert "/the/file" in refused.message
        assert line is None or f"line {line}" in refused.message

"""Edits of a server are applied exactly, or refused as a whole."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from lm_tools_bridge.code_intelligence.wire.workspace_edits import (
    MAX_OPERATIONS,
    CreateFile,
    DeleteFile,
    EditFile,
    EditRefused,
    RenameFile,
    apply_edits,
    read_workspace_edit,
)


def edit(start: tuple[int, int], end: tuple[int, int], text: str) -> dict[str, Any]:
    return {
        "range": {
            "start": {"line": start[0], "character": start[1]},
            "end": {"line": end[0], "character": end[1]},
        },
        "newText": text,
    }


@pytest.mark.parametrize(
    ("edits", "expected"),
    [
        ([], "one\r\ntwo\nthree"),
        ([edit((0, 0), (0, 3), "1")], "1\r\ntwo\nthree"),
        ([edit((1, 0), (1, 3), "2"), edit((0, 0), (0, 3), "1")], "1\r\n2\nthree"),
        ([edit((0, 3), (1, 0), " ")], "one two\nthree"),
        ([edit((1, 0), (1, 0), "a"), edit((1, 0), (1, 0), "b")], "one\r\nabtwo\nthree"),
        ([edit((1, 0), (1, 3), "2"), edit((1, 0), (1, 0), "a")], "one\r\na2\nthree"),
        ([edit((0, 0), (1, 0), ""), edit((1, 0), (2, 0), "")], "three"),
        ([edit((0, 0), (3, 0), "all")], "all"),
        ([edit((0, 0), (2**31 - 1, 2**31 - 1), "all")], "all"),
        ([edit((3, 0), (3, 0), "\nend")], "one\r\ntwo\nthree\nend"),
        ([edit((2, 5), (2, 5), "!")], "one\r\ntwo\nthree!"),
    ],
)
def test_edits_are_applied_to_the_text_as_it_was(edits: list[dict[str, Any]], expected: str) -> None:
    assert apply_edits("one\r\ntwo\nthree", edits, "utf-16") == expected


@pytest.mark.parametrize(("encoding", "at"), [("utf-8", 6), ("utf-16", 3), ("utf-32", 2)])
def test_edits_behind_an_emoji_meet_their_place(encoding: Any, at: int) -> None:
    assert apply_edits("\U0001f600éx", [edit((0, at), (0, at + 1), "y")], encoding) == "\U0001f600éy"


@pytest.mark.parametrize(
    "edits",
    [
        [edit((0, 0), (0, 3), "a"), edit((0, 2), (1, 0), "b")],
        [edit((0, 0), (0, 3), "a"), edit((0, 0), (0, 3), "a")],
        [edit((0, 4), (0, 4), "a")],
        [edit((0, 0), (0, 9), "a")],
        [edit((7, 0), (7, 0), "a")],
        [edit((0, 2), (0, 1), "a")],
        [edit((0, 0), (-1, 0), "a")],
        [edit((1, 1), (1, 1), "a")],  # inside the emoji
        [{"newText": "a"}],
        [{"newText": "a", "range": {"start": None, "end": []}}],
        [edit((0, 0), (0, 1), "fine"), edit((0, 0), (0, 99), "a")],
    ],
)
def test_an_edit_that_does_not_fit_refuses_all(edits: list[dict[str, Any]]) -> None:
    assert isinstance(apply_edits("one\n\U0001f600\n", edits, "utf-16"), EditRefused)


def test_both_forms_of_a_workspace_edit_are_read() -> None:
    edits = [edit((0, 0), (0, 1), "x")]
    assert read_workspace_edit({"changes": {"file:///a%20b": edits, "file:///c": []}}) == [
        EditFile(Path("/a b"), edits),
        EditFile(Path("/c"), []),
    ]
    document = {"textDocument": {"uri": "file:///a", "version": 3}, "edits": edits}
    assert read_workspace_edit({"documentChanges": [document], "changes": {"file:///b": edits}}) == [
        EditFile(Path("/a"), edits, 3)
    ]
    assert read_workspace_edit(None) == []
    assert read_workspace_edit({}) == []


def test_file_operations_keep_their_order_and_options() -> None:
    edits = [edit((0, 0), (0, 0), "x")]
    found = read_workspace_edit(
        {
            "documentChanges": [
                {"kind": "create", "uri": "file:///a", "options": {"ignoreIfExists": True}},
                {"textDocument": {"uri": "file:///a", "version": None}, "edits": edits},
                {"textDocument": {"uri": "file:///a", "version": None}, "edits": edits},
                {
                    "kind": "rename",
                    "oldUri": "file:///a",
                    "newUri": "file:///b",
                    "options": {"overwrite": True},
                },
                {
                    "kind": "delete",
                    "uri": "file:///c",
                    "options": {"recursive": True, "ignoreIfNotExists": True},
                },
                {"kind": "delete", "uri": "file:///d"},
            ]
        }
    )
    assert found == [
        CreateFile(Path("/a"), ignore_if_exists=True),
        EditFile(Path("/a"), edits * 2),
        RenameFile(Path("/a"), Path("/b"), overwrite=True),
        DeleteFile(Path("/c"), recursive=True, ignore_if_not_exists=True),
        DeleteFile(Path("/d")),
    ]


@pytest.mark.parametrize(
    "change",
    [
        5,
        {"kind": "launch", "uri": "file:///a"},
        {"kind": "create", "uri": "https://x/y"},
        {"kind": "rename", "oldUri": "file:///a", "newUri": "file:///../b"},
        {"kind": "delete"},
        {"edits": []},
        {"textDocument": [], "edits": []},
        {"textDocument": {"uri": "file:///a"}, "edits": "text"},
        {"textDocument": {"uri": "file:///a"}, "edits": [{"range": {}, "snippet": {"value": "$1"}}]},
    ],
)
def test_a_change_that_is_not_understood_refuses_all(change: Any) -> None:
    assert isinstance(read_workspace_edit({"documentChanges": [change]}), EditRefused)


@pytest.mark.parametrize(
    "whole", [[], "x", {"changes": []}, {"documentChanges": "x"}, {"documentChanges": [{}] * (MAX_OPERATIONS + 1)}]
)  # fmt: skip
def test_what_is_no_workspace_edit_is_refused(whole: Any) -> None:
    assert isinstance(read_workspace_edit(whole), EditRefused)

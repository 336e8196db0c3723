"""Edits of files: planned without touching one, applied whole or not at all."""

from __future__ import annotations

import os
import stat
import time
from pathlib import Path
from typing import Any

import pytest

from lm_tools_bridge.code_intelligence.tools.editing.applying import ApplyFailed, apply_changes
from lm_tools_bridge.code_intelligence.tools.editing.change import FileChange, Planner
from lm_tools_bridge.code_intelligence.tools.editing.edit_results import MAX_CHARACTERS, unified_diff
from lm_tools_bridge.code_intelligence.tools.editing.file_content import Unchangeable
from lm_tools_bridge.code_intelligence.wire.document_uris import to_uri
from lm_tools_bridge.code_intelligence.wire.workspace_edits import EditRefused, read_workspace_edit
from lm_tools_bridge.machine.project_file import HeldFolder
from support.projects.file_tree import write_tree
from support.servers.language_servers.in_memory import at
from workspace_server.workspace import Workspace


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return write_tree(Path(os.path.realpath(tmp_path)) / "proj", {"a.txt": "one\ntwo\n", "b.txt": "one\n"})


def edit(path: Path, *changes: tuple[dict[str, Any], str]) -> dict[str, Any]:
    edits = [{"range": where, "newText": new} for where, new in changes]
    return {"textDocument": {"uri": to_uri(path), "version": None}, "edits": edits}


def plan(root: Path, *documents: dict[str, Any], newest_ns: int | None = None) -> list[FileChange]:
    operations = read_workspace_edit({"documentChanges": list(documents)})
    assert not isinstance(operations, EditRefused)
    newest = time.time_ns() + 10**9 if newest_ns is None else newest_ns
    return Planner(Workspace.of(root), "utf-16", newest).plan(operations)


def files(root: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(root.iterdir()) if path.is_file()}


ONE = (at(0, 0, 0, 3), "ONE")


def test_all_files_change_and_nothing_else_stays(root: Path) -> None:
    (root / "a.txt").chmod(0o640)
    changes = plan(root, edit(root / "a.txt", ONE), edit(root / "b.txt", ONE))
    assert files(root) == {"a.txt": b"one\ntwo\n", "b.txt": b"one\n"}
    apply_changes(changes)
    assert files(root) == {"a.txt": b"ONE\ntwo\n", "b.txt": b"ONE\n"}
    assert stat.S_IMODE((root / "a.txt").stat().st_mode) == 0o640


def test_encoding_and_line_ends_are_kept(root: Path) -> None:
    write_tree(root, {"a.txt": b"\xef\xbb\xbfone\r\ntwo\r\n", "b.txt": "one\r\n".encode("utf-16")})
    new = (at(0, 0, 0, 3), "é\nx")
    apply_changes(plan(root, edit(root / "a.txt", new), edit(root / "b.txt", new)))
    assert files(root) == {
        "a.txt": "\ufeffé\r\nx\r\ntwo\r\n".encode(),
        "b.txt": "é\r\nx\r\n".encode("utf-16"),
    }


def test_a_file_keeps_the_encoding_that_it_names(root: Path) -> None:
    write_tree(root, {"a.txt": "# coding: latin-1\none \u00e9\n".encode("latin-1")})
    apply_changes(plan(root, edit(root / "a.txt", (at(1, 0, 1, 3), "zw\u00f6lf"))))
    assert (root / "a.txt").read_bytes() == b"# coding: latin-1\nzw\xf6lf \xe9\n"
    with pytest.raises(Unchangeable, match="cannot be encoded"):
        plan(root, edit(root / "a.txt", (at(1, 0, 1, 3), "\u4e00")))


def test_files_are_created_moved_and_deleted(root: Path) -> None:
    moved = {"kind": "rename", "oldUri": to_uri(root / "a.txt"), "newUri": to_uri(root / "c.txt")}
    made = {"kind": "create", "uri": to_uri(root / "d.txt")}
    removed = {"kind": "delete", "uri": to_uri(root / "b.txt")}
    write_tree(root, {"a.txt": b"\xef\xbb\xbfone\ntwo\n"})
    changes = plan(
        root, moved, edit(root / "c.txt", ONE), made, edit(root / "d.txt", (at(0, 0, 0, 0), "x")), removed
    )
    assert [(one.path.name, one.kind) for one in changes] == [
        ("a.txt", "deleted"), ("b.txt", "deleted"), ("c.txt", "created"), ("d.txt", "created"),
    ]  # fmt: skip
    apply_changes(changes)
    assert files(root) == {"c.txt": b"\xef\xbb\xbfONE\ntwo\n", "d.txt": b"x"}


@pytest.mark.parametrize(
    ("prepare", "reason"),
    [
        (lambda root: (root / "c").symlink_to(root / "a.txt"), "it is a link"),
        (lambda root: (root / "c").mkdir(), "is a directory"),
        (lambda root: os.mkfifo(root / "c"), "not a regular file"),
        (lambda root: (root / "c").write_bytes(b"\xff\xfe\xff"), "encoding is not known"),
        (lambda root: (root / "c").write_bytes(b"caf\xe9"), "encoding is not known"),
        (lambda root: None, "does not exist"),
    ],
)
def test_what_is_no_plain_text_file_is_refused(root: Path, prepare: Any, reason: str) -> None:
    prepare(root)
    with pytest.raises(Unchangeable, match=f"proj/c: .*{reason}.* No file was changed"):
        plan(root, edit(root / "a.txt", ONE), edit(root / "c", ONE))


def test_places_outside_the_workspace_are_refused(root: Path) -> None:
    outside = root.parent / "x.txt"
    outside.write_text("one")
    (root / "link").symlink_to(root.parent)
    (root / "inner").mkdir()
    (root / "own").symlink_to(root / "inner")
    write_tree(root, {".git/config": "one"})
    for path, reason in (
        (outside, "outside the workspace"),
        (root / "link/x.txt", "outside the workspace"),
        (root / "own/new.txt", "behind a link"),
        (root / ".git/config", "belongs to git"),
        (root / "none/new.txt", "folder does not exist"),
    ):
        with pytest.raises(Unchangeable, match=reason):
            plan(root, {"kind": "create", "uri": to_uri(path), "options": {"overwrite": True}})
    assert outside.read_text() == "one"


def test_a_file_that_changed_since_the_server_was_asked_is_refused(root: Path) -> None:
    before = (root / "a.txt").stat().st_ctime_ns
    with pytest.raises(Unchangeable, match="changed meanwhile"):
        plan(root, edit(root / "a.txt", ONE), newest_ns=before - 1)
    assert plan(root, edit(root / "a.txt", ONE), newest_ns=before)


def test_a_file_that_changes_between_plan_and_deed_leaves_all_as_they_are(root: Path) -> None:
    changes = plan(root, edit(root / "a.txt", ONE), edit(root / "b.txt", ONE))
    (root / "b.txt").write_text("uno\n")
    with pytest.raises(ApplyFailed, match=r"b\.txt changed meanwhile; call again\. No file was changed"):
        apply_changes(changes)
    assert files(root) == {"a.txt": b"one\ntwo\n", "b.txt": b"uno\n"}


def test_a_new_file_overwrites_none_that_appeared_meanwhile(root: Path) -> None:
    changes = plan(
        root, {"kind": "create", "uri": to_uri(root / "c.txt")}, edit(root / "c.txt", (at(0, 0, 0, 0), "x"))
    )
    (root / "c.txt").write_text("mine")
    with pytest.raises(ApplyFailed, match="created meanwhile"):
        apply_changes(changes)
    assert (root / "c.txt").read_text() == "mine"


def test_a_failure_in_the_middle_restores_the_files_before(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    moved = {"kind": "rename", "oldUri": to_uri(root / "b.txt"), "newUri": to_uri(root / "c.txt")}
    write_tree(root, {"z.txt": "one"})
    changes = plan(root, edit(root / "a.txt", ONE), moved, edit(root / "z.txt", ONE))
    read, check = [], HeldFolder.read

    def fail_at_last(folder: HeldFolder, name: str, limit: int) -> bytes | None:
        read.append(name)
        if read.count("z.txt") == 2:  # once before, once while putting files in place
            raise OSError(28, "No space left on device")
        return check(folder, name, limit)

    monkeypatch.setattr(HeldFolder, "read", fail_at_last)
    with pytest.raises(ApplyFailed, match=r"no space left on device\. Every file is as it was"):
        apply_changes(changes)
    assert files(root) == {"a.txt": b"one\ntwo\n", "b.txt": b"one\n", "z.txt": b"one"}


def test_a_folder_without_room_changes_nothing(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    changes = plan(root, edit(root / "a.txt", ONE), edit(root / "b.txt", ONE))
    write = HeldFolder.write

    def full(folder: HeldFolder, name: str, content: bytes, mode: int = 0o600) -> None:
        if name.startswith(".b.txt"):
            raise OSError(28, "No space left on device", "b.txt")
        write(folder, name, content, mode)

    monkeypatch.setattr(HeldFolder, "write", full)
    with pytest.raises(ApplyFailed, match=r"b\.txt: no space left on device\. No file was changed"):
        apply_changes(changes)
    assert files(root) == {"a.txt": b"one\ntwo\n", "b.txt": b"one\n"}


@pytest.mark.parametrize("what", ["change", "create", "delete"])
def test_a_folder_that_becomes_a_link_between_plan_and_deed_is_left_alone(
    root: Path, tmp_path: Path, what: str
) -> None:
    write_tree(root, {"sub/a.txt": "one\n"})
    new = to_uri(root / "sub/new.txt")
    deeds = {
        "change": [edit(root / "sub/a.txt", ONE)],
        "create": [{"kind": "create", "uri": new}],
        "delete": [{"kind": "delete", "uri": to_uri(root / "sub/a.txt")}],
    }
    changes = plan(root, *deeds[what])
    elsewhere = tmp_path / "elsewhere"
    (root / "sub").rename(elsewhere)  # with the same bytes in it
    (root / "sub").symlink_to(elsewhere)
    with pytest.raises(ApplyFailed, match=r"sub is a symbolic link\. No file was changed"):
        apply_changes(changes)
    assert files(elsewhere) == {"a.txt": b"one\n"}


def test_the_diff_shows_every_change(root: Path) -> None:
    changes = plan(root, edit(root / "a.txt", ONE), {"kind": "delete", "uri": to_uri(root / "b.txt")})
    assert unified_diff(changes, Workspace.of(root)).text == "\n".join(
        [
            "--- a/proj/a.txt",
            "+++ b/proj/a.txt",
            "@@ -1,3 +1,3 @@",
            "-one",
            "+ONE",
            " two",
            " ",
            "--- a/proj/b.txt",
            "+++ /dev/null",
            "@@ -1,2 +1 @@",
            "-one",
            " ",
        ]
    )


def test_a_long_diff_is_cut_and_a_huge_file_not_compared(root: Path) -> None:
    write_tree(root, {"a.txt": "x\n" * 15_000, "b.txt": "line\n" * 8_000})
    new = [(at(number, 0, number, 1), "y") for number in range(0, 8_000, 2)]
    huge = unified_diff(plan(root, edit(root / "a.txt", (at(0, 0, 0, 1), "y"))), Workspace.of(root))
    assert huge.text.endswith("@@ 15001 lines become 15001; not compared @@")
    long = unified_diff(plan(root, edit(root / "b.txt", *new)), Workspace.of(root))
    assert long.truncated
    assert len(long.text) <= MAX_CHARACTERS + 100

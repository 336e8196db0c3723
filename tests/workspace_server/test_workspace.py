"""Paths in and out of a workspace."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from support.projects.file_tree import workspace_of, write_tree
from workspace_server.tool import InvalidArguments
from workspace_server.workspace import PathNotFound, Workspace, absolute_text


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    write_tree(tmp_path, {"outside.txt": "secret", "proj-evil/a.ts": "", "proj-evil/.keep": ""})
    write_tree(tmp_path / "proj", {"src/a.ts": "", "both.txt": "", "proj/inner.ts": "", "sub/": ""})
    write_tree(tmp_path / "two", {"both.txt": "", "lib/b.ts": ""})
    (tmp_path / "proj" / "out").symlink_to(tmp_path / "outside.txt")
    (tmp_path / "proj" / "out-dir").symlink_to(tmp_path)
    (tmp_path / "proj" / "in").symlink_to(tmp_path / "two" / "lib")
    (tmp_path / "proj" / "loop").symlink_to("loop")
    (tmp_path / "proj" / "broken").symlink_to("nowhere")
    os.mkfifo(tmp_path / "proj" / "pipe")
    return workspace_of(tmp_path / "proj", tmp_path / "two")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("proj/src/a.ts", "proj/src/a.ts"),
        ("proj\\src\\a.ts", "proj/src/a.ts"),
        ("src/a.ts", "proj/src/a.ts"),
        ("./src/../src/a.ts", "proj/src/a.ts"),
        ("lib/b.ts", "two/lib/b.ts"),
        ("proj/both.txt", "proj/both.txt"),
        ("two/both.txt", "two/both.txt"),
        ("proj/inner.ts", "proj/proj/inner.ts"),
        ("proj/in/b.ts", "two/lib/b.ts"),
        ("proj/../two/both.txt", "two/both.txt"),
    ],
)
def test_path_in_the_workspace_is_found(workspace: Workspace, text: str, expected: str) -> None:
    assert workspace.workspace_path(workspace.resolve_file(text)) == expected


def test_absolute_paths_are_found_with_either_slash(workspace: Workspace) -> None:
    path = workspace.root / "src" / "a.ts"
    assert workspace.resolve_file(str(path)) == path
    assert workspace.resolve_file(str(path).replace("/", "\\")) == path


def test_workspace_reached_through_a_link_still_contains_its_files(tmp_path: Path) -> None:
    write_tree(tmp_path / "real", {"a.txt": ""})
    (tmp_path / "alias").symlink_to(tmp_path / "real")
    workspace = Workspace.of(tmp_path / "alias")
    assert workspace.resolve_file(str(tmp_path / "alias" / "a.txt")) == tmp_path / "real" / "a.txt"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("file:///etc/passwd", "URIs are not accepted; use a path in 'filePath'."),
        ("file:/etc/passwd", "URIs are not accepted; use a path in 'filePath'."),
        ("vscode-remote://ssh/x", "URIs are not accepted; use a path in 'filePath'."),
        ("/etc/passwd", "outside the workspace"),
        ("//etc/passwd", "outside the workspace"),
        ("../outside.txt", "outside the workspace"),
        ("proj/../../outside.txt", "outside the workspace"),
        ("../no-such-file", "outside the workspace"),
        ("proj/out", "outside the workspace"),
        ("out", "outside the workspace"),
        ("proj/out-dir/outside.txt", "outside the workspace"),
        ("proj/out-dir/no-such-file", "outside the workspace"),
        ("C:\\Windows\\win.ini", "outside the workspace"),
        ("\\\\server\\share\\x", "outside the workspace"),
        (
            "three/a.ts",
            "Folder 'three' is not in this workspace. Folders: proj, two. None of them has three/a.ts.",
        ),
        ("both.txt", "ambiguous; use one of: proj/both.txt, two/both.txt"),
        ("proj/src/a.ts\0.png", "not a regular file"),
        ("proj/\ud800", "not a regular file"),
        ("proj/pipe", "not a regular file"),
        ("proj/sub", "not a regular file"),
        ("proj", "not a regular file"),
    ],
)
def test_path_is_refused_at_its_argument(workspace: Workspace, text: str, message: str) -> None:
    with pytest.raises(InvalidArguments) as caught:
        workspace.resolve_file(text)
    assert (caught.value.pointer, caught.value.message) == ("/filePath", message)


def test_folder_whose_name_only_begins_alike_is_outside(workspace: Workspace) -> None:
    with pytest.raises(InvalidArguments, match="outside the workspace"):
        workspace.resolve_file(f"{workspace.root}-evil/a.ts")


def test_device_file_outside_is_not_even_looked_at(workspace: Workspace) -> None:
    with pytest.raises(InvalidArguments, match="outside the workspace"):
        workspace.resolve_file("/dev/zero")


@pytest.mark.parametrize("text", ["proj/nope.ts", "src/nope.ts", "nope.ts", "loop", "broken", "x" * 300])
def test_missing_path_is_told_apart_from_a_forbidden_one(workspace: Workspace, text: str) -> None:
    with pytest.raises(PathNotFound):
        workspace.resolve_file(text)


def test_directory_is_resolved_only_when_asked_for(workspace: Workspace) -> None:
    assert workspace.resolve_file("proj/src", must_be="directory") == workspace.root / "src"
    assert workspace.resolve_file("two", must_be="directory").name == "two"
    with pytest.raises(InvalidArguments, match="not a directory"):
        workspace.resolve_file("proj/src/a.ts", must_be="directory")


def test_paths_go_out_with_their_folder_or_not_at_all(workspace: Workspace) -> None:
    root = workspace.root
    assert workspace.workspace_path(root / "src" / "a.ts") == "proj/src/a.ts"
    assert workspace.workspace_path(root) == "proj"
    assert workspace.workspace_path(root.parent / "proj-evil" / "a.ts") is None


def test_nested_folder_owns_its_files(tmp_path: Path) -> None:
    write_tree(tmp_path / "proj", {"inner/a.ts": ""})
    workspace = workspace_of(tmp_path / "proj", tmp_path / "proj" / "inner")
    assert workspace.workspace_path(tmp_path / "proj" / "inner" / "a.ts") == "inner/a.ts"


def test_name_that_is_not_utf8_becomes_valid_unicode() -> None:
    assert absolute_text(Path(os.fsdecode(b"/n\xff\xc3\xa9"))) == "/n\ufffdé"

"""Files that git tracks although it ignores them belong to the project: compilers read them."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from lm_tools_bridge.code_intelligence.tools.word_check.tracked_files import (
    find_ignored_tracked_files,
    names_of_index,
)
from support.projects.file_tree import write_tree
from workspace_server.sources.builtin.search.engine import Where
from workspace_server.sources.builtin.search.query import SearchSettings
from workspace_server.workspace import Workspace

FILES = {
    ".gitignore": "test\n",
    "a.c": "",
    "test/b.c": "",
    "test/ä.c": "",
    "test/gone.c": "",
    "test/new.c": "",
}


def git(root: Path, *arguments: str) -> None:
    subprocess.run(["git", *arguments], cwd=root, check=True, capture_output=True)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = write_tree(Path(os.path.realpath(tmp_path)) / "proj", FILES)
    git(root, "init")
    git(root, "add", "-f", "a.c", "test/b.c", "test/ä.c", "test/gone.c")
    (root / "test/gone.c").unlink()
    return root


async def ignored_and_tracked(root: Path) -> list[Path]:
    where = Where("**/*.c", "/symbol")
    workspace = Workspace.of(root)
    return await find_ignored_tracked_files(workspace, where, [".c"], SearchSettings())


@pytest.mark.parametrize("version", ["2", "3", "4"])
def test_the_names_in_an_index_of_each_version_are_read(root: Path, version: str) -> None:
    if version == "3":
        git(root, "add", "-N", "-f", "test/new.c")  # needs the longer entries
    git(root, "update-index", "--index-version", version)
    names = list(names_of_index((root / ".git/index").read_bytes()))
    more = ["test/new.c"] if version == "3" else []
    assert names == ["a.c", "test/b.c", "test/gone.c", *more, "test/ä.c"]


@pytest.mark.parametrize("content", [b"", b"DIRC", b"DIRC\0\0\0\2\0\0\0\5short"])
async def test_a_file_that_is_no_index_has_no_names(root: Path, content: bytes) -> None:
    (root / ".git/index").write_bytes(content)
    assert await ignored_and_tracked(root) == []


def entry_of_version_4(cut: int, name: bytes) -> bytes:
    return bytes(62) + bytes([cut]) + name + b"\0"


def test_names_that_grow_without_end_are_refused() -> None:
    count = 70
    entries = entry_of_version_4(0, b"a" * 1024 * 1024) + entry_of_version_4(0, b"b") * (count - 1)
    names = names_of_index(b"DIRC" + (4).to_bytes(4, "big") + count.to_bytes(4, "big") + entries)
    with pytest.raises(ValueError, match="too long"):
        for _ in names:
            pass


@pytest.mark.parametrize("name", [b"../other.c", b"test/../../other.c", b"/etc/other.c"])
async def test_an_index_made_by_hand_leads_to_no_file_outside(root: Path, name: bytes) -> None:
    (root.parent / "other.c").write_text("int symbol;")
    index = b"DIRC" + (4).to_bytes(4, "big") + (1).to_bytes(4, "big") + entry_of_version_4(0, name)
    (root / ".git/index").write_bytes(index)
    assert await ignored_and_tracked(root) == []


async def test_an_index_that_is_a_pipe_is_not_opened(root: Path) -> None:
    (root / ".git/index").unlink()
    os.mkfifo(root / ".git/index")
    assert await ignored_and_tracked(root) == []


async def test_tracked_files_that_searches_leave_out_are_found(root: Path) -> None:
    assert await ignored_and_tracked(root) == [root / "test/b.c", root / "test/ä.c"]


async def test_a_project_without_git_has_none(tmp_path: Path) -> None:
    root = write_tree(Path(os.path.realpath(tmp_path)) / "proj", {"a.c": ""})
    assert await ignored_and_tracked(root) == []

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


@pytest.mark.parametrize("version", ["2", "3", "4"])
def test_the_names_in_an_index_of_each_version_are_read(root: Path, version: str) -> None:
    if version == "3":
        git(root, "add", "-N", "-f", "test/new.c")  # needs the longer entries
    git(root, "update-index", "--index-version", version)
    names = list(names_of_index((root / ".git/index").read_bytes()))
    more = ["test/new.c"] if version == "3" else []
    assert names == ["a.c", "test/b.c", "test/gone.c", *more, "test/ä.c"]


@pytest.mark.parametrize("content", [b"", b"DIRC", b"DIRC\0\0\0\2\0\0\0\5short"])
def test_what_is_no_index_is_refused(content: bytes) -> None:
    with pytest.raises((ValueError, IndexError)):
        print(list(names_of_index(content)) or content[99])


async def test_tracked_files_that_searches_leave_out_are_found(root: Path) -> None:
    where = Where("**/*.c", "/symbol")
    found = await find_ignored_tracked_files(Workspace.of(root), where, [".c"], SearchSettings())
    assert found == [root / "test/b.c", root / "test/ä.c"]


async def test_a_project_without_git_has_none(tmp_path: Path) -> None:
    root = write_tree(Path(os.path.realpath(tmp_path)) / "proj", {"a.c": ""})
    where = Where("**/*.c", "/symbol")
    assert await find_ignored_tracked_files(Workspace.of(root), where, [".c"], SearchSettings()) == []

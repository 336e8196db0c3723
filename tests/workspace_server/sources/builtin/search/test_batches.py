"""The files of a search in batches."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.projects.file_tree import workspace_of, write_tree
from workspace_server.sources.builtin.files.listing import Listing
from workspace_server.sources.builtin.files.patterns import query_filters
from workspace_server.sources.builtin.files.segments import Segment, SegmentFilter
from workspace_server.sources.builtin.files.tree import Tree
from workspace_server.sources.builtin.search import batches
from workspace_server.sources.builtin.search.batches import Batch, Batches
from workspace_server.sources.builtin.search.query import FilesOfDirectory, Scope


@pytest.fixture
def scope(tmp_path: Path) -> Scope:
    return scope_of(tmp_path, "*.txt")


def scope_of(tmp_path: Path, pattern: str) -> Scope:
    write_tree(tmp_path / "proj", {f"{folder}/{name}.txt": "" for folder in "abc" for name in range(7)})
    workspace = workspace_of(tmp_path / "proj")
    folder = workspace.folders[0]
    wanted = SegmentFilter(query_filters(pattern, workspace, "/query")[folder])
    return Scope(Tree.open(workspace, folder, {}), Listing(), wanted)


async def all_batches(scope: Scope) -> list[Batch]:
    found = []
    each = Batches(scope)
    while batch := await each.next():
        found.append(batch)
    each.close()
    return found


async def test_batches_grow_and_have_all_files_in_order(
    scope: Scope, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batches, "FIRST", 2)
    monkeypatch.setattr(batches, "GROWTH", 5)
    found = await all_batches(scope)
    assert [len(batch) for batch in found] == [7, 14]
    names = [name for batch in found for name in batch.files()]
    assert names == [f"{folder}/{name}.txt" for folder in "abc" for name in range(7)]


async def test_a_batch_fits_into_the_arguments_of_a_program(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batches, "most_bytes", lambda: 60)
    found = await all_batches(scope_of(tmp_path, "[0-5].txt"))
    assert max(len(batch.arguments()) for batch in found) == 4
    arguments = [argument for batch in found for argument in batch.arguments()]
    assert arguments == [f"{folder}/{name}.txt" for folder in "abc" for name in range(6)]


def test_a_directory_stands_for_its_files_only_if_all_are_meant() -> None:
    batch = Batch()
    for base, names, is_whole in (("", "xy", True), ("a/", "xy", False), ("b/c/", "yz", True)):
        batch.add(FilesOfDirectory(Segment(base, f"/{'/'.join(names)}/", 2, is_whole), list(names)))
    assert batch.arguments() == ["./", "a/x", "a/y", "b/c/"]
    files = ["x", "y", "a/x", "a/y", "b/c/y", "b/c/z"]
    assert (batch.files(), len(batch)) == (files, 6)
    assert [batch.place_of(path) for path in files] == [(0, 0), (0, 1), (1, 0), (1, 1), (2, 0), (2, 1)]
    assert [batch.place_of(path) for path in ("z", "a/z", "b/x", "c/y", "")] == [None] * 5


@pytest.mark.parametrize(
    ("more", "arguments"),
    [
        ({}, ["./", "sub/"]),
        ({"other.log": ""}, ["keep", ".gitignore", "sub/"]),
        ({"sub/other.log": ""}, ["./", "sub/keep"]),
    ],
)
def test_a_directory_with_ignored_files_is_not_given_whole(
    tmp_path: Path, more: dict[str, str], arguments: list[str]
) -> None:
    write_tree(tmp_path, {".gitignore": "*.log\n", "keep": "", "sub/keep": "", **more})
    assert sorted(given(tmp_path)) == sorted(arguments)


def test_a_directory_with_links_is_not_given_whole(tmp_path: Path) -> None:
    write_tree(tmp_path, {"a/x": "", "b/x": ""})
    (tmp_path / "a" / "link").symlink_to("x")
    (tmp_path / "b" / "out").symlink_to("/etc/hostname")
    assert given(tmp_path) == ["a/link", "a/x", "b/x"]


def given(root: Path) -> list[str]:
    """What a program is told to search for all files."""
    workspace = workspace_of(root)
    wanted = SegmentFilter(query_filters("", workspace, "/query")[workspace.folders[0]])
    scope = Scope(Tree.open(workspace, workspace.folders[0], {}), Listing(), wanted)
    batch = Batch()
    for part in scope.files(lambda: False):
        batch.add(part)
    return batch.arguments()


async def test_closing_early_stops_the_listing(scope: Scope) -> None:
    each = Batches(scope)
    each.close()
    assert len(await each.next()) in {0, 7, 14, 21}

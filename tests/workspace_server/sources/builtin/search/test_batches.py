"""The files of a search in batches."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from support.projects.file_tree import RIPGREP, settings_of, workspace_of, write_tree
from workspace_server.sources.builtin.files.ignore import Tree
from workspace_server.sources.builtin.files.listing import Listing
from workspace_server.sources.builtin.files.patterns import query_filters
from workspace_server.sources.builtin.files.segments import Segment, SegmentFilter
from workspace_server.sources.builtin.search import batches, process, ripgrep
from workspace_server.sources.builtin.search.batches import Batch, Batches, WholeTree
from workspace_server.sources.builtin.search.engine import Where, find_text
from workspace_server.sources.builtin.search.query import FilesOfDirectory, Findings, Line, Scope, TextQuery


@pytest.fixture
def scope(tmp_path: Path) -> Scope:
    return scope_of(tmp_path, "*.txt")


def scope_of(tmp_path: Path, pattern: str) -> Scope:
    write_tree(tmp_path / "proj", {f"{folder}/{name}.txt": "" for folder in "abc" for name in range(7)})
    workspace = workspace_of(tmp_path / "proj")
    folder = workspace.folders[0]
    segment_filter = SegmentFilter(query_filters(pattern, workspace, "/query")[folder])
    return Scope(Tree.open(workspace, folder, {}), Listing(), segment_filter)


async def all_batches(scope: Scope) -> list[Batch]:
    every_batch = []
    each = Batches(scope)
    while batch := await each.next():
        every_batch.append(batch)
    each.close()
    return every_batch


async def test_batches_grow_and_have_all_files_in_order(
    scope: Scope, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batches, "FIRST", 2)
    monkeypatch.setattr(batches, "GROWTH", 5)
    every_batch = await all_batches(scope)
    assert [len(batch) for batch in every_batch] == [7, 14]
    names = [name for batch in every_batch for name in batch.files()]
    assert names == [f"{folder}/{name}.txt" for folder in "abc" for name in range(7)]


async def test_a_batch_fits_into_the_arguments_of_a_program(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batches, "most_bytes", lambda: 60)
    every_batch = await all_batches(scope_of(tmp_path, "[0-5].txt"))
    assert max(len(batch.arguments()) for batch in every_batch) == 4
    arguments = [argument for batch in every_batch for argument in batch.arguments()]
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
    segment_filter = SegmentFilter(query_filters("", workspace, "/query")[workspace.folders[0]])
    scope = Scope(Tree.open(workspace, workspace.folders[0], {}), Listing(), segment_filter)
    batch = Batch()
    for part in scope.files(lambda: False):
        batch.add(part)
    return batch.arguments()


async def test_closing_early_stops_the_listing(scope: Scope) -> None:
    each = Batches(scope)
    each.close()
    assert len(await each.next()) in {0, 7, 14, 21}


NEEDLE = TextQuery("needle", regex=False)
FILES = {"a/x.txt": "needle\n", "b/c/y.txt": "needle\n", "b/z.md": "needle\n"}


def tree_of(root: Path, pattern: str = "", *, done: int = 0) -> WholeTree:
    workspace = workspace_of(root)
    segment_filter = SegmentFilter(query_filters(pattern, workspace, "/query")[workspace.folders[0]])
    segments = Listing().segments(Tree.open(workspace, workspace.folders[0], {}), lambda: False)
    return WholeTree(segments, segment_filter, done=done, is_done=lambda path: path == "a/x.txt")


def test_ripgrep_is_told_what_is_hidden_and_where_links_lead(tmp_path: Path) -> None:
    write_tree(
        tmp_path, {**FILES, ".gitignore": "*.log\nbuild/\n", "b/o.log": "", "a/build/p": "", ".git/q": ""}
    )
    write_tree(tmp_path, {".vscode/settings.json": '{"files.exclude": {"b/z.md": true}}'})
    (tmp_path / "a" / "link").symlink_to("x.txt")
    (tmp_path / "a" / "dir").symlink_to("../b/c")
    (tmp_path / "a" / "out").symlink_to("/etc")
    tree = tree_of(tmp_path)
    assert sorted(tree.ignore_file().decode().split()) == [".git", "/a/build", "/b/o.log", "/b/z.md"]
    assert sorted(tree.arguments()) == ["./", "./a/dir/", "./a/link"]


def test_only_listed_files_that_are_not_done_have_a_place(tmp_path: Path) -> None:
    write_tree(tmp_path, {**FILES, ".gitignore": "*.log\n", "b/o.log": ""})
    tree = tree_of(tmp_path)
    assert [tree.place_of(path) for path in ("a/x.txt", "b/o.log", "b/new", "new/x", "")] == [None] * 5
    there = [tree.place_of(path) for path in (".gitignore", "b/z.md", "b/c/y.txt")]
    assert None not in there
    assert there == sorted(there)


def test_a_walk_pays_where_most_files_are_wanted_and_some_are_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_tree(tmp_path, {**FILES, ".ignore": "*.log\n", "b/o.log": ""})
    assert tree_of(tmp_path).is_worth_a_walk
    assert tree_of(tmp_path, "*.txt").is_worth_a_walk
    assert not tree_of(tmp_path, "*.md").is_worth_a_walk
    assert not tree_of(tmp_path, done=4).is_worth_a_walk
    monkeypatch.setattr(batches, "MAX_HIDDEN", 0)
    assert not tree_of(tmp_path).is_worth_a_walk


AWKWARD = [
    "*",
    "?",
    "[a]",
    "{a,a}",
    "!a",
    "#a",
    "\\a",
    "a\\",
    "a ",
    " a",
    "a\t",
    "a\n",
    "a\nb",
    "a\u00a0",
    "a\udcff",
    "-",
]


@pytest.mark.skipif(RIPGREP is None, reason="no rg, and no wheel of it for this machine")
@pytest.mark.parametrize("name", AWKWARD)
async def test_a_hidden_name_hides_no_other(name: str, tmp_path: Path) -> None:
    others = sorted({"a", "aa", "b", "nb", *AWKWARD} - {name}, key=os.fsencode)
    write_tree(tmp_path, {f"{place}{each}": "needle\n" for place in ("", "d/") for each in (*others, name)})
    text = f"/{'/'.join(others)}/"
    segments = [Segment(base, text, len(others), False, (name,)) for base in ("", "d/")]
    segment_filter = SegmentFilter(
        query_filters("", workspace_of(tmp_path), "/query")[workspace_of(tmp_path).folders[0]]
    )
    tree = WholeTree(segments, segment_filter, done=0, is_done=lambda path: False)
    every_batch: Findings[Line] = Findings()
    assert RIPGREP is not None
    assert await ripgrep.find_lines_of_tree(RIPGREP, tmp_path, NEEDLE, tree, limit=99, found=every_batch)
    assert [line.relative for line in every_batch.items] == [
        f"{base}{each}" for base in ("", "d/") for each in others
    ]


@pytest.mark.skipif(RIPGREP is None, reason="no rg, and no wheel of it for this machine")
async def test_what_the_first_batch_leaves_is_searched_by_one_walk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batches, "FIRST", 1)
    write_tree(tmp_path / "proj", {**FILES, **{f"d{n}/x": "needle\n" for n in range(20)}})
    commands: list[Sequence[str]] = []

    async def noted(command: Sequence[str], *arguments: Any, **named: Any) -> process.Exit:
        commands.append(command)
        return await process.run(command, *arguments, **named)

    monkeypatch.setattr(ripgrep, "run", noted)
    settings = settings_of("rg", tmp_path)
    every_batch = await find_text(workspace_of(tmp_path / "proj"), NEEDLE, Where("", ""), 99, settings)
    assert (every_batch.total, every_batch.exact) == (23, True)
    assert [match.path.name for match in every_batch.items] == ["x.txt", "z.md", "y.txt", *["x"] * 20]
    assert [command[-1] for command in commands] == ["a/", "./"]


@pytest.mark.skipif(RIPGREP is None, reason="no rg, and no wheel of it for this machine")
async def test_a_walk_that_fails_is_replaced_by_the_matcher_in_python(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batches, "FIRST", 1)
    write_tree(tmp_path / "proj", FILES)
    rg = tmp_path / "rg"
    rg.write_text(f'#!/bin/sh\ncase "$*" in *--ignore-file*) exit 2;; esac\nexec {RIPGREP} "$@"\n')
    rg.chmod(0o700)
    settings = replace(settings_of("rg", tmp_path), ripgrep=str(rg))
    every_batch = await find_text(workspace_of(tmp_path / "proj"), NEEDLE, Where("", ""), 99, settings)
    assert [match.path.name for match in every_batch.items] == ["x.txt", "z.md", "y.txt"]

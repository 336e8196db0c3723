"""The files of a search in batches."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.projects.file_tree import workspace_of, write_tree
from workspace_server.sources.builtin.search import batches
from workspace_server.sources.builtin.search.batches import Batches
from workspace_server.sources.builtin.search.listing import Listing
from workspace_server.sources.builtin.search.patterns import query_filters
from workspace_server.sources.builtin.search.query import Scope
from workspace_server.sources.builtin.search.segments import SegmentFilter
from workspace_server.sources.builtin.search.tree import Tree


@pytest.fixture
def scope(tmp_path: Path) -> Scope:
    write_tree(tmp_path / "proj", {f"{folder}/{name}.txt": "" for folder in "abc" for name in range(7)})
    workspace = workspace_of(tmp_path / "proj")
    folder = workspace.folders[0]
    wanted = SegmentFilter(query_filters("*.txt", workspace, "/query")[folder])
    return Scope(Tree.open(workspace, folder, {}), Listing(), wanted)


async def sizes(scope: Scope) -> list[int]:
    found, names = [], []
    each = Batches(scope)
    while batch := await each.next():
        found.append(len(batch))
        names += batch
    each.close()
    assert names == [f"{folder}/{name}.txt" for folder in "abc" for name in range(7)]
    return found


async def test_batches_grow_and_have_all_files_in_order(
    scope: Scope, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batches, "FIRST", 2)
    monkeypatch.setattr(batches, "GROWTH", 3)
    assert await sizes(scope) == [2, 6, 13]


async def test_a_batch_fits_into_the_arguments_of_a_program(
    scope: Scope, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batches, "most_bytes", lambda: 60)
    assert max(await sizes(scope)) <= 5


async def test_closing_early_stops_the_listing(scope: Scope) -> None:
    each = Batches(scope)
    each.close()
    assert len(await each.next()) in {0, 7, 14, 21}

"""Searches of one workspace share their lists of files, until none has used them for a while."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from workspace_server.sources.builtin import kept_searches
from workspace_server.sources.builtin.files.listing import Listing
from workspace_server.sources.builtin.kept_searches import KeptSearches


def listing(searches: KeptSearches, folder: Path) -> Listing:
    """The list of a folder in the next search."""
    return searches.settings().listings.of(folder, include_ignored=False)


async def test_the_next_search_has_the_list_of_the_last_one(tmp_path: Path) -> None:
    searches = KeptSearches()
    assert listing(searches, tmp_path) is listing(searches, tmp_path)
    searches.close()


async def test_lists_that_no_search_has_used_for_a_while_are_forgotten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kept_searches, "KEPT_S", 0.0)
    searches = KeptSearches()
    first = listing(searches, tmp_path)
    loop_has_turned = asyncio.Event()
    asyncio.get_running_loop().call_later(0.01, loop_has_turned.set)
    await loop_has_turned.wait()
    assert listing(searches, tmp_path) is not first
    searches.close()


async def test_a_search_puts_the_end_of_the_lists_off(tmp_path: Path) -> None:
    searches = KeptSearches()
    first = listing(searches, tmp_path)
    ends = [searches._idle]
    searches.settings()
    ends.append(searches._idle)
    assert ends[0] is not None and ends[0].cancelled()
    assert ends[1] is not None and not ends[1].cancelled()
    assert listing(searches, tmp_path) is first
    searches.close()


async def test_the_end_of_the_source_forgets_the_lists(tmp_path: Path) -> None:
    searches = KeptSearches()
    first = listing(searches, tmp_path)
    searches.close()
    assert listing(searches, tmp_path) is not first
    searches.close()


async def test_without_a_search_there_is_nothing_to_forget() -> None:
    KeptSearches().close()

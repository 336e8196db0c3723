"""Instructions of servers are known before the server runs, and are those of its last handshake."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from workspace_server.sources.mcp.lists.list_cache import ListCache
from workspace_server.sources.mcp.lists.server_lists import MAX_KEPT, ServerInstructions


async def test_the_next_life_has_them_at_once_and_the_server_replaces_them(tmp_path: Path) -> None:
    cache = ListCache(tmp_path)
    await ServerInstructions(cache, "key").take("Be kind.")
    later = ServerInstructions(cache, "key")
    assert later.text is None
    await asyncio.gather(later.load_cached(), later.load_cached())
    assert later.text == "Be kind."
    await later.take(None)
    again = ServerInstructions(cache, "key")
    await again.load_cached()
    assert again.text is None


async def test_what_the_server_said_is_not_replaced_by_older_words(tmp_path: Path) -> None:
    cache = ListCache(tmp_path)
    await ServerInstructions(cache, "key").take("old")
    now = ServerInstructions(cache, "key")
    await now.take("new")
    await now.load_cached()
    assert now.text == "new"


async def test_they_are_limited_and_well_formed(tmp_path: Path) -> None:
    instructions = ServerInstructions(ListCache(tmp_path), "key")
    await instructions.take("\ud800" + "x" * 2 * MAX_KEPT)
    assert instructions.text == "\ufffd" + "x" * (MAX_KEPT - 1)


@pytest.mark.parametrize("content", [b"", b"{", b"7", b'"\xff"'])
async def test_a_damaged_file_counts_as_none(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "key.json").write_bytes(content)
    instructions = ServerInstructions(ListCache(tmp_path), "key")
    await instructions.load_cached()
    assert instructions.text is None


async def test_without_a_cache_nothing_is_kept() -> None:
    instructions = ServerInstructions(None, "key")
    await instructions.load_cached()
    await instructions.take("here")
    assert instructions.text == "here"

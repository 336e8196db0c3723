"""Meta-tools that a client was shown stay in its lists, also after a restart."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from workspace_server.tool_search.definitions import KEPT_S, MAX_CLIENTS, SAVE_S, KeptMetaTools


class Days:
    """A clock that a test turns."""

    now = 1_800_000_000.0

    def __call__(self) -> float:
        return self.now


async def test_a_client_keeps_what_it_needed_once() -> None:
    kept = KeptMetaTools()
    assert not await kept.keeps("claude-code", is_needed=False)
    assert await kept.keeps("claude-code", is_needed=True)
    assert await kept.keeps("claude-code", is_needed=False)
    assert not await kept.keeps("opencode", is_needed=False)


async def test_it_is_remembered_by_the_next_process_for_some_days(tmp_path: Path) -> None:
    clock, file = Days(), tmp_path / "below" / "ws.json"
    await KeptMetaTools(file, clock).keeps("claude-code", is_needed=True)
    clock.now += KEPT_S - 1
    assert await KeptMetaTools(file, clock).keeps("claude-code", is_needed=False)
    clock.now += 2
    assert not await KeptMetaTools(file, clock).keeps("claude-code", is_needed=False)


async def test_a_need_is_saved_once_an_hour(tmp_path: Path) -> None:
    clock, file = Days(), tmp_path / "ws.json"
    kept = KeptMetaTools(file, clock)
    await kept.keeps("a", is_needed=True)
    written = file.stat().st_mtime_ns
    clock.now += SAVE_S - 1
    await kept.keeps("a", is_needed=True)
    assert file.stat().st_mtime_ns == written
    clock.now += 2
    await kept.keeps("a", is_needed=True)
    assert json.loads(file.read_bytes()) == {"a": clock.now}


async def test_names_of_clients_are_limited_in_number_and_length(tmp_path: Path) -> None:
    clock, file = Days(), tmp_path / "ws.json"
    kept = KeptMetaTools(file, clock)
    for number in range(MAX_CLIENTS + 3):
        clock.now += 1
        await kept.keeps(f"{number}-{'x' * 5_000}", is_needed=True)
    saved = json.loads(file.read_bytes())
    assert len(saved) == MAX_CLIENTS
    assert max(map(len, saved)) == 100
    assert not await kept.keeps("0-" + "x" * 5_000, is_needed=False), "the oldest is forgotten"


@pytest.mark.parametrize("content", [b"", b"[]", b'{"a":"b"}', b"\xff", b'{"\xff":1}'])
async def test_a_damaged_file_counts_as_none(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "ws.json"
    file.write_bytes(content)
    file.chmod(0o600)
    kept = KeptMetaTools(file)
    assert not await kept.keeps("a", is_needed=False)
    assert await kept.keeps("a", is_needed=True)


async def test_a_folder_that_cannot_be_made_costs_only_the_memory(tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("")
    kept = KeptMetaTools(tmp_path / "taken" / "ws.json")
    assert await kept.keeps("a", is_needed=True)
    assert await kept.keeps("a", is_needed=False)

"""The cache of tool lists on disk."""

from __future__ import annotations

import os
from pathlib import Path

from workspace_server.sources.mcp.lists import list_cache
from workspace_server.sources.mcp.lists.list_cache import ListCache, ServerListCache, key_of


def test_a_list_is_loaded_by_its_own_key_only(tmp_path: Path) -> None:
    cache = ListCache(tmp_path / "lists")
    assert cache.load("a") is None
    cache.save("a", b"one")
    cache.save("a", b"two")
    assert (cache.load("a"), cache.load("b")) == (b"two", None)


def test_a_list_from_elsewhere_is_loaded_until_there_is_an_own_one(tmp_path: Path) -> None:
    cache = ServerListCache(tmp_path, "own", lambda: ["none", "main", "other"])
    ListCache(tmp_path).save("main-prompts", b"p")
    ListCache(tmp_path).save("main", b"main")
    ListCache(tmp_path).save("other", b"other")
    assert (cache.load("own"), cache.load("own-prompts"), cache.load("own-skills")) == (b"main", b"p", None)
    cache.save("own", b"own")
    assert (cache.load("own"), ListCache(tmp_path).load("main")) == (b"own", b"main")


def test_another_configuration_has_another_key() -> None:
    keys = {
        key_of({"command": command, "env": env})
        for command in (["a", "b"], ["a b"])
        for env in ({}, {"A": "1"})
    }
    assert len(keys) == 4
    assert key_of({"a": 1, "b": 2}) == key_of({"b": 2, "a": 1})


def test_only_the_user_may_read_the_cache(tmp_path: Path) -> None:
    cache = ListCache(tmp_path / "lists")
    cache.save("a", b"x")
    assert (tmp_path / "lists").stat().st_mode & 0o777 == 0o700
    assert [(file.name, file.stat().st_mode & 0o777) for file in (tmp_path / "lists").iterdir()] == [
        ("a.json", 0o600)
    ]


def test_a_folder_that_cannot_be_written_only_prevents_saving(tmp_path: Path) -> None:
    (tmp_path / "lists").write_text("a file is here")
    cache = ListCache(tmp_path / "lists")
    cache.save("a", b"x")
    assert cache.load("a") is None


def test_the_oldest_lists_are_deleted(tmp_path: Path) -> None:
    cache = ListCache(tmp_path)
    for n in range(list_cache.MAX_FILES):
        (tmp_path / f"{n}.json").write_bytes(b"")
        os.utime(tmp_path / f"{n}.json", (n, n))
    cache.save("new", b"x")
    assert cache.load("0") is None
    assert cache.load("1") == b""
    assert cache.load("new") == b"x"


def test_a_file_that_is_too_large_is_not_read(tmp_path: Path) -> None:
    cache = ListCache(tmp_path)
    with (tmp_path / "a.json").open("wb") as file:
        file.truncate(list_cache.MAX_BYTES + 1)
    assert cache.load("a") is None

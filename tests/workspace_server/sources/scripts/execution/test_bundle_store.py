"""Bundles written out privately: what was looked at is what runs."""

from __future__ import annotations

import os
import stat
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.projects.script_tools import Judge, write_tool
from workspace_server.sources.scripts.definition.bundle import Bundle
from workspace_server.sources.scripts.definition.catalog import Catalog
from workspace_server.sources.scripts.execution.bundle_store import KEPT, BundleStore

BUNDLE = Bundle(
    {"a.py": b"1", "d/run": b"#!/bin/sh\n", "d/tool": b"\0"}, frozenset({"d/tool"}), {"d/l": "../a.py"}
)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[BundleStore]:
    made = BundleStore(tmp_path / "private" / "tools")
    yield made
    made.close()
    assert not (tmp_path / "private" / "tools").exists()


def mode(path: Path) -> str:
    return oct(stat.S_IMODE(path.lstat().st_mode))


def test_files_are_read_only_and_private(store: BundleStore) -> None:
    (folder,) = store.place([BUNDLE])
    assert {name: (folder / name).read_bytes() for name in BUNDLE.contents} == BUNDLE.contents
    assert [mode(folder / name) for name in ("a.py", "d/run", "d/tool")] == ["0o400", "0o500", "0o500"]
    assert [mode(path) for path in (folder, folder / "d", folder.parent)] == ["0o500", "0o500", "0o700"]
    assert (folder / "d" / "l").read_bytes() == b"1"


def test_an_unchanged_folder_is_used_again(store: BundleStore) -> None:
    assert store.place([BUNDLE]) == store.place([BUNDLE])


@pytest.mark.parametrize("change", ["content", "mode", "added", "removed", "same content"])
def test_a_modified_folder_is_not_used_again(store: BundleStore, change: str) -> None:
    (folder,) = store.place([BUNDLE])
    folder.chmod(0o700)
    file = folder / "a.py"
    match change:
        case "content" | "same content":
            file.chmod(0o600)
            file.write_bytes(b"2" if change == "content" else b"1")
            file.chmod(0o400)
        case "mode":
            file.chmod(0o500)
        case "added":
            (folder / "json.py").write_text("evil")
        case "removed":
            file.unlink()
    folder.chmod(0o500)
    (again,) = store.place([BUNDLE])
    assert again != folder
    assert (again / "a.py").read_bytes() == b"1"
    assert not (again / "json.py").exists()


def test_only_unused_bundles_are_removed(store: BundleStore) -> None:
    with store.in_use([BUNDLE]):
        (kept,) = store.place([BUNDLE])
        others = [store.place([Bundle({"n": str(n).encode()}, frozenset(), {})])[0] for n in range(KEPT + 5)]
        assert kept.exists()
        assert [folder.exists() for folder in others] == [False] * 5 + [True] * KEPT


def test_a_closed_store_writes_nothing(store: BundleStore) -> None:
    store.place([BUNDLE])
    store.close()
    with pytest.raises(OSError):
        store.place([BUNDLE])


def test_of_a_file_that_keeps_changing_only_trusted_bytes_are_written(
    tmp_path: Path, store: BundleStore
) -> None:
    """The file changes a thousand times between the checks."""
    root = tmp_path / "project"
    good, evil = b"print('good')\n", b"print('evil')\n"
    script = write_tool(root / "tools", "a", good) / "script.py"
    judge = Judge()
    catalog = Catalog([root / "tools"], root, judge)
    judge.trusted = {item.key: item.digest() for item in catalog.look().items}
    stop = threading.Event()
    flips = [0]

    def flip() -> None:
        spare = script.with_name(".spare")
        while not stop.is_set():
            flips[0] += 1
            content = good if flips[0] % 2 else evil
            if flips[0] % 4 < 2:
                script.write_bytes(content)
            else:
                spare.write_bytes(content)
                os.replace(spare, script)

    flipper = threading.Thread(target=flip)
    flipper.start()
    placed = pending = looks = 0
    try:
        while looks < 200 or flips[0] < 1000:
            looks += 1
            snapshot = catalog.look()
            found = snapshot.scripts.get("a")
            if found is None:
                pending += "a" in snapshot.pending
            else:
                placed += 1
                (folder,) = store.place([found.bundle])
                assert (folder / "script.py").read_bytes() == good
                assert found.item.digest() == judge.trusted[found.item.key]
    finally:
        stop.set()
        flipper.join()
    assert placed
    assert pending

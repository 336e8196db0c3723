"""The content of a folder, read once."""

from __future__ import annotations

import os
import stat
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.projects.script_tools import Judge, write_tool
from workspace_server.sources.scripts.bundle import KEPT, Bundle, BundleStore, Unreadable, read
from workspace_server.sources.scripts.catalog import Catalog
from workspace_server.sources.scripts.folders import Tree
from workspace_server.trust.item import EXECUTABLE, LINK


def bundle_of(folder: Path) -> Bundle:
    tree = Tree()
    tree.begin()
    return read(tree.survey(str(folder)))[0]


def test_a_bundle_is_all_files_with_their_modes_and_links(tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    (tmp_path / "run.sh").write_text("#!/bin/sh\n")
    (tmp_path / "run.sh").chmod(0o755)
    (tmp_path / "deep" / "data").write_bytes(b"\0\1")
    (tmp_path / "deep" / "up").symlink_to("../run.sh")
    assert bundle_of(tmp_path).files == {
        f"run.sh{EXECUTABLE}": b"#!/bin/sh\n",
        "deep/data": b"\0\1",
        f"deep/up{LINK}": b"../run.sh",
    }


def test_different_content_never_has_one_digest() -> None:
    bundles = [
        Bundle({"a": b"b"}, frozenset(), {}),
        Bundle({"a": b"b"}, frozenset({"a"}), {}),
        Bundle({}, frozenset(), {"a": "b"}),
        Bundle({"a": b"", "b": b""}, frozenset(), {}),
        Bundle({"a": b"1:1:b"}, frozenset(), {}),
    ]
    assert len({bundle.digest for bundle in bundles}) == len(bundles)


@pytest.mark.parametrize(
    ("name", "target"),
    [("a", "/etc"), ("a", ".."), ("a", "../b"), ("d/a", "../../b"), ("a", "d/../../b"), ("a", "d/../b")],
)
def test_a_link_that_could_lead_out_makes_a_folder_unreadable(tmp_path: Path, name: str, target: str) -> None:
    (tmp_path / "d").mkdir()
    (tmp_path / name).symlink_to(target)
    with pytest.raises(Unreadable, match="leads out"):
        bundle_of(tmp_path)


@pytest.mark.parametrize(
    ("links", "name", "found"),
    [
        ({}, "f", "f"),
        ({}, "none", None),
        ({"l": "f"}, "l", "f"),
        ({"l": "m", "m": "f"}, "l", "f"),
        ({"l": "d"}, "l/g", "d/g"),
        ({"d/l": "../f"}, "d/l", "f"),
        ({"l": "m", "m": "l"}, "l", None),
        ({"l": "l/x"}, "l", None),
    ],
)
def test_names_are_found_through_links_of_the_bundle(
    links: dict[str, str], name: str, found: str | None
) -> None:
    assert Bundle({"f": b"", "d/g": b""}, frozenset(), links).find(name) == found


def test_an_unreadable_file_is_reported(tmp_path: Path) -> None:
    file = tmp_path / "f"
    file.write_text("x")
    tree = Tree()
    tree.begin()
    survey = tree.survey(str(tmp_path))
    file.unlink()
    with pytest.raises(Unreadable, match="f cannot be read: no such file"):
        read(survey)
    file.symlink_to("/etc/passwd")
    with pytest.raises(Unreadable, match="f cannot be read"):
        read(survey)


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

"""The trust store: exactly what was trusted is trusted; every fault means not trusted."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from lm_tools_bridge.machine import private_files
from workspace_server.trust.item import TrustItem
from workspace_server.trust.store import MAX_RECORD, TrustStore, TrustStoreError

TOOL = TrustItem("script:hello", "script tool hello", {"cwd": "."}, {"run.py": b"print(1)\n"})
SERVER = TrustItem("stdio:gh", "stdio server gh: npx gh", {"command": ["npx", "gh"]})


def changed(item: TrustItem) -> TrustItem:
    return TrustItem(item.key, item.title, {**item.facts, "more": 1}, item.files)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "ws"
    folder.mkdir()
    return folder


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "state" / "trust"


@pytest.fixture
def store(folder: Path) -> TrustStore:
    return TrustStore(folder)


def record_in(folder: Path) -> Path:
    return next(folder.glob("*.json"))


def test_nothing_is_trusted_at_first_and_queries_write_nothing(
    store: TrustStore, root: Path, folder: Path
) -> None:
    assert store.verdict(root, TOOL) == "never"
    assert store.issue(root) is None
    assert not folder.exists()


def test_exactly_the_trusted_content_is_trusted(store: TrustStore, root: Path) -> None:
    store.trust(root, [TOOL, SERVER])
    assert store.verdict(root, TOOL) == "trusted"
    assert store.verdict(root, changed(TOOL)) == "changed"
    assert store.verdict(root, SERVER) == "trusted"
    assert store.verdict(root, TrustItem("stdio:new", "", {})) == "never"


def test_other_processes_see_new_trust_at_once(store: TrustStore, folder: Path, root: Path) -> None:
    other = TrustStore(folder)
    assert store.verdict(root, TOOL) == "never"
    other.trust(root, [TOOL])
    assert store.verdict(root, TOOL) == "trusted"
    other.trust(root, [changed(TOOL)])
    assert store.verdict(root, TOOL) == "changed"
    assert other.untrust(root)
    assert store.verdict(root, TOOL) == "never"


def test_trusting_again_replaces_what_was_trusted(store: TrustStore, root: Path) -> None:
    store.trust(root, [TOOL, SERVER])
    store.trust(root, [TOOL])
    assert store.verdict(root, SERVER) == "never"


def test_folder_and_files_are_private(store: TrustStore, folder: Path, root: Path) -> None:
    store.trust(root, [TOOL])
    assert folder.stat().st_mode & 0o777 == 0o700
    assert {one.stat().st_mode & 0o777 for one in folder.iterdir()} == {0o600}


def test_untrust_returns_whether_there_was_a_record(store: TrustStore, root: Path) -> None:
    assert not store.untrust(root)
    store.trust(root, [TOOL])
    assert store.untrust(root)
    assert store.verdict(root, TOOL) == "never"
    assert not store.untrust(root)


def test_a_missing_folder_can_be_untrusted(store: TrustStore, root: Path) -> None:
    store.trust(root, [TOOL])
    root.rmdir()
    assert store.verdict(root, TOOL) == "never"
    assert store.untrust(root)


# -- which folder it is ----------------------------------------------------------------


def test_a_moved_folder_is_not_trusted_until_it_is_back(
    store: TrustStore, root: Path, tmp_path: Path
) -> None:
    store.trust(root, [TOOL])
    moved = root.rename(tmp_path / "moved")
    assert store.verdict(moved, TOOL) == "never"
    moved.rename(root)
    assert store.verdict(root, TOOL) == "trusted"


def test_a_replaced_folder_is_not_trusted_and_reported(store: TrustStore, root: Path, tmp_path: Path) -> None:
    store.trust(root, [TOOL])
    root.rename(tmp_path / "moved")
    root.mkdir()
    assert store.verdict(root, TOOL) == "changed"
    issue = store.issue(root)
    assert issue is not None
    assert (issue.code, issue.details) == ("TRUST_FOLDER_REPLACED", f"lmtb trust {root}")


@pytest.mark.parametrize("name", ["ws-evil", "WS", "ws ", "ws\n", "\u00e9", "e\u0301"])
def test_a_folder_with_a_similar_name_is_not_trusted(store: TrustStore, root: Path, name: str) -> None:
    similar = root.with_name(name)
    similar.mkdir()
    store.trust(root, [TOOL])
    assert store.verdict(similar, TOOL) == "never"
    assert store.verdict(root / "..", TOOL) == "never"


def test_a_link_to_the_folder_is_the_folder(store: TrustStore, root: Path, tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(root)
    store.trust(link, [TOOL])
    assert store.verdict(root, TOOL) == "trusted"
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    link.unlink()
    link.symlink_to(elsewhere)
    assert store.verdict(link, TOOL) == "never"


def test_a_non_utf_8_name_is_kept(store: TrustStore, tmp_path: Path) -> None:
    root = Path(os.fsdecode(os.fsencode(tmp_path) + b"/w\xffs"))
    root.mkdir()
    item = TrustItem("script:h", "h", {}, {os.fsdecode(b"\xff.py"): b""})
    store.trust(root, [item])
    assert store.verdict(root, item) == "trusted"
    assert [one.path for one in store.workspaces()] == [str(root)]


# -- fails closed ----------------------------------------------------------------------------------------


def _write(content: bytes) -> Callable[[Path], object]:
    return lambda path: path.write_bytes(content)


def _edit(**members: object) -> Callable[[Path], object]:
    return lambda path: path.write_text(json.dumps({**json.loads(path.read_text()), **members}))


def _linked(path: Path) -> None:
    moved = path.rename(path.parent.parent / "elsewhere.json")
    path.symlink_to(moved)


def _pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path, 0o600)


def _folder(path: Path) -> None:
    path.unlink()
    path.mkdir(mode=0o700)


def _linked_folder(path: Path) -> None:
    moved = path.parent.rename(path.parent.with_name("moved"))
    path.parent.symlink_to(moved)


def _renamed(path: Path) -> None:
    """Somebody else's record in the place of this one."""
    text = path.read_text()
    path.write_text(text.replace('/ws"', '/other"'))


DAMAGE: dict[str, Callable[[Path], object]] = {
    "empty": _write(b""),
    "cut off": lambda path: path.write_bytes(path.read_bytes()[:-40]),
    "no JSON": _write(b"\xff\xfe trusted"),
    "another shape": _write(b"[]"),
    "deeply nested": _write(b"[" * 100_000),
    "too long": _write(b" " * (MAX_RECORD + 1)),
    "another version": _edit(version=2),
    "items are no table": _edit(items=["trusted"]),
    "an item is no table": _edit(items={TOOL.key: True}),
    "a digest is no text": _edit(items={TOOL.key: {"digest": True, "title": "", "facts": {}, "files": {}}}),
    "the folder is missing": _edit(folder={}),
    "the inode is a truth": _edit(folder={"path": "/", "device": 1, "inode": True}),
    "of another folder": _renamed,
    "a link": _linked,
    "a named pipe": _pipe,
    "a folder": _folder,
    "readable by others": lambda path: path.chmod(0o644),
    "writable by others": lambda path: path.chmod(0o602),
    "unreadable": lambda path: path.chmod(0o000) if os.geteuid() else path.chmod(0o060),
    "in an open folder": lambda path: path.parent.chmod(0o755),
    "in a folder others may write to": lambda path: path.parent.chmod(0o770),
    "in a linked folder": _linked_folder,
}


@pytest.mark.parametrize("name", DAMAGE)
def test_an_invalid_record_trusts_nothing_and_is_reported(
    store: TrustStore, folder: Path, root: Path, name: str
) -> None:
    store.trust(root, [TOOL])
    assert store.verdict(root, TOOL) == "trusted"
    DAMAGE[name](record_in(folder))
    assert store.verdict(root, TOOL) == "never"
    issue = store.issue(root)
    assert issue is not None
    assert (issue.level, issue.category, issue.code) == ("error", "trust", "TRUST_STORE_UNUSABLE")
    assert str(folder) in issue.message and issue.details
    assert store.recorded(root) == {}
    assert [one.path for one in store.workspaces()] == [None]
    assert TrustStore(folder).verdict(root, TOOL) == "never"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
@pytest.mark.parametrize("which", ["file", "folder"])
def test_a_record_of_another_user_trusts_nothing(
    store: TrustStore, folder: Path, root: Path, which: str
) -> None:
    store.trust(root, [TOOL])
    os.chown(record_in(folder) if which == "file" else folder, 12345, -1)
    assert store.verdict(root, TOOL) == "never"
    issue = store.issue(root)
    assert issue is not None and "another user" in issue.message
    if which == "folder":
        with pytest.raises(TrustStoreError, match="another user"):
            store.trust(root, [TOOL])


def test_a_damaged_record_is_replaced_by_trusting_again(store: TrustStore, folder: Path, root: Path) -> None:
    store.trust(root, [TOOL])
    record_in(folder).write_bytes(b"{")
    store.trust(root, [TOOL])
    assert store.verdict(root, TOOL) == "trusted"
    assert store.issue(root) is None


@pytest.mark.parametrize("inside", ["", "state", ".hidden/deep"])
def test_a_store_inside_the_workspace_is_refused(tmp_path: Path, root: Path, inside: str) -> None:
    """What comes with a repository cannot say what of it may run."""
    store = TrustStore(root / inside / "trust")
    with pytest.raises(TrustStoreError, match="inside this workspace"):
        store.trust(root, [TOOL])
    # a record that came along, in the right place and made for exactly this folder
    outside = TrustStore(tmp_path / "trust")
    outside.trust(root, [TOOL])
    (root / inside).mkdir(parents=True, exist_ok=True)
    (tmp_path / "trust").rename(root / inside / "trust")
    assert store.verdict(root, TOOL) == "never"
    issue = store.issue(root)
    assert issue is not None and "inside this workspace" in issue.message


def test_a_store_linked_into_the_workspace_is_refused(tmp_path: Path, root: Path) -> None:
    (root / "state").mkdir()
    (tmp_path / "state").symlink_to(root / "state")
    with pytest.raises(TrustStoreError, match="inside this workspace"):
        TrustStore(tmp_path / "state" / "trust").trust(root, [TOOL])


def test_when_writing_fails_the_old_record_stays(
    store: TrustStore, folder: Path, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.trust(root, [TOOL])

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(TrustStoreError, match="No space left"):
        store.trust(root, [changed(TOOL)])
    assert store.verdict(root, TOOL) == "trusted"
    assert sorted(one.suffix for one in folder.iterdir()) == ["", ".json"]


def test_waiting_for_the_lock_is_bounded(folder: Path, root: Path) -> None:
    store = TrustStore(folder, lock_wait_s=0.05)
    store.trust(root, [TOOL])
    with private_files.locked(folder / "lock"):
        with pytest.raises(TrustStoreError, match="another process"):
            store.trust(root, [changed(TOOL)])
        with pytest.raises(TrustStoreError, match="another process"):
            store.untrust(root)
        assert store.verdict(root, TOOL) == "trusted"


def test_items_with_the_same_key_cannot_be_trusted(store: TrustStore, root: Path) -> None:
    with pytest.raises(ValueError, match="script:hello"):
        store.trust(root, [TOOL, changed(TOOL)])
    assert store.verdict(root, TOOL) == "never"


def test_a_record_that_is_too_large_is_refused(store: TrustStore, root: Path) -> None:
    huge = TrustItem("script:x", "x", {"words": "w" * MAX_RECORD})
    with pytest.raises(TrustStoreError, match="would exceed"):
        store.trust(root, [huge])
    assert store.verdict(root, huge) == "never"


_TRUST_MANY_TIMES = """
import sys
from pathlib import Path
from workspace_server.trust.item import TrustItem
from workspace_server.trust.store import TrustStore
store, root, word = TrustStore(Path(sys.argv[1])), Path(sys.argv[2]), sys.argv[3]
for number in range(60):
    store.trust(root, [TrustItem(f"script:{one}", word, {"by": word}) for one in range(20)])
"""


def test_concurrent_writers_always_leave_a_complete_record(
    store: TrustStore, folder: Path, root: Path
) -> None:
    items = {
        word: [TrustItem(f"script:{one}", word, {"by": word}) for one in range(20)] for word in ("a", "b")
    }
    digests = {word: {item.key: item.digest() for item in mine} for word, mine in items.items()}
    store.trust(root, items["a"])
    command = [sys.executable, "-c", _TRUST_MANY_TIMES, str(folder), str(root)]
    processes = [subprocess.Popen([*command, word], cwd=Path(__file__).parents[3]) for word in items]
    while any(process.poll() is None for process in processes):
        assert set(store.verdicts(root, digests["a"]).values()) in ({"trusted"}, {"changed"})
    assert [process.wait() for process in processes] == [0, 0]
    assert {key: one.digest for key, one in store.recorded(root).items()} in digests.values()
    assert sorted(one.suffix for one in folder.iterdir()) == ["", ".json"]


def test_unchanged_records_are_not_read_again(
    store: TrustStore, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.trust(root, [TOOL])
    assert store.verdict(root, TOOL) == "trusted"

    def never(*_: object) -> bytes:
        raise AssertionError("read again")

    monkeypatch.setattr(private_files, "read", never)
    assert store.verdict(root, TOOL) == "trusted"


def test_recorded_items_can_be_compared_and_contain_no_secrets(store: TrustStore, root: Path) -> None:
    store.trust(root, [TOOL])
    recorded = store.recorded(root)[TOOL.key]
    assert recorded.files["run.py"].text == "print(1)\n"
    assert recorded.title == TOOL.title


def test_known_workspaces_are_listed_by_path(store: TrustStore, folder: Path, tmp_path: Path) -> None:
    for name in ("b", "a"):
        (tmp_path / name).mkdir()
        store.trust(tmp_path / name, [TOOL])
    (folder / ("0" * 32 + ".json")).write_text("{}")
    known = store.workspaces()
    assert [one.path for one in known] == [str(tmp_path / "a"), str(tmp_path / "b"), None]
    assert known[-1].problem is not None

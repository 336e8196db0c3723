"""Tasks on disk: complete, private, and never lost silently."""

from __future__ import annotations

import stat
from hashlib import sha256
from pathlib import Path

import pytest
from msgspec.structs import replace

from workspace_server.tasks.store import Record, Store

KEY = "0123456789abcdef" * 2
BODY = b'{"content":[]}'
DONE = Record(
    key=KEY,
    created=1000.0,
    updated=1001.5,
    ttl_s=60,
    status="completed",
    message="done",
    holds="result",
    digest=sha256(BODY).hexdigest(),
)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "tasks" / "ws")


def file(tmp_path: Path, kind: str) -> Path:
    return tmp_path / "tasks" / "ws" / f"{KEY}.{kind}"


def test_what_was_saved_is_loaded(store: Store) -> None:
    store.save(DONE, BODY)
    assert store.load(3600) == [DONE]
    assert store.body(DONE) == BODY


def test_without_a_folder_there_are_no_tasks(store: Store) -> None:
    assert store.load(3600) == []


def test_files_are_their_users_alone(store: Store, tmp_path: Path) -> None:
    store.save(DONE, BODY)
    paths = [*(tmp_path / "tasks").rglob("*"), tmp_path / "tasks"]
    assert len(paths) == 4
    assert all(stat.S_IMODE(path.stat().st_mode) & 0o077 == 0 for path in paths)


@pytest.mark.parametrize("damage", [b"", b"{", b'{"key":"' + b"f" * 32 + b'"}', b"\xff", b"[" * 9000])
def test_record_that_cannot_be_read_is_a_task_that_failed(
    store: Store, tmp_path: Path, damage: bytes
) -> None:
    store.save(DONE, BODY)
    file(tmp_path, "task").write_bytes(damage)
    (lost,) = store.load(3600)
    assert (lost.key, lost.status, lost.ttl_s, lost.holds) == (KEY, "failed", 3600, "")
    assert lost.message is not None
    assert lost.created > DONE.created


def test_record_of_another_key_is_not_believed(store: Store, tmp_path: Path) -> None:
    store.save(replace(DONE, key="f" * 32), BODY)
    (tmp_path / "tasks" / "ws" / f"{'f' * 32}.task").rename(file(tmp_path, "task"))
    (lost,) = store.load(3600)
    assert (lost.key, lost.status) == (KEY, "failed")


def test_result_that_is_not_what_was_written_is_not_given_out(store: Store, tmp_path: Path) -> None:
    store.save(DONE, BODY)
    file(tmp_path, "body").write_bytes(BODY.replace(b"[]", b"[0]"))
    assert store.body(DONE) is None
    file(tmp_path, "body").unlink()
    assert store.body(DONE) is None


def test_link_in_the_place_of_a_result_is_not_followed(store: Store, tmp_path: Path) -> None:
    store.save(DONE, BODY)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.write_bytes(BODY)
    file(tmp_path, "body").unlink()
    file(tmp_path, "body").symlink_to(elsewhere)
    assert store.body(DONE) is None


def test_forgotten_task_leaves_nothing(store: Store, tmp_path: Path) -> None:
    store.save(DONE, BODY)
    store.remove([KEY, "f" * 32])
    assert list((tmp_path / "tasks" / "ws").iterdir()) == []

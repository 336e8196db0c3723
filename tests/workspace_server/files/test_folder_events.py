"""The kernel's events about the entries of folders."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from workspace_server.files import folder_events
from workspace_server.files.folder_events import Events, FolderEvents

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="inotify is Linux's")


@pytest.fixture
def events(tmp_path: Path) -> Iterator[FolderEvents]:
    opened = FolderEvents.open()
    assert opened is not None
    opened.begin()
    assert opened.watch(str(tmp_path))
    opened.end()
    yield opened
    opened.close()


def test_nothing_is_told_where_nothing_changed(events: FolderEvents, tmp_path: Path) -> None:
    assert list(tmp_path.iterdir()) == []
    assert events.read() == Events()


def test_each_way_to_change_a_file_is_told(events: FolderEvents, tmp_path: Path) -> None:
    path, other = tmp_path / "a\nb.py", tmp_path / "c.py"
    for action in (
        lambda: path.write_text("1"),
        lambda: path.write_text("2"),
        lambda: os.truncate(path, 0),
        lambda: os.utime(path, (1, 1)),
        lambda: path.chmod(0o600),
    ):
        action()
        assert events.read() == Events({str(path)})
    path.rename(other)
    assert events.read() == Events({str(path), str(other)})
    other.unlink()
    assert events.read() == Events({str(other)})


def test_folders_are_told_apart_from_files(events: FolderEvents, tmp_path: Path) -> None:
    (tmp_path / "inner").mkdir()
    assert events.read() == Events(folders={str(tmp_path / "inner")})
    tmp_path.rename(tmp_path.with_name("elsewhere"))
    assert events.read() == Events(folders={str(tmp_path)})
    tmp_path.with_name("elsewhere").rename(tmp_path)


def test_a_folder_that_is_not_named_again_is_left_out(events: FolderEvents, tmp_path: Path) -> None:
    inner = tmp_path / "inner"
    inner.mkdir()
    events.begin()
    assert events.watch(str(inner))
    events.end()
    (tmp_path / "a.py").write_text("")
    (inner / "b.py").write_text("")
    assert events.read() == Events({str(inner / "b.py")})


def test_a_queue_that_overflows_is_said_to_be_lost(
    events: FolderEvents, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    overflow = folder_events._HEAD.pack(-1, 0x4000, 0, 0)
    (tmp_path / "a.py").write_text("")
    monkeypatch.setattr(folder_events.os, "read", lambda descriptor, size: overflow)
    assert events.read().is_lost


def test_a_folder_that_went_away_needs_no_watch(events: FolderEvents, tmp_path: Path) -> None:
    assert events.watch(str(tmp_path / "gone"))


def test_watches_beyond_our_share_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folder_events, "MAX_WATCHES", 1)
    opened = FolderEvents.open()
    assert opened is not None
    (tmp_path / "inner").mkdir()
    assert opened.watch(str(tmp_path))
    assert not opened.watch(str(tmp_path / "inner"))
    opened.close()


def test_a_closed_queue_holds_no_descriptor(tmp_path: Path) -> None:
    before = len(list(Path("/proc/self/fd").iterdir()))
    opened = FolderEvents.open()
    assert opened is not None
    opened.watch(str(tmp_path))
    opened.close()
    opened.close()
    assert len(list(Path("/proc/self/fd").iterdir())) == before

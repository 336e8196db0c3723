"""Tests of private files: unsafe paths are refused, and writes are atomic."""

from __future__ import annotations

import os
import resource
import stat
import threading
from pathlib import Path

import pytest

from lm_tools_bridge.machine import private_files
from lm_tools_bridge.machine.private_files import LockTimeout, UnsafePathError


def test_folders_get_mode_0700_whether_new_or_not(tmp_path: Path) -> None:
    private_files.make_private(tmp_path / "a" / "b")
    (tmp_path / "open").mkdir(mode=0o755)
    private_files.make_private(tmp_path / "open")
    for folder in ("a", "a/b", "open"):
        assert stat.S_IMODE((tmp_path / folder).stat().st_mode) == 0o700


@pytest.mark.parametrize("kind", ["link", "file"])
def test_a_link_or_a_file_instead_of_a_folder_is_refused(tmp_path: Path, kind: str) -> None:
    (tmp_path / "target").mkdir(mode=0o755)
    place = tmp_path / "place"
    place.symlink_to(tmp_path / "target") if kind == "link" else place.touch()
    with pytest.raises(UnsafePathError, match="place"):
        private_files.make_private(place)
    assert stat.S_IMODE((tmp_path / "target").stat().st_mode) == 0o755


def test_only_a_private_regular_file_is_read(tmp_path: Path) -> None:
    good = tmp_path / "good"
    private_files.write(good, b"x")
    assert stat.S_IMODE(good.stat().st_mode) == 0o600
    assert private_files.read(good, 1) == b"x"
    assert private_files.read(tmp_path / "absent", 1) is None
    (tmp_path / "link").symlink_to(good)
    os.mkfifo(tmp_path / "pipe", 0o600)
    (tmp_path / "open").write_bytes(b"x")
    (tmp_path / "open").chmod(0o644)
    for name in ("link", "pipe", "open"):
        with pytest.raises(UnsafePathError, match=name):
            private_files.read(tmp_path / name, 10)
    with pytest.raises(UnsafePathError, match="larger"):
        private_files.read(good, 0)


def test_a_symlink_is_replaced_by_the_written_file(tmp_path: Path) -> None:
    target = tmp_path / "target"
    target.write_bytes(b"mine")
    (tmp_path / "file").symlink_to(target)
    private_files.write(tmp_path / "file", b"new")
    assert target.read_bytes() == b"mine"
    assert private_files.read(tmp_path / "file", 10) == b"new"


def test_on_a_full_disk_the_old_file_stays_without_leftovers(tmp_path: Path) -> None:
    """A limit on file sizes simulates it: the write fails in the middle."""
    file = tmp_path / "file"
    private_files.write(file, b"old")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, hard))
    try:
        with pytest.raises(OSError, match="large"):
            private_files.write(file, b"n" * 5000)
        with pytest.raises(OSError, match="large"):
            private_files.create(tmp_path / "other", b"n" * 5000)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert file.read_bytes() == b"old"
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_a_create_that_cannot_open_its_file_deletes_nothing(tmp_path: Path) -> None:
    """Without free descriptors, opening fails before the kernel looks whether the file exists."""
    file = tmp_path / "file"
    assert private_files.create(file, b"first")
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (0, hard))
    try:
        with pytest.raises(OSError, match="Too many open files"):
            private_files.create(file, b"second")
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert file.read_bytes() == b"first"


def test_only_the_first_create_of_a_file_succeeds(tmp_path: Path) -> None:
    assert private_files.create(tmp_path / "file", b"first")
    assert not private_files.create(tmp_path / "file", b"second")
    assert (tmp_path / "file").read_bytes() == b"first"


def test_a_lock_is_exclusive_and_waiting_times_out(tmp_path: Path) -> None:
    lock = tmp_path / "lock"
    with (
        private_files.locked(lock),
        pytest.raises(LockTimeout, match="lock"),
        private_files.locked(lock, 0.02),
    ):
        pass
    with private_files.locked(lock, 0):
        pass


def test_concurrent_updates_under_the_lock_are_not_lost(tmp_path: Path) -> None:
    counter = tmp_path / "counter"
    counter.write_text("0")

    def count() -> None:
        for _ in range(20):
            with private_files.locked(tmp_path / "lock"):
                counter.write_text(str(int(counter.read_text()) + 1))

    threads = [threading.Thread(target=count) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert counter.read_text() == "80"

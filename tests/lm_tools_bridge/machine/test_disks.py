"""Which folders are on local disks."""

from __future__ import annotations

import errno
import ntpath
import os
from pathlib import Path

import pytest

from lm_tools_bridge.machine import disks
from lm_tools_bridge.machine.disks import are_local, worded

MOUNTS = r"""22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw
30 22 0:30 / /net rw - nfs4 server:/x rw
31 30 0:31 / /net/local rw - tmpfs tmpfs rw
32 22 0:32 / /with\040blank rw - fuse.sshfs a:/ rw
33 22 0:33 / /twice rw - ext4 /dev/sdb rw
34 22 0:34 / /twice rw - fuse.x x rw
"""


@pytest.mark.parametrize(
    ("folder", "local"),
    [
        ("/home/ada/project", True), ("/net/ada", False), ("/", False), ("/net", False), ("/net/local/x", True),
        ("/network", True), ("/with blank/x", False), ("/twice/x", False),
    ],
)  # fmt: skip
def test_nearest_mount_decides(folder: str, local: bool, tmp_path: Path) -> None:
    mounts = tmp_path / "mountinfo"
    mounts.write_text(MOUNTS)
    assert are_local([Path(folder)], mounts) is local
    assert are_local([Path("/home"), Path(folder)], mounts) is local


def test_the_root_of_a_drive_ends_the_search(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Above `Z:\\` there is only `Z:\\`."""
    (mounts := tmp_path / "mounts").write_text("")
    monkeypatch.setattr(disks.os, "path", ntpath)
    assert not are_local([Path("Z:\\p\\a")], mounts)


def test_where_nobody_can_tell_a_folder_is_not_local(tmp_path: Path) -> None:
    assert not are_local([tmp_path], tmp_path / "missing")
    (tmp_path / "broken").write_text("what is this\n")
    assert not are_local([tmp_path], tmp_path / "broken")


ROOT = "27 1 254:0 / / rw,relatime - ext4 /dev/vda rw\n"


@pytest.mark.parametrize(
    ("mounts", "local"),
    [
        (ROOT, True),
        (ROOT + "30 27 0:40 / /srv rw shared:1 - nfs4 host:/srv rw\n", False),
        (ROOT + "30 27 0:40 / /srv/my\\040proj rw - tmpfs tmpfs rw\n", True),
        (ROOT + "30 27 0:40 / /srv/my\\040proj rw - fuse.sshfs host: rw\n", False),
        (ROOT + "30 27 0:40 / /srv/my\\040proj/deep/data rw - cifs //host rw\n", False),
        (ROOT + "30 27 0:40 / /srv/my\\040project rw - 9p share rw\n", True),
        (ROOT + "30 27 0:40 / /srv rw - ext4 a rw\n31 30 0:41 / /srv rw - nfs4 host:/ rw\n", False),
        (ROOT + "30 27 0:40 / /srv rw - nfs4 host:/ rw\n31 30 0:41 / /srv rw - ext4 a rw\n", True),
        ("broken\n", False),
        ("", False),
    ],
)
def test_what_is_mounted_below_a_tree_counts_too(tmp_path: Path, mounts: str, local: bool) -> None:
    (tmp_path / "mountinfo").write_text(mounts)
    assert are_local([Path("/srv/my proj")], tmp_path / "mountinfo") is local


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (OSError(errno.EROFS, "x", "/home/me/.local"), "/home/me/.local is on a read-only file system"),
        (OSError(errno.ENOSPC, "x", "/home/me/f"), "the disk of /home/me/f is full"),
        (OSError(errno.EACCES, "x", "/home/me/f"), "this user may not write /home/me/f"),
        (OSError(errno.ELOOP, os.strerror(errno.ELOOP), "/f"), "Too many levels of symbolic links: /f"),
        (ValueError("database is locked"), "database is locked"),
    ],
)
def test_no_error_shows_its_number(error: Exception, text: str) -> None:
    assert worded(error) == text


def test_an_error_without_a_path_is_worded_without_its_number() -> None:
    assert worded(OSError(errno.ENOSPC, "No space left on device")) == "No space left on device"
    assert worded(OSError("strange")) == "strange"

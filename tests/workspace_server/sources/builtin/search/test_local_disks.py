"""Which disks keep times that can be relied upon."""

from __future__ import annotations

from pathlib import Path

import pytest

from workspace_server.sources.builtin.search.local_disks import is_local

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
def test_disks_of_this_machine_are_local(tmp_path: Path, mounts: str, local: bool) -> None:
    (tmp_path / "mountinfo").write_text(mounts)
    assert is_local(Path("/srv/my proj"), tmp_path / "mountinfo") is local


def test_without_a_list_of_mounts_no_disk_is_local(tmp_path: Path) -> None:
    assert not is_local(tmp_path, tmp_path / "missing")

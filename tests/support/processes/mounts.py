"""Mounts full or read-only disks in a mount namespace of one process."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

NAMESPACE = ["unshare", "--mount", "sh", "-c"]


def _can_mount() -> bool:
    if os.geteuid() != 0:
        return False
    try:
        return subprocess.run([*NAMESPACE, "mount -t tmpfs none /mnt"], check=False).returncode == 0
    except OSError:
        return False


needs_mounts = pytest.mark.skipif(not _can_mount(), reason="needs mounts of its own")


def on_a_full_disk(folder: Path) -> list[str]:
    """The prefix of a command that finds this folder on a disk without any room."""
    script = (
        f"mount -t tmpfs -o size=64k,mode=700 none {folder}"
        f' && {{ head -c 1000000 /dev/zero 2> /dev/null > {folder}/ballast; exec "$@"; }}'
    )
    return [*NAMESPACE, script, "sh"]


def beside(pid: int, cwd: Path) -> list[str]:
    """The prefix of a command that sees the same disks as this process."""
    return ["nsenter", "--target", str(pid), "--mount", f"--wd={cwd}", "--"]


def _can_hang() -> bool:
    if not Path("/dev/fuse").exists() or not _can_mount():
        return False
    return subprocess.run([*NAMESPACE, f"{_FUSE} /mnt"], check=False, capture_output=True).returncode == 0


_FUSE = "exec 9<>/dev/fuse && mount -i -t fuse -o fd=9,rootmode=40000,user_id=0,group_id=0 none"
"""Mounts a file system whose requests wait in descriptor 9 for a program that would answer them."""

needs_hanging_disks = pytest.mark.skipif(not _can_hang(), reason="needs /dev/fuse and mounts of its own")


def on_a_hanging_disk(folder: Path) -> list[str]:
    """The prefix of a command that finds this folder on a disk that never answers, like a network disk without network.

    The disk goes with the command, which keeps its descriptor.
    """
    return [*NAMESPACE, f'{_FUSE} {folder} && exec "$@"', "sh"]

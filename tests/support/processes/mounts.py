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

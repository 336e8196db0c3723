"""Tells whether the times of directories can be relied upon: on the file systems of this machine they can.

Network and user-space file systems may answer from caches, and change without a new time.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Final

LOCAL: Final = frozenset(
    ["bcachefs", "btrfs", "ext2", "ext3", "ext4", "f2fs", "overlay", "ramfs", "tmpfs", "xfs", "zfs"]
)
_ESCAPE: Final = re.compile(r"\\([0-7]{3})")


def is_local(folder: Path, mounts: Path = Path("/proc/self/mountinfo")) -> bool:
    """Whether the folder and everything mounted below it are on file systems of this machine. Blocks.

    `folder` has no links. False where the mounts are unknown.
    """
    if sys.platform != "linux":
        return False
    try:
        lines = mounts.read_text(encoding="utf-8", errors="surrogateescape").splitlines()
    except OSError:
        return False
    own, own_kind, below = Path("/"), "", []
    for line in lines:
        before, _, after = line.partition(" - ")
        fields, kind = before.split(" "), after.split(" ")[0]
        if len(fields) < 5:
            continue
        at = Path(_ESCAPE.sub(lambda found: chr(int(found[1], 8)), fields[4]))
        if folder.is_relative_to(at):
            # of two mounts at one place the later one is seen
            if len(at.parts) >= len(own.parts):
                own, own_kind = at, kind
        elif at.is_relative_to(folder):
            below.append(kind)
    return {own_kind, *below} <= LOCAL

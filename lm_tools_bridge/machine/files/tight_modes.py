"""Makes our own files private again, should another program of the user have changed their modes. Blocks.

Landlock does not keep a confined script from chmod(2) outside of its folders.
"""

from __future__ import annotations

import os
import stat
import sys
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Final

MAX_FOLDERS: Final = 10_000


def make_tight(folder: Path) -> int:
    """Take all rights of others from what is ours below a folder, and give us ours.

    Returns:
        How many files and folders had other rights.
    """
    if sys.platform == "win32":
        return 0
    changed = int(_tighten(str(folder)))
    for path, folders, files in islice(os.walk(folder), MAX_FOLDERS):
        # folders first: `walk` enters them afterwards
        changed += sum(_tighten(f"{path}/{name}") for name in (*folders, *files))
    return changed


def _tighten(path: str) -> bool:
    with suppress(OSError):
        status = os.lstat(path)
        if status.st_uid != os.getuid() or stat.S_ISLNK(status.st_mode):
            return False
        mode = stat.S_IMODE(status.st_mode)
        tight_mode = mode & 0o700 | (0o700 if stat.S_ISDIR(status.st_mode) else 0o600)
        if mode != tight_mode:
            Path(path).chmod(tight_mode)
            return True
    return False

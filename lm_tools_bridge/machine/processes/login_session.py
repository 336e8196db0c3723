"""Finds the folder of the user's login session for programs that are started without XDG_RUNTIME_DIR.

Many clients start programs so. Standard library only and quick to import.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

_ROOT: Final = Path("/run/user")


def session_folder(environ: Mapping[str, str], root: Path = _ROOT) -> Path | None:
    """The folder that systemd makes for the sessions of this user; None if there is none.

    It belongs to the HOME of the user database only: with another one, as in tests, nothing of the user's own
    sessions may be found.
    """
    if sys.platform != "linux":
        return None
    import pwd

    folder = root / str(os.geteuid())
    with suppress(KeyError, OSError):
        own_home = pwd.getpwuid(os.geteuid()).pw_dir
        if Path(environ.get("HOME") or own_home) == Path(own_home) and folder.is_dir():
            return folder
    return None


def with_session_folder(environ: Mapping[str, str]) -> dict[str, str]:
    """This environment, with the folder in which `systemctl --user` and D-Bus find the user's session."""
    folder = None if environ.get("XDG_RUNTIME_DIR") else session_folder(environ)
    return {**environ, **({} if folder is None else {"XDG_RUNTIME_DIR": str(folder)})}

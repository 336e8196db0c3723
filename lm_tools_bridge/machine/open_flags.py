"""The flags of `os.open` under the same names on every system; 0 where a system lacks one.

Windows refuses no link by a flag, and macOS cannot open a mere name.
Standard library only and quick to import: short command line verbs use it.
"""

from __future__ import annotations

import os
from typing import Final

CLOSE_ON_EXEC: Final[int] = getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NOINHERIT", 0)
"""What we start does not inherit the descriptor."""
BINARY: Final[int] = getattr(os, "O_BINARY", 0)
"""Windows changes the ends of lines without it."""
NO_LINK: Final[int] = getattr(os, "O_NOFOLLOW", 0)
"""A symbolic link in the last place of the path is refused (ELOOP)."""
NO_WAIT: Final[int] = getattr(os, "O_NONBLOCK", 0)
"""A pipe in the place of a file would wait for its other end, perhaps for ever."""
FOLDER: Final[int] = getattr(os, "O_DIRECTORY", 0)
"""Anything but a folder is refused (ENOTDIR)."""
NAME_ONLY: Final[int] = getattr(os, "O_PATH", 0)
"""The descriptor only names the file, which may be unreadable. Linux only."""
READ_FILE: Final[int] = os.O_RDONLY | NO_WAIT | CLOSE_ON_EXEC | BINARY
"""To read what others wrote, links included."""
READ_NO_LINK: Final[int] = READ_FILE | NO_LINK
READ_FOLDER: Final[int] = os.O_RDONLY | FOLDER | NO_LINK | CLOSE_ON_EXEC

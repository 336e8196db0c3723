"""Raises this process's limit of open files to what the system allows, and counts them.

Children get the former limit.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from typing import Final, NamedTuple

if sys.platform != "win32":
    import resource

_UNLIMITED_MEANS: Final = 10_240
"""macOS calls the hard limit infinite, but refuses more than this."""
_RESERVED: Final = 128
"""Open files kept for everything but connections: state, logs, control socket, workspace servers."""
_former: tuple[int, int] | None = None


def raise_limit() -> int | None:
    """Raise the soft limit to the hard one; returns the limit, None where there is none."""
    global _former  # noqa: PLW0603  a limit belongs to the process
    if sys.platform == "win32":
        return None
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    new_limit = max(soft, _UNLIMITED_MEANS) if hard == resource.RLIM_INFINITY else hard
    with suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (new_limit, hard))
        _former = (soft, hard)
        return new_limit
    return soft


class OpenFiles(NamedTuple):
    """How many files a process has open, and how many it may; `limit` is None where there is none."""

    used: int
    limit: int | None


def open_files() -> OpenFiles | None:
    """The open files of this process; None if the system does not tell."""
    if sys.platform == "win32":
        return None
    try:
        used = len(os.listdir("/dev/fd")) - 1  # noqa: PTH208  the list itself is open, too
    except OSError:
        return None
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return OpenFiles(used, None if soft == resource.RLIM_INFINITY else soft)


def restore_limit(pid: int) -> None:
    """Give a child the limit that this process had before `raise_limit`. Programs may rely on a low one."""
    if sys.platform == "linux" and _former is not None:
        with suppress(OSError):  # it has ended already
            resource.prlimit(pid, resource.RLIMIT_NOFILE, _former)


def connections_within(limit: int | None, number: int) -> int:
    """How many of `wanted` connections fit into a limit of open files.

    Each may need another one to its server, and as many may be open to be told that they are too many.
    """
    if limit is None:
        return number
    return min(number, max(8, (limit - min(_RESERVED, limit // 2)) // 3))

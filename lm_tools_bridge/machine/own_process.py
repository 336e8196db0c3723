"""What this process sets for itself: open files, memory shortage, its login session, erased variables.

Children get the former limit.

The kernel shows the memory in which a process got its variables when it was started. `os.environ` is a copy,
and the variables that C code and programs started without an environment of their own see become one.

Many clients start programs so. Standard library only and quick to import.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple


def own_uid() -> int:
    """The user id of this process. Windows has none: there it is 0, as of all files that `os.stat` shows."""
    return 0 if sys.platform == "win32" else os.getuid()


def own_euid() -> int:
    """The id by which this process opens and makes files; 0 on Windows, as `own_uid`."""
    return 0 if sys.platform == "win32" else os.geteuid()


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


_ENV_START: Final = 47
"""Field 50 of proc_pid_stat(5), counted behind the program's name."""


def erase_values(is_secret: Callable[[str], bool]) -> None:
    """Overwrite the values of variables with such names; this process and its children keep them."""
    if sys.platform != "linux":
        return
    import ctypes  # noqa: PLC0415  verbs, which need other parts of this module, are quicker without it

    with suppress(OSError, ValueError, IndexError):
        block = Path("/proc/self/environ").read_bytes()
        start = int(Path("/proc/self/stat").read_bytes().rpartition(b")")[2].split()[_ENV_START])
        if not start or ctypes.string_at(start, len(block)) != block:
            return  # a process may move its variables
        offset = 0
        for entry in block.split(b"\0"):
            name, _, value = entry.partition(b"=")
            if value and is_secret(os.fsdecode(name)):
                os.putenv(name, value)  # a copy elsewhere, which nothing shows
                ctypes.memset(start + offset + len(name) + 1, 0, len(value))
            offset += len(entry) + 1


SERVER_SCORE: Final = 300
"""For workspace servers, which the manager starts again; what they start inherits it."""


def end_before_others(pid: int, score: int = SERVER_SCORE) -> None:
    """Make a child, and what it will start, go before this process, where that is possible."""
    if sys.platform == "linux":
        file = Path(f"/proc/{pid}/oom_score_adj")
        with suppress(OSError, ValueError):
            if int(file.read_text()) < score:
                file.write_text(str(score))


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

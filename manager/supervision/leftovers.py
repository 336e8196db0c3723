"""Removes what crashed and killed workspace servers left behind: processes, sockets, folders. Blocks.

Every process that a workspace server starts has a mark in its environment. Descendants inherit the mark,
even in another session or process group, or without a parent. The mark begins with the instance id.

Files of a living process are recognised by its lock or its listening socket, and stay. No link is followed,
and nothing of another user is touched.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

import msgspec

from lm_tools_bridge.machine import private_files, unix_sockets
from lm_tools_bridge.machine.private_folder import TEMPORARY, remove_abandoned
from lm_tools_bridge.machine.process_ending import Judge, Verdict, environment, find_all, kill_all
from lm_tools_bridge.protocol import names


def kill_leftovers(instance: str) -> int:
    """Kill every process with this instance's mark and return how many there were. Blocks.

    Never this process: it has the mark if a process of a previous workspace server started the manager.
    """
    return len(kill_all(_judge(instance)).killed)


def find_leftovers(instance: str) -> list[int]:
    """The pids of this user's processes with the instance's mark, except this process."""
    return find_all(_judge(instance))


def _judge(instance: str) -> Judge:
    mark = f"{names.CHILD_VARIABLE}={instance}.".encode()

    def judge(pid: int) -> Verdict:
        environ = environment(pid)
        if environ is None:
            return "not ours"
        return "ours" if environ.startswith(mark) or b"\0" + mark in environ else "not ours"

    return judge


INTERNAL: Final = "internal"
"""The folder, in the runtime folder, of the workspace servers' internal channels."""
# PATH_MAX of Linux: the file holds one path, and anything longer is not ours.
_MAX_ADDRESS: Final = 4096
_CHANNEL: Final = re.compile(r"(.+-)?[0-9a-f]{8}\.sock\Z")
_OUTSIDE: Final = re.compile(r"(\.lmtb|lmtb-\d+)-[0-9a-f]{16}\Z")
"""Where a socket is whose path in the runtime folder would be too long."""


class _Address(msgspec.Struct):
    socket: str


def remove_leftover_files(runtime_dir: Path) -> int:
    """Remove what killed workspace servers and fork servers left; returns how many files and folders."""
    removed = _temporary()
    with suppress(OSError):
        removed += sum(map(_in_run_folder, (runtime_dir / "run").glob("*")))
    with suppress(OSError, private_files.UnsafePathError):
        removed += _channels(runtime_dir / INTERNAL)
    return removed


def remove_unfinished_files(state_dir: Path, runtime_dir: Path) -> int:
    """Remove what killed programs wrote beside our files and did not rename; returns how many."""
    known = ("approvals", "client-files", "lists", "locks", "secrets", "tasks", "tasks/*", "trust")
    folders = [state_dir, runtime_dir, runtime_dir / INTERNAL]
    folders += [folder for name in known for folder in state_dir.glob(name) if not folder.is_symlink()]
    return sum(map(private_files.remove_unfinished, folders))


def _in_run_folder(folder: Path) -> int:
    if folder.is_symlink():
        return 0
    removed = remove_abandoned(folder)
    with suppress(OSError):
        folder.rmdir()  # fails while a server runs scripts there
    return removed


def _temporary() -> int:
    import tempfile  # noqa: PLC0415  slow to load

    with suppress(OSError):  # there is no folder for temporary files
        return remove_abandoned(Path(tempfile.gettempdir()), TEMPORARY)
    return 0


def _channels(folder: Path) -> int:
    if not folder.is_dir():
        return 0
    with unix_sockets.exclusive(folder):
        removed = sum(_remove_address(file) for file in folder.glob("*.json"))
        removed += sum(map(_remove_socket, folder.glob("*.sock")))
    return removed


def _remove_address(file: Path) -> int:
    """Remove the file that names a channel, with the channel's socket, if nobody listens there."""
    for path in _socket_of(file):
        if path.exists() and not _remove_socket(path):
            return 0
        file.unlink(missing_ok=True)
        if path.parent != file.parent:
            with suppress(OSError):
                path.parent.rmdir()  # fails if another socket is in it
        return 1
    return 0


def _socket_of(file: Path) -> Iterator[Path]:
    with suppress(OSError, private_files.UnsafePathError, msgspec.DecodeError):
        path = Path(msgspec.json.decode(private_files.read(file, _MAX_ADDRESS) or b"", type=_Address).socket)
        is_outside = _OUTSIDE.match(path.parent.name) and not path.parent.is_symlink()
        if path.parent == file.parent or is_outside:
            yield path


def _remove_socket(path: Path) -> bool:
    """Remove a channel's socket if nobody listens on it."""
    with suppress(OSError):
        return bool(_CHANNEL.match(path.name)) and unix_sockets.remove_if_stale(path)
    return False

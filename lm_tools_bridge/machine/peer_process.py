"""Finds the processes at the other end of loopback TCP connections, by the open files of all processes.

Reading them takes about 10 ms for a hundred processes: for threads and for rare questions.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import chain
from pathlib import Path
from typing import Final

from lm_tools_bridge.machine.peer_uid import Address, tcp_peer_owner

_SOCKET: Final = "socket:["
_KEEPS_FILES: Final = re.compile(rb"^(?:scm_fds|UserFiles):\s*[1-9]", re.MULTILINE)
"""What the kernel tells of a unix socket with files on their way, and of a ring (io_uring) that has some."""


def peer_pids(connections: Sequence[tuple[Address, Address]], likely: Iterable[int] = ()) -> list[int | None]:
    """The process of this user at the other end of each connection; None if there is none that can be seen.

    Of several processes that share a socket, one is found.

    Args:
        connections: our address and the other one of each, as the accepted socket sees them.
        likely: processes to look at first; if these have all of them, no others are looked at.
    """
    if sys.platform != "linux":
        return _peer_pids_elsewhere(connections)
    owners = [tcp_peer_owner(*ends) for ends in connections]
    inodes = [owner.inode if owner is not None and owner.uid == os.geteuid() else None for owner in owners]
    missing = {inode for inode in inodes if inode is not None}
    holders: dict[int, int] = {}
    for pid in chain(likely, _newest_first()) if missing else ():
        for inode in missing.intersection(socket_inodes(pid)):
            holders[inode] = pid
            missing.discard(inode)
        if not missing:
            break
    return [None if inode is None else holders.get(inode) for inode in inodes]


def socket_holders(inode: int) -> Iterator[int]:
    """All processes that have this socket open, as far as they can be looked at. Linux only."""
    return (pid for pid in _newest_first() if inode in socket_inodes(pid))


def possible_holders(inode: int) -> Iterator[int]:
    """The processes that may have this socket although their open files do not show it. Linux only.

    A thread can have open files of its own; a mapped socket stays open; so does one that is on its way
    through a unix socket, or registered in a ring. It takes several times as long as `socket_holders`.
    """
    return (pid for pid in _newest_first() if _may_hide(pid, inode))


def _may_hide(pid: int, inode: int) -> bool:
    with suppress(OSError), Path(f"/proc/{pid}/maps").open("rb") as mappings:
        if any(b"%s%d]" % (_SOCKET.encode(), inode) in line for line in mappings):
            return True
    with suppress(OSError):
        for thread in Path(f"/proc/{pid}/task").iterdir():
            if inode in _sockets_in(f"{thread}/fd") or _keeps_files(thread / "fdinfo"):
                return True
    return False


def _keeps_files(entries: Path) -> bool:
    with suppress(OSError):
        for entry in entries.iterdir():
            with suppress(OSError):  # it was closed meanwhile
                if _KEEPS_FILES.search(entry.read_bytes()):
                    return True
    return False


def socket_inodes(pid: int) -> Iterator[int]:
    """The sockets that a process has open; none if it is gone or may not be looked at. Linux only."""
    return _sockets_in(f"/proc/{pid}/fd")


def _sockets_in(folder: str) -> Iterator[int]:
    with suppress(OSError), os.scandir(folder) as files:
        for file in files:
            with suppress(OSError):  # it was closed meanwhile
                name = str(Path(file.path).readlink())
                if name.startswith(_SOCKET):
                    yield int(name.removeprefix(_SOCKET).removesuffix("]"))


def unreadable_processes() -> Iterator[int]:
    """The processes of this user whose open files may not be looked at: they made that so. Linux only."""
    return (pid for pid in _newest_first() if _is_unreadable(pid))


def _is_unreadable(pid: int) -> bool:
    """Such a process seems to belong to root, so its user is read elsewhere (proc_pid_status(5))."""
    try:
        with os.scandir(f"/proc/{pid}/fd"):
            return False
    except PermissionError:
        pass
    except OSError:
        return False
    with suppress(OSError, IndexError, ValueError):
        _, _, rest = Path(f"/proc/{pid}/status").read_bytes().partition(b"\nUid:\t")
        return int(rest.split(maxsplit=1)[0]) == os.getuid()
    return False


def _newest_first() -> Iterator[int]:
    """All processes; a client that has just connected is probably one of the newest."""
    names = (entry.name for entry in Path("/proc").iterdir())
    yield from sorted((int(name) for name in names if name.isdecimal()), reverse=True)


def _peer_pids_elsewhere(connections: Sequence[tuple[Address, Address]]) -> list[int | None]:
    import psutil

    ends_to_find = {(remote[:2], local[:2]) for local, remote in connections}
    holders: dict[tuple[Address, Address], int] = {}
    for process in psutil.process_iter():
        with suppress(psutil.Error, OSError):  # of another user, or ended
            for entry in process.net_connections("tcp"):
                if entry.raddr and (ends := (tuple(entry.laddr), tuple(entry.raddr))) in ends_to_find:
                    holders[ends] = process.pid
    return [holders.get((remote[:2], local[:2])) for local, remote in connections]

"""Finds the processes at the other end of loopback TCP connections, by the open files of all processes.

Reading them takes about 10 ms for a hundred processes: for threads and for rare questions.
"""

from __future__ import annotations

import os
import re
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import cache
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from lm_tools_bridge.machine.own_process import own_euid, own_uid
from lm_tools_bridge.machine.peer_uid import Address, tcp_peer_owner
from lm_tools_bridge.token_bucket import TokenBucket

if TYPE_CHECKING:
    import psutil

# Searches that find nobody. At this rate strangers cost half of a processor at most.
_SEARCHES_PER_S: Final = 10.0
_SEARCHES_AT_ONCE: Final = 50
# Processes that are looked at first: as many programs of a person use the manager at a time.
_MOST_CLIENTS: Final = 16
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
        import psutil

        return _peer_pids_elsewhere(connections, chain(likely, reversed(psutil.pids())))
    owners = [tcp_peer_owner(*ends) for ends in connections]
    inodes = [owner.inode if owner is not None and owner.uid == own_euid() else None for owner in owners]
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
    return _real_uid(pid) == own_uid()


def _real_uid(pid: int) -> int | None:
    """The user of a process, as proc_pid_status(5) tells it; None if there is no such process."""
    try:
        _, _, rest = Path(f"/proc/{pid}/status").read_bytes().partition(b"\nUid:\t")
        return int(rest.split(maxsplit=1)[0])
    except (OSError, IndexError, ValueError):
        return None


def is_of_this_user(pid: int) -> bool:
    """Whether a process with this pid runs as this user."""
    if sys.platform == "linux":  # a registered server asks every second
        return _real_uid(pid) == own_uid()
    import psutil

    try:
        return _runs_as_this_user(psutil.Process(pid))
    except (psutil.Error, OSError):
        return False


def _newest_first() -> Iterator[int]:
    """All processes; a client that has just connected is probably one of the newest."""
    names = (entry.name for entry in Path("/proc").iterdir())
    yield from sorted((int(name) for name in names if name.isdecimal()), reverse=True)


def _peer_pids_elsewhere(
    connections: Sequence[tuple[Address, Address]], pids: Iterable[int]
) -> list[int | None]:
    """The process of this user with each connection; these processes are looked at until all are found."""
    import psutil

    ends_to_find = {_seen_from_there(*ends) for ends in connections}
    holders: dict[_Ends, int] = {}
    for pid in pids:
        with suppress(psutil.Error, OSError):  # of another user, or ended
            if not _runs_as_this_user(process := psutil.Process(pid)):
                continue
            for entry in process.net_connections("tcp"):
                if entry.raddr and (ends := _plain_ends(entry.laddr, entry.raddr)) in ends_to_find:
                    holders[ends] = pid
        if len(holders) == len(ends_to_find):
            break
    return [holders.get(_seen_from_there(*ends)) for ends in connections]


_Ends = tuple[str, int, str, int]


def _seen_from_there(local: Address, remote: Address) -> _Ends:
    return _plain_ends(remote, local)


def _plain_ends(own: Sequence[Any], other: Sequence[Any]) -> _Ends:
    """The two ends; IPv4 inside IPv6 is IPv4 here, whichever family the socket has."""
    own_host, other_host = (str(end[0]).removeprefix("::ffff:") for end in (own, other))
    return own_host, int(own[1]), other_host, int(other[1])


def _runs_as_this_user(process: psutil.Process) -> bool:
    if sys.platform == "win32":
        return process.username() == _own_name()
    return process.uids().real == own_uid()


@cache
def _own_name() -> str:
    """DOMAIN\\NAME, which is unique on a machine; elevated and plain processes of a person share it."""
    import psutil

    return psutil.Process().username()


class PeerSearch:
    """Tells by the processes of this user whose a connection is, where the kernel does not tell owners.

    A search of all processes takes some 10 ms on the event loop. Clients that connected before are looked at
    first; searches that find nobody are limited, so that another user cannot keep the manager busy with them.
    """

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._searches = TokenBucket(_SEARCHES_PER_S, _SEARCHES_AT_ONCE, now())
        self._clients: dict[int, None] = {}

    def __call__(self, local: Address, remote: Address) -> int | None:
        """This user's id if one of its processes has the other end; else None."""
        pid = self._find(local, remote)
        if pid is None:
            return None
        self._clients.pop(pid, None)
        self._clients[pid] = None  # the latest is last
        if len(self._clients) > _MOST_CLIENTS:
            del self._clients[next(iter(self._clients))]
        return own_uid()

    def _find(self, local: Address, remote: Address) -> int | None:
        import psutil

        (pid,) = _peer_pids_elsewhere([(local, remote)], reversed(self._clients))
        if pid is None and self._searches.left(self._now()) >= 1:
            (pid,) = _peer_pids_elsewhere([(local, remote)], reversed(psutil.pids()))
            if pid is None:
                self._searches.spend()
        return pid

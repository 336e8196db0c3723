"""Listens on unix sockets of this user alone, removes stale ones, and receives descriptors. Blocks."""

from __future__ import annotations

import errno
import os
import socket
import stat
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from lm_tools_bridge.machine import file_calls
from lm_tools_bridge.machine.own_process import own_euid

# The block takes milliseconds: who holds the folder for seconds hangs, and its waiters must not hang with it.
# Polls are short, because programs wait for the socket before they serve.
WAIT_S: Final = 2.0
_POLL_S: Final = 0.01


@contextmanager
def exclusive(folder: Path) -> Iterator[None]:
    """Keep other processes from this block, in which sockets of a private folder are made or removed.

    Between its bind and its listen a socket looks as if its process were dead.

    Raises:
        OSError: the folder cannot be opened, or another process keeps it for too long.
    """
    if sys.platform == "win32":
        yield
        return
    descriptor = os.open(folder, file_calls.READ_FOLDER)
    try:
        deadline = time.monotonic() + WAIT_S
        while not _lock(descriptor):
            if time.monotonic() >= deadline:
                raise OSError(errno.EBUSY, f"another process keeps {folder} locked")
            time.sleep(_POLL_S)
        yield
    finally:
        os.close(descriptor)


def remove_if_stale(path: Path) -> bool:
    """Remove a socket of this user on which no process listens. True if there is no socket now."""
    try:
        status = path.lstat()
    except FileNotFoundError:
        return True
    if not stat.S_ISSOCK(status.st_mode) or status.st_uid != own_euid():
        return False
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as sock, suppress(OSError):
        sock.setblocking(False)
        try:
            sock.connect(str(path))
        except ConnectionRefusedError:
            path.unlink(missing_ok=True)
            return True
    return False


def _lock(descriptor: int) -> bool:
    import fcntl

    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def listening_socket(path: Path, backlog: int) -> socket.socket:
    """A listening socket at a path, with mode 0600 from the start; it does not block.

    Raises:
        OSError: it cannot be made, for example because something is there.
    """
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        if sys.platform == "linux":
            # the file gets the socket's mode; changing the umask would affect the whole process
            os.fchmod(sock.fileno(), 0o600)
            sock.bind(str(path))
        else:
            mask = os.umask(0o177)
            try:
                sock.bind(str(path))
            finally:
                os.umask(mask)
        sock.listen(backlog)
        sock.setblocking(False)
    except BaseException:
        sock.close()
        raise
    return sock


def receive_descriptors(sock: socket.socket, most_bytes: int, most: int) -> tuple[bytes, list[int]]:
    """A message and the descriptors that came with it; what this process starts does not inherit them.

    Raises:
        OSError: there is no message, or the system passes no descriptors (Windows).
    """
    if sys.platform == "win32":
        raise OSError(errno.ENOTSUP, "Windows passes no descriptors over sockets")
    flags: int = getattr(socket, "MSG_CMSG_CLOEXEC", 0)
    message, descriptors, _, _ = socket.recv_fds(sock, most_bytes, most, flags)
    if not flags:  # macOS: a child that starts in between inherits them
        for descriptor in descriptors:
            os.set_inheritable(descriptor, False)
    return message, descriptors

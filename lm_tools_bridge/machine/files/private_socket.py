"""Listens on a unix socket that only the user can connect to."""

from __future__ import annotations

import os
import socket
import sys
from pathlib import Path


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

"""Whose process is at the other end of a unix socket. The manager has its own copy of the same question."""

from __future__ import annotations

import socket
import struct
import sys
from typing import Final

_LINUX_CREDENTIALS: Final = struct.Struct("=iII")  # struct ucred: pid, uid, gid
_MAC_CREDENTIALS: Final = struct.Struct("=II")  # struct xucred: version, uid, groups …
_MAC_SIZE: Final = 76
_MAC_LEVEL, _MAC_OPTION = 0, 1  # SOL_LOCAL, LOCAL_PEERCRED


def peer_uid(sock: socket.socket) -> int | None:
    """The user id of the process that connected; None, a stranger, where the system does not tell."""
    try:
        if sys.platform == "linux":
            raw = sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _LINUX_CREDENTIALS.size)
            pid, uid, _ = _LINUX_CREDENTIALS.unpack(raw)
            return int(uid) if pid else None
        if sys.platform == "darwin":
            raw = sock.getsockopt(_MAC_LEVEL, _MAC_OPTION, _MAC_SIZE)
            version, uid = _MAC_CREDENTIALS.unpack_from(raw)
            return int(uid) if version == 0 else None
    except (OSError, struct.error):
        pass
    return None

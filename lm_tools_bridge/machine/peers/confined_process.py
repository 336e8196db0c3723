"""Recognises confined scripts and their descendants by limits that no program can lift. Linux only.

Landlock cannot keep a process from the sockets of its user, so the owners of our sockets refuse such peers.
A script can clear its environment and leave its session, but it keeps `no_new_privs` and a hard limit of file
sizes.
"""

from __future__ import annotations

import socket
import sys
from pathlib import Path
from typing import Final

from lm_tools_bridge.machine.peers.peer_uid import unix_peer_pid

MAX_FILE_BYTES: Final = 16 * 1024**3
"""The hard limit of file sizes of confined scripts, by which they are recognised."""


def is_confined_peer(sock: socket.socket) -> bool:
    """Whether the process that connected a unix socket is a confined script, or may be one: it has ended."""
    if sys.platform != "linux":
        return False
    pid = unix_peer_pid(sock)
    return pid is None or is_confined(pid)


def is_confined(pid: int) -> bool:
    """Whether a process is a confined script or was started by one; True if it cannot be examined."""
    try:
        if b"\nNoNewPrivs:\t1\n" not in Path(f"/proc/{pid}/status").read_bytes():
            return False
        return _hard_file_limit(Path(f"/proc/{pid}/limits").read_bytes()) <= MAX_FILE_BYTES
    except OSError:
        return True


def _hard_file_limit(limits: bytes) -> float:
    for line in limits.splitlines():
        if line.startswith(b"Max file size"):
            hard = line.split()[4]
            return int(hard) if hard.isdigit() else float("inf")
    return 0

"""Receives sockets from systemd and reports the service's state: sd_listen_fds(3), sd_notify(3).

Does nothing if systemd did not start the process. The environment is an argument, so that tests need no
systemd.
"""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Mapping, MutableMapping

_FIRST_FD = 3


def listen_fds(environ: MutableMapping[str, str] = os.environ) -> dict[str, socket.socket]:
    """Takes over the sockets that systemd opened for this process, by their `FileDescriptorName=`.

    Further sockets of one name are `name-2`, `name-3` …; a socket without a name is `unknown`. The result is
    empty if there are no sockets or if they are meant for another process. The variables are removed and the
    sockets made non-inheritable, so that a child does not take them over. Raises OSError for a descriptor
    that is no socket. Call it once, before the process opens other files.
    """
    pid, count, names = (environ.pop(f"LISTEN_{key}", "") for key in ("PID", "FDS", "FDNAMES"))
    if pid != str(os.getpid()) or not count.isdecimal():
        return {}
    labels = names.split(":") if names else []
    sockets: dict[str, socket.socket] = {}
    for index in range(int(count)):
        os.set_inheritable(_FIRST_FD + index, False)
        label = (labels[index] if index < len(labels) else "") or "unknown"
        name, copy = label, 2
        while name in sockets:
            name, copy = f"{label}-{copy}", copy + 1
        sockets[name] = socket.socket(fileno=_FIRST_FD + index)
    return sockets


def notify(environ: Mapping[str, str] = os.environ, /, **state: str | int) -> bool:
    """Sends this process's state to systemd, e.g. `notify(READY=1, STATUS="serving")`, `notify(WATCHDOG=1)`.

    Never blocks and never raises OSError. Returns whether the message was sent.
    """
    address = environ.get("NOTIFY_SOCKET", "")
    if sys.platform == "win32" or address[:1] not in {"/", "@"}:
        return False
    if address[0] == "@":
        address = "\0" + address[1:]
    # A line break in a value would add another assignment.
    lines = (f"{key}={str(value).replace(chr(10), ' ')}" for key, value in state.items())
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as messenger:
            messenger.setblocking(False)
            messenger.connect(address)
            messenger.sendall("\n".join(lines).encode())
    except OSError:
        return False
    return True


def watchdog_interval(environ: Mapping[str, str] = os.environ) -> float | None:
    """Returns the seconds between two `notify(WATCHDOG=1)`, half of `WatchdogSec=`; None without one."""
    microseconds = environ.get("WATCHDOG_USEC", "")
    if environ.get("WATCHDOG_PID", str(os.getpid())) != str(os.getpid()) or not microseconds.isdecimal():
        return None
    return int(microseconds) / 2_000_000 or None

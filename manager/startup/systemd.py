"""Receives the listening socket from systemd and reports the service's state: sd_listen_fds(3), sd_notify(3).

Does nothing if systemd did not start the process. The environment is an argument, so that tests need no
systemd.
"""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Mapping, MutableMapping
from contextlib import suppress
from typing import Final

import msgspec

# SD_LISTEN_FDS_START of sd_listen_fds(3).
_FIRST_FD: Final = 3
_TCP: Final = (socket.AF_INET, socket.AF_INET6)
HTTP: Final = "http"
"""The `FileDescriptorName=` of the socket that serves clients."""


class UnusableSockets(msgspec.Struct, frozen=True):
    """Sockets were passed to this process, but none of them can serve clients for certain.

    Attributes:
        reason: what was passed, for a person.
    """

    reason: str
    hint: str = f"pass one listening TCP socket, or name it with FileDescriptorName={HTTP}"


def http_socket(environ: MutableMapping[str, str] = os.environ) -> socket.socket | UnusableSockets | None:
    """Takes over the socket for clients that systemd opened for this process.

    That is the first one named `http`; if no socket has this name, it is the only listening TCP socket among
    those that were passed. None if nothing was passed, or if it is meant for another process. The variables
    are removed, the socket is made non-inheritable, and all other descriptors that were passed are closed,
    so that no child takes them over. Call it once, before the process opens other files.
    """
    pid, count, names = (environ.pop(f"LISTEN_{key}", "") for key in ("PID", "FDS", "FDNAMES"))
    if pid != str(os.getpid()) or not count.isdecimal() or int(count) == 0:
        return None
    descriptors = range(_FIRST_FD, _FIRST_FD + int(count))
    labels = names.split(":") if names else []
    labelled = [fd for fd, label in zip(descriptors, labels, strict=False) if label == HTTP][:1]
    usable = [fd for fd in labelled or descriptors if _listens_on_tcp(fd)]
    descriptor = usable[0] if len(usable) == 1 else None
    for fd in descriptors:
        if fd != descriptor:
            _close(fd)
    if descriptor is None:
        return UnusableSockets(_why(len(descriptors), len(usable), names, is_named=bool(labelled)))
    os.set_inheritable(descriptor, False)
    return socket.socket(fileno=descriptor)


def _why(passed: int, usable: int, names: str, *, is_named: bool) -> str:
    passed_words = f"LISTEN_FDS={passed}, " + (f"LISTEN_FDNAMES={names}" if names else "no LISTEN_FDNAMES")
    if is_named:
        return f"the socket passed as {HTTP} does not listen on TCP ({passed_words})"
    problem = f"{usable} listen on TCP and none is named {HTTP}" if usable else "none listens on TCP"
    return f"of the sockets passed to the manager, {problem} ({passed_words})"


def _listens_on_tcp(descriptor: int) -> bool:
    try:
        looked_at = socket.socket(fileno=descriptor)
    except OSError:  # not open, or no socket
        return False
    try:
        is_tcp = looked_at.type == socket.SOCK_STREAM and looked_at.family in _TCP
        return is_tcp and bool(looked_at.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN))
    except OSError:
        return False
    finally:
        looked_at.detach()


def _close(descriptor: int) -> None:
    with suppress(OSError):  # a descriptor that was only promised
        os.close(descriptor)


def is_service(environ: Mapping[str, str] = os.environ) -> bool:
    """Whether systemd runs this process as a service."""
    return "NOTIFY_SOCKET" in environ


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

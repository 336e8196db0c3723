"""Hides from an interpreter what only Linux has, and calls the system macOS: runs when it starts, by a `.pth` file.

macOS' truth as far as Linux can tell: what is deleted here, the product must do without. What chooses by the system
when it is imported, and belongs to others, is imported before. `scripts/test --portable` makes the environment whose
interpreter does this; all programs that the tests start use it, too.
"""

from __future__ import annotations

# Imports of others that ask for the system: they must get the true answer.
import asyncio
import ctypes.util
import fcntl
import mimetypes
import multiprocessing.connection
import os
import resource
import shutil
import signal
import socket
import struct
import subprocess
import sys
import sysconfig
import tempfile
import urllib.request
import uuid
import webbrowser
from contextlib import suppress
from typing import Any

MISSING = {
    os: ("pidfd_open", "waitid", "memfd_create", "eventfd", "pipe2", "O_PATH", "posix_fadvise", "fdatasync",
         "splice", "sched_getaffinity", "sched_setaffinity"),
    signal: ("pidfd_send_signal",),
    resource: ("prlimit",),
    socket: ("AF_NETLINK", "MSG_CMSG_CLOEXEC", "SOCK_CLOEXEC", "TCP_USER_TIMEOUT", "TCP_KEEPIDLE"),
}  # fmt: skip
MAX_SOCKET_PATH = 103
"""Bytes; macOS has room for one more, which is NUL."""
_PEER = struct.Struct("=iII")
_SO_PEERCRED = socket.SO_PEERCRED
_PROC = ("/proc", b"/proc")
_FILE_EVENTS = frozenset({"open", "os.listdir", "os.scandir"})
_real_getsockopt = socket.socket.getsockopt
_real_readlink = os.readlink
_real_fcntl = fcntl.fcntl
_F_GETPATH = 50


def hide() -> None:
    """Make this interpreter believe that it runs on macOS."""
    sysconfig.get_config_vars()
    for name in ("psutil", "uvloop", "platformdirs"):
        with suppress(ImportError):
            __import__(name)
    for module, names in MISSING.items():
        for name in names:
            if hasattr(module, name):
                delattr(module, name)
    del socket.SO_PEERCRED
    socket.socket.getsockopt = _getsockopt  # type: ignore[method-assign]  # what Linux has is hidden
    os.readlink = _readlink
    fcntl.F_GETPATH = _F_GETPATH  # type: ignore[attr-defined]  # macOS has it
    fcntl.fcntl = _fcntl
    sys.addaudithook(_refuse)
    sys.platform = "darwin"


def _getsockopt(sock: socket.socket, level: int, option: int, *size: int) -> Any:
    """LOCAL_PEERCRED and LOCAL_PEERPID, of the level SOL_LOCAL, answered from Linux' SO_PEERCRED."""
    if sock.family != socket.AF_UNIX or level != 0:
        return _real_getsockopt(sock, level, option, *size)
    pid, uid, _gid = _PEER.unpack(_real_getsockopt(sock, socket.SOL_SOCKET, _SO_PEERCRED, _PEER.size))
    if not pid:
        raise OSError(57, "Socket is not connected")
    if option == 2:
        return struct.pack("=i", pid)
    return struct.pack("=II68x", 0, uid)


def _readlink(path: Any, *, dir_fd: int | None = None) -> Any:
    _refuse_proc(path)
    return _real_readlink(path, dir_fd=dir_fd)


def _fcntl(descriptor: Any, command: int, argument: Any = 0) -> Any:
    """F_GETPATH: the path of an open file."""
    if command != _F_GETPATH:
        return _real_fcntl(descriptor, command, argument)
    path = os.fsencode(_real_readlink(f"/proc/self/fd/{descriptor}"))
    return path.ljust(len(argument), b"\0")


def _refuse(event: str, arguments: tuple[Any, ...]) -> None:
    if event in _FILE_EVENTS:
        _refuse_proc(arguments[0])
    elif event in {"socket.bind", "socket.connect"} and isinstance(arguments[1], str | bytes):
        _refuse_name(os.fsencode(arguments[1]))


def _refuse_proc(path: Any) -> None:
    text = os.fspath(path) if isinstance(path, os.PathLike) else path
    if isinstance(text, str | bytes) and text[:5] in _PROC and not _is_asked_by_psutil():
        raise FileNotFoundError(2, "No such file or directory", text)


def _refuse_name(name: bytes) -> None:
    if name.startswith(b"\0"):
        raise FileNotFoundError(2, "No such file or directory")
    if len(name) > MAX_SOCKET_PATH:
        raise OSError("AF_UNIX path too long")


def _is_asked_by_psutil() -> bool:
    """On macOS psutil asks the kernel; here it reads /proc."""
    frame = sys._getframe(3)
    while frame is not None:
        if frame.f_globals.get("__name__", "").startswith("psutil"):
            return True
        frame = frame.f_back
    return False


hide()

"""Where the internal channel of a workspace is: its socket, and the private file that says so to programs.

Only files and sockets are made and removed here; who may talk, and about what, is not decided. It blocks.
"""

from __future__ import annotations

import hashlib
import os
import re
import socket
import sys
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from secrets import token_hex
from typing import Final

import msgspec

from host import private_files

FOLDER: Final = "internal"
BACKLOG: Final = 32
MAX_SOCKET_PATH_BYTES: Final = 100
"""sockaddr_un holds 104 bytes on macOS and 108 on Linux, terminator included."""
_MAX_FILE: Final = 4096
_PLAIN: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}\Z")


@dataclass(frozen=True, slots=True)
class ChannelAddress:
    """One channel.

    Attributes:
        file: the JSON file `{socket, auth, pid}`, mode 0600, that leads programs of the user to it.
        socket: this run's socket; its name is new for every run, so that two runs never share one.
        auth: the token of this run: 32 random bytes, in hex.
    """

    file: Path
    socket: Path
    auth: str = field(repr=False)


def new_address(runtime_dir: Path, workspace: str, home: Path | None = None) -> ChannelAddress:
    """An address for a run of the workspace with this id; nothing is made yet.

    The socket lies beside the file, or, where its path would be too long, in the user's home folder; where
    that is too long as well, under /tmp, in a folder that only its owner can have made.
    """
    folder = runtime_dir / FOLDER
    hashed = hashlib.sha256(os.fsencode(f"{runtime_dir}\0{workspace}")).hexdigest()[:16]
    name = workspace if _PLAIN.match(workspace) else hashed
    run = token_hex(4)
    candidates = [
        folder / f"{name}-{run}.sock",
        folder / f"{hashed}-{run}.sock",
        (home or Path.home()) / f".lmtb-{hashed}" / f"{run}.sock",
    ]
    fitting = [path for path in candidates if len(os.fsencode(path)) <= MAX_SOCKET_PATH_BYTES]
    last = Path("/tmp", f"lmtb-{os.getuid()}-{hashed}", f"{run}.sock")  # noqa: S108  make_private checks it
    return ChannelAddress(folder / f"{name}.json", next(iter(fitting), last), token_hex(32))


def listen(address: ChannelAddress) -> socket.socket:
    """A listening socket at the address, and the file that leads to it.

    Raises:
        private_files.UnsafePathError: a folder is not ours alone.
        OSError: it cannot be made; nothing is left of it then.
    """
    for folder in (address.file.parent, address.socket.parent):
        private_files.make_private(folder)
    _remove_stale_sockets(address)
    listener = _bind(address.socket)
    try:
        listener.listen(BACKLOG)
        listener.setblocking(False)
        content = {"socket": str(address.socket), "auth": address.auth, "pid": os.getpid()}
        private_files.write(address.file, msgspec.json.encode(content) + b"\n")
    except BaseException:
        listener.close()
        address.socket.unlink(missing_ok=True)
        raise
    return listener


def withdraw(address: ChannelAddress) -> None:
    """Remove the socket, and the file unless a later run has replaced it."""
    with suppress(OSError):
        address.socket.unlink(missing_ok=True)
    with suppress(OSError, private_files.UnsafePathError, msgspec.DecodeError, TypeError, KeyError):
        content = private_files.read(address.file, _MAX_FILE)
        if content is not None and msgspec.json.decode(content)["socket"] == str(address.socket):
            address.file.unlink(missing_ok=True)
    if address.socket.parent != address.file.parent:
        with suppress(OSError):
            address.socket.parent.rmdir()  # only where nobody else has a socket in it


def _bind(path: Path) -> socket.socket:
    """Mode 0600 from the first moment on."""
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        if sys.platform == "linux":
            # the file gets the mode of the socket: no umask, which is the whole process's, is touched
            os.fchmod(sock.fileno(), 0o600)
            sock.bind(str(path))
        else:
            mask = os.umask(0o177)
            try:
                sock.bind(str(path))
            finally:
                os.umask(mask)
    except BaseException:
        sock.close()
        raise
    return sock


def _remove_stale_sockets(address: ChannelAddress) -> None:
    """Remove the sockets of this workspace's runs that died without doing so."""
    beginning = address.socket.name.rpartition("-")[0]
    for path in address.socket.parent.glob(f"{beginning}-????????.sock" if beginning else "*.sock"):
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as sock, suppress(OSError):
            sock.setblocking(False)
            try:
                sock.connect(str(path))
            except ConnectionRefusedError:
                path.unlink(missing_ok=True)
